//! The result's shape where the text leaves it out.

use crate::module::{Computation, Instruction};
use crate::shape::{ArrayShape, Extent, Shape};

/// The shape of an instruction as its operands and attributes give it; `None` where they do not.
///
/// Operands are places in `known`, called computations in `computations`.
pub(crate) fn infer(
    made: &Instruction,
    known: &[Instruction],
    computations: &[Computation],
) -> Option<Shape> {
    let operand = |i: usize| made.operands.get(i).map(|&o| &known[o].shape);
    let array = |i: usize| operand(i)?.array();
    let root = |attr: &str| {
        let &index = made.called(attr)?.first()?;
        Some(computations.get(index)?.root().shape.clone())
    };
    match made.opcode.as_str() {
        "tuple" => {
            let parts = made.operands.iter().map(|&o| known[o].shape.clone());
            Some(Shape::Tuple(parts.collect()))
        }
        "get-tuple-element" => match operand(0)? {
            Shape::Tuple(parts) => parts
                .get(usize::try_from(made.attrs.int("index")?).ok()?)
                .cloned(),
            Shape::Array(_) | Shape::Token | Shape::Opaque | Shape::Buffer(_) => None,
        },
        "after-all" => Some(Shape::Token),
        "while" | "opt-barrier" | "domain" | "copy" | "reduce-precision" | "sort" => {
            match made.operands.as_slice() {
                [_] => operand(0).cloned(),
                many => Some(Shape::Tuple(
                    many.iter().map(|&o| known[o].shape.clone()).collect(),
                )),
            }
        }
        "call" => root("to_apply"),
        "fusion" => root("calls"),
        "conditional" => root("branch_computations").or_else(|| root("true_computation")),
        "compare" | "is-finite" => with_dtype(array(0)?, "pred"),
        "partition-id" | "replica-id" => Some(plain("u32", Vec::new())),
        "get-dimension-size" => Some(plain("s32", Vec::new())),
        "select" | "clamp" => operand(1).cloned(),
        "real" | "imag" => complex_part(array(0)?),
        "complex" => {
            let dtype = if array(0)?.dtype == "f64" {
                "c128"
            } else {
                "c64"
            };
            with_dtype(array(0)?, dtype)
        }
        "abs" if matches!(array(0)?.dtype, "c64" | "c128") => complex_part(array(0)?),
        "transpose" => transpose(array(0)?, &made.attrs.ints("dimensions")?),
        "reverse" | "dynamic-update-slice" | "scatter" => operand(0).cloned(),
        "reduce" => reduce(made, known),
        "concatenate" => concatenate(made, known),
        "dynamic-slice" => {
            let sizes = made.attrs.ints("dynamic_slice_sizes")?;
            sized(array(0)?, &sizes)
        }
        "slice" => sized(array(0)?, &slice_sizes(made.attrs.get("slice")?)?),
        "pad" => pad(array(0)?, made.attrs.get("padding")?),
        "dot" => dot(made, array(0)?, array(1)?),
        name if is_elementwise(name) => operand(0).cloned(),
        _ => None,
    }
}

/// Instructions whose result is shaped like their first operand.
fn is_elementwise(name: &str) -> bool {
    matches!(
        name,
        "abs"
            | "acos"
            | "acosh"
            | "add"
            | "and"
            | "asin"
            | "asinh"
            | "atan2"
            | "atanh"
            | "cbrt"
            | "ceil"
            | "cosine"
            | "cosh"
            | "count-leading-zeros"
            | "divide"
            | "erf"
            | "exponential"
            | "exponential-minus-one"
            | "floor"
            | "log"
            | "log-plus-one"
            | "logistic"
            | "maximum"
            | "minimum"
            | "multiply"
            | "negate"
            | "not"
            | "or"
            | "popcnt"
            | "power"
            | "remainder"
            | "round-nearest-afz"
            | "round-nearest-even"
            | "rsqrt"
            | "shift-left"
            | "shift-right-arithmetic"
            | "shift-right-logical"
            | "sign"
            | "sine"
            | "sinh"
            | "sqrt"
            | "subtract"
            | "tan"
            | "tanh"
            | "xor"
    )
}

fn plain(dtype: &'static str, dims: Vec<Extent>) -> Shape {
    Shape::Array(ArrayShape::new(dtype, dims))
}

fn with_dtype(array: &ArrayShape, dtype: &'static str) -> Option<Shape> {
    Some(Shape::Array(ArrayShape {
        dtype,
        ..array.clone()
    }))
}

fn complex_part(array: &ArrayShape) -> Option<Shape> {
    match array.dtype {
        "c64" => with_dtype(array, "f32"),
        "c128" => with_dtype(array, "f64"),
        dtype => with_dtype(array, dtype),
    }
}

fn transpose(array: &ArrayShape, perm: &[i64]) -> Option<Shape> {
    let extent = |&p: &i64| array.dims.get(usize::try_from(p).ok()?).copied();
    let dims: Vec<Extent> = perm.iter().map(extent).collect::<Option<_>>()?;
    (dims.len() == array.dims.len()).then(|| plain(array.dtype, dims))
}

