//! Quantized values, interpolation, and Einstein sums.
//!
//! Example: `hbir.quantize` is a `divide` by the broadcast scale, `round-nearest-even`, an `add` of the broadcast zero
//! point, `maximum` and `minimum` with the limits of the integer type, and a `convert`.

use super::func::{Outcome, Writer, list};
use super::norms::wide;
use super::number::{float_text, limits};
use super::shape::{shaped, sizes, tensor_text};
use crate::unwritten::{Form, Unwritten, known};
use optc_ir::op::Operation;
use optc_ir::{DType, Dim, OpData, TensorType, Value};
use optc_ops::{Dequantize, Einsum, Equation, Index, Interpolation, Quantize, Resize};

/// Writes one of these operations and returns the name of the result. Any other operation has no form here.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    match &*data.name {
        Dequantize::NAME => {
            let axis = w.typed::<Dequantize>(data)?.along(&w.op_ref(data))?;
            dequantize(w, data, ty, axis)
        }
        Quantize::NAME => {
            let axis = w.typed::<Quantize>(data)?.along(&w.op_ref(data))?;
            quantize(w, data, ty, axis)
        }
        Einsum::NAME => einsum(w, data, ty),
        Resize::NAME => resize(w, data, ty),
        _ => Err(Unwritten::NoForm),
    }
}

fn bits(dtype: DType) -> u32 {
    match dtype {
        DType::Int { bits, .. } => u32::from(bits),
        _ => dtype.bits(),
    }
}

/// A scale or zero point, broadcast to `to` and converted to its element type. It has one number, or one for each index
/// along `axis`.
fn parameter(
    w: &mut Writer<'_>,
    value: Value,
    axis: Option<usize>,
    to: &TensorType,
) -> Outcome<String> {
    let from = w.tensor(value)?.clone();
    let mut name = w.name(value)?;
    let mut own = TensorType {
        dtype: to.dtype,
        ..from.without_layout()
    };
    if from.dtype != to.dtype {
        name = w.put(&own, "convert", &[name], "")?;
    }
    let each =
        axis.filter(|&a| from.rank() == 1 && (!from.dims[0].is_one() || to.dims[a].is_one()));
    if each.is_none() && from.rank() != 0 {
        own = shaped(to, &[]);
        name = w.put(&own, "reshape", &[name], "")?;
    }
    let dims: Vec<usize> = each.into_iter().collect();
    let attrs = format!(", dimensions={}", list(&dims));
    w.put(to, "broadcast", &[name], &attrs)
}

/// The type with element type `dtype`; row-major unless that is its own element type.
fn of_type(ty: &TensorType, dtype: DType) -> TensorType {
    if ty.dtype == dtype {
        return ty.clone();
    }
    TensorType {
        dtype,
        ..ty.without_layout()
    }
}

fn quantize(
    w: &mut Writer<'_>,
    data: &OpData,
    ty: &TensorType,
    axis: Option<usize>,
) -> Form<String> {
    let from = w.tensor(data.operands[0])?.clone();
    if 32 < bits(ty.dtype) {
        return Err(Unwritten::NoForm);
    }
    let singles = if from.dtype == DType::F64 {
        DType::F64
    } else {
        DType::F32
    };
    let own = of_type(&from, singles);
    let x = w.one("convert", data.operands[0], &own, "")?;
    let scale = parameter(w, data.operands[1], axis, &own)?;
    let mut y = w.put(&own, "divide", &[x, scale], "")?;
    // f32 represents the limits of 16-bit integers exactly.
    let exact = if bits(ty.dtype) <= 16 {
        singles
    } else {
        DType::F64
    };
    let own = of_type(&own, exact);
    if exact != singles {
        y = w.put(&own, "convert", &[y], "")?;
    }
    y = w.put(&own, "round-nearest-even", &[y], "")?;
    if let Some(&zero) = data.operands.get(2) {
        let zero = parameter(w, zero, axis, &own)?;
        y = w.put(&own, "add", &[y, zero], "")?;
    }
    let (low, high) = limits(ty.dtype);
    let (low, high) = (w.filled(&low, &own)?, w.filled(&high, &own)?);
    y = w.put(&own, "maximum", &[y, low], "")?;
    y = w.put(&own, "minimum", &[y, high], "")?;
    Ok(w.put(ty, "convert", &[y], "")?)
}

