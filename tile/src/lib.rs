//! Tiles: which part of each value one program of a grid works on.
//!
//! A *group* is a set of operations that run together, once a program of a *grid*. Each operation
//! has a tile of its own for each result ([`Tile`]): per dimension where it starts, an expression over
//! the indices of the grid ([`Expr`]), and how long it is. The plan is kept in attributes, see
//! [`plan`]; [`block`] is Pallas's vocabulary for the same.

pub mod block;
mod check;
mod codes;
mod expr;
pub mod plan;
mod region;
mod running;
mod span;
mod sum;
mod units;

pub use check::check;
pub use codes::CODES;
pub use expr::{Expr, ExprError};
pub use plan::{Axis, Group, OpTile, Order, Piece, Plan};
pub use region::{Region, RegionError, Steps, Tiling};
pub use running::{AddsUp, adds_up};
pub use span::{Span, SpanError, Tile};
pub use sum::{Sum, SumError};
pub use units::{Cycle, Unit, readers, units};
