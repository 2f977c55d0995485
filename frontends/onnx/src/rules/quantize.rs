//! Quantization: scaling to integers and back, and operators on such integers.

use super::contract::centred;
use super::elementwise::cast_to;
use super::shape::reshape_to;
use super::window::convolve;
use super::{Rule, blocks, decomposed, native};
use crate::builder::{Stop, Val};
use crate::entries::Entry;
use crate::node::{Done, NodeCx, props};
use optc_ir::op::Operation;
use optc_ir::{Attr, AttrDict, DType, Type};
use optc_onnx_proto::dtype;
use optc_ops::{
    Add, Clamp, Div, LeakyRelu, Matmul, Max, Min, Mul, ReduceKind, Round, Sigmoid, Sub,
};

/// The rules of this family.
pub(super) static RULES: &[Rule] = &[
    decomposed("ConvInteger", conv_integer),
    native("DequantizeLinear", dequantize),
    decomposed("DynamicQuantizeLinear", dynamic_quantize),
    decomposed("QLinearConv", qlinear_conv),
    decomposed("QLinearMatMul", qlinear_matmul),
    native("QuantizeLinear", quantize),
];

/// The rules of this family in the domain `com.microsoft`.
pub(super) static MICROSOFT: &[Rule] = &[
    native("DequantizeLinear", dequantize),
    decomposed("DynamicQuantizeMatMul", dynamic_quantize_matmul),
    decomposed("GatherBlockQuantized", blocks::gather),
    decomposed("MatMulIntegerToFloat", |cx| {
        matmul_integer_to_float(cx, 2, 3, 4, 5)
    }),
    decomposed("MatMulNBits", blocks::matmul),
    decomposed("QLinearAdd", |cx| qlinear_binary(cx, &Add {})),
    decomposed("QLinearGlobalAveragePool", qlinear_global_pool),
    decomposed("QLinearLeakyRelu", qlinear_leaky_relu),
    decomposed("QLinearMul", |cx| qlinear_binary(cx, &Mul {})),
    decomposed("QLinearSigmoid", |cx| qlinear_unary(cx, &Sigmoid {})),
    native("QuantizeLinear", quantize),
];

/// The operands `x`, `scale` and optionally the zero point, and the axis of a scale of rank 1.
struct Linear {
    operands: Vec<Val>,
    dict: AttrDict,
}

impl Linear {
    /// Reads the operands. A scale or zero point of one element counts as a scalar.
    fn of(cx: &mut NodeCx<'_, '_>) -> Result<Linear, Stop> {
        let (x, scale) = (cx.need(0)?, cx.need(1)?);
        let mut operands = vec![x];
        for parameter in [scale].into_iter().chain(cx.input(2)) {
            let single = cx.ty(parameter)?.elements() == Some(1);
            let scalar = if single && cx.rank(parameter)? != 0 {
                cx.reshape(parameter, &[])?
            } else {
                parameter
            };
            operands.push(scalar);
        }
        let mut dict = AttrDict::new();
        let mut vector = false;
        for &p in &operands[1..] {
            vector |= cx.rank(p)? != 0;
        }
        if vector {
            let axis = cx.axis(cx.int("axis").unwrap_or(1), cx.rank(x)?)?;
            dict.set("axis", Attr::int(axis as i64));
        }
        Ok(Linear { operands, dict })
    }
}

