//! Recurrent networks of one layer.

use super::{Rule, native};
use crate::builder::{Stop, Val};
use crate::node::{Done, NodeCx};
use optc_ir::{Tensor, TensorType};
use optc_ops::{Cell, Reading, Recurrent};

/// The rules of this family.
pub(super) static RULES: &[Rule] = &[
    native("GRU", |cx| recurrent(cx, Cell::Gru)),
    native("LSTM", |cx| recurrent(cx, Cell::Lstm)),
    native("RNN", |cx| recurrent(cx, Cell::Plain)),
];

/// The activations that an operation stands for, of one direction.
fn own_activations(cell: Cell) -> &'static [&'static str] {
    match cell {
        Cell::Lstm => &["sigmoid", "tanh", "tanh"],
        Cell::Gru => &["sigmoid", "tanh"],
        Cell::Plain => &["tanh"],
    }
}

/// Why an operation does not stand for the node.
fn special(cx: &NodeCx<'_, '_>, cell: Cell) -> Option<&'static str> {
    let stated = cx.attr("activations").map(|a| a.strings.as_slice());
    let own = own_activations(cell);
    let is_own = |(i, name): (usize, &prost::bytes::Bytes)| {
        let wanted = own[i % own.len()];
        name.eq_ignore_ascii_case(wanted.as_bytes())
    };
    let states = (5..7).filter(|&i| cx.input(i).is_some()).count();
    if stated.is_some_and(|all| !all.iter().enumerate().all(is_own)) {
        Some("it has activations of its own")
    } else if cx.attr("clip").is_some() {
        Some("it clips what it sums")
    } else if cx.flag("input_forget", false) {
        Some("its input and forget gates are one")
    } else if cx.int("layout").unwrap_or(0) != 0 {
        Some("its batch comes first")
    } else if cx.input(4).is_some() {
        Some("its sequences have lengths of their own")
    } else if cx.input(7).is_some() {
        Some("its gates look at the cells")
    } else if states != 0 && states != cell.kept() {
        Some("one of its initial states is missing")
    } else {
        None
    }
}

fn recurrent(cx: &mut NodeCx<'_, '_>, cell: Cell) -> Done {
    let mut operands: Vec<Val> = vec![cx.need(0)?, cx.need(1)?, cx.need(2)?];
    if let Some(reason) = special(cx, cell) {
        return Err(Stop::opaque(reason));
    }
    let direction = cx.string("direction");
    let direction = Reading::of_word(direction.as_deref().unwrap_or("forward"));
    let direction = direction.ok_or_else(|| Stop::opaque("its direction has no known name"))?;
    let weights = cx.dims(operands[2])?;
    let [Some(directions), Some(_), Some(hidden)] =
        weights.iter().map(optc_ir::Dim::fixed).collect::<Vec<_>>()[..]
    else {
        return Err(Stop::opaque("an extent of its weights is unknown"));
    };
    operands.push(match cx.input(3) {
        Some(biases) => biases,
        None => {
            let dtype = cx.dtype(operands[0])?;
            let rows = hidden.saturating_mul(2 * cell.gates());
            let zero = Tensor::from_f64(dtype, Vec::new(), [0.0]);
            let ty = TensorType::fixed(&[directions, rows], dtype);
            cx.b.splat(ty, zero, cx.loc.clone())
        }
    });
    operands.extend((5..7).filter_map(|i| cx.input(i)));
    let op = Recurrent {
        cell,
        direction,
        linear_before_reset: cell == Cell::Gru && cx.flag("linear_before_reset", false),
    };
    let results = cx.emit_all(&op, &operands)?;
    for (i, result) in results.into_iter().enumerate() {
        cx.set(i, result);
    }
    Ok(())
}
