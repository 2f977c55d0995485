//! The figures of a run of the pass.

/// The report of a run of the pass, function by function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// The functions, in the order of the module.
    pub funcs: Vec<ArenaReport>,
}

/// The arena of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArenaReport {
    /// The function.
    pub func: String,
    /// The number of values that have memory of their own.
    pub buffers: usize,
    /// The size of the arena in bytes.
    pub arena_bytes: u64,
    /// The most bytes that are alive at once, each buffer rounded up to a line.
    pub live_bytes: u64,
    /// The order in which the buffers were placed.
    pub order: &'static str,
}
