//! Recurrent networks of one layer.

use super::{Rule, native};
use crate::builder::{Stop, Val};
use crate::codes;
use crate::node::{Done, NodeCx};
use optc_ir::{Dim, Tensor, TensorType};
use optc_ops::{Cell, Reading, Recurrent, Transpose};

/// The rules of this family.
pub(super) static RULES: &[Rule] = &[
    native("GRU", |cx| recurrent(cx, Cell::Gru)),
    native("LSTM", |cx| recurrent(cx, Cell::Lstm)),
    native("RNN", |cx| recurrent(cx, Cell::Plain)),
];

/// The activation functions of the IR's operation, for one direction.
fn own_activations(cell: Cell) -> &'static [&'static str] {
    match cell {
        Cell::Lstm => &["sigmoid", "tanh", "tanh"],
        Cell::Gru => &["sigmoid", "tanh"],
        Cell::Plain => &["tanh"],
    }
}

/// The reason why no operation of the IR can replace the node; `None` if one can.
fn special(cx: &NodeCx<'_, '_>, cell: Cell) -> Option<&'static str> {
    let stated = cx.attr("activations").map(|a| a.strings.as_slice());
    let own = own_activations(cell);
    let is_own = |(i, name): (usize, &prost::bytes::Bytes)| {
        let wanted = own[i % own.len()];
        name.eq_ignore_ascii_case(wanted.as_bytes())
    };
    if stated.is_some_and(|all| !all.iter().enumerate().all(is_own)) {
        Some("it has activations of its own")
    } else if cx.attr("clip").is_some() {
        Some("it clips what it sums")
    } else if cx.flag("input_forget", false) {
        Some("its input and forget gates are one")
    } else if cx.input(7).is_some() {
        Some("its gates look at the cells")
    } else {
        None
    }
}

fn recurrent(cx: &mut NodeCx<'_, '_>, cell: Cell) -> Done {
    let [mut x, w, r] = [cx.need(0)?, cx.need(1)?, cx.need(2)?];
    let rank = cx.rank(x)?;
    if rank != 3 {
        let message = format!("its sequences have {rank} dimensions, wanted 3");
        return Err(Stop::error(codes::ONNX_NODE, message));
    }
    if let Some(reason) = special(cx, cell) {
        return Err(Stop::opaque(reason));
    }
    let direction = cx.string("direction");
    let direction = Reading::of_word(direction.as_deref().unwrap_or("forward"));
    let direction = direction.ok_or_else(|| Stop::opaque("its direction has no known name"))?;
    let weights = cx.dims(r)?;
    let [Some(directions), Some(_), Some(hidden)] =
        weights.iter().map(Dim::fixed).collect::<Vec<_>>()[..]
    else {
        return Err(Stop::opaque("an extent of its weights is unknown"));
    };
    let batch_first = cx.int("layout").unwrap_or(0) != 0;
    if batch_first {
        x = turned(cx, x, &[1, 0, 2])?;
    }
    let batch = cx.dims(x)?[1].clone();
    let rows = hidden.saturating_mul(2 * cell.gates());
    let biases = match cx.input(3) {
        Some(biases) => biases,
        None => zeros(cx, x, &[Dim::Fixed(directions), Dim::Fixed(rows)])?,
    };
    let mut states = Vec::new();
    if (5..7).any(|i| cx.input(i).is_some()) {
        for i in 5..5 + cell.kept() {
            states.push(match cx.input(i) {
                Some(state) if batch_first => turned(cx, state, &[1, 0, 2])?,
                Some(state) => state,
                None => {
                    let dims = [Dim::Fixed(directions), batch.clone(), Dim::Fixed(hidden)];
                    zeros(cx, x, &dims)?
                }
            });
        }
    }
    let length = cx.dims(x)?[0].size();
    let lengths = cx.input(4);
    let lengths = lengths.filter(|&n| length.is_none() || cx.b.one_size(n) != length);
    let op = Recurrent {
        cell,
        direction,
        linear_before_reset: cell == Cell::Gru && cx.flag("linear_before_reset", false),
        lengths: lengths.is_some(),
    };
    let mut operands = vec![x, w, r, biases];
    operands.extend(states);
    operands.extend(lengths);
    let mut results = cx.emit_all(&op, &operands)?;
    if batch_first {
        for (i, result) in results.iter_mut().enumerate() {
            let perm: &[i64] = if i == 0 { &[2, 0, 1, 3] } else { &[1, 0, 2] };
            *result = turned(cx, *result, perm)?;
        }
    }
    for (i, result) in results.into_iter().enumerate() {
        cx.set(i, result);
    }
    Ok(())
}

fn turned(cx: &mut NodeCx<'_, '_>, x: Val, perm: &[i64]) -> Result<Val, Stop> {
    let perm = perm.to_vec();
    cx.emit(&Transpose { perm }, &[x])
}

/// Zeros of the element type of `like`.
fn zeros(cx: &mut NodeCx<'_, '_>, like: Val, dims: &[Dim]) -> Result<Val, Stop> {
    let dtype = cx.dtype(like)?;
    if dims.iter().all(|dim| dim.fixed().is_some()) {
        let zero = Tensor::from_f64(dtype, Vec::new(), [0.0]);
        let ty = TensorType::new(dims.to_vec(), dtype);
        return Ok(cx.b.splat(ty, zero, cx.loc.clone()));
    }
    let zero = cx.scalar_like(0.0, like)?;
    cx.broadcast_to(zero, dims)
}
