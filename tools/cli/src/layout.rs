//! `optc layout`: answers questions about one layout.

use crate::args::{Color, LayoutArgs, LayoutCommand, Notation};
use crate::codes;
use crate::failure::{Failure, Status};
use crate::inputs::numbers;
use crate::streams::Streams;
use optc::exec::{ConversionOptions, ConversionPlan, Isa, Moved, Padding};
use optc::layout::cute::{CuteError, CuteLayout};
use optc::layout::{self, Axes, DrawError, Drawing, Layout, ViewMap, is_view, notation};
use optc::{Code, Diagnostic, TensorLayout, codes::shared, write_aside};
use std::hint::black_box;
use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

/// `optc layout`: each subcommand is one arm that asks the layout algebra a question and prints a line.
pub(crate) fn command(args: &LayoutArgs, streams: &mut Streams<'_>) -> Result<Status, Failure> {
    match &args.command {
        LayoutCommand::Index { tensor, index } => {
            let position = parse(tensor)?.position(&numbers("index", index)?)?;
            streams.line(&position.to_string());
        }
        LayoutCommand::Size { tensor } => {
            let tensor = parse(tensor)?;
            streams.line(&tensor.layout().part_bytes().to_string());
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
        LayoutCommand::Compose { outer, inner } => {
            let (outer, inner) = (modes(outer)?, modes(inner)?);
            let text = outer.compose(&inner);
            streams.line(&algebra(&outer, "composition", text)?);
        }
        LayoutCommand::Inverse { layout, right } => {
            let layout = modes(layout)?;
            let text = match right {
                true => Ok(layout.right_inverse()),
                false => layout.left_inverse(),
            };
            streams.line(&algebra(&layout, "inverse", text)?);
        }
        LayoutCommand::Complement { layout, below } => {
            let layout = modes(layout)?;
            let text = layout.complement(below.unwrap_or_else(|| layout.cosize()));
            streams.line(&algebra(&layout, "complement", text)?);
        }
        LayoutCommand::Bench {
            tensor,
            target,
            threads,
            instructions,
        } => {
            let text = match target {
                None => bench(tensor)?,
                Some(target) => bench_conversion(tensor, target, *threads, instructions.isa)?,
            };
            streams.print(&text);
        }
    }
    Ok(Status::Done)
}

/// Reads a tensor; a mistake is shown with a caret.
pub(crate) fn parse(text: &str) -> Result<TensorLayout, Failure> {
    Ok(TensorLayout::parse(text)?)
}

/// A layout as CuTe's modes, from CuTe's text or from a tensor type.
fn modes(text: &str) -> Result<CuteLayout, Failure> {
    if let Some(start) = notation::cute_modes(text) {
        let read = CuteLayout::parse(&text[start..]);
        return read.map_err(|e| {
            let offset = start + e.offset;
            TensorLayout::mistake(text, notation::TextError { offset, ..e }).into()
        });
    }
    let tensor = parse(text)?;
    CuteLayout::from_layout(tensor.layout()).map_err(|e| not_written(text, &e))
}

/// The text of a result of the algebra, or of the reason why there is none.
fn algebra(
    of: &CuteLayout,
    what: &str,
    result: Result<CuteLayout, CuteError>,
) -> Result<String, Failure> {
    let text = result.map(|layout| layout.to_string());
    text.map_err(|e| {
        let message = format!("no {what}: {e}");
        refuse(&of.to_string(), codes::LAYOUT_ALGEBRA, message)
    })
}

fn not_written(text: &str, error: &layout::LayoutError) -> Failure {
    let message = format!("no layout in this notation: {error}");
    refuse(text, shared::LAYOUT_NOTATION, message)
}

fn refuse(text: &str, code: Code, message: String) -> Failure {
    Failure::about(text, Diagnostic::error(code, message))
}

fn convert(text: &str, to: Notation) -> Result<String, Failure> {
    let tensor = parse(text)?;
    match to {
        Notation::Cute => {
            let cute =
                CuteLayout::from_layout(tensor.layout()).map_err(|e| not_written(text, &e))?;
            Ok(format!("{} {cute}", tensor.mlir_dtype()))
        }
        Notation::Encoding(notation) => Ok(tensor.written_as(notation)?.to_string()),
    }
}

fn view(
    input: &str,
    output: &str,
    shape: Option<&str>,
    perm: Option<&str>,
) -> Result<String, Failure> {
    let shape = shape.map(|s| numbers("--shape", s)).transpose()?;
    let perm = perm.map(|p| numbers("--perm", p)).transpose()?;
    let (operand, result) = (parse(input)?, parse(output)?);
    Ok(match operand.decide_view(&result, shape, perm)? {
        Ok(()) => {
            "view: every element keeps its position and the buffers have the same size".to_owned()
        }
        Err(why) => format!("convert: {why}"),
    })
}

/// The chain of maps between two layouts: the first word, then a line per step.
fn deduced(input: &str, output: &str) -> Result<String, Failure> {
    let (operand, result) = (parse(input)?, parse(output)?);
    let (operand, result) = (operand.layout(), result.layout());
    let maps = match layout::deduce(operand, result) {
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

/// Adds a reshape, joined with one before it.
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
    let explanation = layout::explain(tensor.layout())
        .map_err(|e| refuse(text, shared::LAYOUT_NOTATION, e.to_string()))?;
    let (words, positions) = (explanation.words(), explanation.positions);
    let program = explanation.ir(&tensor.mlir_dtype());
    let bytes = tensor.layout().bytes();
    Ok(format!(
        "{words}the buffer: {positions} elements, {bytes} bytes\n\n{program}"
    ))
}

/// Times the questions, one line each: about the last element, and about the transposed tensor.
fn bench(text: &str) -> Result<String, Failure> {
    let tensor = parse(text)?;
    let layout = tensor.layout();
    let shape = layout.shape();
    let last: Vec<u64> = shape.iter().map(|n| n.saturating_sub(1)).collect();
    let place = layout.index(&last).unwrap_or(0);
    let perm: Vec<usize> = (0..shape.len()).rev().collect();
    let map = ViewMap::transpose(shape, &perm);
    let map = map.map_err(|e| refuse(text, shared::VIEW_SHAPE, e.to_string()))?;
    let turned = layout::propagate(layout, &map);
    let turned = turned.unwrap_or_else(|_| Layout::row_major(&map.result, layout.elem_bits()));
    let lines = [
        ("index", nanoseconds(|| black_box(layout).index(&last))),
        (
            "inverse",
            nanoseconds(|| black_box(layout).element_at(place)),
        ),
        (
            "view",
            nanoseconds(|| is_view(black_box(layout), &map, &turned)),
        ),
    ];
    let line = |(what, time): (&str, f64)| format!("{what:8}{time:9.0} ns\n");
    Ok(lines.map(line).concat())
}

/// The kernels of a conversion, its time, and the time of a copy that reads and writes the same number of bytes.
fn bench_conversion(
    from: &str,
    to: &str,
    threads: usize,
    isa: Option<Isa>,
) -> Result<String, Failure> {
    let refused = |message: String| refuse(from, shared::LAYOUT_CONVERSION, message);
    let (source, target) = (parse(from)?, parse(to)?);
    let options = ConversionOptions {
        padding: Padding::Zero,
        isa,
        ..ConversionOptions::default()
    };
    let make = || ConversionPlan::new(source.layout(), target.layout(), options);
    let plan = make().map_err(|e| refused(e.to_string()))?;
    let moved = plan.moved().bytes();
    let buffer = |bytes: u64| -> Result<Vec<u8>, Failure> {
        let len = usize::try_from(bytes).ok();
        let mut buffer = Vec::new();
        let reserved = len.and_then(|len| buffer.try_reserve_exact(len).ok());
        reserved.ok_or_else(|| refused(format!("found a buffer of {bytes} bytes, too large")))?;
        buffer.resize(buffer.capacity(), 1u8);
        buffer.truncate(len.unwrap_or(0));
        Ok(buffer)
    };
    let (input, mut output) = (buffer(plan.source_bytes())?, buffer(plan.target_bytes())?);
    let mut convert = || {
        let counter = &mut Moved::default();
        plan.execute_on(threads, black_box(&input), black_box(&mut output), counter)
    };
    convert().map_err(|e| refused(e.to_string()))?;
    let planned = nanoseconds(make);
    let converted = nanoseconds(convert);
    let (copied, mut copy) = (buffer(moved / 2)?, buffer(moved / 2)?);
    let copied = nanoseconds(|| black_box(&mut copy).copy_from_slice(black_box(&copied)));
    let line = |what: &str, time: f64| {
        let speed = moved as f64 / time.max(1.0);
        format!("{what:8}{time:12.0} ns{speed:9.1} GB/s\n")
    };
    let kernels: String = plan
        .to_string()
        .lines()
        .map(|kernel| format!("kernel  {kernel}\n"))
        .collect();
    Ok(format!(
        "{kernels}plan    {planned:12.0} ns\n{}{}ratio   {:12.2}\n",
        line("convert", converted),
        line("copy", copied),
        copied / converted.max(1.0),
    ))
}

/// Nanoseconds of one call: the best of a few runs of some milliseconds.
fn nanoseconds<T>(mut call: impl FnMut() -> T) -> f64 {
    let mut run = |calls: u32| {
        let start = Instant::now();
        (0..calls).for_each(|_| drop(black_box(call())));
        start.elapsed()
    };
    let mut calls = 1u32;
    while run(calls) < Duration::from_millis(5) && calls < 1 << 28 {
        calls *= 2;
    }
    let best = (0..5).map(|_| run(calls)).min().unwrap_or_default();
    best.as_secs_f64() * 1e9 / f64::from(calls)
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
    let drawing = Drawing::new(tensor.layout(), &axes);
    let drawing = drawing.map_err(|e| match e {
        DrawError::Names { .. } => Failure::usage(format!("--axes: {e}")),
        DrawError::Empty => refuse(text, shared::LAYOUT_NOTATION, e.to_string()),
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
        Some(path) => write_aside(path, drawing.svg().as_bytes())?,
    }
    Ok(())
}
