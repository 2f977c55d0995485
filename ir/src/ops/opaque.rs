//! `hbir.opaque`: an operation that the dialect does not know. `kind` is its name in the format it came
//! from, `domain` that name's namespace; other attributes are kept. It has no semantics here: it cannot be
//! evaluated, and no pass looks inside. What it moves is counted where the kind is known to copy.

use crate::op::{Inferred, OpError, OpRef, Registry, Traffic};
use crate::ops::decl::{Call, Decl};
use crate::size::Size;
use crate::tensor::{EvalError, Tensor};
use crate::types::Type;

const OPAQUE: Decl = Decl::new(
    "hbir.opaque",
    "barrier",
    "an operation of another format, unknown here",
    (0, usize::MAX),
    infer,
    eval,
)
.traffic(traffic);

/// Kinds of the ONNX standard that copy what they are given.
const COPIES: [&str; 8] = [
    "Concat",
    "ConcatFromSequence",
    "Pad",
    "ReverseSequence",
    "ScatterElements",
    "ScatterND",
    "Split",
    "SplitToSequence",
];

/// Kinds of the ONNX standard that copy what they give.
const PICKS: [&str; 5] = ["Compress", "Gather", "GatherElements", "GatherND", "Slice"];

/// What the operator of another format moves, if its bytes are known.
fn traffic(op: &OpRef<'_>) -> Traffic {
    let kind = op.props.str("kind").unwrap_or_default();
    let domain = op.props.str("domain").unwrap_or_default();
    if domain == "com.microsoft.nchwc" && matches!(kind, "ReorderInput" | "ReorderOutput") {
        return if one_pixel(op, kind) {
            Traffic::None
        } else {
            Traffic::Movement
        };
    }
    if !matches!(domain, "" | "ai.onnx") {
        return Traffic::None;
    }
    let all = |types: &[&Type]| {
        types
            .iter()
            .try_fold(0u64, |sum, ty| sum.checked_add(bytes(ty)?))
    };
    let written = all(&op.results);
    match kind {
        "Expand" | "Tile" => Traffic::Expand,
        _ if PICKS.contains(&kind) => copy(written.unwrap_or(0), written.unwrap_or(0)),
        _ if COPIES.contains(&kind) => {
            let read = op.operands.first().and_then(|ty| bytes(ty));
            match read.zip(written) {
                Some((read, written)) => copy(read, written),
                None => copy(0, 0),
            }
        }
        _ => Traffic::None,
    }
}

/// A copy of known bytes.
fn copy(read: u64, written: u64) -> Traffic {
    Traffic::Copy(Size::constant(read.into()), Size::constant(written.into()))
}

/// Bytes of a tensor of known extents.
fn bytes(ty: &Type) -> Option<u64> {
    let ty = ty.as_tensor()?;
    let bits = ty.elements()?.checked_mul(u64::from(ty.dtype.bits()))?;
    Some(bits.div_ceil(8))
}

/// Whether a reordering into blocks of channels has one pixel, so that blocks lie as they did.
fn one_pixel(op: &OpRef<'_>, kind: &str) -> bool {
    let plain = if kind == "ReorderOutput" {
        op.result(0)
    } else {
        op.operand(0)
    };
    let shape = plain.ok().and_then(crate::types::TensorType::shape);
    let Some(shape) = shape.filter(|s| 2 <= s.len()) else {
        return false;
    };
    let last = op.props.int("onnx.channels_last").is_some_and(|n| n != 0);
    let stated = op
        .props
        .int("onnx.channels")
        .and_then(|n| u64::try_from(n).ok());
    let channels = stated.unwrap_or(if last {
        shape[shape.len() - 1]
    } else {
        shape[1]
    });
    let volume = shape.iter().try_fold(1u64, |a, &n| a.checked_mul(n));
    let whole = shape[0] <= 1 || channels.is_multiple_of(8);
    whole && volume.is_some() && volume == shape[0].checked_mul(channels)
}

/// C1: `kind` is a name.
fn infer(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    if op.attr("kind")?.as_str().is_none_or(str::is_empty) {
        return Err(OpError::new(
            "opaque-c1",
            "hbir.opaque wants `kind` = the name of an operation",
        ));
    }
    declared_results(op)
}

/// The results as the types say.
pub(crate) fn declared_results(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let result = |i| {
        let ty = op.result(i)?;
        Ok(Inferred {
            dims: ty.dims.clone(),
            dtype: ty.dtype,
        })
    };
    (0..op.results.len()).map(result).collect()
}

fn eval(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let kind = call.op.props.str("kind").unwrap_or("?");
    Err(EvalError::new(format!(
        "the operation {kind} has no meaning here"
    )))
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(OPAQUE);
}
