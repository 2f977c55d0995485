//! `hbir.arg_max` and `hbir.arg_min`: the index of the greatest or of the least element along `axis`, as si64 (ONNX
//! `ArgMax` and `ArgMin`). NaN counts as extreme.

use crate::lanes::Lanes;
use crate::prelude::*;
use crate::reduce::{self, without};
use std::cmp::Ordering;

/// Operations that find an extreme element: struct, name, which element, the order in which the wanted one is greatest.
macro_rules! args {
    ($($op:ident $name:literal $which:literal $better:expr;)*) => {$(
        attributes! {
            #[doc = concat!("The index of the ", $which, " element along an axis; NaN counts as the ", $which, ".")]
            pub struct $op {
                /// The axis; negative ones count from the end.
                axis: i64 = 0,
                /// True if the axis stays, with an extent of 1.
                keepdims: bool = false,
                /// True if the last of several equal elements is taken, not the first.
                select_last_index: bool = false,
            }
        }

        impl $op {
            /// The dimension that `axis` names.
            ///
            /// # Errors
            /// The operand has no such dimension (`arg-c1`).
            pub fn along(&self, op: &OpRef<'_>) -> Result<usize, OpError> {
                as_axis(op, ARG_C1, self.axis, op.operand(0)?.rank())
            }
        }

        impl Operation for $op {
            const NAME: &'static str = $name;
            const SUMMARY: &'static str = concat!("the index of the ", $which, " element along an axis");
            const FAMILY: &'static str = "reduce";
            const OPERANDS: (usize, usize) = (1, 1);
            const CODES: &'static [Code] = CODES;

            fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
                infer(op, self.along(op)?, self.keepdims)
            }

            fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
                let axis = self.along(call.op)?;
                Ok(eval(call, axis, self.select_last_index, $better))
            }

            fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
                reduce::iteration_domain(op, &[self.along(op)?], self.keepdims, LoopKind::Whole)
            }

            fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
                let along = self.along(op).ok()?;
                let form = axes.along(along, |axis| $op { axis, ..*self }.write())?;
                Some(kept(axes, form, along, self.keepdims))
            }
        }
    )*};
}

args! {
    ArgMax "hbir.arg_max" "greatest" |order| order;
    ArgMin "hbir.arg_min" "least" Ordering::reverse;
}

/// C1: an axis of the operand. C2: the axis is not empty.
fn infer(op: &OpRef<'_>, axis: usize, keepdims: bool) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    if x.dims[axis] == Dim::Fixed(0) {
        let message = format!(
            "{} of {} along the empty axis {axis}",
            op.name,
            show(&x.dims)
        );
        return Err(OpError::new(ARG_C2, message));
    }
    one(without(&x.dims, &[axis], keepdims), DType::SI64)
}

/// For each line along the axis, the position of the element that is taken: of equal ones the `last` or the first.
/// `better` maps the order of two elements to `Greater` if the first one is to be preferred. A NaN is taken before all
/// other elements.
fn eval(call: &Call<'_>, axis: usize, last: bool, better: fn(Ordering) -> Ordering) -> Vec<Tensor> {
    let x = call.input(0);
    let lanes = Lanes::new(&x.shape, axis);
    let wins = |a: usize, b: usize| match better(element_order(x, a, b)) {
        Ordering::Equal => last,
        order => order.is_gt(),
    };
    let place = |(start, step): (usize, usize)| {
        let at = |i: usize| start + i * step;
        let best = (0..lanes.n).reduce(|best, i| if wins(at(i), at(best)) { i } else { best });
        best.unwrap_or(0)
    };
    let taken = |lane: (usize, usize)| {
        let mut nans = (0..lanes.n).filter(|i| x.f64_at(lane.0 + i * lane.1).is_nan());
        let nan = if last { nans.next_back() } else { nans.next() };
        nan.unwrap_or_else(|| place(lane)) as i128
    };
    call.integers(lanes.iter().map(taken))
}

/// The form of an operation that reduces dimension `along`: the result has the axes of the first operand. The axis of
/// `along` has extent 1 with `keepdims`, and is left out otherwise.
fn kept(axes: &Axes<'_>, mut form: OverAxes, along: usize, keepdims: bool) -> OverAxes {
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
    const CODES;

    ARG_C1 = program(
        "`hbir.arg_max` or `hbir.arg_min` names an axis that its operand does not have",
        r#"%0 = "hbir.arg_max"(%x) <{axis = 2}> : (tensor<2x3xf32>) -> tensor<2x1xsi64>"#,
        "count axes from 0, or from the end with negative numbers: rank 3 has the axes -3 to 2",
    );
    ARG_C2 = program(
        "`hbir.arg_max` or `hbir.arg_min` goes along an axis without elements, which has no greatest or least one",
        r#"%0 = "hbir.arg_min"(%x) <{axis = 1}> : (tensor<2x0xf32>) -> tensor<2x1xsi64>"#,
        "take the position along an axis of at least one element",
    );
}
