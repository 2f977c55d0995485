//! `hbir.rotary_embedding`: pairs of elements rotated by angles that depend on the position in a sequence
//! (ONNX `RotaryEmbedding`).
//!
//! The operand has rank 4, batch first and the rotated dimension last; `sequence_axis`, 1 or 2, is the
//! sequence. Of the last dimension the first `size` elements (all when absent or 0) are rotated: element
//! `i` of the first half with the one `size / 2` after it, or with `interleaved` its neighbour; the rest
//! stays. Cosines and sines are `[batch, sequence, size / 2]`, or `[positions, size / 2]` with a fourth
//! operand `[batch, sequence]` that says which row each element of the sequence takes.

use crate::op::{Freedom, FreedomClass, Inferred, OpError, OpRef, Registry, Role};
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::{Labels, marks, or_barrier};
use crate::ops::shape::{common_dtype, flag_or, one, show, unify, wants_float, wants_index};
use crate::tensor::{EvalError, Tensor};
use crate::types::{Dim, TensorType};

const ROTARY_EMBEDDING: Decl = Decl::new(
    "hbir.rotary_embedding",
    "norm",
    "pairs of elements rotated by angles that depend on the position",
    (3, 4),
    infer,
    eval,
)
.freedom(freedom);

/// What the attributes say.
struct Config {
    interleaved: bool,
    sequence: usize,
    /// Rotated elements of the last dimension, where they are not all.
    size: Option<u64>,
}

/// C2: `sequence_axis` is 1 or 2, `size` an even number of elements that are there.
fn config(op: &OpRef<'_>, x: &TensorType) -> Result<Config, OpError> {
    let refuse = |message: String| OpError::new("rotary-embedding-c2", message);
    let axis = op.props.int("sequence_axis").unwrap_or(2);
    let sequence = usize::try_from(axis).ok().filter(|a| (1..=2).contains(a));
    let sequence = sequence.ok_or_else(|| {
        refuse(format!(
            "hbir.rotary_embedding has sequence_axis = {axis}, wanted 1 or 2"
        ))
    })?;
    let last = x.dims.last().and_then(Dim::fixed);
    let size = op.props.int("size").filter(|&n| n != 0);
    let size = match size {
        Some(n) => Some(
            u64::try_from(n)
                .map_err(|_| refuse(format!("hbir.rotary_embedding has size = {n}")))?,
        ),
        None => last,
    };
    let wrong = |n: u64| !n.is_multiple_of(2) || last.is_some_and(|last| last < n);
    if size.is_some_and(wrong) {
        let message = format!(
            "hbir.rotary_embedding rotates {} of {}",
            size.unwrap_or(0),
            show(&x.dims)
        );
        return Err(refuse(message));
    }
    Ok(Config {
        interleaved: flag_or(op, "interleaved", false)?,
        sequence,
        size,
    })
}

/// C1: floats of one element type, of rank 4. C3: cosines and sines for every pair and position.
/// C4: positions are integers, one an element of the sequence.
fn infer(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    wants_float(op, "rotary-embedding-c1", 0)?;
    let dtype = common_dtype(op, "rotary-embedding-c1", 0..3)?;
    if x.rank() != 4 {
        let message = format!("hbir.rotary_embedding of {}, wanted rank 4", show(&x.dims));
        return Err(OpError::new("rotary-embedding-c1", message));
    }
    let config = config(op, x)?;
    let place = [x.dims[0].clone(), x.dims[config.sequence].clone()];
    let half = config.size.map_or(Dim::Unknown, |n| Dim::Fixed(n / 2));
    let by_row = 3 < op.operands.len();
    if by_row {
        wants_index(op, "rotary-embedding-c4", 3)?;
        fits(op, 3, &place, "rotary-embedding-c4")?;
    }
    let angles = if by_row {
        vec![Dim::Unknown, half]
    } else {
        [place.to_vec(), vec![half]].concat()
    };
    fits(op, 1, &angles, "rotary-embedding-c3")?;
    fits(op, 2, &angles, "rotary-embedding-c3")?;
    let (cos, sin) = (&op.operand(1)?.dims, &op.operand(2)?.dims);
    if cos.iter().zip(sin).any(|(a, b)| unify(a, b).is_none()) {
        let (cos, sin) = (show(cos), show(sin));
        let message = format!(
            "hbir.rotary_embedding has cosines of {cos} and sines of {sin}, wanted equal sizes"
        );
        return Err(OpError::new("rotary-embedding-c3", message));
    }
    one(x.dims.clone(), dtype)
}

