//! Contractions, convolutions, pools and resizes.

use super::attrs::{float, int, ints, text};
use super::bytes::bytes;
use super::turned;
use super::writer::{Outcome, Writer};
use optc_ir::op::Operation;
use optc_ir::{DType, OpData, Tensor};
use optc_onnx_proto::AttributeProto;
use optc_ops::{
    AvgPool, Conv, DotGeneral, Einsum, GridSample, Linear, Matmul, MaxPool, MaxPoolIndices, Resize,
    RotaryEmbedding, SampleMode,
};

/// The names of the results; nothing where the operation is none of these.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData) -> Outcome<Option<Vec<String>>> {
    let name = match &*data.name {
        Matmul::NAME => matmul(w, data)?,
        Linear::NAME => linear(w, data)?,
        DotGeneral::NAME => dot_general(w, data)?,
        Einsum::NAME if 12 <= w.opset => {
            let equation = w.typed::<Einsum>(data)?.equation;
            einsum(w, data, &equation)?
        }
        Conv::NAME => conv(w, data)?,
        MaxPool::NAME => {
            let made = w.typed::<MaxPool>(data)?;
            let attrs = window(
                w,
                data,
                Stated {
                    kernel: &made.kernel,
                    strides: made.strides.as_deref(),
                    dilations: made.dilations.as_deref(),
                    pads: made.pads.as_deref(),
                    ceil: made.ceil_mode,
                },
            )?;
            let x = w.name(data.operands[0])?;
            w.node("MaxPool", &[&x], attrs)
        }
        MaxPoolIndices::NAME => return max_pool_indices(w, data).map(Some),
        AvgPool::NAME => {
            let made = w.typed::<AvgPool>(data)?;
            let mut attrs = window(
                w,
                data,
                Stated {
                    kernel: &made.kernel,
                    strides: made.strides.as_deref(),
                    dilations: made.dilations.as_deref(),
                    pads: made.pads.as_deref(),
                    ceil: made.ceil_mode,
                },
            )?;
            if made.dilations.iter().flatten().any(|&d| d != 1) && w.opset < 19 {
                return Err(w.without_form(data, "dilations of means came with version 19"));
            }
            if made.count_include_pad {
                attrs.push(int("count_include_pad", 1));
            }
            let x = w.name(data.operands[0])?;
            w.node("AveragePool", &[&x], attrs)
        }
        Resize::NAME if 11 <= w.opset => resize(w, data)?,
        GridSample::NAME if 16 <= w.opset => grid_sample(w, data)?,
        RotaryEmbedding::NAME if 23 <= w.opset => {
            let made = w.typed::<RotaryEmbedding>(data)?;
            if made.sequence_axis != 2 {
                return Err(w.without_form(data, "its sequence is not the dimension 2"));
            }
            let given = w.operands(data)?;
            let given: Vec<&str> = given.iter().map(String::as_str).collect();
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

/// Whether a product of narrow integers is in integers of 32 bits.
fn widens(w: &Writer<'_>, data: &OpData) -> Outcome<bool> {
    let (from, to) = (
        w.tensor(data.operands[0])?.dtype,
        w.tensor(data.results[0])?.dtype,
    );
    Ok(from != to && from.bits() == 8 && to == DType::SI32)
}

/// Refuses a result of another element type than ONNX gives.
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
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    if widens(w, data)? && 10 <= w.opset {
        return Ok(w.node("MatMulInteger", &given, vec![]));
    }
    same_type(w, data)?;
    Ok(w.node("MatMul", &given, vec![]))
}

/// Of two dimensions a `Gemm`; else a product with the weights transposed, which constants are when they are written.
fn linear(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let (x_ty, w_ty) = (w.tensor(data.operands[0])?, w.tensor(data.operands[1])?);
    let floats = x_ty.dtype.is_float();
    if x_ty.rank() == 2 && floats {
        same_type(w, data)?;
        if 11 <= w.opset || data.operands.len() == 3 {
            let given = w.operands(data)?;
            let given: Vec<&str> = given.iter().map(String::as_str).collect();
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
    let op_type = match widens(w, data)? && 10 <= w.opset {
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

/// A product where the dimensions are those of one already, else an `Einsum`.
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
    if w.opset < 12 {
        return Err(w.without_form(data, "Einsum came with version 12"));
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
    let given = w.operands(data)?;
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    Ok(w.node("Einsum", &given, vec![text("equation", equation)]))
}

fn conv(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let made = w.typed::<Conv>(data)?;
    let integer = widens(w, data)? && 10 <= w.opset;
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
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
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

/// A convolution of integers of 32 bits that are bytes less a zero point: ONNX has no other ones of integers.
fn of_bytes(
    w: &mut Writer<'_>,
    data: &OpData,
    attrs: Vec<AttributeProto>,
    transposed: bool,
) -> Outcome<String> {
    let dtype = w.tensor(data.results[0])?.dtype;
    let no = format!("a convolution of {dtype} is none of ONNX");
    if transposed || w.opset < 10 || dtype != DType::SI32 || data.operands.len() != 2 {
        return Err(w.without_form(data, &no));
    }
    let (Some(x), Some(weights)) = (bytes(w, data.operands[0])?, bytes(w, data.operands[1])?)
    else {
        let why = format!("{no}, unless both operands are known to be bytes less a zero point");
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
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    Ok(w.node("ConvInteger", &given, attrs))
}

/// What an operation says of its windows.
struct Stated<'a> {
    kernel: &'a [i64],
    strides: Option<&'a [i64]>,
    dilations: Option<&'a [i64]>,
    pads: Option<&'a [i64]>,
    ceil: bool,
}

fn window(w: &Writer<'_>, data: &OpData, stated: Stated<'_>) -> Outcome<Vec<AttributeProto>> {
    let mut attrs = vec![ints("kernel_shape", stated.kernel)];
    attrs.extend(stated.strides.map(|s| ints("strides", s)));
    attrs.extend(stated.pads.map(|p| ints("pads", p)));
    let dilated = stated.dilations.filter(|d| d.iter().any(|&n| n != 1));
    if (dilated.is_some() || stated.ceil) && w.opset < 10 {
        return Err(w.without_form(data, "dilations and ceil_mode came with version 10"));
    }
    attrs.extend(dilated.map(|d| ints("dilations", d)));
    if stated.ceil {
        attrs.push(int("ceil_mode", 1));
    }
    Ok(attrs)
}

fn max_pool_indices(w: &mut Writer<'_>, data: &OpData) -> Outcome<Vec<String>> {
    let made = w.typed::<MaxPoolIndices>(data)?;
    let mut attrs = window(
        w,
        data,
        Stated {
            kernel: &made.kernel,
            strides: made.strides.as_deref(),
            dilations: made.dilations.as_deref(),
            pads: made.pads.as_deref(),
            ceil: made.ceil_mode,
        },
    )?;
    if made.storage_order != 0 {
        attrs.push(int("storage_order", made.storage_order));
    }
    let x = w.name(data.operands[0])?;
    let names = w.several("MaxPool", &[&x], attrs, 2);
    // The operation gives the indices; what the operator gives besides is not used.
    Ok(names
        .into_iter()
        .skip(2 - data.results.len().min(2))
        .collect())
}

fn resize(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let made = w.typed::<Resize>(data)?;
    let x = w.name(data.operands[0])?;
    let (mode, coordinates) = (made.mode.word(), made.coordinate_transformation_mode.word());
    let since = match coordinates {
        "half_pixel_symmetric" => 19,
        _ => 11,
    };
    if w.opset < since.max(if made.antialias { 18 } else { 11 }) {
        return Err(w.without_form(data, "its mode came with a later version"));
    }
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
    let number = |w: &mut Writer<'_>, list: &[f64], dtype: DType| {
        w.literal(&Tensor::from_f64(
            dtype,
            vec![list.len()],
            list.iter().copied(),
        ))
    };
    let mut roi = String::new();
    if coordinates == "tf_crop_and_resize" {
        attrs.push(float("extrapolation_value", made.extrapolation_value));
        if let Some(list) = &made.roi {
            roi = number(w, list, DType::F32)?;
        }
    } else if w.opset < 13 {
        roi = number(w, &[], DType::F32)?;
    }
    let empty = |w: &mut Writer<'_>| match w.opset < 13 {
        true => number(w, &[], DType::F32),
        false => Ok(String::new()),
    };
    let given = match (&made.scales, &made.sizes) {
        (Some(scales), _) => [x, roi, number(w, scales, DType::F32)?, String::new()],
        (None, Some(sizes)) => {
            let scales = empty(w)?;
            [x, roi, scales, number(w, sizes, DType::SI64)?]
        }
        (None, None) => return Err(w.refused("a resize has neither scales nor sizes".to_owned())),
    };
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
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
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    Ok(w.node("GridSample", &given, attrs))
}
