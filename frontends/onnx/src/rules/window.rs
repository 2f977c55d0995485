//! Convolution, pooling and resizing.

use super::{Rule, native};
use crate::builder::{Stop, Val};
use crate::node::{Done, NodeCx, props};
use optc_ir::{Attr, AttrDict, Dim};

/// The most spatial dimensions that the operations have.
const MAX_SPATIAL: usize = 3;

/// The rules of this family.
pub(super) static RULES: &[Rule] = &[
    native("AveragePool", |cx| pool(cx, "hbir.avg_pool")),
    native("Conv", |cx| conv(cx, false)),
    native("ConvTranspose", |cx| conv(cx, true)),
    native("MaxPool", |cx| pool(cx, "hbir.max_pool")),
    native("Resize", resize),
    native("Upsample", upsample),
];

/// Kernel, strides, dilations and pads of a window.
struct Window {
    kernel: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    pads: Vec<i64>,
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

/// A list with one entry a spatial dimension.
fn list(cx: &NodeCx<'_, '_>, name: &str, n: usize, default: i64) -> Result<Vec<i64>, Stop> {
    let list = cx
        .ints(name)
        .filter(|l| !l.is_empty())
        .unwrap_or_else(|| vec![default; n]);
    if list.len() != n {
        let message = format!("`{name}` has {} entries, wanted {n}", list.len());
        return Err(Stop::error("window-list", message));
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
                "window-list",
                format!("`{name}` has an entry below 1"),
            ));
        }
    }
    let mut window = Window {
        kernel,
        strides,
        dilations,
        pads: Vec::new(),
    };
    window.pads = match auto_pad(cx)? {
        Auto::Explicit => list(cx, "pads", 2 * n, 0)?,
        Auto::Valid => vec![0; 2 * n],
        Auto::Same { upper } => same_pads(dims, &window, upper)?,
    };
    Ok(window)
}

/// What `auto_pad` asks for.
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
        Some(found) => Err(Stop::error(
            "attribute-value",
            format!("`auto_pad` is `{found}`"),
        )),
    }
}

/// Pads for which the result has `ceil(extent / stride)` positions.
fn same_pads(dims: &[Dim], window: &Window, upper: bool) -> Result<Vec<i64>, Stop> {
    let unknown = || Stop::opaque("its padding hangs on an unknown extent");
    let total = |i: usize| -> Result<i64, Stop> {
        let n = dims[i]
            .fixed()
            .and_then(|n| i64::try_from(n).ok())
            .ok_or_else(unknown)?;
        let stride = window.strides[i];
        let positions = n / stride + i64::from(n % stride != 0);
        let reach = (window.kernel[i] - 1)
            .saturating_mul(window.dilations[i])
            .saturating_add(1);
        let covered = (positions - 1)
            .max(0)
            .saturating_mul(stride)
            .saturating_add(reach);
        Ok(covered.saturating_sub(n).max(0))
    };
    let totals: Result<Vec<i64>, Stop> = (0..dims.len()).map(total).collect();
    Ok(halves(&totals?, upper))
}

/// The pads before and after from their sums; `upper` puts an odd one after.
fn halves(totals: &[i64], upper: bool) -> Vec<i64> {
    let low = |&t: &i64| if upper { t / 2 } else { t - t / 2 };
    let before: Vec<i64> = totals.iter().map(low).collect();
    let after: Vec<i64> = totals.iter().zip(&before).map(|(t, b)| t - b).collect();
    [before, after].concat()
}

fn conv(cx: &mut NodeCx<'_, '_>, transposed: bool) -> Done {
    let (x, w) = (cx.need(0)?, cx.need(1)?);
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
            "window-list",
            "the kernel extents do not fit the weights",
        ));
    }
    let window = if transposed {
        transposed_window(cx, &dims, kernel)?
    } else {
        (window(cx, &dims, kernel)?, vec![0; dims.len()])
    };
    let (window, output_padding) = window;
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
    let operands: Vec<Val> = [x, w].into_iter().chain(cx.input(2)).collect();
    cx.finish("hbir.conv", &operands, dict)
}