fn dequantize(
    w: &mut Writer<'_>,
    data: &OpData,
    ty: &TensorType,
    axis: Option<usize>,
) -> Form<String> {
    let from = w.tensor(data.operands[0])?.clone();
    let zero = data.operands.get(2).copied();
    // The difference of integers of more than 16 bits may not fit f32 exactly.
    let doubles = ty.dtype == DType::F64 || (16 < bits(from.dtype) && zero.is_some());
    let own = of_type(ty, if doubles { DType::F64 } else { DType::F32 });
    let mut y = w.one("convert", data.operands[0], &own, "")?;
    if let Some(zero) = zero {
        let zero = parameter(w, zero, axis, &own)?;
        y = w.put(&own, "subtract", &[y, zero], "")?;
    }
    let scale = parameter(w, data.operands[1], axis, &own)?;
    y = w.put(&own, "multiply", &[y, scale], "")?;
    if own.dtype != ty.dtype {
        y = w.put(ty, "convert", &[y], "")?;
    }
    Ok(y)
}

/// The largest number of elements that one position of an interpolation reads.
const MAX_TAPS: usize = 32;

fn resize(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let steps = known(w.typed::<Resize>(data)?.interpolations(&w.op_ref(data)))?;
    let from = w.tensor(data.operands[0])?.clone();
    let mut shape = known(sizes(&from))?;
    let single = |taps: &Vec<(usize, f64)>| matches!(taps[..], [(_, 1.0)]);
    let moves = steps.iter().all(|step| step.taps.iter().all(single));
    let few = |step: &Interpolation| {
        step.taps
            .iter()
            .all(|taps| !taps.is_empty() && taps.len() <= MAX_TAPS)
    };
    if !steps.iter().all(few) || shape.contains(&0) || !(moves || ty.dtype.is_float()) {
        return Err(Unwritten::NoForm);
    }
    let own = if moves {
        from.without_layout()
    } else {
        wide(&from).without_layout()
    };
    let mut x = w.name(data.operands[0])?;
    if own.dtype != from.dtype {
        x = w.put(&own, "convert", &[x], "")?;
    }
    for step in &steps {
        x = interpolated(w, x, &own, &mut shape, step)?;
    }
    if own.dtype != ty.dtype {
        return Ok(w.put(ty, "convert", &[x], "")?);
    }
    Ok(w.put(ty, "copy", &[x], "")?)
}

/// Interpolates along one dimension: one gather for each element that a position reads, multiplied by its weights and
/// summed.
fn interpolated(
    w: &mut Writer<'_>,
    x: String,
    like: &TensorType,
    shape: &mut [u64],
    step: &Interpolation,
) -> Outcome<String> {
    let axis = step.axis;
    let mut slices = shape.to_vec();
    slices[axis] = 1;
    shape[axis] = step.taps.len() as u64;
    let ty = shaped(like, shape);
    let offsets: Vec<usize> = (0..shape.len()).filter(|&d| d != axis).collect();
    let attrs = format!(
        ", offset_dims={}, collapsed_slice_dims={{{axis}}}, start_index_map={{{axis}}}, \
         index_vector_dim=1, slice_sizes={}",
        list(&offsets),
        list(&slices)
    );
    let count = step.taps.iter().map(Vec::len).max().unwrap_or(0);
    let row = shaped(like, &[step.taps.len() as u64]);
    let places = TensorType {
        dtype: DType::SI32,
        ..row.clone()
    };
    let mut sum: Option<String> = None;
    for tap in 0..count {
        let at = |taps: &Vec<(usize, f64)>| taps.get(tap).copied().unwrap_or((taps[0].0, 0.0));
        let indices: Vec<String> = step.taps.iter().map(|t| at(t).0.to_string()).collect();
        let text = format!("{{{}}}", indices.join(", "));
        let indices = w.payload(&tensor_text(&places)?, "constant", &text, "");
        let mut part = w.put(&ty, "gather", &[x.clone(), indices], &attrs)?;
        if step.taps.iter().any(|taps| at(taps).1 != 1.0) {
            let weights = step.taps.iter().map(|t| float_text(at(t).1, like.dtype));
            let text = format!("{{{}}}", weights.collect::<Vec<_>>().join(", "));
            let weights = w.payload(&tensor_text(&row)?, "constant", &text, "");
            let along = format!(", dimensions={{{axis}}}");
            let weights = w.put(&ty, "broadcast", &[weights], &along)?;
            part = w.put(&ty, "multiply", &[part, weights], "")?;
        }
        sum = Some(match sum {
            None => part,
            Some(before) => w.put(&ty, "add", &[before, part], "")?,
        });
    }
    Ok(sum.unwrap_or(x))
}

