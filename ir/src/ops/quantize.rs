//! Numbers as small integers (ONNX `QuantizeLinear`, `DequantizeLinear`).
//!
//! `hbir.quantize`: `y = saturate(round(x / scale) + zero)`, ties to even, in the element type `to` or, with
//! a zero point, in that one's. `hbir.dequantize`: `y = (x - zero) * scale` in the scale's element type. Scale
//! and zero point are scalars, or have one element for each of the extent along `axis` (1 when absent).

use crate::op::{Freedom, FreedomClass, Inferred, OpError, OpRef, Registry};
use crate::ops::cast::saturate;
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::{marks, or_barrier};
use crate::ops::shape::{axis_or, dtype_or, one, show, unify, wants_float};
use crate::tensor::{EvalError, Tensor};
use crate::types::{DType, Dim};

const QUANTIZE: Decl = Decl::new(
    "hbir.quantize",
    "elementwise",
    "floats as scaled integers",
    (2, 3),
    infer_quantize,
    eval_quantize,
)
.freedom(freedom);

const DEQUANTIZE: Decl = Decl::new(
    "hbir.dequantize",
    "elementwise",
    "scaled integers as floats",
    (2, 3),
    infer_dequantize,
    eval_dequantize,
)
.freedom(freedom);

/// C1: floats to integers or back. C2: scale and zero point are scalars or one an element of the
/// axis. C3: the integer types agree.
fn infer_quantize(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    wants_float(op, "quantize-c1", 0)?;
    wants_float(op, "quantize-c1", 1)?;
    check_parameters(op)?;
    let zero = if 2 < op.operands.len() {
        Some(op.operand(2)?.dtype)
    } else {
        None
    };
    let to = dtype_or(op, "to", zero.unwrap_or(DType::UI8))?;
    if to.is_float() || to.is_bool() {
        let message = format!("hbir.quantize to {to}, wanted an integer type");
        return Err(OpError::new("quantize-c1", message));
    }
    if let Some(zero) = zero.filter(|&z| z != to) {
        let message = format!("hbir.quantize to {to} has a zero point of {zero}, wanted {to}");
        return Err(OpError::new("quantize-c3", message));
    }
    one(x.dims.clone(), to)
}

fn infer_dequantize(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    if x.dtype.is_float() || x.dtype.is_bool() {
        let message = format!("hbir.dequantize of {}, wanted an integer type", x.dtype);
        return Err(OpError::new("quantize-c1", message));
    }
    let dtype = wants_float(op, "quantize-c1", 1)?;
    check_parameters(op)?;
    if 2 < op.operands.len() && op.operand(2)?.dtype != x.dtype {
        let zero = op.operand(2)?.dtype;
        let message = format!("hbir.dequantize of {} has a zero point of {zero}", x.dtype);
        return Err(OpError::new("quantize-c3", message));
    }
    one(x.dims.clone(), dtype)
}

/// The axis, unless every parameter is a scalar.
fn parameter_axis(op: &OpRef<'_>) -> Result<Option<usize>, OpError> {
    let mut scalar = true;
    for i in 1..op.operands.len() {
        scalar &= op.operand(i)?.rank() == 0;
    }
    if scalar {
        return Ok(None);
    }
    axis_or(op, "quantize-c2", op.operand(0)?.rank(), 1).map(Some)
}

fn check_parameters(op: &OpRef<'_>) -> Result<(), OpError> {
    let Some(axis) = parameter_axis(op)? else {
        return Ok(());
    };
    let wanted = &op.operand(0)?.dims[axis];
    for i in 1..op.operands.len() {
        let found = &op.operand(i)?.dims;
        let fits = match found.as_slice() {
            [] => true,
            [n] => unify(n, wanted).is_some() || n.is_one(),
            _ => false,
        };
        if !fits {
            let message = format!(
                "{} has operand {i} of {}, wanted [] or [{wanted}]",
                op.name,
                show(found)
            );
            return Err(OpError::new("quantize-c2", message));
        }
    }
    Ok(())
}

/// For every element of the operand the element of a parameter that belongs to it.
fn parameter(call: &Call<'_>, i: usize) -> Result<impl Fn(usize) -> Option<usize>, EvalError> {
    let axis = parameter_axis(call.op).map_err(|e| EvalError::new(e.message))?;
    let shape = &call.input(0).shape;
    let (n, inner) = axis.map_or((1, 1), |a| {
        (shape[a], shape[a + 1..].iter().product::<usize>())
    });
    let len = call.inputs.get(i).map(|t| t.len());
    Ok(move |e: usize| len.map(|len| if len == 1 { 0 } else { e / inner % n }))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "rounded to the operand's precision"
)]
fn eval_quantize(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let x = call.input(0);
    let (scale, zero) = (parameter(call, 1)?, parameter(call, 2)?);
    let to = call.dtype();
    Ok(call.integers((0..x.len()).map(|e| {
        let scaled = x.f64_at(e) / scale(e).map_or(1.0, |i| call.input(1).f64_at(i));
        // The quotient is one of the operand's floats, at least f32.
        let scaled = if x.dtype == DType::F64 {
            scaled
        } else {
            f64::from(scaled as f32)
        };
        let zero = zero(e).map_or(0.0, |i| call.input(2).f64_at(i));
        saturate(scaled.round_ties_even() + zero, to)
    })))
}

fn eval_dequantize(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let x = call.input(0);
    let (scale, zero) = (parameter(call, 1)?, parameter(call, 2)?);
    Ok(call.floats((0..x.len()).map(|e| {
        let zero = zero(e).map_or(0.0, |i| call.input(2).f64_at(i));
        (x.f64_at(e) - zero) * scale(e).map_or(1.0, |i| call.input(1).f64_at(i))
    })))
}

fn freedom(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let x = op.operand(0)?;
        let labels = f.fresh_for(x.rank());
        let axis = parameter_axis(op)?;
        f.operand(marks(&labels));
        for i in 1..op.operands.len() {
            let dims = &op.operand(i)?.dims;
            let own = |dim: &Dim| axis.filter(|&a| !dim.is_one() || x.dims[a].is_one());
            f.operand(dims.iter().map(|dim| own(dim).map(|a| labels[a])).collect());
        }
        f.result(marks(&labels));
        Ok(())
    })
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(QUANTIZE);
    registry.add(DEQUANTIZE);
}
