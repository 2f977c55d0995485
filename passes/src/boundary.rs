//! Which arguments and results may change their layouts.

use indexmap::IndexMap;

/// What is said about the boundary of the functions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Boundary {
    /// `--free-boundary`: every argument and result may have any layout, but for an argument that shares
    /// its memory with results (`hbir.alias` of its port, their numbers), and these.
    pub free_all: bool,
    /// `--free-boundary=x,y`: these may.
    pub free: Vec<String>,
    /// `--pin-boundary`: also the boundary of a bare-op file keeps its layouts.
    pub pin_bare: bool,
    /// `--pin x='{…}'`: the layout of a port, as its encoding's notation.
    pub pins: IndexMap<String, optc_layout::Notation>,
}
