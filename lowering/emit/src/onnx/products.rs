//! Contractions, convolutions, pools and resizes.
//!
//! Example: `hbir.linear` of a matrix, whose weights have the result channels first, is a `Gemm` with `transB = 1`.

use super::attrs::{float, floats, int, ints, text};
use super::bytes::bytes;
use super::reductions::reduced;
use super::shapes::{cast, exact, reshaped};
use super::turned;
use super::writer::{Outcome, Writer};
use optc_ir::op::Operation;
use optc_ir::{DType, Dim, OpData, Size, Tensor, Value};
use optc_onnx_proto::AttributeProto;
use optc_ops::{
    AvgPool, Conv, Coordinates, DotGeneral, Einsum, Equation, GridSample, Index, Linear, Matmul,
    MaxPool, MaxPoolIndices, NearestMode, Resize, ResizeMode, RotaryEmbedding, SampleMode, Stated,
};
use std::sync::Arc;

/// Writes one of these operations and returns the names of the results; `None` for any other operation.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData) -> Outcome<Option<Vec<String>>> {
    let name = match &*data.name {
        Matmul::NAME => matmul(w, data)?,
        Linear::NAME => linear(w, data)?,
        DotGeneral::NAME => dot_general(w, data)?,
        Einsum::NAME => {
            let equation = w.typed::<Einsum>(data)?.equation;
            einsum(w, data, &equation)?
        }
        Conv::NAME => conv(w, data)?,
        MaxPool::NAME => {
            let made = w.typed::<MaxPool>(data)?;
            let attrs = window(
                w,
                data,
                (&made.kernel, made.stated()),
                (made.ceil_mode, false),
            )?;
            let x = w.name(data.operands[0])?;
            let dtype = w.tensor(data.operands[0])?.dtype;
            match exact(w, "MaxPool", dtype) {
                None => w.node("MaxPool", &[&x], attrs),
                Some(wide) => {
                    let x = cast(w, &x, dtype, wide)?;
                    let most = w.node("MaxPool", &[&x], attrs);
                    cast(w, &most, wide, dtype)?
                }
            }
        }
        MaxPoolIndices::NAME => return max_pool_indices(w, data).map(Some),
        AvgPool::NAME => {
            let made = w.typed::<AvgPool>(data)?;
            let mut attrs = window(
                w,
                data,
                (&made.kernel, made.stated()),
                (made.ceil_mode, made.count_include_pad),
            )?;
            if made.count_include_pad {
                attrs.push(int("count_include_pad", 1));
            }
            let x = w.name(data.operands[0])?;
            w.node("AveragePool", &[&x], attrs)
        }
        Resize::NAME => resize(w, data)?,
        GridSample::NAME => grid_sample(w, data)?,
        RotaryEmbedding::NAME => {
            let made = w.typed::<RotaryEmbedding>(data)?;
            if made.sequence_axis != 2 {
                return Err(w.without_form(data, "its sequence is not the dimension 2"));
            }
            let given = w.operands(data)?;
            let mut attrs = vec![int("interleaved", made.interleaved)];
            if made.size != 0 {
                attrs.push(int("rotary_embedding_dim", made.size));
            }
            w.node("RotaryEmbedding", &given, attrs)
        }
        _ => return Ok(None),
    };
    Ok(Some(vec![name]))
}

/// Returns whether a product of narrow integers has a 32-bit result.
fn widens(w: &Writer<'_>, data: &OpData) -> Outcome<bool> {
    let (from, to) = (
        w.tensor(data.operands[0])?.dtype,
        w.tensor(data.results[0])?.dtype,
    );
    Ok(from != to && from.bits() == 8 && to == DType::SI32)
}

/// Refuses a result whose element type differs from that of ONNX's operator.
fn same_type(w: &Writer<'_>, data: &OpData) -> Outcome<()> {
    let (from, to) = (
        w.tensor(data.operands[0])?.dtype,
        w.tensor(data.results[0])?.dtype,
    );
    if from == to {
        return Ok(());
    }
    Err(w.without_form(data, &format!("a product of {from} is no {to}")))
}

