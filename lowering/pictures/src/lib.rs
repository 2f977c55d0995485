//! Pictures of programs: boxes and wires as Graphviz's DOT or as SVG, layouts tile by tile, memory over time; all of them
//! in a report.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
//!
//! A [`Picture`](picture::Picture) is a function and the costs of its operations, which the caller supplies. For a
//! program of one transpose between two sums, `svg::write` draws three boxes below one another, the second one red
//! with its bytes.
//!
//! # Files
//! - `graph.rs` is the graph of boxes and wires, `build.rs` makes it from a function. `repeat.rs` finds equal layers,
//!   `scope.rs` the scopes of names.
//! - `mesh.rs` has the colours and words of splits over a mesh of devices.
//! - `dot.rs` writes the graph as DOT. `svg` nests boxes (`nest.rs`), places each layer (`layered.rs`, `frame.rs`,
//!   `align.rs`) and draws (`draw.rs`).
//! - `svg/layouts.rs` draws values tile by tile, `svg/tiles.rs` the tiles of a group, `svg/arena.rs` memory over time.
//! - `report` is a page with all of these, `explorer.rs` the graph for Google's Model Explorer.

mod build;
pub mod dot;
pub mod explorer;
mod graph;
mod mesh;
pub mod picture;
mod repeat;
pub mod report;
mod scope;
mod spelling;
pub mod svg;
mod words;
