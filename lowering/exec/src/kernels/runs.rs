//! Runs of bytes that lie in even steps.

/// Runs of `len` bytes.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    pub(crate) len: usize,
    pub(crate) count: usize,
    /// Bytes from one run to the next in the source.
    pub(crate) from: isize,
    /// The same in the target.
    pub(crate) to: isize,
}
