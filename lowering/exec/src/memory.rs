//! The memory of a run, and the slices of it that a step reads and writes.

use crate::access::Access;
use crate::buffer::Buffer;
use optc_ir::DType;
use optc_kernels::element::Kind;
use std::ops::Range;
use std::sync::Arc;

/// The buffers that values are in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Storage {
    Arena,
    Argument(usize),
    Constant(usize),
    Result(usize),
    Own(usize),
}

/// The place of a value: a buffer and the offsets of its elements.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) storage: Storage,
    /// Its first byte in the storage.
    pub(crate) offset: usize,
    /// The bytes of the buffer that the offsets refer to.
    pub(crate) bytes: usize,
    pub(crate) access: Arc<Access>,
    pub(crate) dtype: DType,
    /// The bits of an element.
    pub(crate) width: u32,
    /// True if the value is a part or a broadcast of the buffer.
    pub(crate) part: bool,
}

impl Slot {
    pub(crate) fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.bytes
    }

    /// The type of its elements for kernels, if they have kernels.
    pub(crate) fn kind(&self) -> Option<Kind> {
        let kind = match self.dtype {
            DType::F32 => Kind::F32,
            DType::F16 => Kind::F16,
            DType::BF16 => Kind::BF16,
            DType::SI8 => Kind::I8,
            DType::UI8 => Kind::U8,
            DType::SI32 => Kind::I32,
            _ => return None,
        };
        (self.dtype.bits() == self.width).then_some(kind)
    }

    /// The type for element-wise kernels, which treat booleans as bytes of 0 or 1.
    pub(crate) fn cells(&self) -> Option<Kind> {
        match self.is_truth() && self.width == 8 {
            true => Some(Kind::U8),
            false => self.kind(),
        }
    }

    pub(crate) fn is_truth(&self) -> bool {
        self.dtype == DType::BOOL
    }

    /// Returns whether the slots share bytes.
    pub(crate) fn overlaps(&self, other: &Slot) -> bool {
        let (a, b) = (self.range(), other.range());
        self.storage == other.storage && a.start < b.end && b.start < a.end
    }

    /// Returns whether both slots have each element at the same bytes.
    pub(crate) fn is_at(&self, other: &Slot) -> bool {
        self.storage == other.storage
            && self.range() == other.range()
            && self.access == other.access
    }

    /// The bytes of its elements and, unless it is a part, of their padding.
    pub(crate) fn touched(&self) -> u64 {
        match self.part {
            true => self.access.count() as u64 * u64::from(self.width) / 8,
            false => self.bytes as u64,
        }
    }
}

/// An operand as a kernel reads it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum In<'a> {
    Bytes(&'a [u8]),
    /// The bytes that are written: each element is in the place of the result's element.
    Inplace,
    /// The buffer that is written; elements are in other places than the result's.
    Aliased,
}

impl<'a> In<'a> {
    /// The bytes of operand `k`, and the number of the value whose offsets its elements have: 0 for the result.
    pub(crate) fn source<'b>(self, k: usize, out: &'b [u8]) -> (&'b [u8], usize)
    where
        'a: 'b,
    {
        match self {
            In::Bytes(bytes) => (bytes, k + 1),
            In::Aliased => (out, k + 1),
            In::Inplace => (out, 0),
        }
    }
}

/// The memory of a run.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) arena: Buffer,
    pub(crate) arguments: Vec<Buffer>,
    pub(crate) results: Vec<Buffer>,
    pub(crate) own: Vec<Buffer>,
    /// Scratch memory of each thread for the tiles of one program of a group.
    pub(crate) scratch: Vec<Buffer>,
}

/// The memory before and behind a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings<'a> {
    before: &'a [u8],
    after: &'a [u8],
    /// Index of the first byte behind the slice.
    end: usize,
}

impl<'a> Surroundings<'a> {
    /// Splits memory into a mutable slice and the memory around it.
    pub(crate) fn of(
        whole: &'a mut [u8],
        range: Range<usize>,
    ) -> Option<(Surroundings<'a>, &'a mut [u8])> {
        let (before, rest) = whole.split_at_mut_checked(range.start)?;
        let (out, after) = rest.split_at_mut_checked(range.end.checked_sub(range.start)?)?;
        let around = Surroundings {
            before,
            after,
            end: range.end,
        };
        Some((around, out))
    }

    /// A range of the memory, if it does not overlap the slice.
    pub(crate) fn get(&self, range: Range<usize>) -> Option<&'a [u8]> {
        let behind = || {
            let (start, end) = (range.start.checked_sub(self.end)?, range.end - self.end);
            self.after.get(start..end)
        };
        self.before.get(range.clone()).or_else(behind)
    }
}

impl In<'_> {
    /// An operand that is in the result's bytes, as a kernel reads it.
    pub(crate) fn same(operand: &Slot, result: &Slot) -> Self {
        match operand.access == result.access {
            true => In::Inplace,
            false => In::Aliased,
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

    /// Takes the buffer of a storage out, until [`give`](Memory::give).
    pub(crate) fn take(&mut self, storage: Storage) -> Buffer {
        self.buffer_mut(storage)
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Puts a taken buffer back.
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

    /// The bytes of a slot's buffer; none if it has been taken, which the plan excludes.
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

    /// Runs `work` with the bytes of the operands and the result's mutable bytes. Operands do not overlap the result or,
    /// where the plan writes in place, are in its bytes.
    pub(crate) fn with<T>(
        &mut self,
        operands: &[&Slot],
        result: &Slot,
        constants: &[Buffer],
        work: impl FnOnce(&[In<'_>], &mut [u8]) -> T,
    ) -> T {
        let mut taken = self.take(result.storage);
        let (mut none, range) = (Vec::new(), result.range());
        let found = Surroundings::of(taken.bytes_mut(), range.clone());
        let nothing = Surroundings {
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
