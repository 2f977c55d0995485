//! The memory of one run, and the borrows of a step: what it reads, and what it writes.

use crate::access::Access;
use crate::buffer::Buffer;
use crate::element::Kind;
use optc_ir::DType;
use std::rc::Rc;

/// Memory that values lie in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
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
    pub(crate) access: Rc<Access>,
    pub(crate) dtype: DType,
    /// The bits of an element.
    pub(crate) width: u32,
    /// Whether it is a part or a repetition of the buffer.
    pub(crate) part: bool,
}

impl Slot {
    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.bytes
    }

    /// What its elements are to kernels, if there are any for them.
    pub(crate) fn kind(&self) -> Option<Kind> {
        Kind::of(self.dtype, self.width)
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
        let mut taken = match self.buffer_mut(result.storage) {
            Some(buffer) => std::mem::take(buffer),
            None => Buffer::default(),
        };
        let range = result.range();
        let whole = taken.bytes_mut();
        let end = range.end.min(whole.len());
        let (before, rest) = whole.split_at_mut(range.start.min(end));
        let (out, after) = rest.split_at_mut(end - range.start.min(end));
        let given = {
            let (before, after): (&[u8], &[u8]) = (before, after);
            let ins: Vec<In<'_>> = operands
                .iter()
                .map(|slot| {
                    let own = slot.range();
                    if slot.storage != result.storage {
                        return In::Bytes(self.bytes(slot, constants));
                    }
                    if own == range {
                        return match slot.access == result.access {
                            true => In::Same,
                            false => In::Among,
                        };
                    }
                    let shifted =
                        || after.get(own.start.checked_sub(end)?..own.end.checked_sub(end)?);
                    In::Bytes(before.get(own.clone()).or_else(shifted).unwrap_or_default())
                })
                .collect();
            work(&ins, out)
        };
        if let Some(buffer) = self.buffer_mut(result.storage) {
            *buffer = taken;
        }
        given
    }
}
