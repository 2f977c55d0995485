//! Memory that is occupied at each operation of a body.

use optc_ir::Value;
use optc_ir::entity::SideTable;
use std::collections::BTreeMap;

/// The memory of one value, with the range of operations of the body during which it is occupied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// The value that the buffer is made for; others may lie in it.
    pub value: Value,
    /// Its size, padding included.
    pub bytes: u64,
    /// The position in the body of the first operation that writes into it.
    pub first: usize,
    /// The position of the last operation that reads from it; the number of operations if the function returns it.
    pub last: usize,
}

/// The buffers that the values of a function need.
#[derive(Clone, Debug)]
pub struct Memory {
    /// All buffers, in the order in which they are needed.
    pub buffers: Vec<Buffer>,
    /// The number of the buffer that a value lies in; `None` for a value in an argument, a constant or a result.
    pub of: SideTable<Value, Option<usize>>,
}

/// The number of occupied bytes from each position of the body on at which it changes.
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

/// The most bytes of buffers that are occupied at once, and the first position of the body where they are.
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

/// Counts occupied bytes, in an arena or in separate buffers.
#[derive(Default)]
pub(crate) struct Alive {
    /// Ranges in the arena, by their first byte: the end and the storage.
    ranges: BTreeMap<u64, (u64, usize)>,
    /// The range of a storage.
    at: BTreeMap<usize, u64>,
    /// The bytes of a storage.
    bytes: BTreeMap<usize, u64>,
    now: u64,
    pub(crate) most: u64,
}

impl Alive {
    /// Occupies bytes of the arena. The error is the storage that occupies some of them already.
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
