//! Reductions.
//!
//! `hbir.reduce`: one number for all elements along `axes` (ONNX `ReduceSum`, `ReduceMean`, …, StableHLO
//! `reduce` with a known body); `keepdims` leaves extents of 1; without `axes` all dimensions.
//! Kinds: sum, mean, max, min, prod, l1 `sum |x|`, l2 `sqrt(sum x^2)`, sum_square, log_sum,
//! log_sum_exp, and of every bit of integers and truth values: and, or. The sum over no elements is 0, the product 1, the greatest the least value there is.
//! `hbir.arg_max` and `hbir.arg_min`: where along `axis` the greatest or least element lies, as si64; the
//! first of several, or the last with `select_last_index`. NaN counts as extreme.

use crate::op::{Freedom, FreedomClass, Inferred, OpError, OpRef, Registry, Role};
use crate::ops::cast::int_range;
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::or_barrier;
use crate::ops::shape::{axes, axis_or, flag_or, one, show};
use crate::tensor::{EvalError, Tensor};
use crate::tile::{Access, Combine, Index, LoopKind};
use crate::types::{DType, Dim};

const KINDS: [&str; 12] = [
    "sum",
    "mean",
    "max",
    "min",
    "prod",
    "l1",
    "l2",
    "sum_square",
    "log_sum",
    "log_sum_exp",
    "and",
    "or",
];

const REDUCE: Decl = Decl::new(
    "hbir.reduce",
    "reduce",
    "sum, mean, max, min, prod, l1, l2, sum_square, log_sum, log_sum_exp, and, or along axes",
    (1, 1),
    infer_reduce,
    eval_reduce,
)
.freedom(freedom_reduce)
.access(access_reduce);

const ARG_MAX: Decl = Decl::new(
    "hbir.arg_max",
    "reduce",
    "where along an axis the greatest element lies",
    (1, 1),
    infer_arg,
    eval_arg,
)
.freedom(freedom_arg);

const ARG_MIN: Decl = Decl::new(
    "hbir.arg_min",
    "reduce",
    "where along an axis the least element lies",
    (1, 1),
    infer_arg,
    eval_arg,
)
.freedom(freedom_arg);

/// C1: a known kind. C2: axes of the operand, each once. C3: logarithms are of floats. C4: bits are not.
fn infer_reduce(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    let kind = op.attr("kind")?.as_str().unwrap_or("");
    if !KINDS.contains(&kind) {
        let wanted = KINDS.join(", ");
        let message = format!("hbir.reduce has kind = \"{kind}\", wanted one of {wanted}");
        return Err(OpError::new("reduce-c1", message));
    }
    if kind.starts_with("log") && !x.dtype.is_float() {
        let message = format!(
            "hbir.reduce of kind {kind} of {}, wanted a float type",
            x.dtype
        );
        return Err(OpError::new("reduce-c3", message));
    }
    if matches!(kind, "and" | "or") && x.dtype.is_float() {
        let message = format!(
            "hbir.reduce of kind {kind} of {}, wanted i1 or an integer type",
            x.dtype
        );
        return Err(OpError::new("reduce-c4", message));
    }
    let axes = reduced_axes(op, x.rank())?;
    one(
        without(&x.dims, &axes, flag_or(op, "keepdims", false)?),
        x.dtype,
    )
}

fn reduced_axes(op: &OpRef<'_>, rank: usize) -> Result<Vec<usize>, OpError> {
    if op.props.get("axes").is_none() {
        return Ok((0..rank).collect());
    }
    axes(op, "reduce-c2", "axes", rank)
}

fn without(dims: &[Dim], axes: &[usize], keep: bool) -> Vec<Dim> {
    let dim = |(d, dim): (usize, &Dim)| match (axes.contains(&d), keep) {
        (false, _) => Some(dim.clone()),
        (true, true) => Some(Dim::Fixed(1)),
        (true, false) => None,
    };
    dims.iter().enumerate().filter_map(dim).collect()
}

