//! Convolution, pooling and resizing.

use super::contract::activated;
use super::shape::{lengthened, padded};
use super::{Rule, decomposed, native};
use crate::builder::{Stop, Val};
use crate::codes;
use crate::entries::{Entry, size_attr};
use crate::node::{Done, NodeCx, props};
use optc_ir::size::Size;
use optc_ir::tensor::int_range;
use optc_ir::{Attr, AttrDict, Dim, Tensor, TensorType};
use optc_ops::{
    Abs, Add, AvgPool, Div, MaxPool, MaxPoolIndices, Mul, PadValue, Pow, ReduceKind,
    ScatterElements, ScatterReduction, Sqrt, Squeeze, ints,
};

/// The most spatial dimensions of the operations.
const MAX_SPATIAL: usize = 3;

/// The rules of this family.
pub(super) static RULES: &[Rule] = &[
    native("AveragePool", avg_pool),
    native("Conv", |cx| conv(cx, false)),
    native("ConvTranspose", |cx| conv(cx, true)),
    decomposed("GlobalLpPool", global_lp_pool),
    native("GridSample", grid_sample),
    decomposed("LRN", local_response),
    decomposed("LpPool", lp_pool),
    native("MaxPool", max_pool),
    decomposed("MaxUnpool", max_unpool),
    native("Resize", resize),
    native("Upsample", upsample),
];

/// The rules of this family in the domain `com.microsoft`.
pub(super) static MICROSOFT: &[Rule] = &[decomposed("FusedConv", fused_conv)];

/// Kernel, strides, dilations and pads of a window.
struct Window {
    kernel: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    /// The pads that are numbers.
    pads: Vec<i64>,
    /// The spatial dimensions whose pads depend on a named extent, and these pads: before and after the elements.
    named: Vec<(usize, [Size; 2])>,
}

impl Window {
    /// The elements from the first to the last one under a window.
    fn reach(&self, dim: usize) -> i64 {
        reach(self.kernel[dim], self.dilations[dim])
    }

    /// `x` with the pads that are named sizes, which are filled with `value`.
    fn lengthened(&self, cx: &mut NodeCx<'_, '_>, x: Val, value: PadValue) -> Result<Val, Stop> {
        let mut pads = self.named.iter();
        pads.try_fold(x, |x, (dim, ends)| lengthened(cx, x, dim + 2, ends, value))
    }

    /// # Errors
    /// A pad depends on a named extent.
    fn need_numbers(&self) -> Result<(), Stop> {
        match self.named[..] {
            [] => Ok(()),
            _ => Err(unknown_extent()),
        }
    }
}

fn reach(kernel: i64, dilation: i64) -> i64 {
    (kernel - 1).saturating_mul(dilation).saturating_add(1)
}

fn unknown_extent() -> Stop {
    Stop::opaque("its padding hangs on an unknown extent")
}

/// The spatial extents of an input of a window operation.
fn spatial(cx: &NodeCx<'_, '_>, x: Val) -> Result<Vec<Dim>, Stop> {
    let dims = cx.dims(x)?;
    match dims.get(2..) {
        Some(spatial) if !spatial.is_empty() && spatial.len() <= MAX_SPATIAL => {
            Ok(spatial.to_vec())
        }
        _ => Err(Stop::opaque(format!(
            "its input has rank {}, wanted 3 to 5",
            dims.len()
        ))),
    }
}

/// A list with one entry for each spatial dimension.
fn list(cx: &NodeCx<'_, '_>, name: &str, n: usize, default: i64) -> Result<Vec<i64>, Stop> {
    let list = cx
        .ints(name)
        .filter(|l| !l.is_empty())
        .unwrap_or_else(|| vec![default; n]);
    if list.len() != n {
        let message = format!("`{name}` has {} entries, wanted {n}", list.len());
        return Err(Stop::error(codes::WINDOW_LIST, message));
    }
    Ok(list)
}

