//! Convolution, pooling and running sums.

use super::compose::limits;
use super::constant::float_text;
use super::func::{Outcome, Writer};
use super::ops::{shaped, sizes};
use super::shape::dtype_name;
use optc_ir::{DType, OpData, TensorType};

/// The name of the result; nothing where the operation is none of these.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<Option<String>> {
    match &*data.name {
        "hbir.conv" => conv(w, data, ty),
        "hbir.max_pool" | "hbir.avg_pool" => pool(w, data, ty),
        "hbir.cumsum" => cumsum(w, data, ty),
        _ => Ok(None),
    }
}

/// The numbers of an attribute, `default` where it is absent.
fn numbers(data: &OpData, name: &str, count: usize, default: i64) -> Vec<i64> {
    let given = data.props.ints(name).filter(|list| list.len() == count);
    given.unwrap_or_else(|| vec![default; count])
}

fn times<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join("x")
}

/// `bf01`-like names of the dimensions.
fn labels(first: &str, rank: usize) -> String {
    let spatial: String = (0..rank.saturating_sub(2)).map(|d| d.to_string()).collect();
    format!("{first}{spatial}")
}

fn conv(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<Option<String>> {
    let (x, kernel) = (
        w.tensor(data.operands[0])?.clone(),
        w.tensor(data.operands[1])?.clone(),
    );
    let (Some(xs), Some(ks), Some(ys)) = (sizes(&x), sizes(&kernel), sizes(ty)) else {
        return Ok(None);
    };
    let count = ys.len().saturating_sub(2);
    let strides = numbers(data, "strides", count, 1);
    let dilations = numbers(data, "dilations", count, 1);
    let pads = numbers(data, "pads", 2 * count, 0);
    let groups = data.props.int("group").unwrap_or(1);
    let transposed = data.props.flag("transposed");
    if transposed && groups != 1 {
        return Ok(None);
    }
    let mut padding = Vec::with_capacity(count);
    for d in 0..count {
        let (n, m) = (xs[d + 2] as i64, ys[d + 2] as i64);
        let span = (ks[d + 2] as i64 - 1) * dilations[d] + 1;
        let low = if transposed {
            span - 1 - pads[d]
        } else {
            pads[d]
        };
        let (size, stride) = if transposed {
            ((n - 1) * strides[d] + 1, 1)
        } else {
            (n, strides[d])
        };
        // As much after the elements as the last window reaches.
        let high = (m - 1) * stride + span - size - low;
        padding.push(format!("{low}_{high}"));
    }
    let mut window = format!("size={}", times(&ks[2..]));
    if !transposed && strides.iter().any(|&s| s != 1) {
        window.push_str(&format!(" stride={}", times(&strides)));
    }
    if padding.iter().any(|p| p != "0_0") {
        window.push_str(&format!(" pad={}", padding.join("x")));
    }
    if transposed && strides.iter().any(|&s| s != 1) {
        window.push_str(&format!(" lhs_dilate={}", times(&strides)));
    }
    if dilations.iter().any(|&s| s != 1) {
        window.push_str(&format!(" rhs_dilate={}", times(&dilations)));
    }
    if transposed {
        window.push_str(&format!(" rhs_reversal={}", times(&vec![1; count])));
    }
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
        return Ok(Some(y));
    };
    let bias = w.name(bias)?;
    let bias = w.put(ty, "broadcast", &[bias], ", dimensions={1}")?;
    w.put(ty, "add", &[y, bias], "").map(Some)
}

fn pool(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<Option<String>> {
    let x = w.tensor(data.operands[0])?.clone();
    let (Some(xs), Some(ys)) = (sizes(&x), sizes(ty)) else {
        return Ok(None);
    };
    let count = ys.len().saturating_sub(2);
    let kernel = numbers(data, "kernel", count, 1);
    let strides = numbers(data, "strides", count, 1);
    let dilations = numbers(data, "dilations", count, 1);
    let pads = numbers(data, "pads", 2 * count, 0);
    let mut padding = vec!["0_0".to_owned(); 2];
    let mut beyond = false;
    for d in 0..count {
        let span = (kernel[d] - 1) * dilations[d] + 1;
        let high = (ys[d + 2] as i64 - 1) * strides[d] + span - xs[d + 2] as i64 - pads[d];
        beyond |= pads[count + d] < high;
        padding.push(format!("{}_{high}", pads[d]));
    }
    let outer = |list: &[i64]| times(&[&[1, 1], list].concat());
    let window = format!(
        ", window={{size={} stride={} pad={} rhs_dilate={}}}",
        outer(&kernel),
        outer(&strides),
        padding.join("x"),
        outer(&dilations)
    );
    let name = w.name(data.operands[0])?;
    let padded = padding.iter().any(|p| p != "0_0");
    if &*data.name == "hbir.max_pool" {
        let least = limits(ty.dtype).0;
        return windowed(w, &name, ("maximum", &least), &window, ty).map(Some);
    }
    let sum = windowed(w, &name, ("add", "0"), &window, ty)?;
    let include = data.props.flag("count_include_pad");
    if include && beyond {
        return Ok(None);
    }
    let divisor = if padded && !include {
        let ones = w.filled("1", &shaped(&x, &xs))?;
        windowed(w, &ones, ("add", "0"), &window, ty)?
    } else {
        let volume: i64 = kernel.iter().product();
        let text = float_text(volume as f64, ty.dtype);
        w.filled(&text, ty)?
    };
    w.put(ty, "divide", &[sum, divisor], "").map(Some)
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

fn cumsum(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<Option<String>> {
    let (Some(shape), rank) = (sizes(ty), ty.rank() as i64) else {
        return Ok(None);
    };
    let axis = data.props.int("axis").unwrap_or(0);
    let Ok(axis) = usize::try_from(if axis < 0 { axis + rank } else { axis }) else {
        return Ok(None);
    };
    if shape.get(axis).is_none_or(|&n| n == 0) {
        return Ok(None);
    }
    let n = shape[axis];
    let mut size = vec![1u64; shape.len()];
    size[axis] = n;
    let mut pads = vec!["0_0".to_owned(); shape.len()];
    let back = data.props.flag("reverse");
    pads[axis] = if back {
        format!("0_{}", n - 1)
    } else {
        format!("{}_0", n - 1)
    };
    let window = format!(", window={{size={} pad={}}}", times(&size), pads.join("x"));
    let mut name = w.name(data.operands[0])?;
    if data.props.flag("exclusive") {
        // All elements one further, the last one out.
        let mut moved = vec!["0_0"; shape.len()];
        moved[axis] = if back { "-1_1" } else { "1_-1" };
        let fill = w.scalar(zero(ty.dtype), ty.dtype);
        let attrs = format!(", padding={}", moved.join("x"));
        name = w.put(&ty.without_layout(), "pad", &[name, fill], &attrs)?;
    }
    windowed(w, &name, ("add", zero(ty.dtype)), &window, ty).map(Some)
}

fn zero(dtype: DType) -> &'static str {
    if dtype.is_bool() { "false" } else { "0" }
}