fn eval_reduce(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let x = call.input(0);
    let rank = x.shape.len();
    let axes = reduced_axes(call.op, rank).map_err(|e| EvalError::new(e.message))?;
    let kept: Vec<usize> = (0..rank).filter(|d| !axes.contains(d)).collect();
    let last = x.transposed(&[kept, axes.clone()].concat());
    let n: usize = axes.iter().map(|&a| x.shape[a]).product();
    let kind = call.op.props.str("kind").unwrap_or("");
    let rows = call.shape().iter().product();
    if x.dtype.is_float() {
        let mut row = vec![0.0; n];
        return Ok(call.floats((0..rows).map(|r| {
            last.read_f64(r * n, &mut row);
            reduce_floats(kind, &row)
        })));
    }
    Ok(call.integers((0..rows).map(|r| {
        let row: Vec<i128> = (r * n..(r + 1) * n).map(|i| last.i128_at(i)).collect();
        reduce_integers(kind, &row, x.dtype)
    })))
}

#[expect(clippy::cast_precision_loss, reason = "a count of elements")]
fn reduce_floats(kind: &str, row: &[f64]) -> f64 {
    let sum = |f: fn(f64) -> f64| row.iter().map(|&x| f(x)).fold(0.0, |a, b| a + b);
    let greatest = || {
        row.iter().fold(
            f64::NEG_INFINITY,
            |a, &b| if a.is_nan() || b < a { a } else { b },
        )
    };
    match kind {
        "mean" => sum(|x| x) / row.len() as f64,
        "max" => greatest(),
        "min" => row.iter().fold(
            f64::INFINITY,
            |a, &b| if a.is_nan() || a < b { a } else { b },
        ),
        "prod" => row.iter().product(),
        "l1" => sum(f64::abs),
        "l2" => sum(|x| x * x).sqrt(),
        "sum_square" => sum(|x| x * x),
        "log_sum" => sum(|x| x).ln(),
        "log_sum_exp" => {
            let top = greatest();
            let shift = if top.is_finite() { top } else { 0.0 };
            row.iter().map(|x| (x - shift).exp()).sum::<f64>().ln() + shift
        }
        _ => sum(|x| x),
    }
}

fn reduce_integers(kind: &str, row: &[i128], dtype: DType) -> i128 {
    let sum = |f: fn(i128) -> i128| row.iter().fold(0i128, |a, &x| a.wrapping_add(f(x)));
    let (low, high) = int_range(dtype);
    match kind {
        "mean" => sum(|x| x).checked_div(row.len() as i128).unwrap_or(0),
        "max" => row.iter().copied().fold(low, i128::max),
        "min" => row.iter().copied().fold(high, i128::min),
        "prod" => row.iter().fold(1i128, |a, &x| a.wrapping_mul(x)),
        "l1" => sum(i128::abs),
        "l2" => sum(|x| x.wrapping_mul(x)).max(0).isqrt(),
        "sum_square" => sum(|x| x.wrapping_mul(x)),
        "and" => row
            .iter()
            .fold(if dtype.is_bool() { 1 } else { -1 }, |a, &x| a & x),
        "or" => row.iter().fold(0, |a, &x| a | x),
        _ => sum(|x| x),
    }
}

fn freedom_reduce(op: &OpRef<'_>) -> Freedom {
    match op.operand(0).and_then(|x| reduced_axes(op, x.rank())) {
        Ok(axes) => freedom(op, &axes),
        Err(_) => Freedom::barrier(op),
    }
}

/// A kind whose parts combine reduces in loops; of the others the reduced dimensions are whole.
fn access_reduce(op: &OpRef<'_>) -> Result<Access, OpError> {
    let x = op.operand(0)?;
    let axes = reduced_axes(op, x.rank())?;
    let keep = flag_or(op, "keepdims", false)?;
    let combine = match op.attr("kind")?.as_str() {
        Some("sum" | "l1" | "sum_square") => Some(Combine::Add),
        Some("prod") => Some(Combine::Multiply),
        Some("max") => Some(Combine::Max),
        Some("min") => Some(Combine::Min),
        _ => None,
    };
    let mut access = Access::whole(op);
    let mut result = Vec::new();
    for (d, dim) in x.dims.iter().enumerate() {
        let extent = dim.fixed().unwrap_or(0);
        if !axes.contains(&d) {
            let id = access.add(extent, LoopKind::Parallel);
            access.operands[0][d] = Index::of(id);
            result.push(Index::of(id));
            continue;
        }
        if let Some(combine) = combine {
            let id = access.add(extent, LoopKind::Reduce(combine));
            access.operands[0][d] = Index::of(id);
        }
        if keep {
            result.push(Index::zero());
        }
    }
    access.results = vec![result];
    Ok(access)
}

