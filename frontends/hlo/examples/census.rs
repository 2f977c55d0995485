//! What a folder of HLO dumps becomes: `cargo run --release -p optc-hlo --example census -- FOLDER…`.
//!
//! For every `.hlo` file: whether it reads, prints back to the same module, verifies, and is emitted
//! from the IR as text that reads again (with `--out FOLDER` the texts are written there); how its
//! bitcasts and copies are seen; which instructions stay opaque; whether the target's formats give the
//! tiles of arguments and results; and, where a `.json` file of the same name gives
//! `argument_size_in_bytes`, whether the computed bytes agree. Whatever does not hold is a line of its own,
//! and the exit status is 1.

use indexmap::IndexMap;
use optc_hlo::{HloModule, Strictness, import, parse, print, printed, tensor_type};
use optc_ir::{Severity, TensorType};
use optc_layout::{Layout, ViewMap, deduce, is_view};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

type Counts = IndexMap<String, u64>;

fn main() -> std::io::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut emitted = None;
    if let Some(at) = args
        .iter()
        .position(|a| a == "--out")
        .filter(|at| at + 1 < args.len())
    {
        emitted = args.drain(at..at + 2).nth(1).map(PathBuf::from);
    }
    let mut code = ExitCode::SUCCESS;
    for folder in args {
        let mut counts = Counts::new();
        for path in files(Path::new(&folder))? {
            let text = std::fs::read_to_string(&path)?;
            for line in file(&path, &text, &mut counts, emitted.as_deref()) {
                writeln!(out, "{}: {line}", path.display())?;
                code = ExitCode::FAILURE;
            }
        }
        writeln!(out, "{folder}")?;
        counts.sort_keys();
        for (name, count) in &counts {
            writeln!(out, "{count:8}  {name}")?;
        }
    }
    Ok(code)
}

fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "hlo") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn add(counts: &mut Counts, name: &str) {
    *counts.entry(name.to_owned()).or_insert(0) += 1;
}

/// What is wrong with one file.
fn file(path: &Path, text: &str, counts: &mut Counts, out: Option<&Path>) -> Vec<String> {
    let mut lines = Vec::new();
    add(counts, "files");
    let (module, diags) = parse(text, Strictness::Exact);
    lines.extend(diags.iter().map(|d| format!("{}: {}", d.code, d.message)));
    let written = print(&module);
    let again = parse(&written, Strictness::Exact).0;
    if printed(&again) == printed(&module) {
        add(counts, "files that print back to the same module");
    }
    match import(text) {
        Err(diags) => lines.extend(diags.iter().map(|d| format!("{}: {}", d.code, d.message))),
        Ok(import) => {
            let errors = optc_ir::verify::verify(&import.module, &optc_ops::registry()).err();
            match errors {
                None => add(counts, "files that verify"),
                Some(errors) => {
                    lines.extend(
                        errors
                            .iter()
                            .take(3)
                            .map(|d| format!("{}: {}", d.code, d.message)),
                    );
                }
            }
            lines.extend(emit(path, &import.module, counts, out));
            let remarks = import
                .diags
                .iter()
                .filter(|d| d.severity == Severity::Remark);
            for remark in remarks {
                let words: Vec<&str> = remark.message.split('`').collect();
                let times = remark.message.split_whitespace().rev().nth(1);
                let n = times.and_then(|n| n.parse().ok()).unwrap_or(0u64);
                *counts
                    .entry(format!("opaque {}", words.get(1).unwrap_or(&"")))
                    .or_insert(0) += n;
            }
        }
    }
    rearrangements(&module, counts, &mut lines);
    lines.extend(arguments(path, &module, counts));
    tiles(path, &module, counts, &mut lines);
    lines
}

/// The program as HLO text again.
fn emit(
    path: &Path,
    module: &optc_ir::Module,
    counts: &mut Counts,
    out: Option<&Path>,
) -> Option<String> {
    let none = |_: &str, _, _, _| Err("no files".to_owned());
    let text = match optc_emit::hlo::emit(module, &optc_ops::registry(), None, &none) {
        Ok(made) => made.text,
        Err(diag) => return Some(format!("{}: {}", diag.code, diag.message)),
    };
    if let (Some(folder), Some(name)) = (out, path.file_name())
        && let Err(error) = std::fs::write(folder.join(name), &text)
    {
        return Some(error.to_string());
    }
    let (_, diags) = parse(&text, Strictness::Exact);
    if let Some(diag) = diags.first() {
        let line = text[..diag.labels.first().map_or(0, |l| l.0.start as usize)]
            .lines()
            .count();
        return Some(format!(
            "emitted line {line}: {}: {}",
            diag.code, diag.message
        ));
    }
    add(counts, "files that are emitted and read again");
    None
}

fn layout(ty: &TensorType) -> Option<Layout> {
    ty.layout()?.ok()
}

