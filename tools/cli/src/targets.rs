//! `optc targets`: explains the targets.

use crate::args::TargetsArgs;
use crate::driver::Main;
use crate::failure::{Failure, Status};
use crate::streams::Streams;
use optc::{MemoryLevel, Style, Target, Unit, read_text};
use std::fmt::Write as _;
use std::path::Path;

pub(crate) fn command(
    driver: &Main,
    args: &TargetsArgs,
    streams: &mut Streams<'_>,
) -> Result<Status, Failure> {
    let compiler = &driver.compiler;
    match &args.target {
        Some(name) => {
            let target = compiler.find_target(name)?;
            let text = match (args.toml, compiler.target_file(name)) {
                (false, _) => explain(&target),
                (true, Some(file)) => file,
                (true, None) => read_text(Path::new(name))?,
            };
            streams.print(&text);
        }
        None => {
            for name in compiler.target_names() {
                let target = compiler.find_target(name)?;
                streams.line(&format!("{name:<12} {}", target.summary));
            }
        }
    }
    Ok(Status::Done)
}

fn explain(target: &Target) -> String {
    let mut text = format!("{}: {}\n", target.name, target.summary);
    let written = match target.style {
        Style::Order => "layouts are written as an order of dimensions".to_owned(),
        Style::Block => format!("layouts are written as blocks of {}", target.block),
    };
    let _ = writeln!(text, "{written}\n\nmemory:");
    for level in &target.memory {
        let _ = writeln!(text, "  {}", memory(level));
    }
    if !target.links.is_empty() {
        text.push_str("\nlinks between devices:\n");
    }
    for link in &target.links {
        let _ = writeln!(
            text,
            "  {:<14} {:.3e} bytes a second, {:.1e} seconds a step",
            link.name, link.bandwidth, link.latency
        );
    }
    text.push_str("\nunits:\n");
    for (name, unit) in &target.units {
        let _ = writeln!(text, "  {name:<14} {}", unit.summary);
        if let Some(rates) = rates(unit) {
            let _ = writeln!(text, "  {:<14} {rates}", "");
        }
    }
    text.push_str(&generations(target));
    text.push_str(&formats(target));
    text.push_str("\noperations, by family (any other is row-major in and out):\n");
    for (family, row) in &target.families {
        let kernel = if row.kernel { ", has a kernel" } else { "" };
        let _ = writeln!(
            text,
            "  {family:<14} on {:<12} {}{kernel}",
            row.unit,
            row.describe()
        );
        if !row.evidence.is_empty() {
            let _ = writeln!(text, "  {:<14} as {}", "", row.evidence);
        }
    }
    text
}

/// The generation, and all existing ones.
fn generations(target: &Target) -> String {
    let base = target.name.split(':').next().unwrap_or("");
    let all = target.generations.iter().map(|g| format!("{base}:{g}"));
    let all: Vec<String> = all.collect();
    match all.is_empty() {
        true => String::new(),
        false => format!(
            "\ngeneration {}; all: {}\n",
            target.generation,
            all.join(", ")
        ),
    }
}

/// The tiles of values, if the target has tiles.
fn formats(target: &Target) -> String {
    if target.formats.is_empty() {
        return String::new();
    }
    let mut text = "\ntiles, the first row that fits (any other value is untiled):\n".to_owned();
    for format in &target.formats {
        let _ = writeln!(text, "  {}", format.describe());
    }
    text
}

fn memory(level: &MemoryLevel) -> String {
    let size = level
        .bytes
        .map_or("no limit".to_owned(), |n| format!("{n} bytes"));
    format!(
        "{:<14} {size}, {:.3e} bytes a second",
        level.name, level.bandwidth
    )
}

/// The rates of a unit, if its file states them.
fn rates(unit: &Unit) -> Option<String> {
    let rates = unit.rates.iter();
    let rates: Vec<String> = rates
        .map(|(key, rate)| format!("{key} at {rate:.3e}"))
        .chain(
            unit.f32
                .iter()
                .map(|(precision, rate)| format!("f32 as {precision} at {rate:.3e}")),
        )
        .collect();
    let blocks = unit.block.map_or_else(String::new, |[m, n, k]| {
        format!(", products in blocks of {m} by {n} by {k}")
    });
    let some = !rates.is_empty();
    some.then(|| format!("operations a second: {}{blocks}", rates.join(", ")))
}