fn window(cx: &NodeCx<'_, '_>, dims: &[Dim], kernel: Vec<i64>) -> Result<Window, Stop> {
    let n = dims.len();
    let strides = list(cx, "strides", n, 1)?;
    let dilations = list(cx, "dilations", n, 1)?;
    for (name, values) in [
        ("strides", &strides),
        ("dilations", &dilations),
        ("kernel_shape", &kernel),
    ] {
        if values.iter().any(|&v| v < 1) {
            return Err(Stop::error(
                codes::WINDOW_LIST,
                format!("`{name}` has an entry below 1"),
            ));
        }
    }
    let mut window = Window {
        kernel,
        strides,
        dilations,
        pads: vec![0; 2 * n],
        named: Vec::new(),
    };
    match auto_pad(cx)? {
        Auto::Explicit => window.pads = list(cx, "pads", 2 * n, 0)?,
        Auto::Valid => {}
        Auto::Same { upper } => same_pads(dims, &mut window, upper)?,
    }
    Ok(window)
}

/// The modes of `auto_pad`.
enum Auto {
    Explicit,
    Valid,
    Same { upper: bool },
}

fn auto_pad(cx: &NodeCx<'_, '_>) -> Result<Auto, Stop> {
    match cx.string("auto_pad").as_deref() {
        None | Some("NOTSET" | "") => Ok(Auto::Explicit),
        Some("VALID") => Ok(Auto::Valid),
        Some("SAME_UPPER") => Ok(Auto::Same { upper: true }),
        Some("SAME_LOWER") => Ok(Auto::Same { upper: false }),
        Some(found) => Err(Stop::opaque(format!("its `auto_pad` is `{found}`"))),
    }
}

/// Sets the pads that give the result `ceil(extent / stride)` positions.
fn same_pads(dims: &[Dim], window: &mut Window, upper: bool) -> Result<(), Stop> {
    let mut totals = vec![0; dims.len()];
    for (i, dim) in dims.iter().enumerate() {
        let (stride, reach) = (window.strides[i], window.reach(i));
        if let Some(n) = dim.fixed().and_then(|n| i64::try_from(n).ok()) {
            let positions = n / stride + i64::from(n % stride != 0);
            let last = (positions - 1).max(0).saturating_mul(stride);
            totals[i] = last.saturating_add(reach).saturating_sub(n).max(0);
            continue;
        }
        // If the extent is a multiple of the stride, the last window begins one stride before the end, whatever the
        // extent.
        let by = Size::from(stride.unsigned_abs());
        let divides = |n: &Size| n.exact_quotient(&by).is_some();
        let size = dim.size();
        if stride == 1 || reach == 1 || size.as_ref().is_some_and(divides) {
            totals[i] = (reach - stride).max(0);
            continue;
        }
        // Windows that leave no gap between them need no fewer elements than there are.
        let size = size.filter(|_| stride <= reach);
        let ends = size.and_then(|n| named_pads(&n, stride, reach, upper));
        window.named.push((i, ends.ok_or_else(unknown_extent)?));
    }
    window.pads = halves(&totals, upper);
    Ok(())
}

/// The pads before and after `n` elements for windows every `by` elements.
fn named_pads(n: &Size, by: i64, reach: i64, upper: bool) -> Option<[Size; 2]> {
    let stride = Size::from(by.unsigned_abs());
    let last = n.quotient_up(&stride)?.minus(&Size::constant(1))?;
    let covered = last.times(&stride)?.plus(&Size::constant(reach.into()))?;
    let total = covered.minus(n)?;
    // The sum is between these; often half of it is one number for all extents.
    let (least, most) = (reach - by, reach - 1);
    let less = match least / 2 == most / 2 {
        true => Size::constant((least / 2).into()),
        false => total.quotient(&Size::constant(2))?,
    };
    let more = total.minus(&less)?;
    Some(if upper { [less, more] } else { [more, less] })
}

/// The pads before and after from their sums; with `upper` an odd one goes after.
fn halves(totals: &[i64], upper: bool) -> Vec<i64> {
    let low = |&t: &i64| if upper { t / 2 } else { t - t / 2 };
    let before: Vec<i64> = totals.iter().map(low).collect();
    let after: Vec<i64> = totals.iter().zip(&before).map(|(t, b)| t - b).collect();
    [before, after].concat()
}

fn conv(cx: &mut NodeCx<'_, '_>, transposed: bool) -> Done {
    let operands = [cx.need(0)?, cx.need(1)?];
    let operands: Vec<Val> = operands.into_iter().chain(cx.input(2)).collect();
    let result = convolve(cx, &operands, transposed)?;
    cx.set(0, result);
    Ok(())
}

