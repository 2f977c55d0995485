//! The tests of this crate in one binary, so that everything is linked once.

mod analysis;
mod axes;
mod build;
mod compositions;
mod dequantized;
mod diagnostics;
mod element_types;
mod max_pool_indices;
mod ops_eval;
mod ops_properties;
mod ops_reference;
mod ops_special;
mod ops_support;
mod size_flow;
mod text;
mod tiles;
