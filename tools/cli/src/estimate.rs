//! `optc stats --estimate`: models the time of a program by a roofline. Nothing is measured.

use crate::args::StatsArgs;
use crate::failure::Failure;
use optc::estimate::{Estimate, Item, Prices, has_floats, outermost};
use optc::passes::TileReport;
use optc::{DType, FoldReport, Module, Program, Registry, SizeTable, Stats, Target};
use serde_json::{Map, Value as Json, json};
use std::fmt::Write as _;

/// The note beside every figure of the model.
const MODEL: &str = "roofline: modelled, not measured";

/// The number of items of each program in the table.
const SHOWN: usize = 20;

/// The number of operations of one chain whose names are in the table.
const SHOWN_OPS: usize = 4;

/// The requests of the options.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// The element type in which floats are priced.
    cast: Option<DType>,
    /// The gain whose crossing is searched.
    sweep: Option<f64>,
}

/// The modelled times of a program, before and after passes if there are any.
pub(crate) struct Estimates {
    wanted: Wanted,
    /// The names of the target and of its memory.
    target: [String; 2],
    before: Option<Estimate>,
    after: Estimate,
}

/// The requests of the options; `None` without `--estimate`.
///
/// # Errors
/// A program of floats cannot be priced as the element type of `--cast`, the gain of `--sweep` is not a number above 0,
/// or there are no passes.
pub(crate) fn wanted(args: &StatsArgs) -> Result<Option<Wanted>, Failure> {
    if !args.estimate {
        return Ok(None);
    }
    let cast = args.cast.as_deref().map(cast).transpose()?;
    let gain = |text: &String| {
        let number = text.parse().ok();
        number
            .filter(|n: &f64| n.is_finite() && 0.0 < *n)
            .ok_or_else(|| {
                let message =
                    format!("--sweep: found `{text}`, wanted a gain above 0, such as 1.4");
                Failure::usage(message)
            })
    };
    let sweep = args.sweep.as_ref().map(gain).transpose()?;
    if sweep.is_some() && args.compile.pass.is_none() {
        let message = "--sweep compares a program before and after passes, wanted --pass";
        return Err(Failure::usage(message));
    }
    Ok(Some(Wanted { cast, sweep }))
}

/// The element type in which floats are priced.
fn cast(text: &str) -> Result<DType, Failure> {
    const KNOWN: [&str; 10] = [
        "si4", "ui4", "si8", "ui8", "si16", "ui16", "f16", "bf16", "f32", "f64",
    ];
    let dtype = DType::parse(text).filter(|_| KNOWN.contains(&text));
    dtype.ok_or_else(|| {
        let advice = format!(
            "--cast takes the element type that replaces floats in the model, one of {}",
            KNOWN.join(", ")
        );
        Failure::unknown("--cast", "element type", text, KNOWN, &advice)
    })
}

impl Wanted {
    /// The time of one program on a target.
    ///
    /// # Errors
    /// The target states no memory, or the program has no floats to price in another type.
    pub(crate) fn price(
        &self,
        program: &Program,
        registry: &Registry,
        target: &Target,
        sizes: &SizeTable,
    ) -> Result<Estimate, Failure> {
        let module: &Module = &program.module;
        if let Some(cast) = self.cast.filter(|_| !has_floats(module)) {
            let name = &program.name;
            let message =
                format!("--cast={cast}: {name} has no values of floats to price as {cast}");
            return Err(Failure::usage(message));
        }
        let prices = Prices {
            target,
            sizes,
            cast: self.cast,
        };
        Estimate::of(module, registry, &prices).ok_or_else(|| {
            let name = &target.name;
            Failure::usage(format!(
                "--estimate: target `{name}` states no [[memory]], wanted its bandwidth"
            ))
        })
    }

    /// Both times together. The fold report's figures for naive lowering belong to the first one.
    pub(crate) fn estimates(
        self,
        target: &Target,
        before: Option<(Estimate, &Stats)>,
        after: Estimate,
        fold: Option<&FoldReport>,
    ) -> Estimates {
        let before = before.map(|(mut estimate, stats)| {
            let written = stats.movement_bytes.saturating_add(stats.copy_bytes);
            let lowered = fold.map_or(0, |fold| {
                fold.bytes_before.saturating_sub(fold.padding_before)
            });
            estimate.add_conversions(lowered.saturating_sub(written));
            estimate
        });
        let memory = outermost(target).map_or("", |level| &level.name);
        Estimates {
            wanted: self,
            target: [target.name.clone(), memory.to_owned()],
            before,
            after,
        }
    }
}

/// One row of a sweep: all units this many times as fast, and the seconds before and after.
struct SweepRow {
    speed: f64,
    before: f64,
    after: f64,
}

impl SweepRow {
    fn gain(&self) -> f64 {
        gain(self.before, self.after)
    }
}

/// The time before divided by the time after; 1 if both are 0.
fn gain(before: f64, after: f64) -> f64 {
    if before == after { 1.0 } else { before / after }
}

