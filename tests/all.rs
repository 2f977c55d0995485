//! The tests of this crate in one binary, so that everything is linked once.

mod answers;
mod certificates;
mod chains;
mod doc_examples;
mod door;
mod footprint;
mod groups;
mod inline;
mod integers;
mod memory;
mod models;
mod normalize;
mod onnx_out;
mod passes;
mod physical;
mod props;
mod quantized;
mod reduce;
mod remarks;
mod sandwiches;
mod shared_values;
mod special;
mod tidy;
mod tiled;
mod tiled_exec;
mod tiles;