/// `com.microsoft.FusedConv`: a convolution, optionally a sum, and an activation.
fn fused_conv(cx: &mut NodeCx<'_, '_>) -> Done {
    let operands = [cx.need(0)?, cx.need(1)?];
    let operands: Vec<Val> = operands.into_iter().chain(cx.input(2)).collect();
    let mut result = convolve(cx, &operands, false)?;
    if let Some(more) = cx.input(3) {
        result = cx.emit(&Add {}, &[result, more])?;
    }
    let name = cx.string("activation").unwrap_or_default();
    let given = cx.attr("activation_params").map(|a| a.floats.clone());
    let given = given.unwrap_or_default();
    let parameter = |i: usize| given.get(i).map_or(f64::NAN, |&x| f64::from(x));
    let result = activated(cx, result, &name, [parameter(0), parameter(1)])?;
    cx.set(0, result);
    Ok(())
}

/// The convolution of operand 0 with operand 1 and optionally a bias, with the node's attributes.
pub(super) fn convolve(
    cx: &mut NodeCx<'_, '_>,
    operands: &[Val],
    transposed: bool,
) -> Result<Val, Stop> {
    let (x, w) = (operands[0], operands[1]);
    cx.show_permutation(w);
    let dims = spatial(cx, x)?;
    let weights = cx.dims(w)?;
    let from_weights: Option<Vec<i64>> = weights
        .iter()
        .skip(2)
        .map(|d| i64::try_from(d.fixed()?).ok())
        .collect();
    let declared = cx.ints("kernel_shape").filter(|k| !k.is_empty());
    let kernel = from_weights.or_else(|| declared.clone());
    let kernel = kernel.ok_or_else(|| Stop::opaque("its kernel extents are unknown"))?;
    if kernel.len() != dims.len() || declared.is_some_and(|d| d != kernel) {
        return Err(Stop::error(
            codes::WINDOW_LIST,
            "the kernel extents do not fit the weights",
        ));
    }
    let window = if transposed {
        transposed_window(cx, &dims, kernel)?
    } else {
        (window(cx, &dims, kernel)?, vec![0; dims.len()])
    };
    let (window, output_padding) = window;
    let x = window.lengthened(cx, x, PadValue::Int(0))?;
    let operands = [&[x], &operands[1..]].concat();
    let mut dict = props([
        ("strides", Attr::ints(&window.strides)),
        ("pads", Attr::ints(&window.pads)),
        ("dilations", Attr::ints(&window.dilations)),
        ("group", Attr::int(cx.int("group").unwrap_or(1))),
    ]);
    if transposed {
        dict.set("transposed", Attr::Bool(true));
        dict.set("output_padding", Attr::ints(&output_padding));
    }
    cx.emit_named("hbir.conv", &operands, dict)
}

/// The window of `ConvTranspose` and its output padding; a stated output shape determines the pads.
fn transposed_window(
    cx: &NodeCx<'_, '_>,
    dims: &[Dim],
    kernel: Vec<i64>,
) -> Result<(Window, Vec<i64>), Stop> {
    let n = dims.len();
    let mut extra = list(cx, "output_padding", n, 0)?;
    let shape = cx.ints("output_shape").filter(|s| !s.is_empty());
    let same = matches!(auto_pad(cx)?, Auto::Same { .. });
    if shape.is_none() && !same {
        return Ok((window(cx, dims, kernel)?, extra));
    }
    let (strides, dilations) = (list(cx, "strides", n, 1)?, list(cx, "dilations", n, 1)?);
    let total = |i: usize| -> Result<i64, Stop> {
        let reach = reach(kernel[i], dilations[i]);
        let Some(shape) = &shape else {
            // Of `(extent - 1) * stride + reach` elements, `extent * stride` are wanted.
            return Ok((reach - strides[i]).saturating_add(extra[i]));
        };
        let extent = dims[i].fixed().and_then(|d| i64::try_from(d).ok());
        let extent = extent.ok_or_else(unknown_extent)?;
        let full = (extent - 1)
            .saturating_mul(strides[i])
            .saturating_add(reach);
        let at = shape.len().wrapping_sub(n) + i;
        let wanted = shape.get(at).copied().unwrap_or(0);
        Ok(full.saturating_add(extra[i]).saturating_sub(wanted))
    };
    let totals: Result<Vec<i64>, Stop> = (0..n).map(total).collect();
    let mut totals = totals?;
    for (total, extra) in totals.iter_mut().zip(&mut extra) {
        // A negative total of pads becomes output padding at the end.
        *extra = extra.saturating_sub((*total).min(0));
        *total = (*total).max(0);
    }
    let upper = matches!(auto_pad(cx)?, Auto::Same { upper: true });
    let pads = halves(&totals, upper);
    Ok((
        Window {
            kernel,
            strides,
            dilations,
            pads,
            named: Vec::new(),
        },
        extra,
    ))
}

