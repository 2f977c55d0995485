//! `optc stats`: counts operations and the bytes that they move.

use crate::args::{CompileArgs, StatsArgs};
use crate::codes;
use crate::condition::{Condition, Figures};
use crate::driver::Main;
use crate::estimate::{self, Estimates, Wanted, seconds};
use crate::failure::{Failure, Status};
use crate::inputs::{self, Input};
use crate::mesh;
use crate::streams::Streams;
use crate::{terminal, whole};
use indexmap::IndexMap;
use optc::passes::TileReport;
use optc::{
    Compiler, FoldReport, MemoryUse, Polynomials, Program, Reports, Size, Stats, bound_sizes,
};
use serde_json::{Map, Value as Json, json};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// The version of the JSON; it grows if a key changes its meaning.
pub(crate) const SCHEMA: u64 = 1;

/// The figures of one program, before and after passes if there are any.
struct Measured {
    before: Option<Stats>,
    after: Stats,
    reports: Reports,
    /// The use of memory, if memory is planned.
    memory: Option<MemoryUse>,
    /// The sizes of the program's names in the figures.
    bound: IndexMap<Arc<str>, u64>,
    /// Modelled times, if requested.
    estimates: Option<Estimates>,
    /// The figures on a mesh, if the program has one.
    mesh: Option<mesh::Figures>,
}

pub(crate) fn command(
    driver: &Main,
    args: &StatsArgs,
    streams: &mut Streams<'_>,
) -> Result<Status, Failure> {
    let conditions = conditions(&args.fail_if)?;
    let wanted = estimate::wanted(args)?;
    let Some(path) = &args.input else {
        return Err(Failure::usage("an input is missing"));
    };
    let compiler = inputs::compiler(driver, &args.compile)?;
    let program = load(&compiler, path, &args.compile, streams)?;
    inputs::check_bindings(&args.compile.bind, &[&program])?;
    let measured = measure(&compiler, program, &args.compile, wanted)?;
    let text = if args.json {
        json_of(&measured)
    } else {
        table_of(&measured)
    };
    streams.print(&text);
    let mut figures = Figures::default();
    let fold = measured.reports.get::<FoldReport>();
    let bound = fold.map(|f| f.lower_bound_bytes);
    figures.add(&measured.after, measured.before.as_ref(), bound);
    fail_if(&conditions, &figures)
}

pub(crate) fn conditions(texts: &[String]) -> Result<Vec<Condition>, Failure> {
    let read = |text: &String| {
        text.parse()
            .map_err(|e| Failure::usage(format!("--fail-if: {e}")))
    };
    texts.iter().map(read).collect()
}

pub(crate) fn fail_if(conditions: &[Condition], figures: &Figures) -> Result<Status, Failure> {
    let mut failed = String::new();
    for condition in conditions {
        let (holds, value) = condition
            .test(figures)
            .map_err(|e| Failure::usage(format!("--fail-if: {e}")))?;
        if holds {
            let _ = writeln!(
                failed,
                "error[{}]: `{condition}` holds: found {value}",
                codes::FAIL_IF.name
            );
        }
    }
    if failed.is_empty() {
        Ok(Status::Done)
    } else {
        Err(Failure::check(failed))
    }
}

fn measure(
    compiler: &Compiler,
    mut program: Program,
    args: &CompileArgs,
    wanted: Option<Wanted>,
) -> Result<Measured, Failure> {
    let own = if args.mesh.is_some() { "shard" } else { "" };
    let stages = inputs::stages(compiler, args, own)?;
    let mut cx = inputs::context(compiler, &program, args)?;
    let sizes = compiler.sizes(&program);
    let before = compiler.stats_at(&program, &sizes);
    let bound = bound_sizes(&program.module, &sizes);
    let target = cx.target.clone();
    let price = |program: &Program| {
        let priced = wanted.map(|w| w.price(program, compiler.registry(), &target, &sizes));
        priced.transpose()
    };
    let priced = price(&program)?;
    if args.pass.is_none() && stages.is_empty() {
        let alone = wanted.zip(priced);
        return Ok(Measured {
            mesh: mesh::Figures::of(compiler, &program, &target, None)?,
            before: None,
            after: before,
            reports: Reports::default(),
            memory: MemoryUse::of(&program.module, compiler.registry()),
            bound,
            estimates: alone.map(|(w, priced)| w.estimates(&target, None, priced, None)),
        });
    }
    terminal::doing(|| format!("{}: passes", program.name));
    compiler.run_passes(&mut program, &stages, &mut cx, &mut args.hooks())?;
    let after = compiler.stats_at(&program, &sizes);
    let both = priced.zip(price(&program)?);
    let fold = cx.reports.get::<FoldReport>();
    let estimates = wanted
        .zip(both)
        .map(|(w, (priced, after))| w.estimates(&target, Some((priced, &before)), after, fold));
    Ok(Measured {
        mesh: mesh::Figures::of(compiler, &program, &target, cx.reports.get())?,
        before: Some(before),
        after,
        reports: cx.reports,
        memory: MemoryUse::of(&program.module, compiler.registry()),
        bound,
        estimates,
    })
}