/// The scale or zero point of blocks along an axis, expanded to the elements of `x`.
fn by_block(cx: &mut NodeCx<'_, '_>, x: Val, parameter: Val, block: i64) -> Result<Val, Stop> {
    let axis = cx.axis(cx.int("axis").unwrap_or(1), cx.rank(x)?)?;
    let dims = cx.dims(parameter)?;
    if dims.len() != cx.rank(x)? {
        return Err(Stop::opaque("its blocks have another rank than its input"));
    }
    let blocks = cx.extent(parameter, axis)?;
    let (length, repeated) = (cx.extent(x, axis)?, blocks.saturating_mul(block));
    if block < 1 || repeated < length {
        return Err(Stop::opaque("its blocks do not cover its input"));
    }
    let mut sizes: Vec<Entry> = dims.iter().map(Entry::from).collect();
    sizes[axis] = Entry::Int(repeated);
    let spread = cx.unsqueeze(parameter, &[axis + 1])?;
    let mut shape = Vec::with_capacity(dims.len() + 1);
    for (i, _) in dims.iter().enumerate() {
        shape.push(cx.extent(parameter, i)?);
    }
    shape.insert(axis + 1, block);
    let spread = cx.broadcast(spread, &shape)?;
    let joined = reshape_to(cx, spread, &sizes)?;
    cx.cut(joined, axis, 0, length)
}

/// The element type of the result of `QuantizeLinear`.
fn quantized_type(cx: &NodeCx<'_, '_>) -> Result<DType, Stop> {
    let named = cx.int("output_dtype").filter(|&code| code != 0);
    match (cx.input(2), named) {
        (Some(zero), _) => cx.dtype(zero),
        (None, None) => Ok(DType::UI8),
        (None, Some(code)) => dtype(i32::try_from(code).unwrap_or(-1))
            .map_err(|found| Stop::opaque(format!("it quantizes to {found}"))),
    }
}

fn quantize(cx: &mut NodeCx<'_, '_>) -> Done {
    let to = quantized_type(cx)?;
    if matches!(to, DType::Mini(_)) {
        return quantize_small(cx, to);
    }
    let block = cx.int("block_size").unwrap_or(0);
    if block != 0 {
        return quantize_blocks(cx, block, to);
    }
    let Linear {
        mut operands,
        mut dict,
    } = Linear::of(cx)?;
    if !cx.dtype(operands[0])?.is_float() {
        let scale = cx.dtype(operands[1])?;
        operands[0] = cx.cast(operands[0], scale)?;
    }
    dict.set("to", Attr::Type(Type::Scalar(to)));
    cx.finish_named("hbir.quantize", &operands, dict)
}

/// `cast(clamp(round(x / scale) + zero))`.
fn quantize_blocks(cx: &mut NodeCx<'_, '_>, block: i64, to: DType) -> Done {
    let (x, scale) = (cx.need(0)?, cx.need(1)?);
    let scale = by_block(cx, x, scale, block)?;
    let dtype = cx.dtype(scale)?;
    let wide = cx.cast(x, dtype)?;
    let ratio = cx.emit(&Div {}, &[wide, scale])?;
    let mut result = cx.emit(&Round {}, &[ratio])?;
    if let Some(zero) = cx.input(2) {
        let zero = by_block(cx, x, zero, block)?;
        let zero = cx.cast(zero, dtype)?;
        result = cx.emit(&Add {}, &[result, zero])?;
    }
    // `Cast` of ONNX does not saturate.
    if to.is_int() && to.bits() <= 16 {
        let span = f64::from(1u32 << to.bits());
        let low = if to.is_signed() { -span / 2.0 } else { 0.0 };
        let (min, max) = (Some(low), Some(low + span - 1.0));
        result = cx.emit(&Clamp { min, max }, &[result])?;
    }
    let result = cx.cast(result, to)?;
    cx.set(0, result);
    Ok(())
}

/// The scale of small floats such that it broadcasts with `x`: a scalar, one for each index of an axis, or one for each
/// block. Their zero point must be 0.
fn small_scale(cx: &mut NodeCx<'_, '_>, x: Val) -> Result<Val, Stop> {
    if cx.input(2).is_some() {
        let zero = cx.tensor(2);
        if !zero.is_some_and(|t| t.to_bytes().iter().all(|&b| b == 0)) {
            return Err(Stop::opaque("its zero point of small floats is not 0"));
        }
    }
    let scale = cx.need(1)?;
    let block = cx.int("block_size").unwrap_or(0);
    if block != 0 {
        return by_block(cx, x, scale, block);
    }
    if cx.ty(scale)?.elements() == Some(1) {
        return cx.reshape(scale, &[]);
    }
    let axis = cx.axis(cx.int("axis").unwrap_or(1), cx.rank(x)?)?;
    let behind: Vec<usize> = (1..cx.rank(x)? - axis).collect();
    cx.unsqueeze(scale, &behind)
}