/// The window of a pooling over its only input, and this input.
fn pooled(cx: &NodeCx<'_, '_>) -> Result<(Val, Window), Stop> {
    let x = cx.need(0)?;
    let dims = spatial(cx, x)?;
    if cx.ints("kernel_shape").is_none() {
        return Err(Stop::error(
            codes::ATTRIBUTE_MISSING,
            "`kernel_shape` is missing",
        ));
    }
    let kernel = list(cx, "kernel_shape", dims.len(), 1)?;
    Ok((x, window(cx, &dims, kernel)?))
}

fn avg_pool(cx: &mut NodeCx<'_, '_>) -> Done {
    let (mut x, window) = pooled(cx)?;
    if cx.flag("count_include_pad", false) {
        x = window.lengthened(cx, x, PadValue::Int(0))?;
    } else {
        window.need_numbers()?;
    }
    let op = AvgPool {
        kernel: window.kernel,
        strides: Some(window.strides),
        dilations: Some(window.dilations),
        pads: Some(window.pads),
        ceil_mode: cx.flag("ceil_mode", false),
        count_include_pad: cx.flag("count_include_pad", false),
    };
    cx.finish(&op, &[x])
}

fn max_pool(cx: &mut NodeCx<'_, '_>) -> Done {
    let (mut x, window) = pooled(cx)?;
    // The places of elements do not count the padding.
    if cx.is_used(1) {
        window.need_numbers()?;
    }
    let dtype = cx.dtype(x)?;
    let least = match dtype.is_int() {
        true => PadValue::Int(int_range(dtype).0 as i64),
        false => PadValue::Float(f64::NEG_INFINITY),
    };
    x = window.lengthened(cx, x, least)?;
    let op = MaxPool {
        kernel: window.kernel,
        strides: Some(window.strides),
        dilations: Some(window.dilations),
        pads: Some(window.pads),
        ceil_mode: cx.flag("ceil_mode", false),
    };
    if cx.is_used(1) {
        let op = op.clone();
        let places = MaxPoolIndices {
            kernel: op.kernel,
            strides: op.strides,
            dilations: op.dilations,
            pads: op.pads,
            ceil_mode: op.ceil_mode,
            storage_order: cx.int("storage_order").unwrap_or(0),
        };
        let indices = cx.emit(&places, &[x])?;
        cx.set(1, indices);
    }
    cx.finish(&op, &[x])
}

/// The sum of a norm's powers over each window, computed as a convolution of every channel with ones.
fn lp_pool(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let dims = spatial(cx, x)?;
    let channels = cx.extent(x, 1)?;
    let kernel = list(cx, "kernel_shape", dims.len(), 1)?;
    let mut window = window(cx, &dims, kernel)?;
    if cx.flag("ceil_mode", false) {
        reach_over(&mut window, &dims)?;
    }
    let mut weights = vec![u64::try_from(channels).unwrap_or(0), 1];
    weights.extend(window.kernel.iter().map(|&k| k.unsigned_abs()));
    let dtype = cx.dtype(x)?;
    let one = Tensor::from_f64(dtype, Vec::new(), [1.0]);
    let ones =
        cx.b.splat(TensorType::fixed(&weights, dtype), one, cx.loc.clone());
    let order = cx.float("p", 2.0);
    let powers = powers(cx, x, order)?;
    let powers = window.lengthened(cx, powers, PadValue::Int(0))?;
    let dict = props([
        ("strides", Attr::ints(&window.strides)),
        ("pads", Attr::ints(&window.pads)),
        ("dilations", Attr::ints(&window.dilations)),
        ("group", Attr::int(channels)),
    ]);
    let sum = cx.emit_named("hbir.conv", &[powers, ones], dict)?;
    let result = root(cx, sum, order)?;
    cx.set(0, result);
    Ok(())
}

