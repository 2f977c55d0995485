//! Infers the result's shape if the text omits it.

use crate::module::{Computation, Instruction};
use optc_ir::size::Size;
use optc_layout::{XlaArray, XlaDim, XlaShape, XlaType};
use std::sync::Arc;

/// The shape of an instruction by its operands and attributes; `None` if they do not determine it.
///
/// Operands are indices into `known`, called computations indices into `computations`.
#[must_use]
pub fn infer(
    made: &Instruction,
    known: &[Instruction],
    computations: &[Computation],
) -> Option<XlaShape> {
    let operand = |i: usize| made.operands.get(i).map(|&o| &*known[o].shape);
    let array = |i: usize| operand(i)?.as_array();
    let root = |attr: &str| {
        let &index = made.called(attr)?.first()?;
        Some((*computations.get(index)?.root().shape).clone())
    };
    match made.opcode {
        "tuple" => {
            let parts = made.operands.iter().map(|&o| (*known[o].shape).clone());
            Some(XlaShape::Tuple(parts.collect()))
        }
        "get-tuple-element" => match operand(0)? {
            XlaShape::Tuple(parts) => parts
                .get(usize::try_from(made.attrs.int("index")?).ok()?)
                .cloned(),
            _ => None,
        },
        "after-all" => Some(XlaShape::Token),
        "while" | "opt-barrier" | "domain" | "copy" | "reduce-precision" | "sort" => {
            match made.operands.as_slice() {
                [_] => operand(0).cloned(),
                many => Some(XlaShape::Tuple(
                    many.iter().map(|&o| (*known[o].shape).clone()).collect(),
                )),
            }
        }
        "call" => root("to_apply"),
        "fusion" => root("calls"),
        "conditional" => root("branch_computations").or_else(|| root("true_computation")),
        "compare" | "is-finite" => with_element(array(0)?, XlaType::Pred),
        "partition-id" | "replica-id" => Some(plain(XlaType::U32, Vec::new())),
        "get-dimension-size" => Some(plain(XlaType::S32, Vec::new())),
        "select" | "clamp" => operand(1).cloned(),
        "real" | "imag" => complex_part(array(0)?),
        "complex" => {
            let complex = match array(0)?.element {
                XlaType::F64 => XlaType::C128,
                _ => XlaType::C64,
            };
            with_element(array(0)?, complex)
        }
        "abs" if matches!(array(0)?.element, XlaType::C64 | XlaType::C128) => {
            complex_part(array(0)?)
        }
        "cholesky" => operand(0).cloned(),
        "broadcast" if made.attrs.ints("dimensions")?.is_empty() => {
            let scalar = array(0)?;
            scalar
                .dims
                .is_empty()
                .then(|| XlaShape::Array(scalar.clone()))
        }
        "map" => with_element(array(0)?, root("to_apply")?.as_array()?.element),
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

/// Returns whether the result of an instruction has the shape of its first operand.
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

fn plain(element: XlaType, dims: Vec<XlaDim>) -> XlaShape {
    XlaShape::Array(XlaArray {
        element,
        dims,
        notation: None,
    })
}

fn with_element(array: &XlaArray, element: XlaType) -> Option<XlaShape> {
    Some(XlaShape::Array(XlaArray {
        element,
        ..array.clone()
    }))
}

fn complex_part(array: &XlaArray) -> Option<XlaShape> {
    let part = match array.element {
        XlaType::C64 => XlaType::F32,
        XlaType::C128 => XlaType::F64,
        other => other,
    };
    with_element(array, part)
}

fn transpose(array: &XlaArray, perm: &[i64]) -> Option<XlaShape> {
    let extent = |&p: &i64| array.dims.get(usize::try_from(p).ok()?).cloned();
    let dims: Vec<XlaDim> = perm.iter().map(extent).collect::<Option<_>>()?;
    (dims.len() == array.dims.len()).then(|| plain(array.element, dims))
}

fn reduce(made: &Instruction, known: &[Instruction]) -> Option<XlaShape> {
    let axes = made.attrs.ints("dimensions")?;
    let inputs = &made.operands[..made.operands.len() / 2];
    let mut results = Vec::with_capacity(inputs.len());
    for &input in inputs {
        let array = known[input].shape.as_array()?;
        let kept = |d: &usize| !axes.iter().any(|&a| usize::try_from(a) == Ok(*d));
        let dims = (0..array.dims.len())
            .filter(kept)
            .map(|d| array.dims[d].clone());
        results.push(plain(array.element, dims.collect()));
    }
    match results.len() {
        1 => results.pop(),
        _ => Some(XlaShape::Tuple(results)),
    }
}

fn concatenate(made: &Instruction, known: &[Instruction]) -> Option<XlaShape> {
    let axis = usize::try_from(*made.attrs.ints("dimensions")?.first()?).ok()?;
    let first = known[*made.operands.first()?].shape.as_array()?;
    let mut total = Size::default();
    for &operand in &made.operands {
        let dim = known[operand].shape.as_array()?.dims.get(axis)?;
        total = total.plus(&size(dim)?)?;
    }
    let mut dims = first.dims.clone();
    *dims.get_mut(axis)? = dim(&total)?;
    Some(plain(first.element, dims))
}

/// A size as a polynomial of names; `None` for one without a name.
#[must_use]
pub fn size(dim: &XlaDim) -> Option<Size> {
    match dim {
        XlaDim::Size(n) => Some(Size::from(*n)),
        XlaDim::Named(text) => Some(Size::of_text(text)),
        XlaDim::Bounded(_) | XlaDim::Unbounded => None,
    }
}

/// The dimension of a size that is not negative.
fn dim(size: &Size) -> Option<XlaDim> {
    Some(match size.as_constant() {
        Some(n) => XlaDim::Size(u64::try_from(n).ok()?),
        None => XlaDim::Named(Arc::from(size.to_text())),
    })
}

fn sized(array: &XlaArray, sizes: &[i64]) -> Option<XlaShape> {
    let extent = |&n: &i64| u64::try_from(n).ok().map(XlaDim::Size);
    let dims: Vec<XlaDim> = sizes.iter().map(extent).collect::<Option<_>>()?;
    (dims.len() == array.dims.len()).then(|| plain(array.element, dims))
}

/// Start, limit and stride of every dimension of `{[0:4], [1:9:2]}`.
pub(crate) fn slice_bounds(text: &str) -> Option<Vec<[i64; 3]>> {
    let number = |size: &Size| i64::try_from(size.as_constant()?).ok();
    let ranges = slice_ranges(text)?.into_iter();
    ranges
        .map(|([start, limit], stride)| Some([number(&start)?, number(&limit)?, stride]))
        .collect()
}

/// The bounds as in [`slice_bounds`], with starts and limits that are sizes: `{[0:s], [1:9:2]}`.
pub(crate) fn slice_ranges(text: &str) -> Option<Vec<([Size; 2], i64)>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut bounds = Vec::new();
    for part in inner.split(']') {
        let part = part.trim().trim_start_matches(',').trim();
        if part.is_empty() {
            continue;
        }
        let fields: Vec<&str> = part.strip_prefix('[')?.split(':').collect();
        let (start, limit, stride) = match fields[..] {
            [start, limit] => (start, limit, 1),
            [start, limit, stride] => (start, limit, stride.trim().parse().ok()?),
            _ => return None,
        };
        bounds.push(([Size::parse(start)?, Size::parse(limit)?], stride));
    }
    Some(bounds)
}

/// The sizes of `{b,1,max(s, 4)}`.
pub(crate) fn size_list(text: &str) -> Option<Vec<Size>> {
    match text.trim().strip_prefix('{')?.strip_suffix('}')? {
        "" => Some(Vec::new()),
        inner => outside(inner, ',').into_iter().map(Size::parse).collect(),
    }
}

/// The parts of a text between separators outside all parentheses.
pub(crate) fn outside(text: &str, separator: char) -> Vec<&str> {
    let mut depth = 0usize;
    let ends = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == separator && depth == 0
    };
    text.split(ends).collect()
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

fn pad(array: &XlaArray, text: &str) -> Option<XlaShape> {
    let amounts = padding(text)?;
    if amounts.len() != array.dims.len() {
        return None;
    }
    let mut dims = Vec::with_capacity(amounts.len());
    for (extent, [low, high, interior]) in array.dims.iter().zip(amounts) {
        let &XlaDim::Size(n) = extent else {
            let around = i128::from(low.checked_add(high)?);
            let padded = size(extent)?.plus(&Size::constant(around))?;
            dims.push(dim(&padded).filter(|_| interior == 0)?);
            continue;
        };
        let n = i64::try_from(n).ok()?;
        let between = (n - 1).max(0).checked_mul(interior)?;
        let padded = n
            .checked_add(low)?
            .checked_add(high)?
            .checked_add(between)?;
        dims.push(XlaDim::Size(u64::try_from(padded).ok()?));
    }
    Some(plain(array.element, dims))
}

fn dot(made: &Instruction, lhs: &XlaArray, rhs: &XlaArray) -> Option<XlaShape> {
    let list = |name: &str| made.attrs.ints(name).unwrap_or_default();
    let batch = list("lhs_batch_dims");
    let extent = |&d: &i64| lhs.dims.get(usize::try_from(d).ok()?).cloned();
    let mut dims: Vec<XlaDim> = batch.iter().map(extent).collect::<Option<_>>()?;
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
                .map(|d| array.dims[d].clone()),
        );
    }
    Some(plain(lhs.element, dims))
}
