//! Freedom and pins of the layouts of arguments and results.

use indexmap::IndexMap;

/// Options for the boundary of functions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Boundary {
    /// `--free-boundary`: every argument and result may have any layout. Exceptions are an argument that shares its
    /// memory with results (the attribute `hbir.alias` of its port has their numbers) and these results.
    pub free_all: bool,
    /// `--free-boundary=x,y`: these ports may have any layout.
    pub free: Vec<String>,
    /// `--pin-boundary`: the boundary of a bare-op file keeps its layouts, too.
    pub pin_bare: bool,
    /// `--pin x='{…}'`: the layout of a port, in the notation of its encoding.
    pub pins: IndexMap<String, optc_layout::Notation>,
}