fn matmul(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    if let Some(name) = turned::matmul(w, data)? {
        return Ok(name);
    }
    let given = w.operands(data)?;
    if widens(w, data)? && w.has("MatMulInteger") {
        return Ok(w.node("MatMulInteger", &given, vec![]));
    }
    same_type(w, data)?;
    let ty = w.tensor(data.operands[0])?;
    let matrices = ty.rank() == 2 && w.tensor(data.operands[1])?.rank() == 2;
    // Only from version 7 on is the sum broadcast implicitly.
    if matrices && ty.dtype.is_float() && w.takes("Gemm", ty.dtype) && 7 <= w.opset {
        w.matmuls.insert(data.results[0], w.nodes.len());
    }
    Ok(w.node("MatMul", &given, vec![]))
}

/// A `Gemm` for rank 2; else a `MatMul` with the weights transposed. The transpose of constant weights is folded when
/// they are written.
fn linear(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let (x_ty, w_ty) = (w.tensor(data.operands[0])?, w.tensor(data.operands[1])?);
    let floats = x_ty.dtype.is_float();
    if x_ty.rank() == 2 && floats {
        same_type(w, data)?;
        if w.needs_no_more("Gemm", data.operands.len()) {
            let given = w.operands(data)?;
            return Ok(w.node("Gemm", &given, vec![int("transB", 1)]));
        }
    }
    let weights = data.operands[1];
    let turned = match w_ty.shape() {
        Some(dims) => w.transposed_constant(weights, &dims, &[1, 0])?,
        None => None,
    };
    let turned = match turned {
        Some(name) => name,
        None => {
            let name = w.name(weights)?;
            w.node("Transpose", &[&name], vec![ints("perm", &[1, 0])])
        }
    };
    let x = w.name(data.operands[0])?;
    let op_type = match widens(w, data)? && w.has("MatMulInteger") {
        true => "MatMulInteger",
        false => {
            same_type(w, data)?;
            "MatMul"
        }
    };
    let product = w.node(op_type, &[&x, &turned], vec![]);
    match data.operands.get(2) {
        None => Ok(product),
        Some(&bias) => {
            let bias = w.name(bias)?;
            Ok(w.node("Add", &[&product, &bias], vec![]))
        }
    }
}

/// A `MatMul` if the dimensions are in its order already, else an `Einsum`.
fn dot_general(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let made = w.typed::<DotGeneral>(data)?;
    let (a, b) = (
        w.tensor(data.operands[0])?.rank(),
        w.tensor(data.operands[1])?.rank(),
    );
    let index = |list: &[i64]| -> Vec<usize> {
        list.iter()
            .filter_map(|&d| usize::try_from(d).ok())
            .collect()
    };
    let (lb, rb) = (index(&made.lhs_batch), index(&made.rhs_batch));
    let (lc, rc) = (index(&made.lhs_contract), index(&made.rhs_contract));
    let leading: Vec<usize> = (0..lb.len()).collect();
    let n = leading.len();
    let free = (a.saturating_sub(n + 1), b.saturating_sub(n + 1));
    let one = lb == leading && rb == leading && lc == [a - 1] && rc == [n];
    if one && free.1 == 1 && (free.0 == 1 || (n == 0 && 0 < free.0)) {
        return matmul(w, data);
    }
    let mut letters = ('a'..='z').chain('A'..='Z');
    let mut next = || letters.next();
    let mut left = vec![None; a];
    let mut right = vec![None; b];
    for (&i, &j) in lb.iter().zip(&rb).chain(lc.iter().zip(&rc)) {
        let letter = next();
        left[i] = letter;
        right[j] = letter;
    }
    let mut result: Vec<Option<char>> = lb.iter().map(|&i| left[i]).collect();
    for side in [&mut left, &mut right] {
        for letter in side.iter_mut().filter(|l| l.is_none()) {
            *letter = next();
            result.push(*letter);
        }
    }
    let spelled = |side: &[Option<char>]| side.iter().copied().collect::<Option<String>>();
    let (Some(left), Some(right), Some(result)) =
        (spelled(&left), spelled(&right), spelled(&result))
    else {
        return Err(w.without_form(data, "it has more dimensions than letters"));
    };
    einsum(w, data, &format!("{left},{right}->{result}"))
}