/// The positions of the indices with each role in a product.
#[derive(Default)]
struct Sides {
    batch: [Vec<usize>; 2],
    contract: [Vec<usize>; 2],
    /// The indices of the result, in the order of a dot's result dimensions.
    order: Vec<Index>,
}

impl Sides {
    /// `None` if an index occurs twice in one operand, if it is summed over but occurs in one operand only, or if its
    /// extent is 1 in one operand and larger in the other.
    fn of(equation: &Equation, extents: [&[Dim]; 2]) -> Option<Sides> {
        let [a, b] = &equation.operands[..] else {
            return None;
        };
        for (side, dims) in equation.operands.iter().zip(extents) {
            for (i, (index, dim)) in side.iter().zip(dims).enumerate() {
                let wanted = equation.extents.iter().find(|e| e.0 == *index)?;
                if wanted.1 != *dim || side[..i].contains(index) {
                    return None;
                }
            }
        }
        let mut sides = Sides::default();
        let mut free = Vec::new();
        for (i, index) in a.iter().enumerate() {
            let stays = equation.result.contains(index);
            match (b.iter().position(|o| o == index), stays) {
                (Some(j), true) => {
                    sides.batch[0].push(i);
                    sides.batch[1].push(j);
                    sides.order.push(*index);
                }
                (Some(j), false) => {
                    sides.contract[0].push(i);
                    sides.contract[1].push(j);
                }
                (None, true) => free.push(*index),
                (None, false) => return None,
            }
        }
        for index in b.iter().filter(|index| !a.contains(index)) {
            if !equation.result.contains(index) {
                return None;
            }
            free.push(*index);
        }
        sides.order.extend(free);
        Some(sides)
    }
}

/// The transpose of one operand, or a dot of two operands and a transpose.
fn einsum(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let equation = w.typed::<Einsum>(data)?.equation(&w.op_ref(data))?;
    if let Some(perm) = equation.permutation() {
        let from = w.tensor(data.operands[0])?.clone();
        let attrs = format!(", dimensions={}", list(&perm));
        if from.dtype == ty.dtype {
            return Ok(w.one("transpose", data.operands[0], ty, &attrs)?);
        }
        let own = of_type(ty, from.dtype);
        let x = w.one("transpose", data.operands[0], &own, &attrs)?;
        return Ok(w.put(ty, "convert", &[x], "")?);
    }
    let &[a, b] = &data.operands[..] else {
        return Err(Unwritten::NoForm);
    };
    let extents = [&w.tensor(a)?.dims[..], &w.tensor(b)?.dims[..]];
    let sides = known(Sides::of(&equation, extents))?;
    let mut attrs = String::new();
    for (i, side) in ["lhs", "rhs"].into_iter().enumerate() {
        if !sides.batch[i].is_empty() {
            attrs.push_str(&format!(", {side}_batch_dims={}", list(&sides.batch[i])));
        }
        let contract = list(&sides.contract[i]);
        attrs.push_str(&format!(", {side}_contracting_dims={contract}"));
    }
    let names = [w.name(a)?, w.name(b)?];
    let perm: Option<Vec<usize>> = equation
        .result
        .iter()
        .map(|index| sides.order.iter().position(|o| o == index))
        .collect();
    let perm = known(perm)?;
    if perm.is_sorted() {
        return Ok(w.put(ty, "dot", &names, &attrs)?);
    }
    let mut dims = ty.dims.clone();
    for (d, &at) in perm.iter().enumerate() {
        dims[at] = ty.dims[d].clone();
    }
    let straight = TensorType::new(dims, ty.dtype);
    let y = w.put(&straight, "dot", &names, &attrs)?;
    let attrs = format!(", dimensions={}", list(&perm));
    Ok(w.put(ty, "transpose", &[y], &attrs)?)
}