/// Pads the end so that the last window is complete; it must begin before the padding.
fn reach_over(window: &mut Window, dims: &[Dim]) -> Result<(), Stop> {
    let n = dims.len();
    for (i, dim) in dims.iter().enumerate() {
        let extent = dim.fixed().and_then(|d| i64::try_from(d).ok());
        let extent = extent.ok_or_else(unknown_extent)?;
        let reach = window.reach(i);
        let padded = extent
            .saturating_add(window.pads[i])
            .saturating_add(window.pads[n + i]);
        let rest = padded.saturating_sub(reach).max(0) % window.strides[i];
        let last = padded
            .saturating_sub(reach)
            .saturating_sub(rest)
            .saturating_add(window.strides[i]);
        // A window that begins in the padding at the end is dropped.
        if rest != 0 && last < extent.saturating_add(window.pads[i]) {
            window.pads[n + i] = window.pads[n + i].saturating_add(window.strides[i] - rest);
        }
    }
    Ok(())
}

/// `|x|^p`
fn powers(cx: &mut NodeCx<'_, '_>, x: Val, order: f64) -> Result<Val, Stop> {
    let size = cx.emit(&Abs {}, &[x])?;
    match order {
        1.0 => Ok(size),
        2.0 => cx.emit(&Mul {}, &[x, x]),
        _ => {
            let order = cx.scalar_like(order, x)?;
            cx.emit(&Pow {}, &[size, order])
        }
    }
}

/// `x^(1/p)`
fn root(cx: &mut NodeCx<'_, '_>, x: Val, order: f64) -> Result<Val, Stop> {
    match order {
        1.0 => Ok(x),
        2.0 => cx.emit(&Sqrt {}, &[x]),
        0.0 => Err(Stop::opaque("its norm is of order 0")),
        _ => {
            let order = cx.scalar_like(1.0 / order, x)?;
            cx.emit(&Pow {}, &[x, order])
        }
    }
}

fn global_lp_pool(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let order = cx.float("p", 2.0);
    let axes: Vec<usize> = (2..cx.rank(x)?).collect();
    let powers = powers(cx, x, order)?;
    let sum = cx.reduce(ReduceKind::Sum, powers, &axes, true)?;
    let result = root(cx, sum, order)?;
    cx.set(0, result);
    Ok(())
}

/// `x / (bias + alpha * mean of squares)^beta` over adjacent channels. The mean is a pooling with the channels as a
/// spatial dimension.
fn local_response(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let dims = cx.dims(x)?;
    if !(3..=4).contains(&dims.len()) {
        return Err(Stop::opaque(format!(
            "its input has rank {}, wanted 3 or 4",
            dims.len()
        )));
    }
    let size = cx.int("size").filter(|&n| 0 < n);
    let size = size.ok_or_else(|| Stop::error(codes::ATTRIBUTE_MISSING, "`size` is missing"))?;
    let spatial = dims.len() - 1;
    let ones = vec![1i64; spatial];
    let mut kernel = ones.clone();
    let mut pads = vec![0i64; 2 * spatial];
    kernel[0] = size;
    (pads[0], pads[spatial]) = ((size - 1) / 2, size / 2);
    let square = cx.emit(&Mul {}, &[x, x])?;
    let deeper = cx.unsqueeze(square, &[1])?;
    let mean = AvgPool {
        kernel,
        strides: Some(ones.clone()),
        dilations: Some(ones),
        pads: Some(pads),
        ceil_mode: false,
        count_include_pad: true,
    };
    let mean = cx.emit(&mean, &[deeper])?;
    let mean = cx.emit(
        &Squeeze {
            axes: Some(ints(&[1i64])),
        },
        &[mean],
    )?;
    let alpha = cx.scalar_like(cx.float("alpha", f64::from(1e-4_f32)), x)?;
    let bias = cx.scalar_like(cx.float("bias", 1.0), x)?;
    let beta = cx.scalar_like(cx.float("beta", 0.75), x)?;
    let scaled = cx.emit(&Mul {}, &[mean, alpha])?;
    let sum = cx.emit(&Add {}, &[scaled, bias])?;
    let divisor = cx.emit(&Pow {}, &[sum, beta])?;
    cx.finish(&Div {}, &[x, divisor])
}