fn einsum(w: &mut Writer<'_>, data: &OpData, equation: &str) -> Outcome<String> {
    same_type(w, data)?;
    let made = Einsum {
        equation: Arc::from(equation),
        to: None,
    };
    let indices = made.equation(&w.op_ref(data));
    let indices = indices.map_err(|e| w.refused(e.message))?;
    if let Some(name) = gemm(w, data, &indices)? {
        return Ok(name);
    }
    if !w.takes("Einsum", w.tensor(data.operands[0])?.dtype) {
        return contraction(w, data, &indices);
    }
    let given = w.operands(data)?;
    Ok(w.node("Einsum", &given, vec![text("equation", equation)]))
}

/// A product of two matrices as a `Gemm`, which can transpose either operand itself.
fn gemm(w: &mut Writer<'_>, data: &OpData, equation: &Equation) -> Outcome<Option<String>> {
    let &[a, b] = &data.operands[..] else {
        return Ok(None);
    };
    let dtype = w.tensor(a)?.dtype;
    if !dtype.is_float() || !w.takes("Gemm", dtype) {
        return Ok(None);
    }
    let ([Ok([a0, a1]), Ok([b0, b1])], Ok([row, column])) = (
        [0, 1].map(|i| <[Index; 2]>::try_from(&equation.operands[i][..])),
        <[Index; 2]>::try_from(&equation.result[..]),
    ) else {
        return Ok(None);
    };
    let (turned_a, k) = match row {
        _ if a0 == a1 || b0 == b1 => return Ok(None),
        _ if row == a0 => (false, a1),
        _ if row == a1 => (true, a0),
        _ => return Ok(None),
    };
    let turned_b = match (b0, b1) {
        (first, last) if first == k && last == column => false,
        (first, last) if last == k && first == column => true,
        _ => return Ok(None),
    };
    // An index of extent 1 on one side only would be broadcast.
    let fits = |operand: usize, value: Value| -> Outcome<bool> {
        let dims = &w.tensor(value)?.dims;
        let pairs = equation.operands[operand].iter().zip(dims);
        Ok(pairs
            .into_iter()
            .all(|(&i, dim)| !dim.is_one() || equation.extent(i).is_one()))
    };
    if row == column || !fits(0, a)? || !fits(1, b)? {
        return Ok(None);
    }
    let mut given = w.operands(data)?;
    if !w.needs_no_more("Gemm", 2) {
        given.push(w.number(0.0, dtype)?);
    }
    let flags = [("transA", turned_a), ("transB", turned_b)];
    let flags = flags.into_iter().filter(|(_, on)| *on);
    let attrs = flags.map(|(name, on)| int(name, on)).collect();
    let at = w.nodes.len();
    let made = w.node("Gemm", &given, attrs);
    let sides = [row, column].map(|i| equation.extent(i).fixed());
    if let [Some(rows), Some(columns)] = sides {
        w.gemms.insert(data.results[0], at);
        w.matrices.insert(at, [rows, columns]);
    }
    Ok(Some(made))
}

