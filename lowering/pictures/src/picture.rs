//! What a picture of programs is made from, whichever format it is written in.

use optc_ir::entity::SideTable;
use optc_ir::{Func, Module, Op, Registry};
use std::fmt;

/// What executing one operation costs, as the caller's statistics class it.
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
    /// Computes, or costs nothing.
    Free,
    /// Only rearranges, and is no view.
    Movement,
    /// Copies a part, or into a part.
    Copy,
    /// Repeats elements.
    Expand,
    /// Rearranges constants at compile time.
    Constant,
}

/// The charge of each operation of a function; operations without one are dead and are not drawn.
pub type Charges = SideTable<Op, Option<Charge>>;

/// One program of a picture: a state that it was in.
pub struct Panel<'a> {
    /// What stands above it, such as `before`.
    pub title: String,
    /// The program.
    pub module: &'a Module,
    /// What the operations are.
    pub registry: &'a Registry,
    /// What each operation of each function costs, in the order of the functions.
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

/// The programs of a picture, drawn side by side, and what it is called.
#[derive(Debug)]
pub struct Picture<'a> {
    /// The name of the input.
    pub title: String,
    /// The states, from left to right.
    pub panels: Vec<Panel<'a>>,
}