/// `cast(x / scale)`: small floats are not rounded to whole numbers.
fn quantize_small(cx: &mut NodeCx<'_, '_>, to: DType) -> Done {
    let x = cx.need(0)?;
    let scale = small_scale(cx, x)?;
    let dtype = cx.dtype(scale)?;
    let wide = cx.cast(x, dtype)?;
    let ratio = cx.emit(&Div {}, &[wide, scale])?;
    let result = cast_to(cx, ratio, to)?;
    cx.set(0, result);
    Ok(())
}

fn dequantize(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    if matches!(cx.dtype(x)?, DType::Mini(_)) {
        let scale = small_scale(cx, x)?;
        let dtype = cx.dtype(scale)?;
        let wide = cx.cast(x, dtype)?;
        return cx.finish(&Mul {}, &[wide, scale]);
    }
    let block = cx.int("block_size").unwrap_or(0);
    if block == 0 {
        let Linear { operands, dict } = Linear::of(cx)?;
        return cx.finish_named("hbir.dequantize", &operands, dict);
    }
    let (x, scale) = (cx.need(0)?, cx.need(1)?);
    let scale = by_block(cx, x, scale, block)?;
    let dtype = cx.dtype(scale)?;
    let mut wide = cx.cast(x, dtype)?;
    if let Some(zero) = cx.input(2) {
        let zero = by_block(cx, x, zero, block)?;
        let zero = cx.cast(zero, dtype)?;
        wide = cx.emit(&Sub {}, &[wide, zero])?;
    }
    cx.finish(&Mul {}, &[wide, scale])
}

/// A tensor that is quantized to `ui8` by its own range.
struct Ranged {
    y: Val,
    scale: Val,
    zero: Val,
}

/// The scale `(max - min) / 255` of a range that contains 0, and its zero point.
fn ranged(cx: &mut NodeCx<'_, '_>, x: Val) -> Result<Ranged, Stop> {
    let axes: Vec<usize> = (0..cx.rank(x)?).collect();
    let zero = cx.scalar_like(0.0, x)?;
    let steps = cx.scalar_like(255.0, x)?;
    let least = cx.reduce(ReduceKind::Min, x, &axes, false)?;
    let least = cx.emit(&Min {}, &[least, zero])?;
    let greatest = cx.reduce(ReduceKind::Max, x, &axes, false)?;
    let greatest = cx.emit(&Max {}, &[greatest, zero])?;
    let span = cx.emit(&Sub {}, &[greatest, least])?;
    let scale = cx.emit(&Div {}, &[span, steps])?;
    let below = cx.emit(&Sub {}, &[zero, least])?;
    let point = cx.emit(&Div {}, &[below, scale])?;
    let point = cx.emit(&Round {}, &[point])?;
    let zero = cx.cast(point, DType::UI8)?;
    let to = props([("to", Attr::Type(Type::Scalar(DType::UI8)))]);
    let y = cx.emit_named("hbir.quantize", &[x, scale, zero], to)?;
    Ok(Ranged { y, scale, zero })
}

fn dynamic_quantize(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let Ranged { y, scale, zero } = ranged(cx, x)?;
    cx.set(0, y);
    cx.set(1, scale);
    cx.set(2, zero);
    Ok(())
}

/// Divides by a scale, adds a zero point and saturates. Scale and zero point are scalars.
fn requantize(cx: &mut NodeCx<'_, '_>, x: Val, scale: usize, zero: usize) -> Done {
    let scale = cx.need(scale)?;
    let mut operands = vec![x, scale];
    operands.extend(cx.input(zero));
    let to = match operands.get(2) {
        Some(&zero) => cx.dtype(zero)?,
        None => DType::UI8,
    };
    for p in &mut operands[1..] {
        if cx.rank(*p)? != 0 {
            *p = cx.reshape(*p, &[])?;
        }
    }
    let to = props([("to", Attr::Type(Type::Scalar(to)))]);
    cx.finish_named("hbir.quantize", &operands, to)
}