impl Estimates {
    fn step(&self, before: &Estimate, speed: f64) -> SweepRow {
        SweepRow {
            speed,
            before: before.seconds_at(speed),
            after: self.after.seconds_at(speed),
        }
    }

    /// Steps from a quarter to four times the rates, with the same memory.
    fn sweep(&self, before: &Estimate) -> Vec<SweepRow> {
        let speeds = (-4..=4).map(|half: i32| (f64::from(half) * 0.5).exp2());
        speeds.map(|speed| self.step(before, speed)).collect()
    }

    /// The speeds, interpolated between steps, at which the gain crosses a number.
    fn crossings(&self, before: &Estimate, steps: &[SweepRow], wanted: f64) -> Vec<f64> {
        let reaches = |step: &SweepRow| wanted <= step.gain();
        let pairs = steps.iter().zip(steps.iter().skip(1));
        let pairs = pairs.filter(|(a, b)| reaches(a) != reaches(b));
        let between = |(a, b): (&SweepRow, &SweepRow)| {
            let (mut low, mut high) = (a.speed, b.speed);
            for _ in 0..40 {
                let middle = (low * high).sqrt();
                if reaches(&self.step(before, middle)) == reaches(a) {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            high
        };
        pairs.map(between).collect()
    }

    /// The JSON under `estimate`.
    pub(crate) fn json(&self, tiles: Option<&TileReport>) -> Json {
        let [target, memory] = &self.target;
        let mut root = Map::new();
        let mut put = |name: &str, value: Json| root.insert(name.to_owned(), value);
        put("model", json!(MODEL));
        put("target", json!(target));
        put("memory", json!(memory));
        put("bytes_a_second", json!(self.after.bandwidth));
        let cast = self.wanted.cast.map(|dtype| dtype.to_string());
        put("cast", json!(cast));
        put("after", object(&self.after));
        if let Some(tiles) = tiles {
            put("tiles", tiles_json(tiles));
        }
        if let Some(before) = &self.before {
            put("before", object(before));
            put("gain", json!(gain(before.seconds(), self.after.seconds())));
            if let Some(wanted) = self.wanted.sweep {
                let steps = self.sweep(before);
                let row = |step: &SweepRow| {
                    json!({
                        "speed": step.speed,
                        "seconds_before": step.before,
                        "seconds_after": step.after,
                        "gain": step.gain(),
                    })
                };
                let crossings = self.crossings(before, &steps, wanted);
                let steps: Vec<Json> = steps.iter().map(row).collect();
                let sweep = json!({ "gain": wanted, "steps": steps, "crossings": crossings });
                put("sweep", sweep);
            }
        }
        Json::Object(root)
    }

    /// The text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let [target, memory] = &self.target;
        let _ = writeln!(text, "\nestimate by a {MODEL}");
        let _ = write!(
            text,
            "target {target}, {memory} with {:.3e} bytes a second",
            self.after.bandwidth
        );
        let _ = match self.wanted.cast {
            Some(dtype) => writeln!(text, ", floats priced as {dtype}"),
            None => writeln!(text),
        };
        match &self.before {
            None => table(&mut text, "modelled", &self.after),
            Some(before) => {
                table(&mut text, "modelled before", before);
                table(&mut text, "modelled after", &self.after);
                let by = gain(before.seconds(), self.after.seconds());
                let _ = writeln!(text, "modelled gain {by:.3}");
                self.sweep_text(&mut text, before);
            }
        }
        text
    }

    fn sweep_text(&self, text: &mut String, before: &Estimate) {
        let Some(wanted) = self.wanted.sweep else {
            return;
        };
        let steps = self.sweep(before);
        text.push_str("all units this many times as fast, memory as it is (modelled):\n");
        let _ = writeln!(
            text,
            "{:>8} {:>14} {:>14} {:>8}",
            "speed", "before_us", "after_us", "gain"
        );
        for step in &steps {
            let _ = writeln!(
                text,
                "{:>8.3} {:>14.3} {:>14.3} {:>8.3}",
                step.speed,
                step.before * 1e6,
                step.after * 1e6,
                step.gain()
            );
        }
        let crossings = self.crossings(before, &steps, wanted);
        for speed in &crossings {
            let _ = writeln!(text, "the gain crosses {wanted} at speed {speed:.3}");
        }
        if crossings.is_empty() {
            let side = match steps.first() {
                Some(step) if wanted <= step.gain() => "at least",
                _ => "below",
            };
            let _ = writeln!(text, "the gain is {side} {wanted} at all of them");
        }
    }
}

fn object(estimate: &Estimate) -> Json {
    let item = |item: &Item| {
        let ops: Vec<&str> = item.ops.iter().map(|name| &**name).collect();
        json!({
            "function": &*item.func,
            "ops": ops,
            "unit": item.unit,
            "seconds": item.seconds(),
            "limit": item.limit().name(),
            "work": item.work,
            "bytes": item.bytes,
            "rated": !item.unrated,
        })
    };
    let items: Vec<Json> = estimate.items.iter().map(item).collect();
    json!({
        "seconds": estimate.seconds(),
        "work": estimate.work(),
        "bytes": estimate.bytes(),
        "unrated": estimate.unrated(),
        "items": items,
    })
}

/// The total and the items that take longest.
fn table(text: &mut String, title: &str, estimate: &Estimate) {
    let _ = writeln!(
        text,
        "{title}: {:.3} us, work {}, {} bytes",
        estimate.seconds() * 1e6,
        estimate.work(),
        estimate.bytes()
    );
    let unrated = estimate.unrated();
    if 0 < unrated {
        let _ = writeln!(
            text,
            "  the work of {unrated} below has no rate in the target's file and counts as no time"
        );
    }
    let mut items: Vec<&Item> = estimate.items.iter().collect();
    items.sort_by(|a, b| b.seconds().total_cmp(&a.seconds()));
    let _ = writeln!(
        text,
        "{:>14} {:<8} {:>16} {:>14} {:<8} operations",
        "us", "limit", "work", "bytes", "unit"
    );
    for item in items.iter().take(SHOWN) {
        let _ = writeln!(
            text,
            "{:>14.3} {:<8} {:>16} {:>14} {:<8} {}",
            item.seconds() * 1e6,
            item.limit().name(),
            item.work,
            item.bytes,
            item.unit.as_deref().unwrap_or("-"),
            names(item)
        );
    }
    if let Some(rest) = items.get(SHOWN..).filter(|rest| !rest.is_empty()) {
        let seconds: f64 = rest.iter().map(|item| item.seconds()).sum();
        let _ = writeln!(
            text,
            "{:>14.3} in {} more, which --json has",
            seconds * 1e6,
            rest.len()
        );
    }
}

/// The modelled times of the groups of a plan.
fn tiles_json(tiles: &TileReport) -> Json {
    let group = |group: &optc::passes::GroupReport| {
        json!({
            "last": group.last,
            "ops": group.ops,
            "seconds": seconds(group.time_ps),
            "roofline_seconds": seconds(group.roofline_ps),
            "apart_seconds": seconds(group.apart_ps),
            "compute_seconds": seconds(group.compute_ps),
            "memory_seconds": seconds(group.memory_ps),
            "on_chip_seconds": seconds(group.on_chip_ps),
            "off_chip_bytes": group.tiled_bytes,
            "on_chip_bytes": group.on_chip_bytes,
            "conversion_bytes": group.conversion_bytes,
            "overlapped_seconds": seconds(overlapped(group)),
        })
    };
    let groups: Vec<Json> = tiles.groups.iter().map(group).collect();
    json!({
        "seconds": seconds(tiles.time_ps),
        "apart_seconds": seconds(tiles.apart_ps),
        "groups": groups,
    })
}

/// Picoseconds of a group's arithmetic and bytes that run beside others.
fn overlapped(group: &optc::passes::GroupReport) -> u64 {
    let parts = [group.compute_ps, group.memory_ps, group.on_chip_ps];
    let sum = parts.into_iter().fold(0, u64::saturating_add);
    sum.saturating_sub(group.time_ps)
}

/// The modelled times of the groups that take longest.
pub(crate) fn tiles_text(text: &mut String, tiles: &TileReport) {
    let us = |picoseconds: u64| seconds(picoseconds) * 1e6;
    let _ = writeln!(
        text,
        "tiles, modelled: {:.3} us, operations by themselves {:.3} us",
        us(tiles.time_ps),
        us(tiles.apart_ps)
    );
    let _ = writeln!(
        text,
        "{:>14} {:>12} {:>12} {:>12} {:>14} {:>14} {:>5} last operation",
        "us", "compute", "memory", "on chip", "bytes", "on chip", "ops"
    );
    let mut groups: Vec<_> = tiles.groups.iter().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.time_ps));
    for group in groups.iter().take(SHOWN) {
        let _ = writeln!(
            text,
            "{:>14.3} {:>12.3} {:>12.3} {:>12.3} {:>14} {:>14} {:>5} {}",
            us(group.time_ps),
            us(group.compute_ps),
            us(group.memory_ps),
            us(group.on_chip_ps),
            group.tiled_bytes,
            group.on_chip_bytes,
            group.ops,
            group.last
        );
    }
}

/// The operations of an item in words.
fn names(item: &Item) -> String {
    if item.ops.is_empty() {
        return "conversions that the target forces".to_owned();
    }
    let shown: Vec<&str> = item.ops.iter().take(SHOWN_OPS).map(|op| &**op).collect();
    let more = item.ops.len().saturating_sub(SHOWN_OPS);
    match more {
        0 => shown.join(", "),
        _ => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Picoseconds in seconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "a model needs no more digits than a float has"
)]
pub(crate) fn seconds(picoseconds: u64) -> f64 {
    picoseconds as f64 * 1e-12
}
