//! Checks that an instruction's shape, operands and attributes agree, as XLA's reader requires.

use crate::codes;
use crate::cursor::{Cursor, Parsed};
use crate::error::HloError;
use crate::module::Instruction;
use crate::shape::shape;
use optc_layout::{XlaArray, XlaShape};

/// Refuses instructions that XLA's reader refuses, or on which its checks crash.
///
/// XLA's reader checks shapes, and an unexpected shape crashes it. So an instruction is accepted here only if XLA
/// accepts it, opcode by opcode.
pub(crate) fn agrees(
    made: &Instruction,
    declared: Option<&XlaShape>,
    known: &[Instruction],
) -> Parsed<()> {
    let shapes = |i: usize| made.operands.get(i).map(|&o| &*known[o].shape);
    let array = |i: usize| shapes(i).and_then(XlaShape::as_array);
    let count = made.operands.len();
    let refuse = |code, message: String| Err(HloError::new(code, message, made.span));
    let attribute = |found: String, wanted: &str| {
        refuse(
            codes::HLO_ATTRIBUTE_VALUE,
            format!("found {found}, wanted {wanted}"),
        )
    };
    match made.opcode {
        "concatenate" | "sort" | "get-dimension-size" | "set-dimension-size" | "all-gather"
        | "all-gather-start" | "reduce-scatter" => {
            let dims = made.attrs.ints("dimensions").unwrap_or_default();
            if dims.len() != 1 {
                return attribute(format!("dimensions={dims:?}"), "one dimension");
            }
        }
        "reshape" => {
            if let (Some(from), Some(XlaShape::Array(to))) = (array(0), declared)
                && elements(from) != elements(to)
            {
                let message = format!("a reshape of {from} to {to} changes the number of elements");
                return refuse(codes::HLO_OPERAND_SHAPE, message);
            }
        }
        "tuple" => {
            if let Some(XlaShape::Tuple(parts)) = declared
                && parts.len() != count
            {
                let message = format!("a tuple of {} has {count} operands", parts.len());
                return refuse(codes::HLO_OPERAND_COUNT, message);
            }
        }
        "dynamic-slice" | "dynamic-update-slice" => {
            let first = if made.opcode == "dynamic-slice" { 1 } else { 2 };
            let rank = array(0).map_or(0, |a| a.dims.len());
            // Early modules have the starts in one vector.
            let vector = array(first).is_some_and(|a| a.dims.len() == 1) && count == first + 1;
            if count != first + rank && !vector {
                let wanted = first + rank;
                let name = &made.opcode;
                let message = format!("`{name}` has {count} operands, wanted {wanted}");
                return refuse(codes::HLO_OPERAND_COUNT, message);
            }
        }
        "parameter" => {
            if let (Some(text), Some(shape)) = (made.attrs.get("parameter_replication"), declared) {
                let found = text.split(',').filter(|p| p.contains(['t', 'f'])).count();
                let wanted = leaves(shape);
                if found != wanted {
                    let found = format!("parameter_replication of {found}");
                    return attribute(found, &format!("one a buffer: {wanted}"));
                }
            }
        }
        "custom-call" => {
            if let Some(text) = made.attrs.get("operand_layout_constraints") {
                constraints(made, text, known)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn constraints(made: &Instruction, text: &str, known: &[Instruction]) -> Parsed<()> {
    let mut cursor = Cursor::new(text);
    let mut given = Vec::new();
    cursor.expect("{")?;
    while !cursor.eat("}")? {
        given.push(shape(&mut cursor)?);
        cursor.eat(",")?;
    }
    let wrong = |message: String| HloError::new(codes::HLO_ATTRIBUTE_VALUE, message, made.span);
    if given.len() != made.operands.len() {
        let (found, wanted) = (given.len(), made.operands.len());
        let message = format!("found {found} layouts of operands, wanted {wanted}");
        return Err(wrong(message));
    }
    for (given, &operand) in given.iter().zip(&made.operands) {
        let found = &known[operand].shape;
        if !given.compatible(found) {
            let message = format!("found the layout {given} of an operand, wanted one of {found}");
            return Err(wrong(message));
        }
    }
    Ok(())
}

/// The number of elements, if it is known and fits.
fn elements(array: &XlaArray) -> Option<u64> {
    let mut sizes = array.dims.iter().map(|dim| dim.bound());
    sizes.try_fold(1_u64, |n, size| n.checked_mul(size?))
}

fn leaves(shape: &XlaShape) -> usize {
    match shape {
        XlaShape::Tuple(parts) => parts.iter().map(leaves).sum(),
        _ => 1,
    }
}
