//! `hbir.broadcast`: numpy's broadcast of the operand with a `shape` (ONNX `Expand`).
//!
//! An entry of `shape` is a number, a symbol's name, or -1, which keeps the operand's dimension. Without `shape` the
//! result type states the shape.

use crate::lists::{shape_attrs, sizes};
use crate::prelude::*;
use crate::shape::{broadcast, operand_bytes, result_bytes, shape_entry};

attributes! {
    /// A repetition along dimensions of extent 1 and along new leading dimensions.
    pub struct Broadcast {
        /// The shape to broadcast with: numbers, names of symbols, or -1, which keeps the operand's dimension. That of
        /// the result type when absent.
        shape: Option<Vec<Attr>>,
    }
}

impl Broadcast {
    /// The broadcast to these extents; -1 keeps that of the operand.
    #[must_use]
    pub fn to<T: Copy + TryInto<i64>>(shape: &[T]) -> Broadcast {
        Broadcast {
            shape: Some(sizes(shape)),
        }
    }

    /// The broadcast to these extents; an extent without a name keeps that of the operand.
    #[must_use]
    pub fn of_dims(dims: &[Dim]) -> Broadcast {
        Broadcast {
            shape: Some(shape_attrs(dims)),
        }
    }
}

impl Operation for Broadcast {
    const NAME: &'static str = "hbir.broadcast";
    const SUMMARY: &'static str = "repeated along dimensions of extent 1 and new leading ones";
    const FAMILY: &'static str = "broadcast";
    const OPERANDS: (usize, usize) = (1, 1);
    const MOVES_ONLY: bool = true;
    const PASSES_ON: bool = true;
    const CODES: &'static [Code] = CODES;

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        infer(op, self.shape.as_deref())
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        eval(call)
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        IterationDomain::broadcasting(op)
    }

    fn over_axes(&self, _: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let dims = axes.dims(1, &axes.each());
        let known = dims.iter().all(|d| *d != Dim::Unknown);
        known.then(|| axes.broadcast(Broadcast::of_dims(&dims).write()))
    }

    fn parts(&self, op: &OpRef<'_>, _: &Known<'_>) -> Vec<Part> {
        as_part(op)
    }

    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        traffic(op)
    }
}

/// C1: well-formed entries. C2: the operand broadcasts with the shape.
pub(crate) fn infer(op: &OpRef<'_>, shape: Option<&[Attr]>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    let shape = match shape {
        None => op.result(0)?.dims.clone(),
        Some(list) => {
            let entry = |(d, entry): (usize, &Attr)| {
                let kept = (d + x.rank())
                    .checked_sub(list.len())
                    .and_then(|d| x.dims.get(d));
                Ok(shape_entry(op, BROADCAST_C1, entry)?
                    .or_else(|| kept.cloned())
                    .unwrap_or(Dim::Fixed(1)))
            };
            list.iter()
                .enumerate()
                .map(entry)
                .collect::<Result<_, OpError>>()?
        }
    };
    one(broadcast(op, BROADCAST_C2, &[&x.dims, &shape])?, x.dtype)
}

pub(crate) fn eval(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let (x, shape) = (call.input(0), call.shape());
    if fits(&x.shape, &shape) {
        let offsets = Offsets::broadcast(&x.shape, &shape);
        return Ok(vec![x.picked(shape, offsets)]);
    }
    Err(EvalError::new(format!(
        "{:?} does not broadcast to {shape:?}",
        x.shape
    )))
}

/// The result as a repetition of the operand. Empty if it is open whether a dimension of unknown size is repeated.
pub(crate) fn as_part(op: &OpRef<'_>) -> Vec<Part> {
    let (Ok(x), Ok(y)) = (op.operand(0), op.result(0)) else {
        return Vec::new();
    };
    let Some(ahead) = y.rank().checked_sub(x.rank()) else {
        return Vec::new();
    };
    let along = |(d, dim): (usize, &Dim)| match (dim, &y.dims[ahead + d]) {
        (Dim::Fixed(1), _) => Some(Along::at(Size::default())),
        (a, b) => a.same(b).then(|| Along::whole(ahead + d)),
    };
    let dims: Option<Vec<Along>> = x.dims.iter().enumerate().map(along).collect();
    let part = |dims| Part {
        part: Port::Result(0),
        whole: Port::Operand(0),
        dims,
    };
    dims.into_iter().map(part).collect()
}

/// Returns whether the operand still broadcasts to the shape once all symbols are bound to numbers.
fn fits(x: &[usize], shape: &[usize]) -> bool {
    let pairs = x.iter().rev().zip(shape.iter().rev());
    x.len() <= shape.len() && pairs.into_iter().all(|(a, b)| a == b || *a == 1)
}

/// The traffic of an operation that repeats elements.
pub(crate) fn traffic(op: &OpRef<'_>) -> Traffic {
    // Equal numbers of bytes mean that nothing is repeated: a broadcast never drops elements.
    if operand_bytes(op, 0) != result_bytes(op) {
        Traffic::Expand
    } else {
        Traffic::None
    }
}

codes! {
    const CODES;

    BROADCAST_C1 = program(
        "an entry of `shape` is neither a size, nor the name of a symbol, nor -1",
        r#"%0 = "hbir.broadcast"(%x) <{shape = [-2]}> : (tensor<2xf32>) -> tensor<2xf32>"#,
        "write sizes from 0 on, names in quotation marks, or -1 where the size of the operand stays",
    );
    BROADCAST_C2 = program(
        "the operand does not broadcast to the shape: a size of the operand that is not 1 differs from the one wanted",
        r#"%0 = "hbir.broadcast"(%x) <{shape = [3]}> : (tensor<2xf32>) -> tensor<3xf32>"#,
        "broadcast only dimensions of size 1, or use `hbir.tile` to repeat longer ones",
    );
}
