//! The table of results: the bytes that each model moves before and after the fold, and the reasons for the rest.

use crate::chart::{self, Bars, mb};
use optc_check::Stats;
use optc_ir::size::SizeTable;
use optc_ir::{Module, Registry};
use optc_passes::tile_propagate::TileReport;
use optc_passes::view_fold::{FoldReport, builtin_rules};
use optc_passes::{Boundary, PassContext, PassList, manager};
use optc_target::Target;
use optc_xtask::ChoreError;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

struct Row {
    name: String,
    before: Stats,
    after: Stats,
    no_rules: u64,
    naive: u64,
    /// The lower bound over all choices of layouts.
    bound: u64,
    proof: &'static str,
    /// For each rule that fired: the number of times, and the additional bytes that the model moves without it.
    rules: Vec<(String, u64, u64)>,
    remarks: Vec<String>,
    /// The traffic of the groups of `tile-propagate`, with a report for each target of [`TILED`].
    tiles: Vec<TileReport>,
    /// A fold for each target of [`LAID`].
    laid: Vec<Laid>,
}

/// The bytes of copies and expansions, read plus written.
fn copied(stats: &Stats) -> u64 {
    stats.copy_bytes.saturating_add(stats.expand_bytes)
}

/// The targets for which plans of tiles are compared.
const TILED: [&str; 2] = ["tpu", "triton"];

pub(crate) fn run(args: &[String]) -> Result<(), ChoreError> {
    let mut models = Vec::new();
    let mut out = None;
    let mut svg = None;
    let mut scale = None;
    let mut target = "cpu".to_owned();
    let mut tables = Tables::All;
    let mut iter = args.iter();
    while let Some(arg) = iter.next() {
        match arg.as_str() {
            "--out" => out = iter.next().cloned(),
            "--svg" => svg = iter.next().cloned(),
            "--scale" => scale = iter.next().cloned(),
            "--tiles" => tables = Tables::Tiles,
            "--target" => target = iter.next().cloned().unwrap_or_default(),
            model => models.push(model.to_owned()),
        }
    }
    if let (Tables::Tiles, Some(path)) = (tables, &out) {
        return tiles_alone(&models, path);
    }
    let mut rows = Vec::new();
    for model in &models {
        rows.push(row(model, &target)?);
    }
    if let Some(path) = svg {
        std::fs::write(&path, picture(&rows, &target)).map_err(ChoreError::file(&path))?;
    }
    let old = out
        .as_ref()
        .and_then(|path| std::fs::read_to_string(path).ok());
    let [old_page, old_scale, runtimes] = parts(old.as_deref().unwrap_or(""));
    let mut text = match old_page {
        // Without models the rest of the page is kept.
        page if models.is_empty() && !page.is_empty() => page.to_owned(),
        _ => page(&rows, &target),
    };
    match scale {
        Some(path) => {
            let figures = std::fs::read_to_string(&path).map_err(ChoreError::file(&path))?;
            text.push_str(&scale_section(&figures));
            text.push_str(if runtimes.is_empty() { "" } else { "\n" });
        }
        None => text.push_str(old_scale),
    }
    text.push_str(runtimes);
    match out {
        Some(path) => std::fs::write(&path, text).map_err(ChoreError::file(&path)),
        None => {
            println!("{text}");
            Ok(())
        }
    }
}

/// The targets whose layouts are on the page besides the main one.
const LAID: [&str; 3] = ["cpu:bytes", "tpu", "journey6"];

/// The result of a fold for another target.
struct Laid {
    naive: u64,
    after: Stats,
    bound: u64,
    proof: &'static str,
}

/// The folds of a program for the targets of [`LAID`].
fn laid_of(module: &Module, registry: &Arc<Registry>) -> Result<Vec<Laid>, ChoreError> {
    let fold_for = |target: &&str| {
        let (after, cx) = fold(module.clone(), registry, "canonicalize,view-fold", target)?;
        let report = cx.reports.get::<FoldReport>();
        Ok(Laid {
            naive: report.map_or(0, |f| f.bytes_before),
            bound: report.map_or(0, |f| f.lower_bound_bytes),
            proof: report.map_or("", |f| f.proof.name()),
            after,
        })
    };
    LAID.iter().map(fold_for).collect()
}

