//! `hbir.arg_min`: the index of the least element along `axis`, as si64 (ONNX `ArgMin`).

use crate::arg::{self, Arg};
use optc_ir::op::iteration_domain::IterationDomain;
use optc_ir::op::{Attributes, Axes, Call, Effect, Inferred, OpError, OpRef, Operation, OverAxes};
use optc_ir::tensor::{EvalError, Tensor};
use optc_ir::{Code, attributes};
use std::cmp::Ordering;
attributes! {
    /// The index of the least element along an axis; NaN counts as the least.
    pub struct ArgMin {
        /// The axis; negative ones count from the end.
        axis: i64 = 0,
        /// True if the axis stays, with an extent of 1.
        keepdims: bool = false,
        /// True if the last of several equal elements is taken, not the first.
        select_last_index: bool = false,
    }
}

impl ArgMin {
    /// The dimension that `axis` names.
    ///
    /// # Errors
    /// The operand has no such dimension (`arg-c1`).
    pub fn along(&self, op: &OpRef<'_>) -> Result<usize, OpError> {
        self.arg().along(op)
    }

    fn arg(&self) -> Arg {
        Arg {
            axis: self.axis,
            keepdims: self.keepdims,
            last: self.select_last_index,
        }
    }
}

impl Operation for ArgMin {
    const NAME: &'static str = "hbir.arg_min";
    const SUMMARY: &'static str = "the index of the least element along an axis";
    const FAMILY: &'static str = "reduce";
    const OPERANDS: (usize, usize) = (1, 1);
    const CODES: &'static [Code] = arg::CODES;

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        self.arg().infer(op)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        self.arg().eval(call, Ordering::reverse)
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Pure
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        self.arg().iteration_domain(op)
    }

    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let along = self.along(op).ok()?;
        let form = axes.along(along, |axis| ArgMin { axis, ..*self }.write())?;
        Some(arg::kept(axes, form, along, self.keepdims))
    }
}