/// The product of the integers in inputs `a` and `b` less their zero points, in `si32`.
fn integer_product(
    cx: &mut NodeCx<'_, '_>,
    (a, b): (usize, usize),
    (a_zero, b_zero): (usize, usize),
) -> Result<Val, Stop> {
    let a = centred(cx, a, a_zero, true)?;
    let b = centred(cx, b, b_zero, false)?;
    cx.emit(&Matmul { to: None }, &[a, b])
}

/// A scale for each row, or for all elements, such that it broadcasts with a product.
fn row_scale(cx: &mut NodeCx<'_, '_>, scale: Val) -> Result<Val, Stop> {
    if cx.rank(scale)? == 1 && cx.ty(scale)?.elements() != Some(1) {
        return cx.unsqueeze(scale, &[1]);
    }
    Ok(scale)
}

/// A product of integers in the scales' floats.
fn scaled(cx: &mut NodeCx<'_, '_>, product: Val, scales: [Val; 2]) -> Result<Val, Stop> {
    let left = row_scale(cx, scales[0])?;
    let float = cx.dtype(left)?;
    let factor = cx.emit(&Mul {}, &[left, scales[1]])?;
    let factor = scalar(cx, factor)?;
    let wide = cx.cast(product, float)?;
    cx.emit(&Mul {}, &[wide, factor])
}

/// A tensor of one element without its dimensions.
fn scalar(cx: &mut NodeCx<'_, '_>, x: Val) -> Result<Val, Stop> {
    let single = cx.ty(x)?.elements() == Some(1);
    if single && cx.rank(x)? != 0 {
        return cx.reshape(x, &[]);
    }
    Ok(x)
}

fn qlinear_matmul(cx: &mut NodeCx<'_, '_>) -> Done {
    let scales = [cx.need(1)?, cx.need(4)?];
    let product = integer_product(cx, (0, 3), (2, 5))?;
    let product = scaled(cx, product, scales)?;
    requantize(cx, product, 6, 7)
}

/// A product of inputs with scales `a_scale` and `b_scale` and their zero points; a bias may follow.
fn matmul_integer_to_float(
    cx: &mut NodeCx<'_, '_>,
    a_scale: usize,
    b_scale: usize,
    a_zero: usize,
    b_zero: usize,
) -> Done {
    let scales = [cx.need(a_scale)?, cx.need(b_scale)?];
    let product = integer_product(cx, (0, 1), (a_zero, b_zero))?;
    let mut result = scaled(cx, product, scales)?;
    if let Some(bias) = cx.input(6) {
        result = cx.emit(&Add {}, &[result, bias])?;
    }
    cx.set(0, result);
    Ok(())
}

/// The product of `A`, quantized by its range, and the integers `B`.
fn dynamic_quantize_matmul(cx: &mut NodeCx<'_, '_>) -> Done {
    let (x, b_scale) = (cx.need(0)?, cx.need(2)?);
    let Ranged { y, scale, zero } = ranged(cx, x)?;
    let (y, zero) = (cx.cast(y, DType::SI32)?, cx.cast(zero, DType::SI32)?);
    let a = cx.emit(&Sub {}, &[y, zero])?;
    let b = centred(cx, 1, 3, false)?;
    let product = cx.emit(&Matmul { to: None }, &[a, b])?;
    let mut result = scaled(cx, product, [scale, b_scale])?;
    if let Some(bias) = cx.input(4) {
        result = cx.emit(&Add {}, &[result, bias])?;
    }
    cx.set(0, result);
    Ok(())
}