/// A table for each target of [`LAID`].
fn laid_tables(text: &mut String, rows: &[Row]) {
    for (i, target) in LAID.into_iter().enumerate() {
        let _ = write!(
            text,
            "\n## Layouts on `{target}`\n\n\
             The same for `--target={target}`: what is moved, copied and padded, in MB. `naive lowering`, `in all` and `bound` are sums of the \
             three; the padding of a value counts where it is stored, once written and once read.\n\n\
             | model | naive lowering | movement | copies | padding | in all | bound | proof |\n|---|---|---|---|---|---|---|---|\n"
        );
        for row in rows {
            let Laid {
                naive,
                after,
                bound,
                proof,
            } = &row.laid[i];
            let all = [after.movement_bytes, after.copy_bytes, after.padding_bytes];
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {proof} |",
                row.name,
                mb(*naive),
                mb(after.movement_bytes),
                mb(after.copy_bytes),
                mb(after.padding_bytes),
                mb(all.into_iter().fold(0, u64::saturating_add)),
                mb(*bound),
            );
        }
        let proved = rows.iter().filter(|r| r.laid[i].proof == "optimal").count();
        let moved = rows.iter().map(|r| r.laid[i].after.movement_bytes).sum();
        let copies = rows.iter().map(|r| copied(&r.laid[i].after)).sum();
        let _ = writeln!(
            text,
            "\nOf {} models {proved} are proved `optimal`. In all {} MB are moved, {} copied and expanded.",
            rows.len(),
            mb(moved),
            mb(copies),
        );
    }
}

/// The tables that are measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tables {
    All,
    Tiles,
}

/// Measures only the plans of tiles and replaces their tables in the page.
fn tiles_alone(models: &[String], path: &str) -> Result<(), ChoreError> {
    let registry = Arc::new(optc_ops::registry());
    let mut rows = Vec::with_capacity(models.len());
    for model in models {
        let (name, module) = import(model)?;
        let tiles = tiles_of(&module, &registry).map_err(ChoreError::of_model(model))?;
        rows.push((name, tiles));
    }
    let page = std::fs::read_to_string(path).map_err(ChoreError::file(path))?;
    let start = page.find(TILES).ok_or_else(|| ChoreError::NoHeading {
        path: path.to_owned(),
        heading: TILES.trim(),
    })?;
    let end = page.find(REASONS).filter(|end| start < *end);
    let end = end.ok_or_else(|| ChoreError::NoHeadingBehind {
        path: path.to_owned(),
        heading: REASONS.trim(),
    })?;
    let mut text = page[..start].to_owned();
    let tiles: Vec<(&str, &[TileReport])> = rows
        .iter()
        .map(|(name, tiles)| (name.as_str(), tiles.as_slice()))
        .collect();
    tile_tables(&mut text, &tiles);
    text.push_str(&page[end..]);
    std::fs::write(path, text).map_err(ChoreError::file(path))
}

/// The name of a model, and its program.
fn import(path: &str) -> Result<(String, Module), ChoreError> {
    let bytes = std::fs::read(path).map_err(ChoreError::file(path))?;
    let name = Path::new(path)
        .file_stem()
        .map_or(path.to_owned(), |s| s.to_string_lossy().into_owned());
    let options = optc_onnx::Options {
        name: Some(format!("{name}.onnx")),
        ..optc_onnx::Options::default()
    };
    let import = optc_onnx::import(&bytes, &options)
        .map_err(ChoreError::Refused)
        .map_err(ChoreError::of_model(path))?;
    Ok((name, import.module))
}

/// The traffic of the groups of a program, with a report for each target of [`TILED`].
fn tiles_of(module: &Module, registry: &Arc<Registry>) -> Result<Vec<TileReport>, ChoreError> {
    let mut tiles = Vec::with_capacity(TILED.len());
    for target in TILED {
        let pipeline = "canonicalize,view-fold,tile-propagate";
        let (_, cx) = fold(module.clone(), registry, pipeline, target)?;
        let report = cx.reports.get::<TileReport>();
        tiles.push(report.cloned().unwrap_or_default());
    }
    Ok(tiles)
}