/// Refuses an operand that has not these extents; one of the batch may be 1.
fn fits(op: &OpRef<'_>, i: usize, wanted: &[Dim], code: &'static str) -> Result<(), OpError> {
    let found = &op.operand(i)?.dims;
    let agrees =
        |(d, (a, b)): (usize, (&Dim, &Dim))| unify(a, b).is_some() || (d == 0 && a.is_one());
    if found.len() == wanted.len() && found.iter().zip(wanted).enumerate().all(agrees) {
        return Ok(());
    }
    let message = format!(
        "hbir.rotary_embedding has operand {i} of {}, wanted {}",
        show(found),
        show(wanted)
    );
    Err(OpError::new(code, message))
}

fn eval(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let message = |e: OpError| EvalError::new(e.message);
    let config = config(call.op, call.op.operand(0).map_err(message)?).map_err(message)?;
    let shape = call.shape();
    let last = shape[3];
    let size = config
        .size
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(last);
    let mut values = call.input(0).to_f64();
    let (cos, sin) = (call.input(1), call.input(2));
    for (row, values) in values.chunks_exact_mut(last.max(1)).enumerate() {
        let (b, s) = match config.sequence {
            1 => (row / (shape[1] * shape[2]), row / shape[2] % shape[1]),
            _ => (row / (shape[1] * shape[2]), row % shape[2]),
        };
        let at = angle_row(call, b, s, shape[config.sequence])? * (size / 2);
        for i in 0..size / 2 {
            let (first, second) = if config.interleaved {
                (2 * i, 2 * i + 1)
            } else {
                (i, i + size / 2)
            };
            let (left, right) = (values[first], values[second]);
            let (cosine, sine) = (cos.f64_at(at + i), sin.f64_at(at + i));
            values[first] = cosine * left - sine * right;
            values[second] = sine * left + cosine * right;
        }
    }
    Ok(call.floats(values))
}

/// The row of the cosines that element `s` of the sequence of batch `b` takes.
fn angle_row(call: &Call<'_>, b: usize, s: usize, length: usize) -> Result<usize, EvalError> {
    let Some(positions) = call.inputs.get(3) else {
        let batches = call.input(1).shape[0];
        return Ok(if batches == 1 { s } else { b * length + s });
    };
    let b = if positions.shape[0] == 1 { 0 } else { b };
    let rows = call.input(1).shape[0];
    let found = positions.i64_at(b * length + s);
    let row = usize::try_from(found).ok().filter(|&r| r < rows);
    row.ok_or_else(|| EvalError::new(format!("position {found} is not below {rows}")))
}

/// The last dimension stays whole; positions are followed, their rows are not.
fn freedom(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let x = op.operand(0)?;
        let sequence = config(op, x)?.sequence;
        let labels = f.fresh_for(x.rank());
        let last = labels[x.rank() - 1];
        f.role(last, Role::Axis);
        f.uncut(last);
        f.operand(marks(&labels));
        let place = |d: &Dim| (!d.is_one()).then_some(labels[0]);
        for i in 1..op.operands.len() {
            let dims = &op.operand(i)?.dims;
            let angles = i < 3;
            let mut marks = Vec::with_capacity(dims.len());
            if angles && 3 < op.operands.len() {
                marks.push(Some(whole(f)));
            } else if let Some(batch) = dims.first() {
                marks.push(place(batch).filter(|_| batch.same(&x.dims[0])));
                marks.push(Some(labels[sequence]));
            }
            if angles {
                marks.push(Some(whole(f)));
            }
            f.operand(marks);
        }
        f.result(marks(&labels));
        Ok(())
    })
}

/// A label of one operand's own dimension.
fn whole(f: &mut Labels) -> usize {
    let label = f.fresh(Role::Axis);
    f.uncut(label);
    label
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(ROTARY_EMBEDDING);
}
