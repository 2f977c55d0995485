//! Programs on a mesh of devices: which part of an operation a device does, the collectives between the operations, and
//! their bytes and times.
//!
//! For example, a product whose sum is split over an axis of 4 devices leaves partial results of 1 MiB on each: an
//! all-reduce sends `2 * 3/4` MiB over each link of a ring.
//!
//! - `links.rs` resolves the axes of a mesh against the links of a target.
//! - `collective.rs` finds the collectives that turn one sharding into another, with the ring formulas.
//! - `loops.rs` carries splits between the loops of an operation and its operands and results.
//! - `account.rs` adds up the collectives, times and memory of a program whose shardings are stated.

mod account;
mod collective;
mod links;
mod loops;

pub use account::{Account, Cause, Done, device_memory};
pub use collective::{Collective, Kind, Step, conversion, steps};
pub use links::{AxisLink, Links};
pub use loops::{Divided, Effort, Extents, Site};