fn row(path: &str, target: &str) -> Result<Row, ChoreError> {
    let (name, module) = import(path)?;
    let registry = Arc::new(optc_ops::registry());
    let before = Stats::of(&module, &registry);
    let (after, cx) = fold(module.clone(), &registry, "canonicalize,view-fold", target)
        .map_err(ChoreError::of_model(path))?;
    let plain = "canonicalize,view-fold{rules=none}";
    let (none, _) =
        fold(module.clone(), &registry, plain, target).map_err(ChoreError::of_model(path))?;
    let report = cx.reports.get::<FoldReport>();
    let proof = report.map_or("", |f| f.proof.name());
    let copies = before.copy_bytes;
    let naive = report.map_or(0, |f| f.bytes_before.saturating_sub(copies));
    let bound = report.map_or(0, |f| f.lower_bound_bytes.saturating_sub(after.copy_bytes));
    let mut rules = Vec::new();
    let written = (
        "constant-any-layout".to_owned(),
        after.constant_movement_ops,
    );
    let fired = report.iter().flat_map(|f| f.rules_fired.clone());
    for (name, fired) in fired.chain([written]).filter(|r| r.1 != 0) {
        let without = format!("canonicalize,view-fold{{rules={}}}", all_but(&name));
        let (stats, _) = fold(module.clone(), &registry, &without, target)
            .map_err(ChoreError::of_model(path))?;
        let lost = stats.movement_bytes.saturating_sub(after.movement_bytes);
        rules.push((name, fired, lost));
    }
    let tiles = tiles_of(&module, &registry).map_err(ChoreError::of_model(path))?;
    let laid = laid_of(&module, &registry).map_err(ChoreError::of_model(path))?;
    let is_stay = |d: &&optc_ir::Diagnostic| d.code == "conversion-stays";
    let text = |d: &optc_ir::Diagnostic| format!("{} ({})", d.message, d.notes.join("; "));
    let remarks = cx.remarks.iter().filter(is_stay).map(text).collect();
    Ok(Row {
        name,
        before,
        after,
        no_rules: none.movement_bytes,
        naive,
        bound,
        proof,
        rules,
        remarks,
        tiles,
        laid,
    })
}

/// The names of all built-in rules but one.
fn all_but(name: &str) -> String {
    let others = builtin_rules().into_iter().filter(|r| r.name != name);
    others.map(|r| r.name).collect::<Vec<_>>().join("+")
}

fn fold(
    mut module: Module,
    registry: &Arc<Registry>,
    pipeline: &str,
    target: &str,
) -> Result<(Stats, PassContext), ChoreError> {
    let target = Target::builtin(target)?;
    let mut cx = PassContext::new(registry.clone(), Arc::new(target));
    cx.explain_remarks = true;
    cx.boundary = Boundary::default();
    let stages = PassList::builtin()
        .parse(pipeline)
        .map_err(|d| ChoreError::Refused(vec![*d]))?;
    let mut hooks = manager::Hooks {
        verify_each: true,
        ..manager::Hooks::default()
    };
    manager::run(&mut module, &stages, &mut cx, &mut hooks).map_err(ChoreError::Refused)?;
    let stats = Stats::on(&module, registry, &SizeTable::default(), &cx.target);
    Ok((stats, cx))
}

