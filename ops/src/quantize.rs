//! `hbir.quantize`: floats as small integers (ONNX `QuantizeLinear`).
//!
//! `y = saturate(round(x / scale) + zero)`, ties to even. The element type is `to`, or that of the zero point if there
//! is one. Scale and zero point are scalars, or have one element for each index along `axis`.

use crate::prelude::*;
use crate::quantization::{self, check_parameters, parameter, parameter_axis};
use optc_ir::tensor::saturate;

attributes! {
    /// Floats as scaled integers.
    pub struct Quantize {
        /// The axis along which scale and zero point change; negative ones count from the end.
        axis: i64 = 1,
        /// The element type of the result. When absent: that of the zero point, or ui8 if there is no zero point.
        to: Option<DType>,
    }
}

impl Quantize {
    /// The dimension along which scale and zero point change; `None` if both are scalars.
    ///
    /// # Errors
    /// The operand has no such dimension (`quantize-c2`).
    pub fn along(&self, op: &OpRef<'_>) -> Result<Option<usize>, OpError> {
        parameter_axis(op, self.axis)
    }
}

impl Operation for Quantize {
    const NAME: &'static str = "hbir.quantize";
    const SUMMARY: &'static str = "floats as scaled integers";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (2, 3);
    const CODES: &'static [Code] = quantization::CODES;

    /// C1: floats to integers. C2: see `check_parameters`. C3: the integer types agree.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        wants_float(op, quantization::QUANTIZE_C1, 0)?;
        wants_float(op, quantization::QUANTIZE_C1, 1)?;
        check_parameters(op, self.axis)?;
        let zero = if 2 < op.operands.len() {
            Some(op.operand(2)?.dtype)
        } else {
            None
        };
        let to = self.to.or(zero).unwrap_or(DType::UI8);
        if !to.is_int() || to.is_bool() {
            let message = format!("hbir.quantize to {to}, wanted an integer type");
            return Err(OpError::new(quantization::QUANTIZE_C1, message));
        }
        if let Some(zero) = zero.filter(|&z| z != to) {
            let message = format!("hbir.quantize to {to} has a zero point of {zero}, wanted {to}");
            return Err(OpError::new(quantization::QUANTIZE_C3, message));
        }
        one(x.dims.clone(), to)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounded to the operand's precision"
    )]
    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let x = call.input(0);
        let (scale, zero) = (
            parameter(call, self.axis, 1)?,
            parameter(call, self.axis, 2)?,
        );
        let to = call.dtype();
        Ok(call.integers((0..x.len()).map(|e| {
            let scaled = x.f64_at(e) / scale(e).map_or(1.0, |i| call.input(1).f64_at(i));
            // The quotient is rounded to the operand's type, but at least to f32.
            let scaled = if x.dtype == DType::F64 {
                scaled
            } else {
                f64::from(scaled as f32)
            };
            let zero = zero(e).map_or(0.0, |i| call.input(2).f64_at(i));
            saturate(scaled.round_ties_even() + zero, to)
        })))
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        quantization::iteration_domain(op, self.axis)
    }

    /// The form has as `axis` the axis along which scale and zero point change, or any axis if both are scalars.
    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let axis = match self.along(op).ok()? {
            Some(dim) => quantization::over_axis(axes, dim)?,
            None => 0,
        };
        Some(axes.each_own(Quantize { axis, ..*self }.write()))
    }
}