/// Reduced dimensions have labels of their own; a kept extent of 1 has none.
fn freedom(op: &OpRef<'_>, axes: &[usize]) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let keep = flag_or(op, "keepdims", false)?;
        let labels = f.fresh_for(op.operand(0)?.rank());
        axes.iter().for_each(|&a| f.role(labels[a], Role::Axis));
        f.operand(labels.iter().copied().map(Some).collect());
        let mark = |(d, &label): (usize, &usize)| match (axes.contains(&d), keep) {
            (false, _) => Some(Some(label)),
            (true, true) => Some(None),
            (true, false) => None,
        };
        f.result(labels.iter().enumerate().filter_map(mark).collect());
        Ok(())
    })
}

/// C1: an axis of the operand. C2: the axis is not empty.
fn infer_arg(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    let axis = axis_or(op, "arg-c1", x.rank(), 0)?;
    if x.dims[axis] == Dim::Fixed(0) {
        let message = format!(
            "{} of {} along the empty axis {axis}",
            op.name,
            show(&x.dims)
        );
        return Err(OpError::new("arg-c2", message));
    }
    flag_or(op, "select_last_index", false)?;
    one(
        without(&x.dims, &[axis], flag_or(op, "keepdims", false)?),
        DType::SI64,
    )
}

fn eval_arg(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let x = call.input(0);
    let axis =
        axis_or(call.op, "arg-c1", x.shape.len(), 0).map_err(|e| EvalError::new(e.message))?;
    let last = flag_or(call.op, "select_last_index", false) == Ok(true);
    let least = call.op.name == "hbir.arg_min";
    let lanes = Lanes::new(&x.shape, axis);
    let better = |a: usize, b: usize| {
        let order = element_order(x, a, b);
        let order = if least { order.reverse() } else { order };
        if last { order.is_ge() } else { order.is_gt() }
    };
    let place = |(start, step): (usize, usize)| {
        let best = (0..lanes.n).reduce(|best, i| {
            if better(start + i * step, start + best * step) {
                i
            } else {
                best
            }
        });
        best.unwrap_or(0) as i128
    };
    let nan_first = |lane: (usize, usize)| {
        let mut nans = (0..lanes.n).filter(|i| x.f64_at(lane.0 + i * lane.1).is_nan());
        let nan = if last { nans.next_back() } else { nans.next() };
        nan.map_or_else(|| place(lane), |i| i as i128)
    };
    Ok(call.integers(lanes.iter().map(nan_first)))
}

/// How element `i` compares with element `j`; NaN is above everything and equal to itself.
pub(crate) fn element_order(x: &Tensor, i: usize, j: usize) -> std::cmp::Ordering {
    if !x.dtype.is_float() {
        return x.i128_at(i).cmp(&x.i128_at(j));
    }
    let (a, b) = (x.f64_at(i), x.f64_at(j));
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn freedom_arg(op: &OpRef<'_>) -> Freedom {
    match op
        .operand(0)
        .and_then(|x| axis_or(op, "arg-c1", x.rank(), 0))
    {
        Ok(axis) => freedom(op, &[axis]),
        Err(_) => Freedom::barrier(op),
    }
}

/// The lines of a tensor along one axis.
pub(crate) struct Lanes {
    outer: usize,
    /// Elements of a line.
    pub(crate) n: usize,
    inner: usize,
}

impl Lanes {
    pub(crate) fn new(shape: &[usize], axis: usize) -> Lanes {
        let outer = shape[..axis].iter().product();
        let inner = shape[axis + 1..].iter().product();
        Lanes {
            outer,
            n: shape[axis],
            inner,
        }
    }
    /// The first element of every line and the step to the next, in row-major order of the other
    /// dimensions.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (n, inner) = (self.n, self.inner);
        (0..self.outer).flat_map(move |o| (0..inner).map(move |i| (o * n * inner + i, inner)))
    }
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(REDUCE);
    registry.add(ARG_MAX);
    registry.add(ARG_MIN);
}
