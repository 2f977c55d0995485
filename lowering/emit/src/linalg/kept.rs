//! Operations of MLIR that the front end kept as text.
//!
//! Their operands and results are row-major. The text has `%{0}` for an operand, `%{=0}` for a value that it defines
//! inside, and `%{~0}` for a number that an operation of `mlir.before` computes.

use super::digits::{extents, row_major};
use super::mem::{Mem, Outcome};
use super::writer::Writer;
use indexmap::IndexMap;
use optc_ir::{Attr, OpData};

/// The attribute with the text of an operation.
const TEXT: &str = "mlir.text";

/// The attribute with the texts of the operations that compute its numbers.
const BEFORE: &str = "mlir.before";

/// Returns whether an operation is one of MLIR, with its text.
pub(super) fn is_kept(data: &OpData) -> bool {
    data.props.str("domain") == Some("mlir") && data.props.str(TEXT).is_some()
}

/// Writes an operation as it was.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData) -> Outcome<()> {
    let mut operands = Vec::with_capacity(data.operands.len());
    for &value in &data.operands {
        let (mem, shape) = (w.logical(value)?, w.shape(value)?);
        operands.push(w.reshape(&mem, &shape).name);
    }
    let mut names = Names {
        operands,
        before: Vec::new(),
        inside: IndexMap::new(),
    };
    let before = data.props.get(BEFORE).and_then(Attr::as_array);
    for text in before.unwrap_or_default() {
        let text = names.filled(w, text.as_str().unwrap_or(""))?;
        let name = w.fresh();
        w.line(&format!("{name} = {text}"));
        names.before.push(name);
    }
    let text = names.filled(w, data.props.str(TEXT).unwrap_or(""))?;
    let (name, count) = (w.fresh(), data.results.len());
    w.line(&match count {
        0 => text,
        1 => format!("{name} = {text}"),
        _ => format!("{name}:{count} = {text}"),
    });
    for (i, &value) in data.results.iter().enumerate() {
        let (shape, dtype) = (w.shape(value)?, w.tensor(value)?.dtype);
        let name = match count {
            1 => name.clone(),
            _ => format!("{name}#{i}"),
        };
        let digits = row_major(&shape);
        let made = Mem { name, shape, dtype };
        let mem = w.reshape(&made, &extents(&digits));
        w.settle(value, &mem, &digits)?;
    }
    Ok(())
}

/// The names for the numbers in texts.
struct Names {
    operands: Vec<String>,
    before: Vec<String>,
    inside: IndexMap<usize, String>,
}

impl Names {
    /// A text with names in the place of numbers.
    fn filled(&mut self, w: &mut Writer<'_>, text: &str) -> Outcome<String> {
        let mut pieces = text.split("%{");
        let mut out = pieces.next().unwrap_or("").to_owned();
        for piece in pieces {
            let (number, rest) = piece.split_once('}').unwrap_or((piece, ""));
            let index = |text: &str| text.parse::<usize>().ok();
            let name = if let Some(inside) = number.strip_prefix('=').and_then(index) {
                Some(
                    self.inside
                        .entry(inside)
                        .or_insert_with(|| w.fresh())
                        .clone(),
                )
            } else if let Some(before) = number.strip_prefix('~').and_then(index) {
                self.before.get(before).cloned()
            } else {
                index(number).and_then(|i| self.operands.get(i).cloned())
            };
            let Some(name) = name else {
                return Err(w.refuse("its text names a value that it does not have"));
            };
            out.push_str(&name);
            out.push_str(rest);
        }
        Ok(out)
    }
}
