//! Tiles: which part of each value one program of a grid works on.

pub mod block;