fn reduce(made: &Instruction, known: &[Instruction]) -> Option<Shape> {
    let axes = made.attrs.ints("dimensions")?;
    let inputs = &made.operands[..made.operands.len() / 2];
    let mut results = Vec::with_capacity(inputs.len());
    for &input in inputs {
        let array = known[input].shape.array()?;
        let kept = |d: &usize| !axes.iter().any(|&a| usize::try_from(a) == Ok(*d));
        let dims = (0..array.dims.len()).filter(kept).map(|d| array.dims[d]);
        results.push(plain(array.dtype, dims.collect()));
    }
    match results.len() {
        1 => results.pop(),
        _ => Some(Shape::Tuple(results)),
    }
}

fn concatenate(made: &Instruction, known: &[Instruction]) -> Option<Shape> {
    let axis = usize::try_from(*made.attrs.ints("dimensions")?.first()?).ok()?;
    let first = known[*made.operands.first()?].shape.array()?;
    let mut total = 0u64;
    for &operand in &made.operands {
        match known[operand].shape.array()?.dims.get(axis)? {
            Extent::Fixed(n) => total = total.checked_add(*n)?,
            Extent::Bounded(_) | Extent::Unknown => return None,
        }
    }
    let mut dims = first.dims.clone();
    *dims.get_mut(axis)? = Extent::Fixed(total);
    Some(plain(first.dtype, dims))
}

fn sized(array: &ArrayShape, sizes: &[i64]) -> Option<Shape> {
    let extent = |&n: &i64| u64::try_from(n).ok().map(Extent::Fixed);
    let dims: Vec<Extent> = sizes.iter().map(extent).collect::<Option<_>>()?;
    (dims.len() == array.dims.len()).then(|| plain(array.dtype, dims))
}

/// Start, limit and stride of every dimension of `{[0:4], [1:9:2]}`.
pub(crate) fn slice_bounds(text: &str) -> Option<Vec<[i64; 3]>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut bounds = Vec::new();
    for part in inner.split(']') {
        let part = part.trim().trim_start_matches(',').trim();
        if part.is_empty() {
            continue;
        }
        let numbers = part
            .strip_prefix('[')?
            .split(':')
            .map(|n| n.trim().parse().ok());
        let numbers: Vec<i64> = numbers.collect::<Option<_>>()?;
        match numbers[..] {
            [start, limit] => bounds.push([start, limit, 1]),
            [start, limit, stride] => bounds.push([start, limit, stride]),
            _ => return None,
        }
    }
    Some(bounds)
}

fn slice_sizes(text: &str) -> Option<Vec<i64>> {
    let size = |[start, limit, stride]: [i64; 3]| {
        if stride < 1 {
            return None;
        }
        let span = limit.checked_sub(start)?.max(0);
        Some(span / stride + i64::from(span % stride != 0))
    };
    slice_bounds(text)?.into_iter().map(size).collect()
}

/// Low, high and interior padding of every dimension of `0_0x1_2_1`.
pub(crate) fn padding(text: &str) -> Option<Vec<[i64; 3]>> {
    let one = |part: &str| {
        let numbers: Option<Vec<i64>> = part.split('_').map(|n| n.parse().ok()).collect();
        match numbers?[..] {
            [low, high] => Some([low, high, 0]),
            [low, high, interior] => Some([low, high, interior]),
            _ => None,
        }
    };
    text.trim().split('x').map(one).collect()
}

fn pad(array: &ArrayShape, text: &str) -> Option<Shape> {
    let amounts = padding(text)?;
    if amounts.len() != array.dims.len() {
        return None;
    }
    let mut dims = Vec::with_capacity(amounts.len());
    for (extent, [low, high, interior]) in array.dims.iter().zip(amounts) {
        let Extent::Fixed(n) = *extent else {
            return None;
        };
        let n = i64::try_from(n).ok()?;
        let between = (n - 1).max(0).checked_mul(interior)?;
        let padded = n
            .checked_add(low)?
            .checked_add(high)?
            .checked_add(between)?;
        dims.push(Extent::Fixed(u64::try_from(padded).ok()?));
    }
    Some(plain(array.dtype, dims))
}

fn dot(made: &Instruction, lhs: &ArrayShape, rhs: &ArrayShape) -> Option<Shape> {
    let list = |name: &str| made.attrs.ints(name).unwrap_or_default();
    let batch = list("lhs_batch_dims");
    let extent = |&d: &i64| lhs.dims.get(usize::try_from(d).ok()?).copied();
    let mut dims: Vec<Extent> = batch.iter().map(extent).collect::<Option<_>>()?;
    for (array, batch, contracted) in [
        (lhs, batch, list("lhs_contracting_dims")),
        (rhs, list("rhs_batch_dims"), list("rhs_contracting_dims")),
    ] {
        let used = |d: usize| {
            batch
                .iter()
                .chain(&contracted)
                .any(|&x| usize::try_from(x) == Ok(d))
        };
        dims.extend(
            (0..array.dims.len())
                .filter(|&d| !used(d))
                .map(|d| array.dims[d]),
        );
    }
    Some(plain(lhs.dtype, dims))
}
