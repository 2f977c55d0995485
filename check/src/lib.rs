//! Judges what the passes made: whether a fold computes what the original does, whether a target accepts it,
//! and what it still moves.
//!
//! Nothing here is shared with the search; `passes` depends on this crate, and this crate on no pass.
//!
//! # Files
//! - `validate.rs` proves by the witness of a fold that both programs compute the same; `certificate.rs` and `witness.rs` are the file of a fold.
//! - `target.rs` says whether a target accepts layouts, `tiles` where it has tiles. `parts.rs` and `pieces.rs` say who reads and writes in place.
//! - `stats.rs` counts what a program still moves, `items.rs` for each operation, `padding.rs` what stored values pad, `estimate.rs` models time.
//! - `memory.rs` follows which bytes are written and read, `alive.rs` how many are alive at once.

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
pub mod padding;
pub mod parts;
pub mod pieces;
mod ports;
mod reader;
mod runs;
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
pub use witness::{End, FuncWitness, Holder, Place, Witness};
