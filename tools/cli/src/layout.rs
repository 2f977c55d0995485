//! `optc layout`: one layout at a time.

use crate::args::{Color, LayoutArgs, LayoutCommand, Notation};
use crate::failure::{Failure, Status};
use crate::inputs::numbers;
use crate::streams::Streams;
use optc::layout::cute::CuteLayout;
use optc::layout::{self, Axes, DrawError, Drawing, Layout, ViewMap, XlaType, is_view, notation};
use optc::{Diagnostic, Error, Span};
use std::io::IsTerminal;
use std::path::Path;
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
            streams.line(&tensor.layout.part_bytes().to_string());
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
            deduce,
        } => {
            let text = match deduce {
                true => deduced(input, output)?,
                false => view(input, output, shape.as_deref(), perm.as_deref())?,
            };
            streams.line(&text);
        }
        LayoutCommand::Explain { tensor } => {
            let text = explain(tensor)?;
            streams.print(&text);
        }
        LayoutCommand::Draw {
            tensor,
            output,
            axes,
            color,
        } => draw(tensor, output.as_deref(), axes, *color, streams)?,
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
        let reason = e.layout.map(|reason| reason.to_string());
        let diag = reason
            .into_iter()
            .chain(e.hint)
            .fold(diag, Diagnostic::note);
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
    let refused = |e: layout::LayoutError| {
        let message = format!("no layout in this notation: {e}");
        refuse(text, "layout-notation", message)
    };
    let notation = match to {
        Notation::Cute => {
            let cute = CuteLayout::from_layout(&tensor.layout).map_err(refused)?;
            return Ok(format!("{} {cute}", mlir_name(&tensor.dtype)));
        }
        Notation::Block => layout::Notation::Block,
        Notation::Strided => layout::Notation::Strided,
        Notation::Digits => layout::Notation::Digits,
        Notation::Xla => layout::Notation::Xla,
    };
    let layout = tensor.layout.respell(notation).map_err(refused)?;
    Ok(type_text(&layout, &tensor.dtype))
}

/// The MLIR name of an element type that may be XLA's.
fn mlir_name(dtype: &str) -> String {
    XlaType::from_name(dtype).map_or_else(|| dtype.to_owned(), XlaType::mlir_name)
}

/// The canonical text of a tensor type.
fn type_text(layout: &Layout, dtype: &str) -> String {
    let dtype = mlir_name(dtype);
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

/// The chain of maps between two layouts: the first word, then a line a step.
fn deduced(input: &str, output: &str) -> Result<String, Failure> {
    let (operand, result) = (parse(input)?.layout, parse(output)?.layout);
    let maps = match layout::deduce(&operand, &result) {
        Ok(maps) => maps,
        Err(why) => return Ok(format!("convert: {why}")),
    };
    let mut steps = Vec::new();
    let mut shape = operand.shape().to_vec();
    for map in maps {
        let is_reshape = map.is_reshape(&shape);
        if let (Some(middle), Some(perm), false) = (map.shape, map.perm, is_reshape) {
            let turned: Vec<u64> = perm.iter().map(|&axis| middle[axis]).collect();
            add_reshape(&mut steps, &shape, &middle);
            steps.push(format!("transpose {perm:?}"));
            shape = turned;
        }
        add_reshape(&mut steps, &shape, &map.result);
        shape = map.result;
    }
    Ok(match steps.is_empty() {
        true => "view: nothing changes".to_owned(),
        false => format!("view: {}", steps.join(", ")),
    })
}

/// Adds a reshape, and joins it with one before it.
fn add_reshape(steps: &mut Vec<String>, from: &[u64], to: &[u64]) {
    if from == to {
        return;
    }
    if steps.last().is_some_and(|last| last.starts_with("reshape")) {
        steps.pop();
    }
    steps.push(format!("reshape {to:?}"));
}

/// The steps in words, then as a program.
fn explain(text: &str) -> Result<String, Failure> {
    let tensor = parse(text)?;
    let explanation = layout::explain(&tensor.layout)
        .map_err(|e| refuse(text, "layout-notation", e.to_string()))?;
    let (words, positions) = (explanation.words(), explanation.positions);
    let program = explanation.ir(&mlir_name(&tensor.dtype));
    let bytes = tensor.layout.bytes();
    Ok(format!(
        "{words}the buffer: {positions} elements, {bytes} bytes\n\n{program}"
    ))
}

fn draw(
    text: &str,
    output: Option<&Path>,
    axes: &str,
    color: Color,
    streams: &mut Streams<'_>,
) -> Result<(), Failure> {
    let tensor = parse(text)?;
    let axes = match axes {
        "own" => Axes::Own,
        "xla" => Axes::Xla,
        letters => Axes::Named(letters.chars().map(String::from).collect()),
    };
    let drawing = Drawing::new(&tensor.layout, &axes);
    let drawing = drawing.map_err(|e| match e {
        DrawError::Names { .. } => Failure::usage(format!("--axes: {e}")),
        DrawError::Empty => refuse(text, "layout-notation", e.to_string()),
    })?;
    match output {
        None => {
            let unset = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
            let colours = match color {
                Color::Always => true,
                Color::Never => false,
                Color::Auto => unset && std::io::stdout().is_terminal(),
            };
            streams.print(&drawing.terminal(colours));
        }
        Some(path) if path == Path::new("-") => streams.print(&drawing.svg()),
        Some(path) => {
            std::fs::write(path, drawing.svg()).map_err(|e| Error::io("write", path, &e))?;
        }
    }
    Ok(())
}