/// A contraction of two operands by `MatMul`, with transposes and reshapes around it.
fn contraction(w: &mut Writer<'_>, data: &OpData, equation: &Equation) -> Outcome<String> {
    let no = "there is no Einsum";
    let &[a, b] = &data.operands[..] else {
        return Err(w.without_form(data, no));
    };
    let [left, right] = [&equation.operands[0], &equation.operands[1]];
    let result = &equation.result;
    let whole = |w: &Writer<'_>, value: Value, side: &[Index]| -> Outcome<bool> {
        let mut seen: Vec<Index> = side.to_vec();
        seen.sort_unstable();
        seen.dedup();
        let dims = &w.tensor(value)?.dims;
        let mut pairs = side.iter().zip(dims);
        let broadcast = pairs.any(|(&i, dim)| dim.is_one() && !equation.extent(i).is_one());
        Ok(seen.len() == side.len() && !broadcast)
    };
    if !whole(w, a, left)? || !whole(w, b, right)? {
        return Err(w.without_form(data, no));
    }
    let batch: Vec<Index> = result
        .iter()
        .copied()
        .filter(|i| left.contains(i) && right.contains(i))
        .collect();
    let summed: Vec<Index> = left
        .iter()
        .copied()
        .filter(|i| right.contains(i) && !result.contains(i))
        .collect();
    let own = |side: &[Index], other: &[Index]| -> Vec<Index> {
        let own = result.iter().copied().filter(|i| side.contains(i));
        own.filter(|i| !other.contains(i)).collect()
    };
    let (rows, columns) = (own(left, right), own(right, left));
    let sides = [
        (a, left, [&batch, &rows, &summed]),
        (b, right, [&batch, &summed, &columns]),
    ];
    let mut given = Vec::with_capacity(2);
    for (value, side, [batch, first, last]) in sides {
        let mut name = w.name(value)?;
        let wanted: Vec<Index> = [&batch[..], first, last].concat();
        // An index of one side that is not in the result is summed first.
        let alone = (0i64..).zip(side).filter(|(_, i)| !wanted.contains(i));
        let alone: Vec<i64> = alone.map(|(at, _)| at).collect();
        if !alone.is_empty() {
            name = reduced(w, "ReduceSum", &name, Some(&alone), false)?;
        }
        let left: Vec<Index> = side
            .iter()
            .copied()
            .filter(|i| wanted.contains(i))
            .collect();
        name = ordered(w, &name, &left, &wanted);
        let dims = dims_of(equation, &wanted);
        let mut merged = dims_of(equation, batch);
        merged.extend([first, last].map(|part| product(equation, part)));
        if [first, last].iter().any(|part| part.len() != 1) {
            name = reshaped(w, &name, &dims, &merged)?;
        }
        given.push(name);
    }
    let mut name = w.node("MatMul", &[&given[0], &given[1]], vec![]);
    let made: Vec<Index> = [&batch[..], &rows, &columns].concat();
    if rows.len() != 1 || columns.len() != 1 {
        let mut merged = dims_of(equation, &batch);
        merged.extend([&rows, &columns].map(|part| product(equation, part)));
        name = reshaped(w, &name, &merged, &dims_of(equation, &made))?;
    }
    Ok(ordered(w, &name, &made, result))
}

fn dims_of(equation: &Equation, indices: &[Index]) -> Vec<Dim> {
    indices.iter().map(|&i| equation.extent(i)).collect()
}

/// The product of the extents of dimensions that are merged.
fn product(equation: &Equation, indices: &[Index]) -> Dim {
    let sizes: Option<Vec<Size>> = indices.iter().map(|&i| equation.extent(i).size()).collect();
    let product = sizes.and_then(|sizes| Size::product(&sizes));
    product.map_or(Dim::Unknown, |size| Dim::of_size(&size))
}

/// A transpose of a value from the order of indices `from` to the order `to`.
fn ordered(w: &mut Writer<'_>, name: &str, from: &[Index], to: &[Index]) -> String {
    if from == to {
        return name.to_owned();
    }
    let place = |index: &Index| from.iter().zip(0i64..).find(|(i, _)| *i == index);
    let perm = to.iter().filter_map(place).map(|(_, at)| at);
    let perm: Vec<i64> = perm.collect();
    w.node("Transpose", &[name], vec![ints("perm", &perm)])
}

fn conv(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let made = w.typed::<Conv>(data)?;
    let integer = widens(w, data)? && w.has("ConvInteger");
    if !integer {
        same_type(w, data)?;
    }
    let mut attrs = Vec::new();
    let lists = [
        ("dilations", &made.dilations),
        ("output_padding", &made.output_padding),
        ("pads", &made.pads),
        ("strides", &made.strides),
    ];
    for (name, list) in lists {
        if let Some(list) = list {
            attrs.push(ints(name, list));
        }
    }
    if made.group != 1 {
        attrs.push(int("group", made.group));
    }
    let weights = w.tensor(data.operands[1])?;
    let kernel: Option<Vec<i64>> = weights.dims[2.min(weights.rank())..]
        .iter()
        .map(|d| i64::try_from(d.fixed()?).ok())
        .collect();
    if let Some(kernel) = kernel {
        attrs.push(ints("kernel_shape", &kernel));
    }
    let sums = w.tensor(data.results[0])?.dtype;
    if !sums.is_float() && !integer {
        return of_bytes(w, data, attrs, made.transposed);
    }
    let mut given = w.operands(data)?;
    let bias = (integer && given.len() == 3).then(|| given.pop()).flatten();
    let op_type = match (made.transposed, integer) {
        (true, true) => return Err(w.without_form(data, "transposed, it is of floats")),
        (true, false) => "ConvTranspose",
        (false, true) => "ConvInteger",
        (false, false) => "Conv",
    };
    let name = w.node(op_type, &given, attrs);
    match bias {
        None => Ok(name),
        Some(_) => Err(w.without_form(data, "a convolution of integers has no bias")),
    }
}

