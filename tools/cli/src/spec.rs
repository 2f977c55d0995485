//! `optc spec`: runs conformance vectors.
//!
//! A file holds `{"kind": …, "vectors": […]}`. The kinds are:
//!
//! - for tensors of every notation `tensor_index` (the position of an element and the size of the buffer),
//!   `tensor_maps` (the whole buffer), `layout_equal` and `view`;
//! - for XLA's shapes `linear_index`, `linear_maps`, `byte_size`, `bitcast` and `layout_text`;
//! - `hlo_modules` (the contents of HLO text, instruction by instruction);
//! - `blockspec`, `program_ids` and `tpu_block_legality` (the slices of an array that the programs of a grid see, the
//!   cells that they write, and the blocks that a TPU takes).
//!
//! A kind may also be named by the words that describe it.

mod blocks;
mod error;
mod hlo;
mod kernel;
mod xla;

use crate::args::SpecArgs;
use crate::codes;
use crate::failure::{Failure, Status};
use crate::layout::parse;
use crate::streams::Streams;
use error::{VectorError, expected};
use optc::layout::{Layout, ViewMap, is_view};
use optc::{Diagnostic, read_text};
use serde_json::Value as Json;
use std::path::Path;

/// Runs one vector; returns the expected and the found result.
type Runner = fn(&Json) -> Outcome;

/// The expected and the found result.
type Outcome = Result<(Json, Json), VectorError>;

/// The kinds, each with alternative words for it.
const KINDS: [(&str, &str, Runner); 13] = [
    ("tensor_index", "", tensor_index),
    ("tensor_maps", "", tensor_maps),
    ("layout_equal", "", layout_equal),
    ("view", "", view),
    (
        "linear_index",
        "linear-index-with-tiling",
        xla::linear_index,
    ),
    ("linear_maps", "whole-buffer map", xla::linear_maps),
    ("byte_size", "byte size of tiled shapes", xla::byte_size),
    ("bitcast", "reshape/transpose is-bitcast", xla::bitcast),
    (
        "layout_text",
        "shape/layout text round trip",
        xla::layout_text,
    ),
    ("hlo_modules", "HLO module text", hlo::hlo_modules),
    ("blockspec", "BlockSpec slicing", blocks::blockspec),
    (
        "program_ids",
        "show_program_ids matrices",
        blocks::program_ids,
    ),
    (
        "tpu_block_legality",
        "is this block shape accepted by the Pallas TPU lowering",
        blocks::tpu_block_legality,
    ),
];

/// The runner of a kind. The words before a colon are its name, the rest is an explanation.
fn runner(kind: &str) -> Option<Runner> {
    let name = kind.split(':').next().unwrap_or(kind);
    let named = |(known, words, _): &&(&str, &str, Runner)| {
        *known == name || !words.is_empty() && *words == name
    };
    KINDS.iter().find(named).map(|(.., run)| *run)
}

pub(crate) fn command(args: &SpecArgs, streams: &mut Streams<'_>) -> Result<Status, Failure> {
    let mut files = Vec::new();
    for path in &args.files {
        files.push(load(path)?);
    }
    let (mut passed, mut failed) = (0usize, 0usize);
    for (run, vectors) in &files {
        for (i, vector) in vectors.iter().enumerate() {
            match judge(*run, vector) {
                Ok(()) => passed += 1,
                Err(why) => {
                    failed += 1;
                    let id = vector.get("id").and_then(Json::as_str);
                    let id = id.map_or_else(|| format!("vector {i}"), str::to_owned);
                    streams.line(&format!("{id}: {why}"));
                }
            }
        }
    }
    streams.line(&format!("{passed} passed, {failed} failed"));
    Ok(if failed == 0 {
        Status::Done
    } else {
        Status::Refused
    })
}

fn load(path: &Path) -> Result<(Runner, Vec<Json>), Failure> {
    let name = path.display().to_string();
    let refuse = |message| Failure::about(&name, Diagnostic::error(codes::VECTORS_SYNTAX, message));
    let text = read_text(path)?;
    let mut root: Json =
        serde_json::from_str(&text).map_err(|e| refuse(format!("found no vectors: {e}")))?;
    let kind = root
        .get("kind")
        .and_then(Json::as_str)
        .unwrap_or("")
        .to_owned();
    let Some(run) = runner(&kind) else {
        let known: Vec<&str> = KINDS.iter().map(|(known, ..)| *known).collect();
        let message = format!(
            "found vectors of kind `{kind}`, wanted one of {}",
            known.join(", ")
        );
        return Err(Failure::about(
            &name,
            Diagnostic::error(codes::VECTORS_KIND, message),
        ));
    };
    match root.get_mut("vectors").map(Json::take) {
        Some(Json::Array(vectors)) => Ok((run, vectors)),
        _ => Err(refuse("found no list `vectors`".to_owned())),
    }
}