/// The page, with its tables in order. Numbers are rounded once, when they are written.
fn page(rows: &[Row], target: &str) -> String {
    let mut text = format!(
        "# Results\n\n\
         <!-- Generated by `cargo run --release -p optc-xtask -- results MODEL.onnx… --out docs/results.md`. -->\n\n\
         Movement that stays on target `{target}`, boundary row-major as the models declare it; figures in MB (10^6 bytes) read plus written.\n\
         `ops / MB` before is what a plain executor does; `no rules` is the same pipeline with `--rules=none`; no choice of layouts that the\n\
         target admits costs less than `bound`. `slower` is what kernels take longer in the orders of their operands, in MB of a conversion that\n\
         takes as long (`docs/stats.md`); a fold minimises it with what is moved, and `naive lowering` and `bound` have it.\n\n\
         | model | before | naive lowering | after | slower | bound | no rules | reshape, transpose left | views | copies | constants | proof |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let (b, a) = (&row.before, &row.after);
        let naive = mb(row.naive);
        let _ = writeln!(
            text,
            "| {} | {} / {} | {naive} | {} / {} | {} | {} | {} | {} | {} | {} / {} | {} | {} |",
            row.name,
            b.movement_ops,
            mb(b.movement_bytes),
            a.movement_ops,
            mb(a.movement_bytes),
            mb(a.slower_bytes),
            mb(row.bound),
            mb(row.no_rules),
            a.reshape + a.transpose,
            a.view,
            a.copy_ops,
            mb(a.copy_bytes),
            mb(a.constant_movement_bytes),
            row.proof
        );
    }
    let total = |f: &dyn Fn(&Row) -> u64| rows.iter().map(f).fold(0, u64::saturating_add);
    let stay = rows.iter().filter(|r| r.after.movement_bytes != 0).count();
    let tight = rows
        .iter()
        .filter(|r| r.after.movement_bytes != 0 && r.bound == r.after.layout_bytes())
        .count();
    let _ = writeln!(
        text,
        "\nIn all {} MB are left of {}, {} without rules. {stay} models keep conversions; of {tight} of them the bound says that no \
         layouts do with less. Kernels take longer by {} MB. Copies and expansions are {} MB of {}; of {} models all bytes are proved least.",
        mb(total(&|r| r.after.movement_bytes)),
        mb(total(&|r| r.before.movement_bytes)),
        mb(total(&|r| r.no_rules)),
        mb(total(&|r| r.after.slower_bytes)),
        mb(total(&|r| copied(&r.after))),
        mb(total(&|r| copied(&r.before))),
        rows.iter().filter(|r| r.proof == "optimal").count(),
    );
    rule_table(&mut text, rows);
    laid_tables(&mut text, rows);
    let tiles: Vec<(&str, &[TileReport])> = rows
        .iter()
        .map(|r| (r.name.as_str(), r.tiles.as_slice()))
        .collect();
    tile_tables(&mut text, &tiles);
    text.push_str(REASONS);
    for row in rows.iter().filter(|r| !r.remarks.is_empty()) {
        let _ = writeln!(text, "**{}**\n", row.name);
        for remark in &row.remarks {
            let _ = writeln!(text, "- {remark}");
        }
        text.push('\n');
    }
    text
}

/// For each rule: the number of forms that it gave, the number of models, and the bytes moved without it.
fn rule_table(text: &mut String, rows: &[Row]) {
    text.push_str(
        "\n## Rules\n\n\
         `fired` counts the layouts, over distinct operations, for which a rule gave a form, of `constant-any-layout` the constants that are \
         written. The last column is what the models move more when only this rule is off: 0 where another one gives the same, as among the \
         contractions. `block-grid-any-order` is for targets with blocks.\n\n\
         | rule | fired | in models | MB more without it |\n|---|---|---|---|\n",
    );
    for rule in builtin_rules() {
        let name = rule.name;
        let of = |row: &Row| row.rules.iter().find(|r| r.0 == name).map(|r| (r.1, r.2));
        let all: Vec<(u64, u64)> = rows.iter().filter_map(of).collect();
        let fired: u64 = all.iter().map(|r| r.0).sum();
        let lost: u64 = all.iter().map(|r| r.1).sum();
        let _ = writeln!(
            text,
            "| `{name}` | {fired} | {} | {} |",
            all.len(),
            mb(lost)
        );
    }
}

/// The heading of the first table of tiles, and that of the section after the last one.
const TILES: &str = "\n## Tiles on `";
const REASONS: &str = "\n## Why what stays stays\n\n";

