//! The memory of one run, and the borrows of a step: what it reads, and what it writes.

use crate::access::Access;
use crate::buffer::Buffer;
use crate::element::Kind;
use optc_ir::DType;
use std::ops::Range;
use std::sync::Arc;

/// Memory that values lie in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Storage {
    Arena,
    Argument(usize),
    Constant(usize),
    Result(usize),
    Own(usize),
}

/// Where a value lies.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) storage: Storage,
    /// Its first byte in the storage.
    pub(crate) offset: usize,
    /// The bytes of the whole buffer that it lies in.
    pub(crate) bytes: usize,
    pub(crate) access: Arc<Access>,
    pub(crate) dtype: DType,
    /// The bits of an element.
    pub(crate) width: u32,
    /// Whether it is a part or a repetition of the buffer.
    pub(crate) part: bool,
}

impl Slot {
    pub(crate) fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.bytes
    }

    /// What its elements are to kernels, if there are any for them.
    pub(crate) fn kind(&self) -> Option<Kind> {
        Kind::of(self.dtype, self.width)
    }

    /// The same for element-wise kernels, to which truth values are bytes that are 0 or 1.
    pub(crate) fn cells(&self) -> Option<Kind> {
        match self.is_truth() && self.width == 8 {
            true => Some(Kind::U8),
            false => self.kind(),
        }
    }

    pub(crate) fn is_truth(&self) -> bool {
        self.dtype == DType::BOOL
    }

    /// Whether some bytes are those of another value as well.
    pub(crate) fn overlaps(&self, other: &Slot) -> bool {
        let (a, b) = (self.range(), other.range());
        self.storage == other.storage && a.start < b.end && b.start < a.end
    }

    /// The bytes of its elements and, unless it is a part, of their padding.
    pub(crate) fn touched(&self) -> u64 {
        match self.part {
            true => self.access.count() as u64 * u64::from(self.width) / 8,
            false => self.bytes as u64,
        }
    }
}

/// What a kernel reads of one operand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum In<'a> {
    Bytes(&'a [u8]),
    /// The bytes that it writes, element by element those of the result.
    Same,
    /// Bytes that the result lies among.
    Among,
}

/// The memory of one run.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) arena: Buffer,
    pub(crate) arguments: Vec<Buffer>,
    pub(crate) results: Vec<Buffer>,
    pub(crate) own: Vec<Buffer>,
    /// What a thread has for the tiles of one program of a group.
    pub(crate) scratch: Vec<Buffer>,
}

/// What lies before and behind a part of some memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around<'a> {
    before: &'a [u8],
    after: &'a [u8],
    /// Where what lies behind begins.
    end: usize,
}

impl<'a> Around<'a> {
    /// A part of some memory, to be written, and what lies around it.
    pub(crate) fn of(
        whole: &'a mut [u8],
        range: Range<usize>,
    ) -> Option<(Around<'a>, &'a mut [u8])> {
        let (before, rest) = whole.split_at_mut_checked(range.start)?;
        let (out, after) = rest.split_at_mut_checked(range.end.checked_sub(range.start)?)?;
        let around = Around {
            before,
            after,
            end: range.end,
        };
        Some((around, out))
    }

    /// Some bytes of the memory; none of the part, or partly in it.
    pub(crate) fn get(&self, range: Range<usize>) -> Option<&'a [u8]> {
        let behind = || {
            let (start, end) = (range.start.checked_sub(self.end)?, range.end - self.end);
            self.after.get(start..end)
        };
        self.before.get(range.clone()).or_else(behind)
    }
}

impl In<'_> {
    /// What a kernel reads of an operand that lies in the bytes of a result.
    pub(crate) fn same(operand: &Slot, result: &Slot) -> Self {
        match operand.access == result.access {
            true => In::Same,
            false => In::Among,
        }
    }
}

impl Memory {
    fn buffer<'a>(&'a self, storage: Storage, constants: &'a [Buffer]) -> Option<&'a Buffer> {
        match storage {
            Storage::Arena => Some(&self.arena),
            Storage::Argument(i) => self.arguments.get(i),
            Storage::Constant(i) => constants.get(i),
            Storage::Result(i) => self.results.get(i),
            Storage::Own(i) => self.own.get(i),
        }
    }

    /// The buffer of a storage, which is not there until it is given back.
    pub(crate) fn take(&mut self, storage: Storage) -> Buffer {
        self.buffer_mut(storage)
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Gives back what was taken.
    pub(crate) fn give(&mut self, storage: Storage, buffer: Buffer) {
        if let Some(own) = self.buffer_mut(storage) {
            *own = buffer;
        }
    }

    fn buffer_mut(&mut self, storage: Storage) -> Option<&mut Buffer> {
        match storage {
            Storage::Arena => Some(&mut self.arena),
            Storage::Argument(i) => self.arguments.get_mut(i),
            Storage::Constant(_) => None,
            Storage::Result(i) => self.results.get_mut(i),
            Storage::Own(i) => self.own.get_mut(i),
        }
    }

    /// The bytes of a value's buffer; none where it is not there, which the plan excludes.
    pub(crate) fn bytes<'a>(&'a self, slot: &Slot, constants: &'a [Buffer]) -> &'a [u8] {
        let buffer = self.buffer(slot.storage, constants);
        buffer
            .and_then(|b| b.bytes().get(slot.range()))
            .unwrap_or_default()
    }

    pub(crate) fn bytes_mut(&mut self, slot: &Slot) -> &mut [u8] {
        let buffer = self.buffer_mut(slot.storage);
        buffer
            .and_then(|b| b.bytes_mut().get_mut(slot.range()))
            .unwrap_or_default()
    }

    /// Runs `work` with the bytes of the operands and those of the buffer that the result is, or lies in. Operands lie
    /// beside that or, where the plan writes in place, in it.
    pub(crate) fn with<T>(
        &mut self,
        operands: &[&Slot],
        result: &Slot,
        constants: &[Buffer],
        work: impl FnOnce(&[In<'_>], &mut [u8]) -> T,
    ) -> T {
        let mut taken = self.take(result.storage);
        let (mut none, range) = (Vec::new(), result.range());
        let found = Around::of(taken.bytes_mut(), range.clone());
        let nothing = Around {
            before: &[],
            after: &[],
            end: 0,
        };
        let (around, out) = found.unwrap_or((nothing, &mut none));
        let operand = |slot: &&Slot| match slot.range() {
            _ if slot.storage != result.storage => In::Bytes(self.bytes(slot, constants)),
            own if own == range => In::same(slot, result),
            own => In::Bytes(around.get(own).unwrap_or_default()),
        };
        let ins: Vec<In<'_>> = operands.iter().map(operand).collect();
        let given = work(&ins, out);
        self.give(result.storage, taken);
        given
    }
}