/// One number for each channel of the weights, as `[channels, 1, …]` with `after` dimensions of extent 1.
fn by_channel(cx: &mut NodeCx<'_, '_>, x: Val, after: usize) -> Result<Val, Stop> {
    let x = scalar(cx, x)?;
    if cx.rank(x)? != 1 {
        return Ok(x);
    }
    let axes: Vec<usize> = (1..=after).collect();
    cx.unsqueeze(x, &axes)
}

/// The integers of an input less their zero point; weights may have one for each channel.
fn distances(cx: &mut NodeCx<'_, '_>, x: Val, zero: Option<Val>) -> Result<Val, Stop> {
    let after = cx.rank(x)?.saturating_sub(1);
    let wide = cx.cast(x, DType::SI32)?;
    let Some(zero) = zero else { return Ok(wide) };
    let zero = cx.cast(zero, DType::SI32)?;
    let zero = by_channel(cx, zero, after)?;
    cx.emit(&Sub {}, &[wide, zero])
}

fn conv_integer(cx: &mut NodeCx<'_, '_>) -> Done {
    let (x, w) = (cx.need(0)?, cx.need(1)?);
    let x = distances(cx, x, cx.input(2))?;
    let w = distances(cx, w, cx.input(3))?;
    let y = convolve(cx, &[x, w], false)?;
    cx.set(0, y);
    Ok(())
}

fn qlinear_conv(cx: &mut NodeCx<'_, '_>) -> Done {
    let (x, w) = (cx.need(0)?, cx.need(3)?);
    let (x_scale, w_scale) = (cx.need(1)?, cx.need(4)?);
    let after = cx.rank(x)?.saturating_sub(2);
    let x = distances(cx, x, cx.input(2))?;
    let w = distances(cx, w, cx.input(5))?;
    let operands: Vec<Val> = [x, w].into_iter().chain(cx.input(8)).collect();
    let y = convolve(cx, &operands, false)?;
    let float = cx.dtype(x_scale)?;
    let wide = cx.cast(y, float)?;
    let x_scale = scalar(cx, x_scale)?;
    let w_scale = by_channel(cx, w_scale, after)?;
    let factor = cx.emit(&Mul {}, &[x_scale, w_scale])?;
    let y = cx.emit(&Mul {}, &[wide, factor])?;
    requantize(cx, y, 6, 7)
}

/// Input `i`, dequantized to floats by the scale and zero point that follow it.
fn floats(cx: &mut NodeCx<'_, '_>, i: usize) -> Result<Val, Stop> {
    let (x, scale) = (cx.need(i)?, cx.need(i + 1)?);
    let mut operands = vec![x, scalar(cx, scale)?];
    if let Some(zero) = cx.input(i + 2) {
        operands.push(scalar(cx, zero)?);
    }
    cx.emit_named("hbir.dequantize", &operands, AttrDict::new())
}

fn qlinear_binary<T: Operation>(cx: &mut NodeCx<'_, '_>, op: &T) -> Done {
    let (a, b) = (floats(cx, 0)?, floats(cx, 3)?);
    let result = cx.emit(op, &[a, b])?;
    requantize(cx, result, 6, 7)
}

fn qlinear_unary<T: Operation>(cx: &mut NodeCx<'_, '_>, op: &T) -> Done {
    let x = floats(cx, 0)?;
    let result = cx.emit(op, &[x])?;
    requantize(cx, result, 3, 4)
}

fn qlinear_leaky_relu(cx: &mut NodeCx<'_, '_>) -> Done {
    let alpha = cx.float("alpha", f64::from(0.01_f32));
    qlinear_unary(cx, &LeakyRelu { alpha })
}

fn qlinear_global_pool(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = floats(cx, 0)?;
    let rank = cx.rank(x)?;
    let spatial = if cx.flag("channels_last", false) {
        1..rank.saturating_sub(1)
    } else {
        2..rank
    };
    let mean = cx.reduce(ReduceKind::Mean, x, &spatial.collect::<Vec<_>>(), true)?;
    requantize(cx, mean, 3, 4)
}
