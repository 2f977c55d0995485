//! Tiles: the part of each value that one program of a grid works on.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
//!
//! A *group* is a set of operations that run together, once per program of a *grid*. Each operation has a tile of its
//! own for each result ([`Tile`]): for each dimension the start, an expression over the indices of the grid ([`Expr`]),
//! and the extent. The plan is kept in attributes, see [`plan`]. [`block`] has the same notions in Pallas's vocabulary.
//!
//! For example, a matrix of 64x128 that is computed in tiles of 16 rows belongs to a group with the grid `[4]`, and its
//! tile is `[16 @ g0 * 16, 128]`: 16 rows from row `g0 * 16` on, and all 128 columns.
//!
//! `resolve.rs` derives a [`Schedule`] from the plan: units in order, and for each part of each operation its operands,
//! their sources, its completion axes and its accumulation. The code that runs, writes or draws a plan reads the
//! schedule. The verifier refuses a plan that does not resolve. Tiles are carried by the declarations of operations,
//! never by their names.

pub mod block;
mod check;
mod codes;
mod expr;
mod online;
pub mod plan;
mod region;
mod resolve;
mod schedule;
mod span;
mod sum;
mod units;

pub use codes::{CODES, shared as shared_codes};
pub use expr::{Expr, ExprError};
pub use plan::{Axis, GROUPS, Group, OpTile, Order, Part, Plan, TILE};
pub use region::{Region, RegionError, Steps, Tiling};
pub use resolve::check;
pub use schedule::{
    GroupSchedule, OpSchedule, OperandSchedule, PartSchedule, Rescale, Schedule, Source,
};
pub use span::{Span, SpanError, Tile};
pub use sum::{Sum, SumError};
pub use units::{Cycle, Unit, readers, units};
