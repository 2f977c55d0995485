//! Which memory is occupied while a body is followed.

use optc_ir::Value;
use optc_ir::entity::SideTable;
use std::collections::BTreeMap;

/// Memory of a value's own, with the operations of the body that it is occupied at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// The value that it is made for; others may lie in it.
    pub value: Value,
    /// Its size, padding included.
    pub bytes: u64,
    /// The place in the body of the operation that is the first to write into it.
    pub first: usize,
    /// The place of the last one that reads something in it; the number of operations where the function returns it.
    pub last: usize,
}

/// The memory of their own that the values of a function have.
#[derive(Clone, Debug)]
pub struct Memory {
    /// All of it, in the order in which it is needed.
    pub buffers: Vec<Buffer>,
    /// The number of the buffer that a value lies in; `None` of what lies in an argument, a constant or a result.
    pub of: SideTable<Value, Option<usize>>,
}

/// How many bytes of buffers are occupied from a place of the body on, wherever that changes.
#[must_use]
pub fn steps(buffers: &[Buffer]) -> Vec<(usize, u64)> {
    let mut changes: BTreeMap<usize, [u64; 2]> = BTreeMap::new();
    for buffer in buffers {
        let begins = &mut changes.entry(buffer.first).or_default()[0];
        *begins = begins.saturating_add(buffer.bytes);
        let ends = &mut changes.entry(buffer.last.saturating_add(1)).or_default()[1];
        *ends = ends.saturating_add(buffer.bytes);
    }
    let mut now = 0u64;
    let step = |(place, [begins, ends]): (usize, [u64; 2])| {
        now = now.saturating_sub(ends).saturating_add(begins);
        (place, now)
    };
    changes.into_iter().map(step).collect()
}

/// The most bytes of buffers that are occupied at once, and the first place of the body where they are.
#[must_use]
pub fn most_alive(buffers: &[Buffer]) -> (u64, usize) {
    let mut most = (0, 0);
    for (place, now) in steps(buffers) {
        if most.0 < now {
            most = (now, place);
        }
    }
    most
}

/// Bytes that are occupied, of an arena or of memory of their own.
#[derive(Default)]
pub(crate) struct Alive {
    /// By their first byte in the arena, the end and the storage.
    ranges: BTreeMap<u64, (u64, usize)>,
    /// The range of a storage.
    at: BTreeMap<usize, u64>,
    /// The bytes of a storage.
    bytes: BTreeMap<usize, u64>,
    now: u64,
    pub(crate) most: u64,
}

impl Alive {
    /// Occupies bytes of the arena; the storage that has some of them already is an error.
    pub(crate) fn take(&mut self, storage: usize, offset: u64, bytes: u64) -> Result<(), usize> {
        if bytes == 0 {
            return Ok(());
        }
        let end = offset.saturating_add(bytes);
        let last = self.ranges.range(..end).next_back();
        if let Some((_, &(_, other))) = last.filter(|(_, (other_end, _))| offset < *other_end) {
            return Err(other);
        }
        self.ranges.insert(offset, (end, storage));
        self.at.insert(storage, offset);
        self.bytes.insert(storage, bytes);
        self.now = self.now.saturating_add(bytes);
        self.most = self.most.max(self.now);
        Ok(())
    }

    pub(crate) fn give(&mut self, storage: usize) {
        if let Some(at) = self.at.remove(&storage) {
            self.ranges.remove(&at);
        }
        let bytes = self.bytes.remove(&storage).unwrap_or(0);
        self.now = self.now.saturating_sub(bytes);
    }
}
