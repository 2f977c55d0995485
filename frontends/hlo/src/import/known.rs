//! Finds the parameters of a computation that are the same number in every call.
//!
//! XLA passes the start of a reduction to its fusion as an operand; the meaning of the fusion depends on it.

use crate::module::{HloModule, Instruction};
use optc_layout::XlaShape;

/// The number that every fusion or call of a computation passes for a parameter, by computation and parameter.
pub(super) fn parameters(hlo: &HloModule<'_>) -> Vec<Vec<Option<f64>>> {
    let mut known: Vec<Option<Vec<Option<f64>>>> = vec![None; hlo.computations.len()];
    // Callees come first in the text, so the reversed order has callers first.
    for index in (0..hlo.computations.len()).rev() {
        let computation = &hlo.computations[index];
        let own = known[index].take().unwrap_or_default();
        let number = |instruction: &Instruction| match instruction.opcode {
            "constant" => scalar(instruction),
            "parameter" => {
                let number = usize::try_from(instruction.parameter()?).ok()?;
                own.get(number).copied().flatten()
            }
            _ => None,
        };
        for instruction in &computation.instructions {
            let direct = matches!(instruction.opcode, "fusion" | "call");
            for &callee in instruction.called.iter().flat_map(|(_, list)| list) {
                let passed = instruction.operands.iter().map(|&operand| {
                    let operand = &computation.instructions[operand];
                    number(operand).filter(|_| direct)
                });
                let same = |(a, b): (Option<f64>, Option<f64>)| {
                    a.filter(|a| b.is_some_and(|b| a.to_bits() == b.to_bits()))
                };
                known[callee] = Some(match known[callee].take() {
                    None => passed.collect(),
                    Some(before) => before.into_iter().zip(passed).map(same).collect(),
                });
            }
        }
        known[index] = Some(own);
    }
    known.into_iter().map(Option::unwrap_or_default).collect()
}

/// The number in a constant without dimensions.
fn scalar(constant: &Instruction) -> Option<f64> {
    let XlaShape::Array(array) = &*constant.shape else {
        return None;
    };
    if !array.dims.is_empty() {
        return None;
    }
    match constant.payload.as_deref()?.trim() {
        "true" => Some(1.0),
        "false" => Some(0.0),
        text => text.parse().ok(),
    }
}