pub(crate) fn load(
    compiler: &Compiler,
    path: &Path,
    args: &CompileArgs,
    streams: &mut Streams<'_>,
) -> Result<Program, Failure> {
    let reader = whole::counter(compiler, args.pass.as_deref());
    Ok(Input::read(path, streams)?.program(&reader, args.from.as_deref())?)
}

pub(crate) fn object(stats: &Stats, bound: &IndexMap<Arc<str>, u64>) -> Map<String, Json> {
    let fields = stats.fields().into_iter();
    let mut map: Map<String, Json> = fields
        .map(|(name, n)| (name.to_owned(), json!(n)))
        .collect();
    if !bound.is_empty() {
        map.insert("polynomials".to_owned(), polynomials(&stats.polynomials));
    }
    map
}

/// The figures in bytes as polynomials, `null` if there is none.
fn polynomials(all: &Polynomials) -> Json {
    let text = |(name, size): (&str, Option<&Size>)| (name.to_owned(), polynomial(size));
    Json::Object(all.fields().into_iter().map(text).collect())
}

fn polynomial(size: Option<&Size>) -> Json {
    json!(size.map(|size| format!("{size:#}")))
}

fn json_of(measured: &Measured) -> String {
    let mut root = Map::new();
    root.insert("schema".to_owned(), json!(SCHEMA));
    let bound = &measured.bound;
    root.extend(object(&measured.after, bound));
    if !bound.is_empty() {
        let sizes = bound.iter().map(|(name, n)| (name.to_string(), json!(n)));
        root.insert("bindings".to_owned(), Json::Object(sizes.collect()));
    }
    if let Some(before) = &measured.before {
        root.insert("before".to_owned(), Json::Object(object(before, bound)));
        root.insert(
            "after".to_owned(),
            Json::Object(object(&measured.after, bound)),
        );
        let fold = measured.reports.get::<FoldReport>();
        let mut put = |name: &str, value: Json| root.insert(name.to_owned(), value);
        put("bytes_before", json!(fold.map(|f| f.bytes_before)));
        put("bytes_after", json!(fold.map(|f| f.bytes_after)));
        put(
            "lower_bound_bytes",
            json!(fold.map(|f| f.lower_bound_bytes)),
        );
        put("proof", json!(fold.map(|f| f.proof.name())));
        let rules = fold.map(|f| f.rules_fired.iter().map(|(k, n)| (k.clone(), json!(n))));
        put("rules", json!(rules.map(|r| Json::Object(r.collect()))));
        if let Some(fold) = fold.filter(|_| !bound.is_empty()) {
            let all = fold.polynomials.iter();
            let text = all.map(|(name, size)| ((*name).to_owned(), polynomial(size.as_ref())));
            put("fold_polynomials", Json::Object(text.collect()));
        }
        if let Some(tiles) = measured.reports.get::<TileReport>() {
            put("tiles", tiles_of(tiles));
        }
    }
    if let Some(memory) = &measured.memory {
        let fields = memory.fields().map(|(name, n)| (name.to_owned(), json!(n)));
        let fields = fields.into_iter().collect();
        root.insert("memory".to_owned(), Json::Object(fields));
    }
    if let Some(estimates) = &measured.estimates {
        let tiles = measured.reports.get::<TileReport>();
        root.insert("estimate".to_owned(), estimates.json(tiles));
    }
    if let Some(mesh) = &measured.mesh {
        root.insert("mesh".to_owned(), mesh.json());
    }
    format!("{:#}\n", Json::Object(root))
}

/// The traffic of tiled groups.
fn tiles_of(report: &TileReport) -> Json {
    let group = |g: &optc::passes::GroupReport| {
        json!({
            "last": g.last,
            "ops": g.ops,
            "grid": g.grid,
            "unfused_bytes": g.unfused_bytes,
            "untiled_bytes": g.untiled_bytes,
            "tiled_bytes": g.tiled_bytes,
            "lower_bound_bytes": g.lower_bound_bytes,
            "footprint_bytes": g.footprint,
            "parallel": g.parallel,
            "steps": g.steps,
            "untiled_steps": g.untiled_steps,
            "operations": g.operations,
            "untiled_operations": g.untiled_operations,
            "outer_bytes": g.outer_bytes,
            "on_chip_bytes": g.on_chip_bytes,
            "seconds": seconds(g.time_ps),
            "roofline_seconds": seconds(g.roofline_ps),
            "apart_seconds": seconds(g.apart_ps),
            "compute_seconds": seconds(g.compute_ps),
            "memory_seconds": seconds(g.memory_ps),
            "on_chip_seconds": seconds(g.on_chip_ps),
            "conversions": g.conversions,
            "conversion_bytes": g.conversion_bytes,
            "conversion_bytes_at_edges": g.conversion_bytes_at_edges,
        })
    };
    let groups: Vec<Json> = report.groups.iter().map(group).collect();
    json!({
        "groups": groups,
        "conversion_bytes": report.conversion_bytes,
        "conversion_bytes_at_edges": report.conversion_bytes_at_edges,
        "unfused_bytes": report.unfused_bytes,
        "untiled_bytes": report.untiled_bytes,
        "tiled_bytes": report.tiled_bytes,
        "lower_bound_bytes": report.lower_bound_bytes,
        "ungrouped_ops": report.ungrouped,
        "ungrouped_bytes": report.ungrouped_bytes,
        "seconds": seconds(report.time_ps),
        "apart_seconds": seconds(report.apart_ps),
        "program_bytes": report.program_bytes,
        "candidates": report.candidates,
        "carried": report.carried,
    })
}