fn rearrangements(module: &HloModule, counts: &mut Counts, lines: &mut Vec<String>) {
    for computation in &module.computations {
        for made in &computation.instructions {
            let kind = made.opcode;
            if !matches!(kind, "bitcast" | "copy") {
                continue;
            }
            let operand = &computation.instructions[made.operands[0]].shape;
            let types = (
                operand.as_array().and_then(tensor_type),
                made.shape.as_array().and_then(tensor_type),
            );
            let (Some(from), Some(to)) = types else {
                add(counts, &format!("{kind}: of types without layouts here"));
                continue;
            };
            let what = if kind == "bitcast" {
                bitcast(&from, &to)
            } else {
                copy(&from, &to)
            };
            if what.contains("no map") {
                lines.push(format!("%{}: {operand} -> {}", made.name, made.shape));
            }
            add(counts, &format!("{kind}: {what}"));
            add(counts, &format!("{kind}: all"));
        }
    }
}

fn bitcast(from: &TensorType, to: &TensorType) -> String {
    if from.dtype != to.dtype {
        return "another element type".to_owned();
    }
    let to = optc_hlo::in_space_of(to, from);
    let (Some(a), Some(b)) = (layout(from), layout(&to)) else {
        return "no layout".to_owned();
    };
    match deduce(&a, &b) {
        Ok(maps) if maps.iter().all(|m| m.perm.is_none()) => "views, a reshape".to_owned(),
        Ok(maps) if maps.len() == 1 => "views, one that permutes".to_owned(),
        Ok(maps) => format!("views, {} that permute", maps.len()),
        Err(why) => format!("no map: {why}"),
    }
}

fn copy(from: &TensorType, to: &TensorType) -> String {
    let (Some(a), Some(b)) = (layout(from), layout(to)) else {
        return "no layout".to_owned();
    };
    let map = ViewMap::reshape(b.shape());
    if is_view(&a, &map, &b).is_ok() {
        let same = if from == to {
            "written alike"
        } else {
            "written differently"
        };
        return format!("a view, {same}");
    }
    "a conversion".to_owned()
}

/// Whether the target's formats give the tiles of the entry's parameters and results; a file name
/// that ends with a generation, `_v4`, was compiled for it.
fn tiles(path: &Path, module: &HloModule, counts: &mut Counts, lines: &mut Vec<String>) {
    let entry = &module.computations[module.entry];
    let parameters = entry.parameters();
    let shapes = parameters.iter().map(|&p| &entry.instructions[p].shape);
    let leaves: Vec<_> = shapes
        .chain([&entry.root().shape])
        .flat_map(|s| s.parts())
        .collect();
    let tiled = leaves
        .iter()
        .filter_map(|s| s.as_array())
        .any(|a| !a.notation_or_default().tiles().is_empty());
    let stem = path
        .file_stem()
        .map(|s| s.to_string_lossy().into_owned())
        .unwrap_or_default();
    let suffix = stem.rsplit('_').next().unwrap_or("");
    let named = optc_target::Target::builtin(&format!("tpu:{suffix}"));
    let Ok(target) = named.or_else(|_| optc_target::Target::builtin("tpu")) else {
        return;
    };
    for leaf in leaves.into_iter().filter(|_| tiled) {
        let Some((array, ty)) = leaf.as_array().and_then(|a| Some((a, tensor_type(a)?))) else {
            continue;
        };
        let notation = array.notation_or_default();
        let text = notation.in_space(0).with_element_bits(0).to_string();
        let stated = text.split_once(':').map_or("", |(_, tiles)| tiles);
        let order = notation.minor_to_major().iter().rev();
        let physical: Vec<u64> = order.filter_map(|&d| ty.dims.get(d)?.fixed()).collect();
        let found = optc_target::tiles_text(&target.tiles(ty.dtype.bits(), &physical));
        if found == stated {
            add(counts, "tiles: as the target's formats say");
        } else {
            add(counts, "tiles: others");
            lines.push(format!("{array}: {found} by the target's formats"));
        }
    }
}

/// The bytes of the arguments as the layouts give them, beside those that the compiler reports.
fn arguments(path: &Path, module: &HloModule, counts: &mut Counts) -> Option<String> {
    let text = std::fs::read_to_string(path.with_extension("json")).ok()?;
    let key = "\"argument_size_in_bytes\":";
    let rest = text.split_once(key)?.1.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    let stated: u64 = rest[..end].parse().ok()?;
    let entry = &module.computations[module.entry];
    let parameters = entry.parameters();
    let leaves = parameters
        .iter()
        .flat_map(|&p| entry.instructions[p].shape.parts());
    let mut total = 0u64;
    for leaf in leaves {
        total += layout(&tensor_type(leaf.as_array()?)?)?.bytes();
    }
    if total == stated {
        add(counts, "arguments: bytes agree");
        return None;
    }
    add(counts, "arguments: bytes differ");
    Some(format!("arguments of {total} bytes, stated {stated}"))
}
