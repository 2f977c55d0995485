//! Comparison and selection.
//!
//! `hbir.compare`: `y = a direction b` as `i1` (ONNX `Equal`, `Less`, …; StableHLO `compare`; NaN is
//! unequal to everything). `hbir.select`: `y = cond ? a : b` (ONNX `Where`, StableHLO `select`).
//! Both broadcast by numpy's rule.

use crate::op::{Inferred, OpError, OpRef, Registry};
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::broadcasting;
use crate::ops::shape::{broadcast, common_dtype, one, operand_dims};
use crate::tensor::{Data, EvalError, Offsets, Tensor};
use crate::types::DType;
use std::cmp::Ordering;

const DIRECTIONS: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];

const COMPARE: Decl = Decl::new(
    "hbir.compare",
    "elementwise",
    "whether a is eq, ne, lt, le, gt or ge to b",
    (2, 2),
    infer_compare,
    eval_compare,
)
.freedom(broadcasting);

const SELECT: Decl = Decl::new(
    "hbir.select",
    "elementwise",
    "a where the condition holds, else b",
    (3, 3),
    infer_select,
    eval_select,
)
.freedom(broadcasting);

/// C1: one element type. C2: a known direction. C3: the shapes broadcast.
fn infer_compare(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    common_dtype(op, "compare-c1", 0..2)?;
    let found = op.attr("direction")?.as_str().unwrap_or("");
    if !DIRECTIONS.contains(&found) {
        let message =
            format!("hbir.compare has direction = \"{found}\", wanted eq, ne, lt, le, gt or ge");
        return Err(OpError::new("compare-c2", message));
    }
    one(
        broadcast(op, "compare-c3", &operand_dims(op)?)?,
        DType::BOOL,
    )
}

fn eval_compare(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let direction = call.op.props.str("direction").unwrap_or("");
    let (a, b, shape) = (call.input(0), call.input(1), call.shape());
    let float = a.dtype.is_float();
    let order = |i, j| {
        if float {
            a.f64_at(i).partial_cmp(&b.f64_at(j))
        } else {
            Some(a.i128_at(i).cmp(&b.i128_at(j)))
        }
    };
    let holds = |order: Option<Ordering>| match direction {
        "eq" => order == Some(Ordering::Equal),
        "ne" => order != Some(Ordering::Equal),
        "lt" => order == Some(Ordering::Less),
        "le" => order.is_some_and(Ordering::is_le),
        "gt" => order == Some(Ordering::Greater),
        _ => order.is_some_and(Ordering::is_ge),
    };
    let at = Offsets::broadcast(&a.shape, &shape).zip(Offsets::broadcast(&b.shape, &shape));
    Ok(call.integers(at.map(|(i, j)| i128::from(holds(order(i, j))))))
}

/// C1: the condition is `i1`. C2: both branches have one element type. C3: the shapes broadcast.
fn infer_select(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let cond = op.operand(0)?.dtype;
    if !cond.is_bool() {
        let message = format!("hbir.select has a condition of {cond}, wanted i1");
        return Err(OpError::new("select-c1", message));
    }
    let dtype = common_dtype(op, "select-c2", 1..3)?;
    one(broadcast(op, "select-c3", &operand_dims(op)?)?, dtype)
}

fn eval_select(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let shape = call.shape();
    let walk = |i: usize| Offsets::broadcast(&call.input(i).shape, &shape);
    let (cond, a, b) = (call.input(0), call.input(1), call.input(2));
    let at = walk(0).zip(walk(1)).zip(walk(2));
    let pick = |c: usize| cond.i64_at(c) != 0;
    let data = match (&a.data, &b.data) {
        (Data::F32(a), Data::F32(b)) => Data::F32(
            at.map(|((c, i), j)| if pick(c) { a[i] } else { b[j] })
                .collect(),
        ),
        (Data::F64(a), Data::F64(b)) => Data::F64(
            at.map(|((c, i), j)| if pick(c) { a[i] } else { b[j] })
                .collect(),
        ),
        (Data::I64(a), Data::I64(b)) => Data::I64(
            at.map(|((c, i), j)| if pick(c) { a[i] } else { b[j] })
                .collect(),
        ),
        _ => return Err(EvalError::new("the branches hold different kinds of data")),
    };
    Ok(vec![Tensor {
        dtype: call.dtype(),
        shape,
        data,
    }])
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(COMPARE);
    registry.add(SELECT);
}