/// The window of `ConvTranspose` and its output padding; an output shape is met by the pads.
fn transposed_window(
    cx: &NodeCx<'_, '_>,
    dims: &[Dim],
    kernel: Vec<i64>,
) -> Result<(Window, Vec<i64>), Stop> {
    let n = dims.len();
    let extra = list(cx, "output_padding", n, 0)?;
    let shape = cx.ints("output_shape").filter(|s| !s.is_empty());
    let same = matches!(auto_pad(cx)?, Auto::Same { .. });
    if shape.is_none() && !same {
        return Ok((window(cx, dims, kernel)?, extra));
    }
    let (strides, dilations) = (list(cx, "strides", n, 1)?, list(cx, "dilations", n, 1)?);
    let unknown = || Stop::opaque("its padding hangs on an unknown extent");
    let total = |i: usize| -> Result<i64, Stop> {
        let extent = dims[i]
            .fixed()
            .and_then(|d| i64::try_from(d).ok())
            .ok_or_else(unknown)?;
        let reach = (kernel[i] - 1)
            .saturating_mul(dilations[i])
            .saturating_add(1);
        let full = (extent - 1)
            .saturating_mul(strides[i])
            .saturating_add(reach);
        let wanted = match &shape {
            Some(shape) => shape
                .get(shape.len().wrapping_sub(n) + i)
                .copied()
                .unwrap_or(0),
            None => extent.saturating_mul(strides[i]),
        };
        Ok(full.saturating_add(extra[i]).saturating_sub(wanted).max(0))
    };
    let totals: Result<Vec<i64>, Stop> = (0..n).map(total).collect();
    let pads = halves(
        &totals?,
        matches!(auto_pad(cx)?, Auto::Same { upper: true }),
    );
    Ok((
        Window {
            kernel,
            strides,
            dilations,
            pads,
        },
        extra,
    ))
}

fn pool(cx: &mut NodeCx<'_, '_>, name: &str) -> Done {
    if cx.is_used(1) {
        return Err(Stop::opaque("its indices are used"));
    }
    let x = cx.need(0)?;
    let dims = spatial(cx, x)?;
    if cx.ints("kernel_shape").is_none() {
        return Err(Stop::error(
            "attribute-missing",
            "`kernel_shape` is missing",
        ));
    }
    let kernel = list(cx, "kernel_shape", dims.len(), 1)?;
    let window = window(cx, &dims, kernel)?;
    let mut dict = props([
        ("kernel", Attr::ints(&window.kernel)),
        ("strides", Attr::ints(&window.strides)),
        ("pads", Attr::ints(&window.pads)),
        ("dilations", Attr::ints(&window.dilations)),
        ("ceil_mode", Attr::Bool(cx.flag("ceil_mode", false))),
    ]);
    if name == "hbir.avg_pool" {
        dict.set(
            "count_include_pad",
            Attr::Bool(cx.flag("count_include_pad", false)),
        );
    }
    cx.finish(name, &[x], dict)
}

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
    if transform == "tf_crop_and_resize" || cx.flag("antialias", false) {
        return Err(Stop::opaque("it crops or smooths"));
    }
    let mut dict = if given(scales) {
        scales_attr(cx, scales, &axes, dims.len())?
    } else if given(sizes) {
        sizes_attr(cx, sizes, &axes, &dims)?
    } else {
        return Err(Stop::error(
            "missing-input",
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
    cx.finish("hbir.resize", &[x], dict)
}

/// Axes counted from the front, in the order given.
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
        return Err(Stop::error("resize-count", message));
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
    if !matches!(
        cx.string("keep_aspect_ratio_policy").as_deref(),
        None | Some("stretch")
    ) {
        return Err(Stop::opaque("it keeps the aspect ratio"));
    }
    let found = cx.const_ints(i);
    let found = found.ok_or_else(|| Stop::opaque("its sizes are computed at run time"))?;
    if found.len() != axes.len() {
        let message = format!("it has {} sizes, wanted {}", found.len(), axes.len());
        return Err(Stop::error("resize-count", message));
    }
    let mut sizes: Vec<Option<i64>> = dims
        .iter()
        .map(|d| d.fixed().and_then(|n| i64::try_from(n).ok()))
        .collect();
    axes.iter()
        .zip(found)
        .for_each(|(&axis, size)| sizes[axis] = Some(size));
    let sizes: Option<Vec<i64>> = sizes.into_iter().collect();
    let sizes = sizes.ok_or_else(|| Stop::opaque("it keeps an extent that is unknown"))?;
    Ok(props([("sizes", Attr::ints(&sizes))]))
}

/// `Upsample`, the forerunner of `Resize`.
fn upsample(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let rank = cx.rank(x)?;
    let axes: Vec<usize> = (0..rank).collect();
    let attr = cx.attr("scales").map(|a| a.floats.clone());
    let mut dict = match attr {
        Some(scales) => {
            let scales = scales
                .into_iter()
                .map(|s| Attr::float(f64::from(s)))
                .collect();
            props([("scales", Attr::Array(scales))])
        }
        None => scales_attr(cx, 1, &axes, rank)?,
    };
    let mode = cx.string("mode").unwrap_or_else(|| "nearest".into());
    dict.set("mode", Attr::str(&mode));
    dict.set("coordinate_transformation_mode", Attr::str("asymmetric"));
    dict.set("nearest_mode", Attr::str("floor"));
    cx.finish("hbir.resize", &[x], dict)
}
