//! Convolution, pooling and cumulative sums.
//!
//! Example: a 3x3 convolution of an 8x8 image with stride 2 and padding 1 has
//! `window={size=3x3 stride=2x2 pad=1_0x1_0}`: the last window ends at the last element, so the padding at the end is
//! 0.

use super::func::{Outcome, Writer};
use super::number::{float_text, limits};
use super::shape::dtype_name;
use crate::unwritten::{Form, Unwritten, known};
use optc_ir::op::Operation;
use optc_ir::{DType, Dim, OpData, Size, TensorType};
use optc_ops::{AvgPool, Conv, Cumprod, Cumsum, MaxPool, Slide};

/// Writes one of these operations and returns the name of the result. Any other operation has no form here.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    match &*data.name {
        Conv::NAME => conv(w, data, ty),
        MaxPool::NAME => max_pool(w, data, ty),
        AvgPool::NAME => avg_pool(w, data, ty),
        Cumprod::NAME => {
            let products = w.typed::<Cumprod>(data)?;
            let run = Run {
                axis: products.along(&w.op_ref(data))?,
                exclusive: products.exclusive,
                reverse: products.reverse,
            };
            running(w, data, ty, run, ("multiply", "1"))
        }
        Cumsum::NAME => {
            let sums = w.typed::<Cumsum>(data)?;
            let run = Run {
                axis: sums.along(&w.op_ref(data))?,
                exclusive: sums.exclusive,
                reverse: sums.reverse,
            };
            running(w, data, ty, run, ("add", zero(ty.dtype)))
        }
        _ => Err(Unwritten::NoForm),
    }
}

fn times<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join("x")
}

/// The labels of the dimensions, such as `bf01`.
fn labels(first: &str, rank: usize) -> String {
    let spatial: String = (0..rank.saturating_sub(2)).map(|d| d.to_string()).collect();
    format!("{first}{spatial}")
}

/// One field of a window's text, with a number for each window dimension; empty if all are 1.
fn stated(key: &str, slides: &[Slide], of: impl Fn(&Slide) -> usize) -> String {
    let all: Vec<usize> = slides.iter().map(of).collect();
    if all.iter().all(|&n| n == 1) {
        return String::new();
    }
    format!(" {key}={}", times(&all))
}

/// The padding of one spatial dimension. The padding at the end is as large as the last window needs: that of the
/// `m`-th window, or of the `m`-th element of a transposed convolution.
fn conv_padding(slide: &Slide, transposed: bool, n: u64, m: u64) -> String {
    let (span, low, stride) = (int(slide.span()), int(slide.low), int(slide.stride));
    let (n, m) = (n.cast_signed(), m.cast_signed());
    let (low, size, stride) = if transposed {
        (span - 1 - low, (n - 1) * stride + 1, 1)
    } else {
        (low, n, stride)
    };
    let high = (m - 1) * stride + span - size - low;
    format!("{low}_{high}")
}

