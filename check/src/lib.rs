//! Judges the output of the passes: whether a fold computes what the original does, whether a target accepts the
//! layouts, and how many bytes the program still moves.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
//!
//! Nothing here is shared with the search: `passes` depends on this crate, and this crate depends on no pass.
//!
//! For example, let a fold turn a transpose into a view. [`validate()`] proves that both programs return the same elements,
//! [`check_target`] checks that the row of each operation takes the layouts behind the view, and [`Stats`] counts no
//! movement for it.
//!
//! # Files
//! - `validate.rs` proves by the witness of a fold that both programs compute the same. `certificate.rs` and
//!   `witness.rs` define the file that a fold leaves.
//! - `target.rs` decides whether a target accepts layouts, and `tiles` does so for targets with tiles. `parts.rs` and
//!   `pieces.rs` check the readers and writers of values that lie in the bytes of others.
//! - `stats.rs` counts the bytes that a program still moves, `items.rs` splits them by operation, `padding.rs` counts
//!   the padding of stored values, and `estimate.rs` models time. `roofline.rs` has the arithmetic of
//!   operations and the rates of units, which the search for tiles uses too. `mesh` counts collectives between devices.
//! - `memory.rs` follows the writes and reads of every buffer, and `alive.rs` counts the bytes that are alive at once.

mod alive;
pub mod amount;
mod certificate;
mod codes;
mod digest;
mod digits;
mod element_map;
mod ends;
pub mod estimate;
mod items;
mod known;
mod labels;
mod memory;
pub mod mesh;
pub mod padding;
pub mod parts;
pub mod pieces;
mod ports;
mod reader;
pub mod roofline;
mod runs;
mod sha256;
mod site;
mod slower;
pub mod stats;
mod target;
mod tiles;
mod validate;
mod witness;

pub use alive::{Buffer, Memory, most_alive, steps};
pub use certificate::Certificate;
pub use codes::CODES;
pub use digest::Digest;
pub use estimate::Estimate;
pub use items::{Item, Source, items};
pub use memory::{MemoryUse, check_memory, memory_of};
pub use parts::check_parts;
pub use stats::{Polynomials, Stats, bound_sizes};
pub use target::check_target;
pub use validate::{check, validate};
pub use witness::{End, FuncWitness, Holder, ValuePosition, Witness};
