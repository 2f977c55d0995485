//! `hbir.sharding_constraint`: the operand, whose split over a mesh of devices is stated (Shardy's
//! `sdy.sharding_constraint`).
//!
//! Example: `split = ["data:4", "", "model:2 ?"]` splits dimension 0 over the four devices of `data`, keeps dimension 1
//! whole, and splits dimension 2 over `model` and over further axes where a partitioner gains by it.
//!
//! The statement is about dimensions. Where layouts become dimensions, that is where a transpose or reshape beside the
//! operation is folded, each axis goes to the digit that it splits.

use crate::prelude::*;
use optc_ir::field_values;
use optc_ir::op::{AttrValue, AxisOf};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// An axis of the mesh, written `model:4`, or a part of one, written `model:(2)4`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AxisPart {
    /// The name of the axis.
    pub name: Arc<str>,
    /// For a part: the extent of the axis before it (more major than it).
    pub after: Option<u64>,
    /// The extent.
    pub extent: u64,
}

impl FromStr for AxisPart {
    type Err = ();

    fn from_str(text: &str) -> Result<AxisPart, ()> {
        let number = |text: &str| text.parse().ok().filter(|&n: &u64| 0 < n).ok_or(());
        let (name, size) = text
            .rsplit_once(':')
            .filter(|(name, _)| !name.is_empty())
            .ok_or(())?;
        let (after, extent) = match size.strip_prefix('(') {
            Some(rest) => {
                let (after, extent) = rest.split_once(')').ok_or(())?;
                (Some(number(after)?), number(extent)?)
            }
            None => (None, number(size)?),
        };
        Ok(AxisPart {
            name: Arc::from(name),
            after,
            extent,
        })
    }
}

impl fmt::Display for AxisPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.after {
            Some(after) => write!(f, "{}:({after}){}", self.name, self.extent),
            None => write!(f, "{}:{}", self.name, self.extent),
        }
    }
}

/// The split of one dimension: axes of the mesh, major to minor.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DimSplit {
    /// The axes.
    pub axes: Vec<AxisPart>,
    /// True if further axes may split the dimension.
    pub open: bool,
}

impl FromStr for DimSplit {
    type Err = ();

    fn from_str(text: &str) -> Result<DimSplit, ()> {
        let mut split = DimSplit::default();
        for word in text.split_whitespace() {
            match word {
                _ if split.open => return Err(()),
                "?" => split.open = true,
                axis => split.axes.push(axis.parse()?),
            }
        }
        Ok(split)
    }
}

impl fmt::Display for DimSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes = self.axes.iter().map(AxisPart::to_string);
        let words: Vec<String> = axes.chain(self.open.then(|| "?".to_owned())).collect();
        f.write_str(&words.join(" "))
    }
}

impl DimSplit {
    /// The splits of the digits of the dimension, whose extents are given major to minor. `None` where an axis splits a
    /// part of a digit and a part of the next one.
    fn over(&self, extents: &[u64]) -> Option<Vec<DimSplit>> {
        let mut digits = vec![DimSplit::default(); extents.len()];
        let (mut at, mut left) = (0, extents.first().copied().unwrap_or(1));
        for axis in &self.axes {
            while left == 1 && at + 1 < extents.len() {
                at += 1;
                left = extents[at];
            }
            if !left.is_multiple_of(axis.extent) {
                return None;
            }
            digits.get_mut(at)?.axes.push(axis.clone());
            left /= axis.extent;
        }
        for digit in &mut digits[at..] {
            digit.open = self.open;
        }
        Some(digits)
    }
}

/// The splits of all dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimSplits(pub Vec<DimSplit>);

impl AttrValue for DimSplits {
    const KIND: &'static str = "a list of texts, `\"data:4 model:2\"`, one a dimension";
    fn from_attr(attr: &Attr) -> Option<Self> {
        let split = |entry: &Attr| entry.as_str()?.parse().ok();
        let splits: Option<_> = attr.as_array()?.iter().map(split).collect();
        splits.map(DimSplits)
    }
    fn to_attr(&self) -> Attr {
        let text = |split: &DimSplit| Attr::str(&split.to_string());
        Attr::Array(self.0.iter().map(text).collect())
    }
}

field_values!(DimSplits);

attributes! {
    /// A value whose split over a mesh is stated.
    pub struct ShardingConstraint {
        /// The axes of each dimension.
        split: DimSplits,
    }
}

impl Operation for ShardingConstraint {
    const NAME: &'static str = "hbir.sharding_constraint";
    const SUMMARY: &'static str = "the operand, whose split over a mesh of devices is stated";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (1, 1);
    const MOVES_ONLY: bool = true;
    const PASSES_ON: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: `split` has one entry for each dimension.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        let (found, wanted) = (self.split.0.len(), x.rank());
        if found != wanted {
            let message = format!(
                "{} has {found} entries in `split`, wanted {wanted}, one for each dimension",
                op.name
            );
            return Err(OpError::new(SHARDING_CONSTRAINT_C1, message));
        }
        one(x.dims.clone(), x.dtype)
    }

    fn expression(&self) -> Option<Expr> {
        Some(Expr::A)
    }

    /// Each axis of the mesh splits the digits that it splits in the dimensions.
    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let rank = op.operand(0).ok()?.rank();
        let mut of_axis: Vec<DimSplit> = vec![DimSplit::default(); axes.list().len()];
        for (dim, split) in self.split.0.iter().enumerate().take(rank) {
            let label = axes.label(0, dim)?;
            if let AxisOf::Unit = axes.of_label(label) {
                return None;
            }
            let mut digits = axes.all(label);
            digits.sort_by_key(|&axis| std::cmp::Reverse(axes.list()[axis].low));
            let extents: Vec<u64> = digits.iter().map(|&axis| axes.extent(0, axis)).collect();
            for (axis, split) in digits.into_iter().zip(split.over(&extents)?) {
                of_axis[axis] = split;
            }
        }
        let own = axes.own(0).into_iter().flatten();
        let split = DimSplits(own.map(|axis| of_axis[axis].clone()).collect());
        Some(axes.each_own(ShardingConstraint { split }.write()))
    }
}

codes! {
    pub(crate) const CODES;

    SHARDING_CONSTRAINT_C1 = program(
        "`hbir.sharding_constraint` with another number of splits than the operand has dimensions",
        r#"%0 = "hbir.sharding_constraint"(%x) <{split = ["data:2"]}> : (tensor<4x6xf32>) -> tensor<4x6xf32>"#,
        "write one text a dimension, an empty one for a dimension that is not split",
    );
}
