//! `optc layout`: one layout at a time.

use crate::args::{LayoutArgs, LayoutCommand, Notation};
use crate::failure::{Failure, Status};
use crate::inputs::numbers;
use crate::streams::Streams;
use optc::layout::{self, Layout, ViewMap, is_view, notation};
use optc::{Diagnostic, Error, Span};
use std::sync::Arc;

/// A tensor as it is written on the command line and in conformance vectors.
pub(crate) struct TensorText {
    /// The name of the element type.
    pub(crate) dtype: String,
    pub(crate) layout: Layout,
}

pub(crate) fn command(args: &LayoutArgs, streams: &mut Streams<'_>) -> Result<Status, Failure> {
    match &args.command {
        LayoutCommand::Index { tensor, index } => {
            let position = position(tensor, index)?;
            streams.line(&position.to_string());
        }
        LayoutCommand::Size { tensor } => {
            let tensor = parse(tensor)?;
            streams.line(&tensor.layout.bytes().to_string());
        }
        LayoutCommand::Convert { to, tensor } => {
            let text = convert(tensor, *to)?;
            streams.line(&text);
        }
        LayoutCommand::View {
            input,
            output,
            shape,
            perm,
        } => {
            let text = view(input, output, shape.as_deref(), perm.as_deref())?;
            streams.line(&text);
        }
    }
    Ok(Status::Done)
}

/// Reads a tensor; what is wrong with it is shown with a caret.
pub(crate) fn parse(text: &str) -> Result<TensorText, Failure> {
    let tensor = notation::parse_tensor(text).map_err(|e| {
        let start = u32::try_from(e.offset.min(text.len())).unwrap_or(u32::MAX);
        let span = Span {
            start,
            end: start.saturating_add(1),
        };
        let message = format!("found {}, wanted {}", e.found, e.wanted);
        let diag = Diagnostic::error("tensor-syntax", message).at(span, "");
        let diag = match e.hint {
            Some(hint) => diag.note(hint),
            None => diag,
        };
        let (file, source) = ("<tensor>".to_owned(), Arc::from(text));
        Failure::from(Error {
            diagnostics: vec![diag],
            file,
            source,
        })
    })?;
    Ok(TensorText {
        dtype: tensor.dtype,
        layout: tensor.layout,
    })
}

fn refuse(text: &str, code: &'static str, message: String) -> Failure {
    Failure::about(text, Diagnostic::error(code, message))
}

fn position(text: &str, index: &str) -> Result<u64, Failure> {
    let tensor = parse(text)?;
    let index: Vec<u64> = numbers("index", index)?;
    let shape = tensor.layout.shape();
    if index.len() != shape.len() {
        let message = format!(
            "found an index of {} numbers, wanted {}",
            index.len(),
            shape.len()
        );
        return Err(refuse(text, "index-rank", message));
    }
    tensor.layout.index(&index).ok_or_else(|| {
        let message = format!("the index {index:?} is out of bounds of the shape {shape:?}");
        refuse(text, "index-bounds", message)
    })
}

fn convert(text: &str, to: Notation) -> Result<String, Failure> {
    let tensor = parse(text)?;
    let notation = match to {
        Notation::Block => layout::Notation::Block,
        Notation::Strided => layout::Notation::Strided,
        Notation::Digits => layout::Notation::Digits,
        Notation::Xla => layout::Notation::Xla,
    };
    let layout = tensor.layout.respell(notation).map_err(|e| {
        refuse(
            text,
            "layout-notation",
            format!("no layout in this notation: {e}"),
        )
    })?;
    Ok(type_text(&layout, &tensor.dtype))
}

/// The canonical text of a tensor type.
fn type_text(layout: &Layout, dtype: &str) -> String {
    let dims: String = layout.shape().iter().map(|n| format!("{n}x")).collect();
    match layout.spelling().to_string() {
        spelling if spelling.is_empty() => format!("tensor<{dims}{dtype}>"),
        spelling => format!("tensor<{dims}{dtype}, {{{spelling}}}>"),
    }
}

fn view(
    input: &str,
    output: &str,
    shape: Option<&str>,
    perm: Option<&str>,
) -> Result<String, Failure> {
    let map = ViewMap {
        shape: shape.map(|s| numbers("--shape", s)).transpose()?,
        perm: perm.map(|p| numbers("--perm", p)).transpose()?,
        result: Vec::new(),
    };
    let (operand, result) = (parse(input)?, parse(output)?);
    let map = ViewMap {
        result: result.layout.shape().to_vec(),
        ..map
    };
    map.check(operand.layout.shape())
        .map_err(|e| refuse(input, "view-shape", e.to_string()))?;
    Ok(match is_view(&operand.layout, &map, &result.layout) {
        Ok(()) => {
            "view: every element keeps its position and the buffers have the same size".to_owned()
        }
        Err(why) => format!("convert: {why}"),
    })
}