fn int(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The extents of the operand and the result of windows. If the extents are unknown, equivalent known ones are used,
/// with the same padding:
/// - an unknown extent that does not change becomes 1;
/// - if the number of windows is the largest that fits, an extent is chosen for which the last window ends exactly at
///   the end.
fn extents(
    x: &TensorType,
    y: &TensorType,
    slides: &[Slide],
    transposed: bool,
) -> Option<(Vec<u64>, Vec<u64>)> {
    let mut both = (Vec::with_capacity(x.rank()), Vec::with_capacity(y.rank()));
    for (at, (a, b)) in x.dims.iter().zip(&y.dims).enumerate() {
        let slide = at.checked_sub(2).and_then(|d| slides.get(d));
        let (n, m) = match (a.fixed(), b.fixed()) {
            (Some(n), Some(m)) => (n, m),
            _ if a.same(b) && slide.is_none_or(|slide| slide.stride == 1) => (1, 1),
            _ => {
                let slide = slide.filter(|_| !transposed)?;
                let fitting = slide.symbolic_count(&a.size()?, false)?;
                if b.size()? != fitting {
                    return None;
                }
                let around = (slide.low as u64).checked_add(slide.high as u64)?;
                let reach = around.checked_mul(slide.stride as u64)?;
                let n = reach
                    .checked_add(slide.span() as u64)?
                    .checked_sub(around)?;
                (n, around.checked_add(1)?)
            }
        };
        both.0.push(n);
        both.1.push(m);
    }
    Some(both)
}

/// The window of a convolution from operands of extents `xs` to results of extents `ys`.
fn conv_window(slides: &[Slide], transposed: bool, xs: &[u64], ys: &[u64]) -> String {
    let padding = slides.iter().zip(xs.iter().zip(ys).skip(2));
    let padding: Vec<String> = padding
        .map(|(slide, (&n, &m))| conv_padding(slide, transposed, n, m))
        .collect();
    let kernel: Vec<usize> = slides.iter().map(|s| s.kernel).collect();
    let mut window = format!("size={}", times(&kernel));
    let strides = |key: &str| stated(key, slides, |s| s.stride);
    if !transposed {
        window.push_str(&strides("stride"));
    }
    if padding.iter().any(|p| p != "0_0") {
        window.push_str(&format!(" pad={}", padding.join("x")));
    }
    if transposed {
        window.push_str(&strides("lhs_dilate"));
    }
    window.push_str(&stated("rhs_dilate", slides, |s| s.dilation));
    if transposed {
        window.push_str(&format!(" rhs_reversal={}", times(&vec![1; slides.len()])));
    }
    window
}

fn conv(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let conv = w.typed::<Conv>(data)?;
    let (slides, groups) = (conv.slides(&w.op_ref(data))?, conv.groups()?);
    let transposed = conv.transposed;
    let x = w.tensor(data.operands[0])?;
    let (xs, ys) = known(extents(x, ty, &slides, transposed))?;
    if transposed && groups != 1 {
        return Err(Unwritten::NoForm);
    }
    let window = conv_window(&slides, transposed, &xs, &ys);
    let rank = ys.len();
    let weights = labels(if transposed { "io" } else { "oi" }, rank);
    let (lhs, out) = (labels("bf", rank), labels("bf", rank));
    let grouped = match groups {
        1 => String::new(),
        n => format!(", feature_group_count={n}"),
    };
    let attrs = format!(", window={{{window}}}, dim_labels={lhs}_{weights}->{out}{grouped}");
    let names = [w.name(data.operands[0])?, w.name(data.operands[1])?];
    let y = w.put(ty, "convolution", &names, &attrs)?;
    let Some(&bias) = data.operands.get(2) else {
        return Ok(y);
    };
    let bias = w.name(bias)?;
    let bias = w.put(ty, "broadcast", &[bias], ", dimensions={1}")?;
    Ok(w.put(ty, "add", &[y, bias], "")?)
}

/// The window of a pooling.
struct PoolWindow {
    text: String,
    /// True if there is padding, or if some elements are in no window.
    padded: bool,
    /// True if a last window reaches beyond the stated padding.
    beyond: bool,
}

impl PoolWindow {
    fn new(slides: &[Slide], xs: &[u64], ys: &[u64]) -> PoolWindow {
        let all = [&[Slide::POINT, Slide::POINT], slides].concat();
        let mut padding = Vec::with_capacity(all.len());
        let (mut padded, mut beyond) = (false, false);
        for (slide, (n, m)) in all.iter().zip(xs.iter().zip(ys)) {
            let (low, span, stride) = (int(slide.low), int(slide.span()), int(slide.stride));
            let high = (m.cast_signed() - 1) * stride + span - n.cast_signed() - low;
            beyond |= int(slide.high) < high;
            padded |= low != 0 || high != 0;
            padding.push(format!("{low}_{high}"));
        }
        let each = |of: fn(&Slide) -> usize| {
            let numbers: Vec<usize> = all.iter().map(of).collect();
            times(&numbers)
        };
        let text = format!(
            ", window={{size={} stride={} pad={} rhs_dilate={}}}",
            each(|s| s.kernel),
            each(|s| s.stride),
            padding.join("x"),
            each(|s| s.dilation)
        );
        PoolWindow {
            text,
            padded,
            beyond,
        }
    }
}

fn max_pool(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let slides = w.typed::<MaxPool>(data)?.slides(&w.op_ref(data))?;
    let x = w.tensor(data.operands[0])?;
    let (xs, ys) = known(extents(x, ty, &slides, false))?;
    let window = PoolWindow::new(&slides, &xs, &ys);
    let name = w.name(data.operands[0])?;
    let least = limits(ty.dtype).0;
    Ok(windowed(w, &name, ("maximum", &least), &window.text, ty)?)
}

fn avg_pool(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let pool = w.typed::<AvgPool>(data)?;
    let slides = pool.slides(&w.op_ref(data))?;
    let x = w.tensor(data.operands[0])?.clone();
    let (xs, ys) = known(extents(&x, ty, &slides, false))?;
    let window = PoolWindow::new(&slides, &xs, &ys);
    let include = pool.count_include_pad;
    if include && window.beyond {
        return Err(Unwritten::NoForm);
    }
    let name = w.name(data.operands[0])?;
    let sum = windowed(w, &name, ("add", "0"), &window.text, ty)?;
    let divisor = if window.padded && !include {
        let ones = w.filled("1", &x.without_layout())?;
        windowed(w, &ones, ("add", "0"), &window.text, ty)?
    } else {
        let volume: usize = slides.iter().map(|s| s.kernel).product();
        let text = float_text(volume as f64, ty.dtype);
        w.filled(&text, ty)?
    };
    Ok(w.put(ty, "divide", &[sum, divisor], "")?)
}

fn windowed(
    w: &mut Writer<'_>,
    x: &str,
    (opcode, init): (&str, &str),
    window: &str,
    ty: &TensorType,
) -> Outcome<String> {
    let init = w.scalar(init, ty.dtype);
    let reducer = w.shared.reducer(opcode, &dtype_name(ty.dtype));
    let attrs = format!("{window}, to_apply=%{reducer}");
    w.put(ty, "reduce-window", &[x.to_owned(), init], &attrs)
}

/// The parameters of a cumulative operation along a dimension.
struct Run {
    axis: usize,
    /// True if a result excludes its own element.
    exclusive: bool,
    /// True if it runs from the end to the start.
    reverse: bool,
}

/// A window over all elements so far, combined by `opcode` from `init` on.
fn running(
    w: &mut Writer<'_>,
    data: &OpData,
    ty: &TensorType,
    run: Run,
    (opcode, init): (&str, &str),
) -> Form<String> {
    let (axis, rank) = (run.axis, ty.rank());
    let size = known(ty.dims.get(axis).and_then(Dim::size))?;
    let open = size.as_constant().is_none();
    let before = size.minus(&Size::constant(1));
    let before = known(before.filter(|n| n.is_at_least(0) && (w.shared.mlir || !open)))?;
    let back = run.reverse;
    let mut sizes = vec![Size::constant(1); rank];
    let mut pads = vec![Size::default(); 2 * rank];
    sizes[axis] = size;
    pads[2 * axis + usize::from(back)] = before;
    let mut name = w.name(data.operands[0])?;
    if run.exclusive {
        // Shifts all elements by one; the last one drops out.
        let mut moved = vec!["0_0"; rank];
        moved[axis] = if back { "-1_1" } else { "1_-1" };
        let fill = w.scalar(init, ty.dtype);
        let attrs = format!(", padding={}", moved.join("x"));
        name = w.put(&ty.without_layout(), "pad", &[name, fill], &attrs)?;
    }
    if open {
        return Ok(windowed_by_size(
            w,
            &name,
            (opcode, init),
            [&sizes, &pads],
            ty,
        )?);
    }
    let pads: Vec<String> = pads
        .chunks(2)
        .map(|pair| format!("{}_{}", pair[0], pair[1]))
        .collect();
    let window = format!(", window={{size={} pad={}}}", times(&sizes), pads.join("x"));
    Ok(windowed(w, &name, (opcode, init), &window, ty)?)
}

/// A reduction over windows with their sizes and padding as operands, two numbers of padding for each dimension.
fn windowed_by_size(
    w: &mut Writer<'_>,
    x: &str,
    (opcode, init): (&str, &str),
    [sizes, pads]: [&[Size]; 2],
    ty: &TensorType,
) -> Outcome<String> {
    let init = w.scalar(init, ty.dtype);
    let reducer = w.shared.reducer(opcode, &dtype_name(ty.dtype));
    let sizes_of = w.size_list(sizes)?;
    let ones = w.size_list(&vec![Size::constant(1); sizes.len()])?;
    let pads = w.size_list(pads)?;
    let shape = format!("s32[{},2]{{1,0}}", sizes.len());
    let pads = w.raw(&shape, "reshape", &[pads], "");
    let operands = [
        x.to_owned(),
        init,
        sizes_of,
        ones.clone(),
        ones.clone(),
        ones,
        pads,
    ];
    let attrs = format!(", to_apply=%{reducer}");
    w.put(ty, "reduce-window", &operands, &attrs)
}

fn zero(dtype: DType) -> &'static str {
    if dtype.is_bool() { "false" } else { "0" }
}
