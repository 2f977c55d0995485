//! Recurrent networks of one layer.

use super::attrs::{int, text};
use super::shapes::cast;
use super::writer::{Outcome, Writer};
use optc_ir::{DType, OpData, Operation};
use optc_onnx_proto::NodeProto;
use optc_ops::{Cell, Recurrent};

/// Writes the operation if it is one of these and returns the names of the results; `None` for any other operation.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData) -> Outcome<Option<Vec<String>>> {
    if &*data.name != Recurrent::NAME {
        return Ok(None);
    }
    let made = w.typed::<Recurrent>(data)?;
    let hidden = w
        .tensor(data.operands[2])?
        .dims
        .last()
        .and_then(|d| d.fixed());
    let hidden = hidden.and_then(|n| i64::try_from(n).ok());
    let hidden = hidden.ok_or_else(|| w.refused("its states have no known size".to_owned()))?;
    let mut input = w.operands(data)?;
    let lengths = match data.operands.last().filter(|_| made.lengths) {
        Some(&last) => {
            let name = input.pop().unwrap_or_default();
            cast(w, &name, w.tensor(last)?.dtype, DType::SI32)?
        }
        // Without lengths, all sequences have the full length.
        None => String::new(),
    };
    if made.lengths || 4 < input.len() {
        input.insert(4, lengths);
    }
    let mut attribute = vec![
        text("direction", made.direction.word()),
        int("hidden_size", hidden),
    ];
    if made.linear_before_reset {
        attribute.push(int("linear_before_reset", 1));
    }
    let op_type = match made.cell {
        Cell::Lstm => "LSTM",
        Cell::Gru => "GRU",
        Cell::Plain => "RNN",
    };
    let node = NodeProto {
        input,
        op_type: op_type.to_owned(),
        attribute,
        ..NodeProto::default()
    };
    Ok(Some(w.add(node, data.results.len())))
}
