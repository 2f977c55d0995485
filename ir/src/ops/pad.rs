//! `hbir.pad`: `low[d]` elements before and `high[d]` after each dimension (ONNX `Pad`, StableHLO `pad` without interior
//! padding).
//!
//! `mode` says what they hold: `constant` the number `value` (0 when absent; there negative amounts cut
//! elements off), `reflect` the elements mirrored at the first and last one, `edge` these two, `wrap`
//! the elements over again.

use crate::attr::Attr;
use crate::op::{Freedom, FreedomClass, Inferred, OpError, OpRef, Registry, Role, Traffic};
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::{marks, or_barrier};
use crate::ops::shape::{computed, float_or, ints_or, one, operand_bytes, result_bytes, word};
use crate::size::Size;
use crate::tensor::{Data, EvalError, Offsets, Tensor};
use crate::tile::{Access, Index, LoopKind};
use crate::types::{DType, Dim};

const PAD: Decl = Decl::new(
    "hbir.pad",
    "concat",
    "elements added around a tensor",
    (1, 1),
    infer,
    eval,
)
.freedom(freedom)
.access(access)
.traffic(traffic);

const MODES: [&str; 4] = ["constant", "reflect", "edge", "wrap"];

/// The greatest amount of padding that is believed.
const MAX_PAD: u64 = 1 << 40;

struct Amounts {
    low: Vec<i64>,
    high: Vec<i64>,
    mode: &'static str,
}

/// C1: one amount a dimension. C2: a known mode. C3: negative amounts only in constant mode.
fn amounts(op: &OpRef<'_>, rank: usize) -> Result<Amounts, OpError> {
    let low = ints_or(op, "pad-c1", "low", rank, 0)?;
    let high = ints_or(op, "pad-c1", "high", rank, 0)?;
    let mode = word(op, "pad-c2", "mode", &MODES, "constant")?;
    if let Some(n) = low
        .iter()
        .chain(&high)
        .find(|n| mode != "constant" && **n < 0)
    {
        let message = format!("hbir.pad of mode {mode} by {n}, wanted 0 or more");
        return Err(OpError::new("pad-c3", message));
    }
    if let Some(n) = low.iter().chain(&high).find(|n| MAX_PAD < n.unsigned_abs()) {
        return Err(OpError::new(
            "pad-c1",
            format!("hbir.pad by {n}, wanted less than 2^40"),
        ));
    }
    Ok(Amounts { low, high, mode })
}

/// C1 to C3: see [`amounts`]. C4: no extent falls below 0. C5: there are elements to mirror,
/// repeat or wrap, for a mirror more than the amount.
fn infer(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    float_or(op, "value", 0.0)?;
    let pads = amounts(op, x.rank())?;
    let mut dims = Vec::with_capacity(x.rank());
    for (d, dim) in x.dims.iter().enumerate() {
        let (low, high) = (pads.low[d], pads.high[d]);
        let Some(n) = dim.fixed() else {
            dims.push(computed(dim, |n| {
                n.plus(&Size::constant(i128::from(low) + i128::from(high)))
            }));
            continue;
        };
        let grown = n
            .checked_add_signed(low)
            .and_then(|n| n.checked_add_signed(high));
        let grown = grown.ok_or_else(|| {
            let message = format!("hbir.pad by {low} and {high} of dimension {d} of size {n}");
            OpError::new("pad-c4", message)
        })?;
        let least = match pads.mode {
            "constant" => 0,
            "reflect" => low.max(high).unsigned_abs() + 1,
            _ => 1,
        };
        if n < least && (low, high) != (0, 0) {
            let message = format!(
                "hbir.pad of mode {} by {low} and {high} of dimension {d} of size {n}, wanted \
                 {least} elements or more",
                pads.mode
            );
            return Err(OpError::new("pad-c5", message));
        }
        dims.push(Dim::Fixed(grown));
    }
    one(dims, x.dtype)
}

