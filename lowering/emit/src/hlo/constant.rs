//! Constants: every element is written, from the program's own text or from a file.

use super::files::{elements, place};
use super::func::{Outcome, Writer};
use super::line::Inside;
use super::number::{element_text, literal};
use super::shape::tensor_text;
use crate::codes;
use optc_ir::{Attr, Diagnostic, OpData, Tensor, TensorType};
use optc_ops::dense_tensor;

/// A constant with all its elements. One number that is repeated becomes a broadcast.
pub(super) fn constant(w: &mut Writer<'_>, made: &OpData, ty: &TensorType) -> Outcome<String> {
    let refuse = |problem: &str| {
        let message = format!("a constant cannot be written in HLO text: {problem}");
        let diag = Diagnostic::error(codes::HLO_CONSTANT_DATA, message);
        Box::new(diag.at(made.span, "this constant"))
    };
    let elements = elements(made).ok_or_else(|| refuse("it has no elements"))?;
    let tensor = match (&elements.value, place(&elements)) {
        (Some(Attr::Dense(dense)), _) if dense.splat && !ty.dims.is_empty() => {
            let element = Tensor::from_bytes(ty.dtype, Vec::new(), &dense.bytes);
            let element = element.map_err(|e| refuse(&e.to_string()))?;
            return w.filled(&element_text(&element, 0), ty);
        }
        (Some(Attr::Dense(dense)), _) => dense_tensor(dense).map_err(|e| refuse(&e.to_string()))?,
        (_, Some(place)) => {
            let bytes = w.shared.files.0.get(&place);
            let bytes = bytes.ok_or_else(|| refuse("its file has not been read"))?;
            let sizes = ty.shape().unwrap_or_default();
            let shape = sizes
                .iter()
                .map(|&n| usize::try_from(n).unwrap_or(usize::MAX));
            Tensor::from_bytes(ty.dtype, shape.collect(), bytes)
                .map_err(|e| refuse(&e.to_string()))?
        }
        _ => return Err(refuse("it has neither a value nor data")),
    };
    let shape = tensor_text(ty)?;
    if w.shared.mlir {
        return Ok(w.line(&shape, "constant", Inside::Elements(tensor), ""));
    }
    Ok(w.payload(&shape, "constant", &literal(&tensor), ""))
}