/// Places each element at its index, a number in the whole result, among zeros.
fn max_unpool(cx: &mut NodeCx<'_, '_>) -> Done {
    let (x, places) = (cx.need(0)?, cx.need(1)?);
    let dims = spatial(cx, x)?;
    let n = dims.len();
    let kernel = list(cx, "kernel_shape", n, 1)?;
    let (strides, pads) = (list(cx, "strides", n, 1)?, list(cx, "pads", 2 * n, 0)?);
    let mut sizes = vec![cx.extent(x, 0)?, cx.extent(x, 1)?];
    for i in 0..n {
        let steps = (cx.extent(x, 2 + i)? - 1).saturating_mul(strides[i]);
        let padded = steps.saturating_add(kernel[i]);
        sizes.push(padded.saturating_sub(pads[i]).saturating_sub(pads[n + i]));
    }
    // A larger shape adds zeros at the end; the indices count in the smaller one.
    let mut high = vec![0i64; sizes.len()];
    if cx.input(2).is_some() {
        let wanted = cx.const_ints(2).filter(|w| w.len() == sizes.len());
        let wanted = wanted.ok_or_else(|| Stop::opaque("its shape is computed at run time"))?;
        let more = wanted.iter().zip(&sizes).map(|(w, s)| w.saturating_sub(*s));
        high = more.collect();
    }
    let whole = sizes
        .iter()
        .try_fold(1u64, |a, &s| a.checked_mul(u64::try_from(s).ok()?));
    let whole = whole.ok_or_else(|| Stop::opaque("its shape has no size"))?;
    let dtype = cx.dtype(x)?;
    let zero = Tensor::from_f64(dtype, Vec::new(), [0.0]);
    let zeros =
        cx.b.splat(TensorType::fixed(&[whole], dtype), zero, cx.loc.clone());
    let (x, places) = (cx.reshape(x, &[-1])?, cx.reshape(places, &[-1])?);
    let scatter = ScatterElements {
        axis: 0,
        reduction: ScatterReduction::None,
    };
    let flat = cx.emit(&scatter, &[zeros, places, x])?;
    let mut result = cx.reshape(flat, &sizes)?;
    if high.iter().any(|&h| h != 0) {
        let low = vec![0i64; high.len()];
        result = padded(cx, result, (&low, &high), "constant", Attr::float(0.0))?;
    }
    cx.set(0, result);
    Ok(())
}

fn grid_sample(cx: &mut NodeCx<'_, '_>) -> Done {
    let operands = [cx.need(0)?, cx.need(1)?];
    let mode = match cx.string("mode").as_deref() {
        None | Some("linear" | "bilinear") => "linear",
        Some("nearest") => "nearest",
        Some("cubic" | "bicubic") => "cubic",
        Some(found) => {
            return Err(Stop::opaque(format!("its `mode` is `{found}`")));
        }
    };
    let padding = cx.string("padding_mode").unwrap_or_else(|| "zeros".into());
    let dict = props([
        ("mode", Attr::str(mode)),
        ("padding_mode", Attr::str(&padding)),
        ("align_corners", Attr::Bool(cx.flag("align_corners", false))),
    ]);
    cx.finish_named("hbir.grid_sample", &operands, dict)
}

