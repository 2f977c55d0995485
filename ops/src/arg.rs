//! Shared code of `hbir.arg_max` and `hbir.arg_min`: the index of an extreme element along an axis. NaN counts as
//! extreme.

use crate::lanes::Lanes;
use crate::reduce::{self, without};
use crate::shape::{as_axis, one, show};
use optc_ir::op::iteration_domain::{IterationDomain, LoopKind};
use optc_ir::op::{Axes, Call, Inferred, OpError, OpRef, OverAxes};
use optc_ir::tensor::{EvalError, Tensor};
use optc_ir::types::{DType, Dim};
use optc_ir::{Code, codes};
use std::cmp::Ordering;

/// The attributes of both operations.
#[derive(Clone, Copy)]
pub(crate) struct Arg {
    /// The axis; negative ones count from the end.
    pub(crate) axis: i64,
    /// True if the axis stays, with an extent of 1.
    pub(crate) keepdims: bool,
    /// True if the last of several equal elements is taken, not the first.
    pub(crate) last: bool,
}

impl Arg {
    /// C1: an axis of the operand.
    pub(crate) fn along(self, op: &OpRef<'_>) -> Result<usize, OpError> {
        as_axis(op, ARG_C1, self.axis, op.operand(0)?.rank())
    }

    /// C1: an axis of the operand. C2: the axis is not empty.
    pub(crate) fn infer(self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        let axis = self.along(op)?;
        if x.dims[axis] == Dim::Fixed(0) {
            let message = format!(
                "{} of {} along the empty axis {axis}",
                op.name,
                show(&x.dims)
            );
            return Err(OpError::new(ARG_C2, message));
        }
        one(without(&x.dims, &[axis], self.keepdims), DType::SI64)
    }

    /// For each line along the axis, the position of the element that is taken. `better` maps the order of two elements
    /// to
    /// `Greater` if the first one is to be preferred. A NaN is taken before all other elements.
    pub(crate) fn eval(
        self,
        call: &Call<'_>,
        better: fn(Ordering) -> Ordering,
    ) -> Result<Vec<Tensor>, EvalError> {
        let x = call.input(0);
        let axis = self.along(call.op)?;
        let lanes = Lanes::new(&x.shape, axis);
        let wins = |a: usize, b: usize| {
            let order = better(element_order(x, a, b));
            if self.last {
                order.is_ge()
            } else {
                order.is_gt()
            }
        };
        let place = |(start, step): (usize, usize)| {
            let best = (0..lanes.n).reduce(|best, i| {
                if wins(start + i * step, start + best * step) {
                    i
                } else {
                    best
                }
            });
            best.unwrap_or(0) as i128
        };
        let nan_first = |lane: (usize, usize)| {
            let mut nans = (0..lanes.n).filter(|i| x.f64_at(lane.0 + i * lane.1).is_nan());
            let nan = if self.last {
                nans.next_back()
            } else {
                nans.next()
            };
            nan.map_or_else(|| place(lane), |i| i as i128)
        };
        Ok(call.integers(lanes.iter().map(nan_first)))
    }

    pub(crate) fn iteration_domain(self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        reduce::iteration_domain(op, &[self.along(op)?], self.keepdims, LoopKind::Whole)
    }
}

/// The form of an operation that reduces dimension `along`: the result has the axes of the first operand. The axis of
/// `along` has extent 1 with `keepdims`, and is left out otherwise.
pub(crate) fn kept(axes: &Axes<'_>, mut form: OverAxes, along: usize, keepdims: bool) -> OverAxes {
    let worked = axes.label(0, along).and_then(|label| axes.whole(label));
    let runs = axes.own(0).into_iter();
    let kept = runs.filter_map(|run| match (Some(&run) == worked.as_ref(), keepdims) {
        (false, _) => Some(run),
        (true, true) => Some(Vec::new()),
        (true, false) => None,
    });
    form.results = vec![kept.collect()];
    form
}

/// The order of elements `i` and `j`; NaN is above everything and equal to itself.
pub(crate) fn element_order(x: &Tensor, i: usize, j: usize) -> std::cmp::Ordering {
    if !x.dtype.is_float() {
        return x.i128_at(i).cmp(&x.i128_at(j));
    }
    let (a, b) = (x.f64_at(i), x.f64_at(j));
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

codes! {
    pub(crate) const CODES;

    ARG_C1 = Code::program(
        "arg-c1",
        "`hbir.arg_max` or `hbir.arg_min` names an axis that its operand does not have",
        r#"%0 = "hbir.arg_max"(%x) <{axis = 2}> : (tensor<2x3xf32>) -> tensor<2x1xsi64>"#,
        "count axes from 0, or from the end with negative numbers: rank 3 has the axes -3 to 2",
    );
    ARG_C2 = Code::program(
        "arg-c2",
        "`hbir.arg_max` or `hbir.arg_min` goes along an axis without elements, which has no greatest or least one",
        r#"%0 = "hbir.arg_min"(%x) <{axis = 1}> : (tensor<2x0xf32>) -> tensor<2x1xsi64>"#,
        "take the position along an axis of at least one element",
    );
}
