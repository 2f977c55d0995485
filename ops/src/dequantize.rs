//! `hbir.dequantize`: small integers as floats (ONNX `DequantizeLinear`).
//!
//! `y = (x - zero) * scale` in the scale's element type. Scale and zero point are scalars, or have one element for each
//! index along `axis`.

use crate::prelude::*;
use crate::quantization::{self, check_parameters, parameter, parameter_axis};

attributes! {
    /// Scaled integers as floats.
    pub struct Dequantize {
        /// The axis along which scale and zero point change; negative ones count from the end.
        axis: i64 = 1,
    }
}

impl Dequantize {
    /// The dimension along which scale and zero point change; `None` if both are scalars.
    ///
    /// # Errors
    /// The operand has no such dimension (`quantize-c2`).
    pub fn along(&self, op: &OpRef<'_>) -> Result<Option<usize>, OpError> {
        parameter_axis(op, self.axis)
    }
}

impl Operation for Dequantize {
    const NAME: &'static str = "hbir.dequantize";
    const SUMMARY: &'static str = "scaled integers as floats";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (2, 3);
    const CODES: &'static [Code] = quantization::CODES;

    /// C1: integers to floats. C2: see `check_parameters`. C3: the integer types agree.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        if !x.dtype.is_int() || x.dtype.is_bool() {
            let message = format!("hbir.dequantize of {}, wanted an integer type", x.dtype);
            return Err(OpError::new(quantization::QUANTIZE_C1, message));
        }
        let dtype = wants_float(op, quantization::QUANTIZE_C1, 1)?;
        check_parameters(op, self.axis)?;
        if 2 < op.operands.len() && op.operand(2)?.dtype != x.dtype {
            let zero = op.operand(2)?.dtype;
            let message = format!("hbir.dequantize of {} has a zero point of {zero}", x.dtype);
            return Err(OpError::new(quantization::QUANTIZE_C3, message));
        }
        one(x.dims.clone(), dtype)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let x = call.input(0);
        let (scale, zero) = (
            parameter(call, self.axis, 1)?,
            parameter(call, self.axis, 2)?,
        );
        Ok(call.floats((0..x.len()).map(|e| {
            let zero = zero(e).map_or(0.0, |i| call.input(2).f64_at(i));
            (x.f64_at(e) - zero) * scale(e).map_or(1.0, |i| call.input(1).f64_at(i))
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
        Some(axes.each_own(Dequantize { axis }.write()))
    }
}
