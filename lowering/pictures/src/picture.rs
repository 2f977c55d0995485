//! The input of a picture of programs, independent of its format.

use optc_ir::entity::SideTable;
use optc_ir::{Func, Module, Op, Registry};
use std::fmt;

/// The cost of executing one operation, in the classes of the caller's statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The class.
    pub kind: ChargeKind,
    /// Bytes read plus written, padding included.
    pub bytes: u64,
}

/// The classes of [`Charge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeKind {
    /// The operation computes, or costs nothing.
    Free,
    /// The operation only rearranges, and is no view.
    Movement,
    /// The operation copies a part, or into a part.
    Copy,
    /// The operation repeats elements.
    Expand,
    /// The operation rearranges constants at compile time.
    Constant,
}

/// The charge of each operation of a function. An operation without a charge is dead and is not drawn.
pub type Charges = SideTable<Op, Option<Charge>>;

/// One program of a picture, in some state of its compilation.
pub struct Panel<'a> {
    /// The title above the panel, such as `before`.
    pub title: String,
    /// The program.
    pub module: &'a Module,
    /// The registry of its operations.
    pub registry: &'a Registry,
    /// The charges of each function's operations, in the order of the functions.
    pub charges: Vec<Charges>,
}

impl fmt::Debug for Panel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Panel")
            .field("title", &self.title)
            .finish_non_exhaustive()
    }
}

impl<'a> Panel<'a> {
    /// The functions with their charges.
    pub(crate) fn funcs(&self) -> impl Iterator<Item = (&'a Func, Option<&Charges>)> {
        let charges = self.charges.iter().map(Some);
        let missing = std::iter::repeat(None);
        self.module.funcs.iter().zip(charges.chain(missing))
    }
}

/// The programs of a picture, drawn side by side, and its title.
#[derive(Debug)]
pub struct Picture<'a> {
    /// The name of the input.
    pub title: String,
    /// The states, from left to right.
    pub panels: Vec<Panel<'a>>,
}
