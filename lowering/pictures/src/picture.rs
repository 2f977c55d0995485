//! The input of a picture of programs, independent of its format.

use optc_ir::entity::SideTable;
use optc_ir::shard::{Mesh, Sharding};
use optc_ir::{Func, Module, Op, Registry, Value};
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

/// Collectives that turn a value into another sharding.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The value.
    pub value: Value,
    /// The place.
    pub place: Place,
    /// The sharding before.
    pub from: Sharding,
    /// The sharding afterwards.
    pub to: Sharding,
    /// Each collective: its kind, its axis of the mesh, and the bytes that a device sends.
    pub collectives: Vec<(&'static str, usize, u64)>,
}

/// The place of a [`Transfer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Behind the operation that makes the value.
    Made(Op),
    /// Before an operation that reads the value.
    Read(Op),
    /// Before a result of the function.
    Returned(usize),
}

/// The mesh of a program, and its collectives, one list a function.
#[derive(Clone, Debug, Default)]
pub struct OnMesh {
    /// The mesh.
    pub mesh: Mesh,
    /// The collectives of each function, in the order of the functions.
    pub transfers: Vec<Vec<Transfer>>,
}

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
    /// The mesh over which values are split, if there is one.
    pub mesh: Option<OnMesh>,
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