/// A convolution of 32-bit integers that are bytes minus a zero point; ONNX has no other integer convolution.
fn of_bytes(
    w: &mut Writer<'_>,
    data: &OpData,
    attrs: Vec<AttributeProto>,
    transposed: bool,
) -> Outcome<String> {
    let dtype = w.tensor(data.results[0])?.dtype;
    let no = format!("a convolution of {dtype} is none of ONNX");
    if transposed || !w.has("ConvInteger") || dtype != DType::SI32 || data.operands.len() != 2 {
        return Err(w.without_form(data, &no));
    }
    let (Some(x), Some(weights)) = (bytes(w, data.operands[0])?, bytes(w, data.operands[1])?)
    else {
        let why = format!("{no}, unless both operands are known to be bytes with a zero point");
        return Err(w.without_form(data, &why));
    };
    let mut given = vec![x.name, weights.name];
    if x.zero.is_some() || weights.zero.is_some() {
        for (zero, dtype) in [(x.zero, x.dtype), (weights.zero, weights.dtype)] {
            given.push(match zero {
                Some(zero) => zero,
                None => w.literal(&Tensor::from_i64(dtype, vec![], [0]))?,
            });
        }
    }
    Ok(w.node("ConvInteger", &given, attrs))
}

/// The attributes of a pooling. With `counts_padding` the padding counts as elements of a window.
fn window(
    w: &Writer<'_>,
    data: &OpData,
    (kernel, stated): (&[i64], Stated<'_>),
    (ceil, counts_padding): (bool, bool),
) -> Outcome<Vec<AttributeProto>> {
    let fewer = match ceil {
        true => without_last(w, data, (kernel, stated), counts_padding)?,
        false => None,
    };
    let (pads, ceil) = match &fewer {
        Some((pads, ceil)) => (Some(&pads[..]), *ceil),
        None => (stated.pads, ceil),
    };
    let mut attrs = vec![ints("kernel_shape", kernel)];
    attrs.extend(stated.strides.map(|s| ints("strides", s)));
    attrs.extend(pads.map(|p| ints("pads", p)));
    let dilated = stated.dilations.filter(|d| d.iter().any(|&n| n != 1));
    attrs.extend(dilated.map(|d| ints("dilations", d)));
    if ceil {
        attrs.push(int("ceil_mode", 1));
    }
    Ok(attrs)
}

/// The pads without trailing windows that would begin in the padding at the end, and whether `ceil_mode` is still
/// needed. Importers of older versions do count such windows. `None` if there is no such window.
fn without_last(
    w: &Writer<'_>,
    data: &OpData,
    (kernel, stated): (&[i64], Stated<'_>),
    counts_padding: bool,
) -> Outcome<Option<(Vec<i64>, bool)>> {
    let [from, to] = [data.operands[0], data.results[0]].map(|v| w.tensor(v));
    let (Some(from), Some(to)) = (from?.shape(), to?.shape()) else {
        return Ok(None);
    };
    let rank = kernel.len();
    let at = |list: Option<&[i64]>, d: usize, default: i64| {
        list.and_then(|list| list.get(d).copied())
            .unwrap_or(default)
    };
    let extent = |dims: &[u64], d: usize| dims.get(2 + d).and_then(|&n| i64::try_from(n).ok());
    let mut pads: Vec<i64> = (0..2 * rank).map(|d| at(stated.pads, d, 0)).collect();
    let (mut drops, mut reaches_over) = (false, false);
    let mut needed = Vec::with_capacity(rank);
    for d in 0..rank {
        let (Some(n), Some(m)) = (extent(&from, d), extent(&to, d)) else {
            return Ok(None);
        };
        let reach = (kernel[d] - 1) * at(stated.dilations, d, 1) + 1;
        let last = (m - 1) * at(stated.strides, d, 1);
        let high = (last + reach - n - pads[d]).max(0);
        drops |= high < pads[rank + d];
        reaches_over |= pads[rank + d] < high;
        needed.push(high);
    }
    if !drops {
        return Ok(None);
    }
    // Larger padding at the end would change a mean that counts padding.
    let keeps = reaches_over && counts_padding;
    for (pad, high) in pads[rank..].iter_mut().zip(needed) {
        if !keeps || high < *pad {
            *pad = high;
        }
    }
    Ok(Some((pads, keeps)))
}

fn max_pool_indices(w: &mut Writer<'_>, data: &OpData) -> Outcome<Vec<String>> {
    let made = w.typed::<MaxPoolIndices>(data)?;
    let mut attrs = window(
        w,
        data,
        (&made.kernel, made.stated()),
        (made.ceil_mode, false),
    )?;
    if made.storage_order != 0 {
        attrs.push(int("storage_order", made.storage_order));
    }
    let x = w.name(data.operands[0])?;
    let names = w.several("MaxPool", &[&x], attrs, 2);
    // The operation may give the indices only; the operator's other result is then unused.
    Ok(names
        .into_iter()
        .skip(2 - data.results.len().min(2))
        .collect())
}

/// A `Resize` if the model's opset has this one, else an explicit interpolation.
fn resize(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let made = w.typed::<Resize>(data)?;
    let since = match made.coordinate_transformation_mode {
        // This mode was removed in version 13.
        Coordinates::TfHalfPixelForNn if 13 <= w.opset => i64::MAX,
        Coordinates::HalfPixelSymmetric => 19,
        _ => 11,
    };
    let widens = !made.antialias || w.has_attribute("Resize", "antialias");
    let dtype = w.tensor(data.operands[0])?.dtype;
    let scales = scales(w, data, &made)?;
    if since <= w.opset && widens && w.takes("Resize", dtype) {
        let by = match (scales, &made.scales, &made.sizes) {
            (Some(scales), Some(_), _) => Some(By::Scales(scales)),
            (None, Some(_), Some(_)) => common(w, data, &made)?,
            // Scales that `f32` cannot represent are replaced by sizes.
            (None, Some(scales), None) => ratios(w, data, scales)?.then_some(By::Sizes),
            (_, None, _) => Some(By::Sizes),
        };
        return match by {
            Some(by) => resize_operator(w, data, &made, by),
            None => interpolated(w, data, &made),
        };
    }
    let floors = match made.mode {
        ResizeMode::Nearest => made.nearest_mode == NearestMode::Floor,
        ResizeMode::Linear => !made.exclude_outside && !made.antialias,
        ResizeMode::Cubic => false,
    };
    if w.opset < 11
        && floors
        && made.coordinate_transformation_mode == Coordinates::Asymmetric
        && let Some(scales) = scales
        // Downsampling has another meaning in version 10, and was not allowed before.
        && scales.iter().all(|&s| 1.0 <= s)
    {
        let x = w.name(data.operands[0])?;
        let mode = text("mode", made.mode.word());
        let op_type = match w.has("Resize") {
            true => "Resize",
            false => "Upsample",
        };
        if w.has_attribute(op_type, "scales") {
            return Ok(w.node(op_type, &[&x], vec![mode, floats("scales", &scales)]));
        }
        let scales = floats_of(w, &scales)?;
        return Ok(w.node(op_type, &[&x, &scales], vec![mode]));
    }
    interpolated(w, data, &made)
}

/// A resize one dimension after the other: a `Gather` of the nearest elements, else a product with a matrix of weights.
fn interpolated(w: &mut Writer<'_>, data: &OpData, made: &Resize) -> Outcome<String> {
    let no = "its mode came with a later version or was given up";
    let dtype = w.tensor(data.operands[0])?.dtype;
    let nearest = made.mode == ResizeMode::Nearest;
    let all = made.interpolations(&w.op_ref(data));
    let all = all.filter(|_| nearest || dtype.is_float());
    let all = all.ok_or_else(|| w.without_form(data, no))?;
    let mut name = w.name(data.operands[0])?;
    let mut dims = w.tensor(data.operands[0])?.dims.clone();
    for step in all {
        let along = i64::try_from(step.axis).unwrap_or(0);
        let size = step.taps.len();
        if nearest {
            let places = step.taps.iter().flatten().map(|&(at, _)| at);
            let places: Vec<i64> = places.filter_map(|at| i64::try_from(at).ok()).collect();
            let places = w.list(&places)?;
            name = w.node("Gather", &[&name, &places], vec![int("axis", along)]);
            dims[step.axis] = Dim::Fixed(size as u64);
            continue;
        }
        let n = dims[step.axis]
            .fixed()
            .and_then(|n| usize::try_from(n).ok());
        let n = n.ok_or_else(|| w.without_form(data, no))?;
        let mut weights = vec![0.0; n.saturating_mul(size)];
        for (row, taps) in weights.chunks_mut(n.max(1)).zip(&step.taps) {
            taps.iter().for_each(|&(at, weight)| row[at] += weight);
        }
        let weights = w.literal(&Tensor::from_f64(dtype, vec![size, n], weights))?;
        let count = |dims: &[Dim]| dims.iter().map(Dim::fixed).product::<Option<u64>>();
        let (Some(outer), Some(inner)) = (count(&dims[..step.axis]), count(&dims[step.axis + 1..]))
        else {
            return Err(w.without_form(data, no));
        };
        let middle = [outer, n as u64, inner].map(Dim::Fixed);
        name = reshaped(w, &name, &dims, &middle)?;
        name = w.node("MatMul", &[&weights, &name], vec![]);
        dims[step.axis] = Dim::Fixed(size as u64);
        let middle = [outer, size as u64, inner].map(Dim::Fixed);
        name = reshaped(w, &name, &middle, &dims)?;
    }
    Ok(name)
}

fn floats_of(w: &mut Writer<'_>, list: &[f64]) -> Outcome<String> {
    w.literal(&Tensor::from_f64(
        DType::F32,
        vec![list.len()],
        list.iter().copied(),
    ))
}

/// The scale of each dimension, if scales in `f32`, as in ONNX, give the extents of the result.
fn scales(w: &Writer<'_>, data: &OpData, made: &Resize) -> Outcome<Option<Vec<f64>>> {
    let (from, to) = (w.tensor(data.operands[0])?, w.tensor(data.results[0])?);
    let sizes = from.dims.iter().zip(&to.dims);
    let ratio = |(n, m): (&Dim, &Dim)| match (n.fixed(), m.fixed()) {
        _ if n.same(m) => Some(1.0),
        (Some(n), Some(m)) if n != 0 => Some(m as f64 / n as f64),
        _ => None,
    };
    let scales: Option<Vec<f64>> = match &made.scales {
        Some(scales) => Some(scales.clone()),
        None => sizes.clone().map(ratio).collect(),
    };
    let holds = |(scale, (n, m)): (&f64, (&Dim, &Dim))| match (n.fixed(), m.fixed()) {
        (Some(n), Some(m)) => (n as f64 * f64::from(*scale as f32)).floor() == m as f64,
        _ => f64::from(*scale as f32).to_bits() == scale.to_bits(),
    };
    Ok(scales.filter(|scales| scales.iter().zip(sizes).all(holds)))
}

/// The input that a `Resize` is written with.
enum By {
    Scales(Vec<f64>),
    Sizes,
    /// Axes and sizes with `keep_aspect_ratio_policy`: the axis that grows least determines the common scale.
    Common(Vec<i64>, Vec<i64>),
}

/// Returns whether the scales equal the ratios of the extents.
fn ratios(w: &Writer<'_>, data: &OpData, scales: &[f64]) -> Outcome<bool> {
    let (from, to) = (w.tensor(data.operands[0])?, w.tensor(data.results[0])?);
    let is_ratio = |(scale, (n, m)): (&f64, (&Dim, &Dim))| match (n.fixed(), m.fixed()) {
        (Some(n), Some(m)) => (scale * n as f64 - m as f64).abs() <= 1e-9 * m as f64,
        _ => *scale == 1.0 && n.same(m),
    };
    let sizes = from.dims.iter().zip(&to.dims);
    Ok(scales.iter().zip(sizes).all(is_ratio))
}

/// Sizes that keep the aspect ratio and give the common scale of some axes; `None` if there are none.
fn common(w: &Writer<'_>, data: &OpData, made: &Resize) -> Outcome<Option<By>> {
    let from = w.tensor(data.operands[0])?;
    let (Some(scales), Some(dims)) = (&made.scales, from.shape()) else {
        return Ok(None);
    };
    let scaled = |(_, scale): &(usize, &f64)| **scale != 1.0;
    let axes: Vec<(usize, &f64)> = scales.iter().enumerate().filter(scaled).collect();
    let one = axes.first().map_or(1.0, |(_, scale)| **scale);
    let wanted = |(axis, _): &(usize, &f64)| dims[*axis] as f64 * one;
    // A fractional size is rounded up, so that its axis grows more than the common scale.
    let up = |size: f64| {
        if (size - size.round()).abs() < 1e-6 {
            size.round()
        } else {
            size.ceil()
        }
    };
    let gives = |axis: &(usize, &f64)| (wanted(axis) - wanted(axis).round()).abs() < 1e-6;
    let fits = w.has_attribute("Resize", "keep_aspect_ratio_policy")
        && axes.iter().all(|(_, scale)| **scale == one)
        && axes.iter().any(gives);
    let sizes = axes.iter().map(|axis| up(wanted(axis)) as i64).collect();
    let axes = axes
        .iter()
        .filter_map(|(axis, _)| i64::try_from(*axis).ok());
    Ok(fits.then(|| By::Common(axes.collect(), sizes)))
}

fn resize_operator(w: &mut Writer<'_>, data: &OpData, made: &Resize, by: By) -> Outcome<String> {
    let x = w.name(data.operands[0])?;
    let (mode, coordinates) = (made.mode.word(), made.coordinate_transformation_mode.word());
    let mut attrs = vec![
        text("mode", mode),
        text("coordinate_transformation_mode", coordinates),
    ];
    if mode == "nearest" {
        attrs.push(text("nearest_mode", made.nearest_mode.word()));
    }
    if mode == "cubic" {
        attrs.push(float("cubic_coeff_a", made.cubic_coeff_a));
    }
    if made.exclude_outside {
        attrs.push(int("exclude_outside", 1));
    }
    if made.antialias {
        attrs.push(int("antialias", 1));
    }
    // All inputs were required before version 13.
    let absent = |w: &mut Writer<'_>| match w.needs_no_more("Resize", 1) {
        true => Ok(String::new()),
        false => floats_of(w, &[]),
    };
    let mut roi = match made.coordinate_transformation_mode {
        Coordinates::TfCropAndResize => {
            attrs.push(float("extrapolation_value", made.extrapolation_value));
            String::new()
        }
        _ => absent(w)?,
    };
    if let Some(list) = &made.roi {
        roi = floats_of(w, list)?;
    }
    let given = match by {
        By::Scales(scales) => [x, roi, floats_of(w, &scales)?, String::new()],
        By::Sizes => {
            let sizes = w.tensor(data.results[0])?.dims.clone();
            let scales = absent(w)?;
            [x, roi, scales, w.shape(&sizes, false)?]
        }
        By::Common(axes, sizes) => {
            attrs.push(ints("axes", &axes));
            attrs.push(text("keep_aspect_ratio_policy", "not_larger"));
            [x, roi, String::new(), w.list(&sizes)?]
        }
    };
    Ok(w.node("Resize", &given, attrs))
}

fn grid_sample(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let made = w.typed::<GridSample>(data)?;
    let newer = 20 <= w.opset;
    let mode = match made.mode {
        SampleMode::Linear if newer => "linear",
        SampleMode::Linear => "bilinear",
        SampleMode::Cubic if newer => "cubic",
        SampleMode::Cubic => "bicubic",
        SampleMode::Nearest => "nearest",
    };
    let attrs = vec![
        int("align_corners", made.align_corners),
        text("mode", mode),
        text("padding_mode", made.padding_mode.word()),
    ];
    let given = w.operands(data)?;
    Ok(w.node("GridSample", &given, attrs))
}