fn table_of(measured: &Measured) -> String {
    let mut text = figures_of(measured);
    for (name, n) in measured.memory.iter().flat_map(MemoryUse::fields) {
        let _ = writeln!(text, "{name:<24} {n:>16}");
    }
    if let Some(estimates) = &measured.estimates {
        text.push_str(&estimates.text());
        if let Some(tiles) = measured.reports.get::<TileReport>() {
            crate::estimate::tiles_text(&mut text, tiles);
        }
    }
    if let Some(mesh) = &measured.mesh {
        text.push_str(&mesh.text());
    }
    text
}

fn figures_of(measured: &Measured) -> String {
    let mut text = String::new();
    let Some(before) = &measured.before else {
        for (name, n) in measured.after.fields() {
            let _ = writeln!(text, "{name:<24} {n:>16}");
        }
        symbols(&mut text, &[&measured.after], &measured.bound);
        return text;
    };
    let fold = measured.reports.get::<FoldReport>();
    text.push_str(&figures(before, &measured.after, fold, &measured.bound));
    if let Some(tiles) = measured.reports.get::<TileReport>() {
        let rows = [
            ("unfused_bytes", tiles.unfused_bytes),
            ("untiled_bytes", tiles.untiled_bytes),
            ("tiled_bytes", tiles.tiled_bytes),
            ("tiles_lower_bound_bytes", tiles.lower_bound_bytes),
        ];
        let _ = writeln!(text, "{:<24} {:>16}", "tile_groups", tiles.groups.len());
        for (name, n) in rows {
            let _ = writeln!(text, "{name:<24} {n:>16}");
        }
    }
    text
}

/// Two columns of figures, and the fold's own report.
pub(crate) fn figures(
    before: &Stats,
    after: &Stats,
    fold: Option<&FoldReport>,
    bound: &IndexMap<Arc<str>, u64>,
) -> String {
    let mut text = String::new();
    two_columns(&mut text, ["before", "after"], before, after);
    symbols(&mut text, &[before, after], bound);
    if let Some(fold) = fold {
        // The figures above are of the program as it is written; these include the conversions that the target forces.
        let _ = writeln!(
            text,
            "{:<24} {:>16} {:>16}",
            "lowered_bytes", fold.bytes_before, fold.bytes_after
        );
        let _ = writeln!(
            text,
            "lower bound {} bytes, {}",
            fold.lower_bound_bytes,
            fold.proof.name()
        );
        for (rule, n) in &fold.rules_fired {
            let _ = writeln!(text, "rule {rule} fired {n} times");
        }
    }
    text
}

/// The sizes of names in the figures, and the figures in bytes as polynomials.
pub(crate) fn symbols(text: &mut String, columns: &[&Stats], bound: &IndexMap<Arc<str>, u64>) {
    if bound.is_empty() {
        return;
    }
    let sizes: Vec<String> = bound
        .iter()
        .map(|(name, n)| format!("{name}={n}"))
        .collect();
    let _ = writeln!(text, "at {}, for all sizes:", sizes.join(", "));
    let all: Vec<_> = columns
        .iter()
        .map(|stats| stats.polynomials.fields())
        .collect();
    for (i, (name, _)) in all.first().into_iter().flatten().enumerate() {
        let shown = |fields: &Vec<(&str, Option<&Size>)>| match fields.get(i) {
            Some((_, Some(size))) => format!("{size:#}"),
            Some((_, None)) | None => "no polynomial".to_owned(),
        };
        let columns: Vec<String> = all.iter().map(shown).collect();
        let _ = writeln!(text, "{name:<24} {}", columns.join(" -> "));
    }
}

fn two_columns(text: &mut String, titles: [&str; 2], a: &Stats, b: &Stats) {
    let _ = writeln!(text, "{:<24} {:>16} {:>16}", "", titles[0], titles[1]);
    for ((name, x), (_, y)) in a.fields().into_iter().zip(b.fields()) {
        let _ = writeln!(text, "{name:<24} {x:>16} {y:>16}");
    }
}
