//! Counts the bytes that loops move without computing anything.

/// Bytes read and written by loops that only move elements.
///
/// Bytes of the elements that are touched count: padding that is neither read nor written does not, zeros written into
/// padding do. Elements narrower than a byte count in bits, rounded up at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    read_bits: u64,
    written_bits: u64,
}

impl Moved {
    /// Bytes read.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.read_bits.div_ceil(8)
    }

    /// Bytes written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written_bits.div_ceil(8)
    }

    /// Bytes read plus bytes written.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.read().saturating_add(self.written())
    }

    /// Adds bytes that a loop has moved.
    pub fn add(&mut self, read: u64, written: u64) {
        self.add_bits(read.saturating_mul(8), written.saturating_mul(8));
    }

    /// Adds the counts of another counter.
    pub fn merge(&mut self, other: Moved) {
        self.add_bits(other.read_bits, other.written_bits);
    }

    /// Copies bytes and counts them.
    ///
    /// # Panics
    /// The slices have different lengths.
    pub fn copy(&mut self, from: &[u8], to: &mut [u8]) {
        to.copy_from_slice(from);
        let bytes = from.len() as u64;
        self.add(bytes, bytes);
    }

    /// Fills bytes with one value and counts what is written.
    pub fn fill(&mut self, to: &mut [u8], value: u8) {
        to.fill(value);
        self.add(0, to.len() as u64);
    }

    pub(crate) fn add_bits(&mut self, read: u64, written: u64) {
        self.read_bits = self.read_bits.saturating_add(read);
        self.written_bits = self.written_bits.saturating_add(written);
    }
}