fn judge(run: Runner, vector: &Json) -> Result<(), VectorError> {
    let (wanted, found) = run(vector)?;
    match wanted == found {
        true => Ok(()),
        false => Err(expected(wanted, found)),
    }
}

/// The text under this key.
fn text<'a>(vector: &'a Json, key: &'static str) -> Result<&'a str, VectorError> {
    let text = vector.get(key).and_then(Json::as_str);
    text.ok_or(VectorError::NoText(key))
}

/// The layout under this key; a refusal is one line.
fn layout(vector: &Json, key: &'static str) -> Result<Layout, VectorError> {
    let text = text(vector, key)?;
    let tensor = parse(text).map_err(|f| {
        let line = f.text.lines().next().unwrap_or("");
        expected("a tensor", format!("`{text}`: {line}"))
    })?;
    Ok(tensor.layout().clone())
}

/// The numbers under this key; `None` if it is absent or null.
fn list<T: TryFrom<u64>>(vector: &Json, key: &'static str) -> Result<Option<Vec<T>>, VectorError> {
    let items = match vector.get(key) {
        None | Some(Json::Null) => return Ok(None),
        Some(items) => items.as_array(),
    };
    let number = |item: &Json| item.as_u64().and_then(|n| T::try_from(n).ok());
    let all = items.and_then(|items| items.iter().map(number).collect());
    let wanted = "list of numbers";
    all.map(Some).ok_or(VectorError::Kind { key, wanted })
}

fn field(vector: &Json, key: &'static str) -> Result<Json, VectorError> {
    vector.get(key).cloned().ok_or(VectorError::NoKey(key))
}

/// The items of a list that is the value of this key.
fn items<'a>(value: &'a Json, key: &'static str) -> Result<&'a Vec<Json>, VectorError> {
    let wanted = "list";
    value.as_array().ok_or(VectorError::Kind { key, wanted })
}

fn tensor_index(vector: &Json) -> Outcome {
    let layout = layout(vector, "text")?;
    let index: Vec<u64> = list(vector, "index")?.ok_or(VectorError::NoKey("index"))?;
    let found = serde_json::json!([layout.index(&index), layout.positions()]);
    let positions = vector
        .get("positions")
        .cloned()
        .unwrap_or_else(|| layout.positions().into());
    Ok((
        Json::Array(vec![field(vector, "linear_index")?, positions]),
        found,
    ))
}

/// The longest buffer that is compared position by position.
const MAX_MEMORY: usize = 1 << 24;

fn tensor_maps(vector: &Json) -> Outcome {
    compare_memory(&layout(vector, "text")?, field(vector, "memory")?)
}

/// The row-major number of the element at each position, -1 for padding. The position of each element is checked, too.
fn compare_memory(layout: &Layout, memory: Json) -> Outcome {
    let wanted = memory.as_array().map_or(0, Vec::len);
    let size = usize::try_from(layout.positions()).unwrap_or(usize::MAX);
    if size != wanted || size > MAX_MEMORY {
        return Err(expected(format!("{wanted} positions"), size));
    }
    let at = |p: u64| {
        layout
            .element_at(p)
            .map_or(-1, |e| number_of(&e, layout.shape()))
    };
    let found: Vec<i64> = (0..layout.positions()).map(at).collect();
    for (p, &number) in found.iter().enumerate().filter(|(_, n)| **n != -1) {
        let element = element_of(number, layout.shape());
        if layout.index(&element) != Some(p as u64) {
            let back = layout.index(&element);
            return Err(expected(
                format!("{element:?} at {p}"),
                format!("it at {back:?}"),
            ));
        }
    }
    Ok((memory, Json::from(found)))
}

/// The row-major number of an element.
fn number_of(element: &[u64], shape: &[u64]) -> i64 {
    let number = element
        .iter()
        .zip(shape)
        .fold(0u64, |n, (e, d)| n.wrapping_mul(*d).wrapping_add(*e));
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn element_of(number: i64, shape: &[u64]) -> Vec<u64> {
    let mut rest = u64::try_from(number).unwrap_or(0);
    let mut element = vec![0; shape.len()];
    for (e, &d) in element.iter_mut().zip(shape).rev() {
        *e = rest % d.max(1);
        rest /= d.max(1);
    }
    element
}

fn layout_equal(vector: &Json) -> Outcome {
    let (a, b) = (layout(vector, "a")?, layout(vector, "b")?);
    Ok((field(vector, "expected")?, a.same_function(&b).into()))
}

fn view(vector: &Json) -> Outcome {
    let (input, output) = (layout(vector, "input")?, layout(vector, "output")?);
    let map = ViewMap {
        shape: list(vector, "shape")?,
        perm: list(vector, "perm")?,
        result: output.shape().to_vec(),
    };
    map.check(input.shape())?;
    Ok((
        field(vector, "expected")?,
        is_view(&input, &map, &output).is_ok().into(),
    ))
}
