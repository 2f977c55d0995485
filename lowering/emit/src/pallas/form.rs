//! An operation and its arguments, from which its form in `jnp` is written.

use super::words::tuple;
use optc_ir::{OpRef, Operation, Registry, TensorType};
use optc_ops::Slide;
use optc_target::Precision;
use std::collections::BTreeSet;

/// An operation on values with these extents, which may be tiles.
pub(super) struct Site<'a> {
    /// The operation, with the types of its whole operands and results.
    pub(super) op: &'a OpRef<'a>,
    /// The registry of operations.
    pub(super) registry: &'a Registry,
    /// The extents of each operand as it is here.
    pub(super) operands: Vec<Vec<u64>>,
    /// The extents of each result in this place.
    pub(super) results: Vec<Vec<u64>>,
    /// True if operands and results are tiles.
    pub(super) tile: bool,
    /// The precision of a product of f32.
    pub(super) precision: Precision,
    /// The padding of windows that the operands do not contain yet: begin and end of each spatial dimension. `None`
    /// means the padding of the attributes.
    pub(super) pads: Option<Vec<(i64, i64)>>,
}

/// The expressions of the results, and the helper functions that they use.
pub(super) struct Written {
    pub(super) results: Vec<String>,
    pub(super) helpers: BTreeSet<&'static str>,
}

/// The state of an operation whose form is being written.
pub(super) struct Form<'a> {
    pub(super) site: &'a Site<'a>,
    pub(super) args: &'a [String],
    pub(super) helpers: BTreeSet<&'static str>,
}

impl Form<'_> {
    pub(super) fn op(&self) -> &OpRef<'_> {
        self.site.op
    }
    /// The typed attributes.
    pub(super) fn typed<T: Operation>(&self) -> Option<T> {
        T::of(self.op()).ok()
    }
    pub(super) fn ty(&self) -> Option<&TensorType> {
        self.op().result(0).ok()
    }
    pub(super) fn operand(&self, i: usize) -> Option<&TensorType> {
        self.op().operand(i).ok()
    }
    pub(super) fn arg(&self, i: usize) -> Option<&str> {
        self.args.get(i).map(String::as_str)
    }
    pub(super) fn helper(&mut self, name: &'static str) -> &'static str {
        self.helpers.insert(name);
        name
    }
    pub(super) fn extents(&self) -> Option<String> {
        self.site.results.first().map(tuple)
    }
    pub(super) fn spatial(&self) -> Option<usize> {
        self.ty()?.rank().checked_sub(2)
    }
    pub(super) fn is_float(&self) -> bool {
        self.ty().is_some_and(|ty| ty.dtype.is_float())
    }
}

/// The padding of windows in the attributes: begin and end of each spatial dimension.
pub(super) fn stated_pads(slides: &[Slide]) -> Vec<(i64, i64)> {
    slides.iter().map(|s| (int(s.low), int(s.high))).collect()
}

/// A vector with one element for each channel, reshaped to broadcast over spatial dimensions.
pub(super) fn along_channels(text: &str, spatial: usize) -> String {
    let ones = std::iter::repeat_n("1", spatial);
    format!("{text}.reshape{}", tuple(["-1"].into_iter().chain(ones)))
}

pub(super) fn int(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

pub(super) fn python_bool(flag: bool) -> &'static str {
    if flag { "True" } else { "False" }
}

/// Padding as a tuple of pairs.
pub(super) fn pairs(pads: &[(i64, i64)]) -> String {
    tuple(pads.iter().map(|(a, b)| tuple([*a, *b])))
}

/// One number for each window dimension, as a tuple.
pub(super) fn each(slides: &[Slide], of: impl Fn(&Slide) -> usize) -> String {
    tuple(slides.iter().map(of))
}

/// The keyword argument of a reduction that keeps its axes.
pub(super) fn keeping(keepdims: bool) -> &'static str {
    if keepdims { ", keepdims=True" } else { "" }
}
