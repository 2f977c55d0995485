//! What a run of the pass did, in figures.

/// What a run of the pass did, function by function.
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
    /// The values that have memory of their own in it.
    pub buffers: usize,
    /// Its size in bytes.
    pub arena_bytes: u64,
    /// The bytes that are alive at once, each buffer rounded up to a line.
    pub live_bytes: u64,
    /// The order in which the buffers were placed.
    pub order: &'static str,
}