/// `Resize` and `Upsample` of all operator sets. Between sets, inputs have changed places and attributes their
/// defaults.
///
/// The meaning of an attribute depends on whether scales or sizes are given, so these are read first. A case that one
/// operation cannot express (a crop that also scales) stays opaque.
fn resize(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let dims = cx.dims(x)?;
    let (scales, sizes) = if cx.opset < 11 {
        (1, usize::MAX)
    } else {
        (2, 3)
    };
    let given = |i: usize| cx.input(i).is_some() && cx.tensor(i).is_none_or(|t| !t.is_empty());
    let axes = cx.ints("axes").map_or_else(
        || Ok((0..dims.len()).collect()),
        |a| each_axis(cx, &a, dims.len()),
    )?;
    let transform = cx.string("coordinate_transformation_mode");
    let default = if cx.opset < 11 {
        "asymmetric"
    } else {
        "half_pixel"
    };
    let transform = transform.unwrap_or_else(|| default.into());
    let crops = transform == "tf_crop_and_resize";
    let mut dict = if given(scales) && crops {
        return Err(Stop::opaque("it crops and scales"));
    } else if given(scales) {
        scales_attr(cx, scales, &axes, dims.len())?
    } else if given(sizes) {
        sizes_attr(cx, sizes, &axes, &dims)?
    } else {
        return Err(Stop::error(
            codes::MISSING_INPUT,
            "it has neither scales nor sizes",
        ));
    };
    let nearest = cx.string("nearest_mode");
    let nearest_default = if cx.opset < 11 {
        "floor"
    } else {
        "round_prefer_floor"
    };
    let mode = cx.string("mode").unwrap_or_else(|| "nearest".into());
    dict.set("mode", Attr::str(&mode));
    dict.set("coordinate_transformation_mode", Attr::str(&transform));
    dict.set(
        "nearest_mode",
        Attr::str(&nearest.unwrap_or_else(|| nearest_default.into())),
    );
    dict.set(
        "cubic_coeff_a",
        Attr::float(cx.float("cubic_coeff_a", -0.75)),
    );
    dict.set(
        "exclude_outside",
        Attr::Bool(cx.flag("exclude_outside", false)),
    );
    if cx.flag("antialias", false) {
        dict.set("antialias", Attr::Bool(true));
    }
    if crops {
        dict.set("roi", region(cx, &axes, dims.len())?);
        let value = cx.float("extrapolation_value", 0.0);
        dict.set("extrapolation_value", Attr::float(value));
    }
    cx.finish_named("hbir.resize", &[x], dict)
}

/// The part that is resized: the starts along all dimensions, then the ends, as fractions of the extents.
fn region(cx: &NodeCx<'_, '_>, axes: &[usize], rank: usize) -> Result<Attr, Stop> {
    let found = cx.const_floats(1);
    let found = found.ok_or_else(|| Stop::opaque("its region is computed at run time"))?;
    if found.len() != 2 * axes.len() {
        let message = format!(
            "its region has {} numbers, wanted {}",
            found.len(),
            2 * axes.len()
        );
        return Err(Stop::error(codes::RESIZE_COUNT, message));
    }
    let mut region = [vec![0.0; rank], vec![1.0; rank]].concat();
    for (i, &axis) in axes.iter().enumerate() {
        (region[axis], region[rank + axis]) = (found[i], found[axes.len() + i]);
    }
    Ok(Attr::Array(region.into_iter().map(Attr::float).collect()))
}

/// Axes counted from the front, in the given order.
fn each_axis(cx: &NodeCx<'_, '_>, axes: &[i64], rank: usize) -> Result<Vec<usize>, Stop> {
    cx.axes(axes, rank)?;
    axes.iter().map(|&a| cx.axis(a, rank)).collect()
}

fn scales_attr(
    cx: &NodeCx<'_, '_>,
    i: usize,
    axes: &[usize],
    rank: usize,
) -> Result<AttrDict, Stop> {
    let found = cx.const_floats(i);
    let found = found.ok_or_else(|| Stop::opaque("its scales are computed at run time"))?;
    if found.len() != axes.len() {
        let message = format!("it has {} scales, wanted {}", found.len(), axes.len());
        return Err(Stop::error(codes::RESIZE_COUNT, message));
    }
    let mut scales = vec![1.0; rank];
    axes.iter()
        .zip(found)
        .for_each(|(&axis, scale)| scales[axis] = scale);
    let scales = scales.into_iter().map(Attr::float).collect();
    Ok(props([("scales", Attr::Array(scales))]))
}

fn sizes_attr(
    cx: &NodeCx<'_, '_>,
    i: usize,
    axes: &[usize],
    dims: &[Dim],
) -> Result<AttrDict, Stop> {
    let Some(mut found) = cx.const_ints(i) else {
        return open_sizes(cx, i, axes, dims);
    };
    if found.len() != axes.len() {
        let message = format!("it has {} sizes, wanted {}", found.len(), axes.len());
        return Err(Stop::error(codes::RESIZE_COUNT, message));
    }
    let policy = cx.string("keep_aspect_ratio_policy");
    let common = match policy.as_deref() {
        None | Some("stretch") => None,
        Some("not_larger") => Some(keep_ratio(&mut found, axes, dims, f64::min)?),
        Some("not_smaller") => Some(keep_ratio(&mut found, axes, dims, f64::max)?),
        Some(other) => {
            let reason = format!("its `keep_aspect_ratio_policy` is `{other}`");
            return Err(Stop::opaque(reason));
        }
    };
    let mut sizes: Vec<Option<i64>> = dims
        .iter()
        .map(|d| d.fixed().and_then(|n| i64::try_from(n).ok()))
        .collect();
    axes.iter()
        .zip(found)
        .for_each(|(&axis, size)| sizes[axis] = Some(size));
    let sizes: Option<Vec<i64>> = sizes.into_iter().collect();
    let sizes = sizes.ok_or_else(|| Stop::opaque("it keeps an extent that is unknown"))?;
    let mut dict = props([("sizes", Attr::ints(&sizes))]);
    if let Some(common) = common {
        let scale = |axis: usize| if axes.contains(&axis) { common } else { 1.0 };
        let scales = (0..dims.len()).map(scale).map(Attr::float);
        dict.set("scales", Attr::Array(scales.collect()));
    }
    Ok(dict)
}

