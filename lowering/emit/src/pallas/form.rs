//! An operation and its arguments, as its form in `jnp` is written from them.

use super::words::tuple;
use optc_ir::{OpRef, Operation, TensorType};
use optc_ops::Slide;
use std::collections::BTreeSet;

/// An operation on values of these extents.
pub(super) struct Site<'a> {
    /// The operation with the types of its whole operands and results.
    pub(super) op: &'a OpRef<'a>,
    /// The extents of each operand as it is here.
    pub(super) operands: Vec<Vec<u64>>,
    /// The extents of each result as it is here.
    pub(super) results: Vec<Vec<u64>>,
    /// True if these are tiles.
    pub(super) tile: bool,
    /// The padding of windows that is not in the operands yet, begin and end a spatial dimension;
    /// that of the attributes when absent.
    pub(super) pads: Option<Vec<(i64, i64)>>,
}

/// The expressions of the results, and the helpers that they use.
pub(super) struct Written {
    pub(super) results: Vec<String>,
    pub(super) helpers: BTreeSet<&'static str>,
}

/// The form of an operation while it is written.
pub(super) struct Form<'a> {
    pub(super) site: &'a Site<'a>,
    pub(super) args: &'a [String],
    pub(super) helpers: BTreeSet<&'static str>,
}

impl Form<'_> {
    pub(super) fn op(&self) -> &OpRef<'_> {
        self.site.op
    }
    /// Its attributes.
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
    pub(super) fn is_bool(&self) -> bool {
        self.ty().is_some_and(|ty| ty.dtype.is_bool())
    }
}

/// The padding that windows state, begin and end a spatial dimension.
pub(super) fn stated_pads(slides: &[Slide]) -> Vec<(i64, i64)> {
    slides.iter().map(|s| (int(s.low), int(s.high))).collect()
}

/// A value of one element a channel, as it broadcasts over spatial dimensions.
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

/// One number a window.
pub(super) fn each(slides: &[Slide], of: impl Fn(&Slide) -> usize) -> String {
    tuple(slides.iter().map(of))
}

/// The keyword of a reduction that keeps its axes.
pub(super) fn keeping(keepdims: bool) -> &'static str {
    if keepdims { ", keepdims=True" } else { "" }
}