/// The element of one dimension that position `at` holds.
fn source(at: usize, low: i64, n: usize, mode: &str) -> Option<usize> {
    let (i, n) = (at as i64 - low, n as i64);
    let inside = (0..n).contains(&i);
    let j = match mode {
        _ if inside => i,
        "reflect" if i < 0 => -i,
        "reflect" => 2 * (n - 1) - i,
        "edge" => i.clamp(0, n - 1),
        "wrap" => i.rem_euclid(n),
        _ => return None,
    };
    usize::try_from(j).ok()
}

fn eval(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let (x, shape) = (call.input(0), call.shape());
    let pads = amounts(call.op, x.shape.len()).map_err(|e| EvalError::new(e.message))?;
    let strides = x.strides();
    let mut walk = Offsets::new(&shape, vec![0; shape.len()], 0);
    let n: usize = shape.iter().product();
    let mut places: Vec<Option<usize>> = Vec::with_capacity(n);
    for _ in 0..n {
        let place = walk
            .index()
            .iter()
            .enumerate()
            .try_fold(0, |sum, (d, &at)| {
                Some(sum + source(at, pads.low[d], x.shape[d], pads.mode)? * strides[d])
            });
        places.push(place);
        walk.next();
    }
    let fill = fill(call.op.props.get("value"), x.dtype);
    let data = match (&x.data, fill.data) {
        (Data::F32(v), Data::F32(f)) => Data::F32(pick(v, f[0], &places)),
        (Data::F64(v), Data::F64(f)) => Data::F64(pick(v, f[0], &places)),
        (Data::I64(v), Data::I64(f)) => Data::I64(pick(v, f[0], &places)),
        _ => {
            return Err(EvalError::new(
                "the operand holds another kind of data than its type",
            ));
        }
    };
    Ok(vec![Tensor {
        dtype: x.dtype,
        shape,
        data,
    }])
}

fn pick<T: Copy>(from: &[T], fill: T, places: &[Option<usize>]) -> Vec<T> {
    places.iter().map(|p| p.map_or(fill, |p| from[p])).collect()
}

/// The number of `value` as one element.
fn fill(value: Option<&Attr>, dtype: DType) -> Tensor {
    match value {
        Some(Attr::Int(n, _)) => Tensor::from_i64(dtype, vec![], [*n]),
        other => Tensor::from_f64(
            dtype,
            vec![],
            [other.and_then(Attr::as_float).unwrap_or(0.0)],
        ),
    }
}

fn freedom(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let rank = op.operand(0)?.rank();
        let pads = amounts(op, rank)?;
        let labels = f.fresh_for(rank);
        for (d, &label) in labels.iter().enumerate() {
            let (low, high) = (pads.low[d], pads.high[d]);
            if (low, high) == (0, 0) {
                continue;
            }
            f.role(label, Role::Axis);
            if pads.mode == "reflect" || pads.mode == "edge" {
                f.uncut(label);
            }
            f.cut(label, low.unsigned_abs());
            f.cut(label, high.unsigned_abs());
        }
        f.operand(marks(&labels));
        f.result(marks(&labels));
        Ok(())
    })
}

/// Element p of the result is p - low of the operand; what is mirrored, repeated or wrapped comes from
/// anywhere.
fn access(op: &OpRef<'_>) -> Result<Access, OpError> {
    let (x, y) = (op.operand(0)?, op.result(0)?);
    let pads = amounts(op, x.rank())?;
    let mut access = Access::whole(op);
    for (d, dim) in y.dims.iter().enumerate() {
        let (low, high) = (pads.low[d], pads.high[d]);
        if (low, high) != (0, 0) && pads.mode != "constant" {
            continue;
        }
        let id = access.add(dim.fixed().unwrap_or(0), LoopKind::Parallel);
        access.results[0][d] = Index::of(id);
        access.operands[0][d] = Index::shifted(id, 1, low.saturating_neg());
    }
    Ok(access)
}

fn traffic(op: &OpRef<'_>) -> Traffic {
    let (r, w) = (operand_bytes(op, 0), result_bytes(op));
    if r == w {
        Traffic::None
    } else {
        Traffic::Copy(r, w)
    }
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(PAD);
}