/// Sizes that are not all numbers.
fn open_sizes(
    cx: &NodeCx<'_, '_>,
    i: usize,
    axes: &[usize],
    dims: &[Dim],
) -> Result<AttrDict, Stop> {
    let computed = || Stop::opaque("its sizes are computed at run time");
    let found = cx.entries(i).filter(|found| found.len() == axes.len());
    let found = found.ok_or_else(computed)?;
    let policy = cx.string("keep_aspect_ratio_policy");
    if policy.is_some_and(|p| p != "stretch") {
        return Err(Stop::opaque("it keeps the ratio of unknown extents"));
    }
    let mut sizes: Vec<Entry> = dims.iter().map(Entry::from).collect();
    for (&axis, entry) in axes.iter().zip(found) {
        sizes[axis] = entry;
    }
    if sizes.iter().any(|entry| entry.size().is_none()) {
        return Err(computed());
    }
    let sizes = sizes.iter().map(size_attr).collect();
    Ok(props([("sizes", Attr::Array(sizes))]))
}

/// Replaces sizes by those of one scale for all axes, the least or greatest of their own scales; returns this scale.
fn keep_ratio(
    sizes: &mut [i64],
    axes: &[usize],
    dims: &[Dim],
    pick: fn(f64, f64) -> f64,
) -> Result<f64, Stop> {
    let extent = |&axis: &usize| dims.get(axis).and_then(Dim::fixed).filter(|&n| n != 0);
    let extents: Option<Vec<u64>> = axes.iter().map(extent).collect();
    let extents = extents.ok_or_else(|| Stop::opaque("it keeps the ratio of unknown extents"))?;
    let ratios = sizes
        .iter()
        .zip(&extents)
        .map(|(&s, &n)| s as f64 / n as f64);
    let scale = ratios.reduce(pick).unwrap_or(1.0);
    for (size, &n) in sizes.iter_mut().zip(&extents) {
        *size = (scale * n as f64 + 0.5).floor() as i64;
    }
    Ok(scale)
}

/// `Upsample`, the predecessor of `Resize`.
fn upsample(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let rank = cx.rank(x)?;
    let axes: Vec<usize> = (0..rank).collect();
    let list = |scales: Vec<f64>| {
        let scales = scales.into_iter().map(Attr::float).collect();
        props([("scales", Attr::Array(scales))])
    };
    let attr = cx.attr("scales").map(|a| a.floats.clone());
    let mut dict = match attr {
        Some(scales) => list(scales.into_iter().map(f64::from).collect()),
        None if cx.opset < 7 => {
            if rank != 4 {
                return Err(Stop::opaque("its input has another rank than 4"));
            }
            let of = |name| cx.float(name, f64::NAN);
            let scales = vec![1.0, 1.0, of("height_scale"), of("width_scale")];
            if scales.iter().any(|s| s.is_nan()) {
                let message = "`height_scale` or `width_scale` is missing";
                return Err(Stop::error(codes::ATTRIBUTE_MISSING, message));
            }
            list(scales)
        }
        None => scales_attr(cx, 1, &axes, rank)?,
    };
    let mode = cx.string("mode").unwrap_or_else(|| "nearest".into());
    // Version 1 used the name of the mode for images.
    let mode = if mode == "bilinear" { "linear" } else { &*mode };
    dict.set("mode", Attr::str(mode));
    dict.set("coordinate_transformation_mode", Attr::str("asymmetric"));
    dict.set("nearest_mode", Attr::str("floor"));
    cx.finish_named("hbir.resize", &[x], dict)
}