/// A table for each target.
fn tile_tables(text: &mut String, rows: &[(&str, &[TileReport])]) {
    for (i, target) in TILED.into_iter().enumerate() {
        tile_table(text, rows, target, i);
    }
}

/// The bytes that the groups of a target, and the operations in no group, move, with a row for each model.
fn tile_table(text: &mut String, rows: &[(&str, &[TileReport])], target: &str, which: usize) {
    let _ = write!(
        text,
        "{TILES}{target}`\n\n\
         What `--pass=canonicalize,view-fold,tile-propagate --target={target}` moves between memory and chip, in MB, what operations in no group move \
         with it. `unfused`: every operation reads its operands and writes its results. `untiled`: the same groups without tiles, where one that does \
         not fit on chip moves what its operations move. `ends`: every group, and every operation in none, reads once what it needs and writes once what \
         leaves it. `once`: the inputs and weights of the model are read once and its outputs written once; a group is at most 48 operations, and between \
         groups values go through memory. `programs`: the most programs of one grid.\n\n\
         | model | groups | operations in them | in none | unfused | untiled | tiled | ends | tiled / ends | once | tiled / once | programs |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n"
    );
    for (name, tiles) in rows {
        let tiles = &tiles[which];
        let programs = tiles.groups.iter().map(|g| g.grid.iter().product::<u64>());
        let ops: u64 = tiles.groups.iter().map(|g| g.ops).sum();
        let _ = writeln!(
            text,
            "| {name} | {} | {ops} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            tiles.groups.len(),
            tiles.ungrouped,
            mb(tiles.unfused_bytes),
            mb(tiles.untiled_bytes),
            mb(tiles.tiled_bytes),
            mb(tiles.lower_bound_bytes),
            ratio(tiles.tiled_bytes, tiles.lower_bound_bytes),
            mb(tiles.program_bytes),
            ratio(tiles.tiled_bytes, tiles.program_bytes),
            programs.max().unwrap_or(0),
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio with two digits")]
fn ratio(a: u64, b: u64) -> String {
    match b {
        0 => String::new(),
        _ => format!("{:.2}", a as f64 / b as f64),
    }
}

const SCALE: &str = "## Scale\n";

/// The last section, which is written by hand from measurements of `tests/interop`.
const RUNTIMES: &str = "## Time in runtimes\n";

/// A page without its last sections, those on scale and on runtimes; and these sections.
fn parts(page: &str) -> [&str; 3] {
    let (page, runtimes) = page
        .find(RUNTIMES)
        .map_or((page, ""), |at| page.split_at(at));
    let (page, scale) = page.find(SCALE).map_or((page, ""), |at| page.split_at(at));
    [page, scale, runtimes]
}

/// The section on scale, with the output of the benchmark.
fn scale_section(figures: &str) -> String {
    format!(
        "{SCALE}\n\
         Generated programs of one kind each (`tests/support/scale.rs`), target `cpu`: processor seconds of all threads, and the most memory resident.\n\
         `total` is everything up to `print`, `elapsed` the seconds of the clock for the same; `check` verifies the folded program and checks its certificate; `tile` is `tile-propagate` for the target \
         `tpu`.\n\
         Seconds belong to the machine they were measured on. `per op`, the time of one operation compared with that in the smaller program, does not (`tile per op` for the plan of tiles): 1 is linear.\n\n\
         ```sh\n\
         cargo bench -p optc-bench --bench scaling > scale.md\n\
         cargo bench -p optc-bench --bench scaling -- swin_t.onnx | tail -n 1 >> scale.md\n\
         cargo run --release -p optc-xtask -- results --scale scale.md --out docs/results.md\n\
         ```\n\n\
         {}\n",
        figures.trim_end()
    )
}

/// The chart of the bytes that the models move before and after.
fn picture(rows: &[Row], target: &str) -> String {
    let bars = rows.iter().map(|row| Bars {
        name: &row.name,
        before: row.before.movement_bytes,
        after: row.after.movement_bytes,
    });
    chart::draw(&bars.collect::<Vec<_>>(), target)
}
