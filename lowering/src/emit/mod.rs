//! Emitters: one a format.

pub mod dot;
mod graph;
pub mod hlo;
pub mod pallas;
pub mod picture;
mod repeat;
mod scope;
pub mod svg;
mod words;
