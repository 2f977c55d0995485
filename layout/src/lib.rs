//! Layouts: the places of a tensor's elements in memory, and the test whether a rearrangement of them is free.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
//!
//! A [`Layout`] is a function from logical indices to offsets, its [`Placement`], together with the [`Notation`] in
//! which it was written. [`is_view`] decides exactly whether a chain of reshapes and transposes leaves a buffer
//! unchanged, and [`propagate`] returns the layout of the result for which it does.
//!
//! Inside, a function is a *chain*: nested divisions of the element's row-major number, each with a stride. Comparison
//! cuts two chains at each other's boundaries. Every notation of this crate becomes a chain, except tiles that cut
//! across the padding of merged dimensions. Those are kept as the steps that make them, and are compared box by box. No
//! code enumerates elements.
//!
//! [`affine_boxes`] cuts a tensor into boxes in which its offsets in two layouts are affine, for code that moves
//! elements from one layout to the other.
//!
//! [`XlaShape`] reads and prints the shapes of HLO text (`parse`, `parse_prefix`, `Display`), and an [`XlaArray`] gives
//! its [`Layout`] and its bytes. [`deduce`] finds the logical map between two layouts that share a buffer, as in HLO's
//! `bitcast`.
//!
//! ```
//! use optc_layout::{ViewMap, is_view, notation::parse_tensor, propagate};
//!
//! let x = parse_tensor("tensor<128x128xsi8, {block = \"128W\", order = [0, 1]}>")?.layout;
//! let map = ViewMap { shape: Some(vec![4, 32, 128]), perm: Some(vec![1, 0, 2]), result: vec![32, 4, 128] };
//! let y = propagate(&x, &map)?;
//! assert_eq!(y.notation().to_string(), "block = \"128C\", order = [1, 0, 2]");
//! assert!(is_view(&x, &map, &y).is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Files
//! - `function.rs`, `chain.rs`, `program.rs`: a placement as nested divisions, or, across padding, as the steps that
//!   make it.
//! - `compare.rs` decides views exactly, `propagation.rs` computes the function behind a map, and `cause.rs` explains
//!   why a chain is not a view.
//! - `modes.rs` is mixed radix, and `boxes.rs` compares functions that are not chains, box by box of indices.
//! - `notation` has one file per notation, with its text and its meaning. The traits are in `notation/written.rs`, the
//!   table in `notation/mod.rs`. `cute.rs` and `xla_shape.rs` are texts of whole tensors.

mod boxes;
mod build;
mod cause;
mod chain;
mod compare;
mod cuts;
mod deduce;
mod dims;
mod draw;
mod error;
mod explain;
mod function;
mod layout;
mod map;
mod modes;
mod not_view;
pub mod notation;
mod placement;
mod program;
mod propagation;
mod spread;
mod view;

pub use boxes::{AffineBox, AffineOffsets, affine_boxes};
pub use cause::{Cause, Side};
pub use chain::gcd;
pub use cuts::{Cuts, Digit, runs};
pub use deduce::deduce;
pub use dims::{dimension, true_rank, xla_letters};
pub use draw::{Axes, DrawError, Drawing};
pub use error::LayoutError;
pub use explain::{ExplainError, Explanation, Rearrangement, explain};
pub use layout::Layout;
pub use map::{ViewMap, ViewMapError};
pub use modes::Mode;
pub use not_view::{NotView, NotViewReason};
pub use notation::block::BlockNotation;
pub use notation::cute;
pub use notation::digits::{DigitOp, DigitText, DigitsNotation};
pub use notation::fields::Field;
pub use notation::strided::StridedNotation;
pub use notation::written::Factor;
pub use notation::xla::{SplitConfig, TileDim, XlaNotation};
pub use notation::xla_shape::{XlaArray, XlaDim, XlaShape, XlaType};
pub use notation::{Notation, NotationKind};
pub use placement::Placement;
pub use spread::{Pick, Spread, Stride};
pub use view::{is_view, propagate};
