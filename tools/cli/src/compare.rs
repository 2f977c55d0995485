//! `optc stats --compare A B`: prints two programs side by side, and the operations that make the difference.
//!
//! Operations belong together if both programs state the same origin (`loc`). All operations that are fused in one of
//! the programs are one row. An operation without origin is matched by the name of its first result, if the same
//! operation in the other program defines a value of the same shape under that name. An operation without a partner is
//! a row by itself, so that the rows add up.
//!
//! For example, let one program have an `add` from `layer0` and a `relu` from `layer1`, and the other one operation
//! from both. All three are one row.

use crate::args::StatsArgs;
use crate::codes;
use crate::condition::Figures;
use crate::driver::Main;
use crate::failure::{Failure, Status};
use crate::inputs;
use crate::stats::{SCHEMA, conditions, fail_if, load, object, symbols};
use crate::streams::Streams;
use indexmap::{IndexMap, IndexSet};
use optc::check::{Item, Source, items};
use optc::interp::check_boundary;
use optc::memory::live_bytes;
use optc::passes::stats::CostClass;
use optc::text::{print_type, value_names};
use optc::{Compiler, Diagnostic, Func, Loc, Program, SizeTable, Stats, Value, bound_sizes};
use serde_json::{Map, Value as Json, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

/// The classes of bytes of a row, by the names of the figures. A fold does not minimise the last one.
const CLASSES: [&str; 6] = [
    "movement_bytes",
    "copy_bytes",
    "expand_bytes",
    "padding_bytes",
    "slower_bytes",
    "constant_movement_bytes",
];

/// The default number of listed rows.
const LISTED: usize = 20;

/// The most operations of one side of a row that are named.
const NAMED: usize = 3;

/// One of the two programs.
struct Side {
    stats: Stats,
    /// The most bytes that are alive at once.
    live: u64,
    items: Vec<(Key, Item, String)>,
    bound: IndexMap<Arc<str>, u64>,
}

/// The key by which operations of two programs are matched.
enum Key {
    /// The names of the operation's origins.
    From(Vec<String>),
    /// A value and the operation that defines it.
    Value {
        /// The name of the row.
        name: String,
        /// The part that is the same in both programs.
        same: String,
    },
}

/// The bytes that operations that belong together move in the two programs.
#[derive(Default)]
struct Row {
    name: String,
    sides: [Part; 2],
}

#[derive(Default)]
struct Part {
    kinds: IndexSet<String>,
    bytes: [u64; CLASSES.len()],
}

impl Row {
    fn differences(&self) -> [i64; CLASSES.len()] {
        let [a, b] = &self.sides;
        std::array::from_fn(|i| difference(a.bytes[i], b.bytes[i]))
    }

    /// The difference in the classes that a fold minimises, and in expansions.
    fn total(&self) -> i64 {
        let differences = self.differences();
        sum(&differences[..CLASSES.len() - 1])
    }

    /// The weight for sorting: first the bytes that the program moves, then those moved at compile time.
    fn weight(&self) -> [u64; 2] {
        let [.., constant] = self.differences();
        [self.total().unsigned_abs(), constant.unsigned_abs()]
    }
}

fn difference(a: u64, b: u64) -> i64 {
    let exact = i128::from(b) - i128::from(a);
    i64::try_from(exact).unwrap_or(if exact < 0 { i64::MIN } else { i64::MAX })
}

fn sum(all: &[i64]) -> i64 {
    all.iter().fold(0, |sum, &n| sum.saturating_add(n))
}

pub(crate) fn command(
    driver: &Main,
    paths: &[PathBuf],
    args: &StatsArgs,
    streams: &mut Streams<'_>,
) -> Result<Status, Failure> {
    let conditions = conditions(&args.fail_if)?;
    let [a, b] = paths else {
        return Err(Failure::usage("--compare wants two programs"));
    };
    let compiler = inputs::compiler(driver, &args.compile)?;
    let a = load(&compiler, a, &args.compile, streams)?;
    let b = load(&compiler, b, &args.compile, streams)?;
    inputs::check_bindings(&args.compile.bind, &[&a, &b])?;
    comparable(&a, &b)?;
    let sizes = compiler.sizes(&a);
    let sides = [side(&compiler, &a, &sizes)?, side(&compiler, &b, &sizes)?];
    let rows = rows(&sides);
    let top = args.top.unwrap_or(LISTED);
    let text = match args.json {
        true => json_of(&sides, &rows, top),
        false => table_of(&sides, &rows, top),
    };
    streams.print(&text);
    let [a, b] = &sides;
    let mut figures = Figures::default();
    figures.add(&b.stats, Some(&a.stats), None);
    fail_if(&conditions, &figures)
}

/// Refuses two programs with different arguments or results: their difference has no meaning.
fn comparable(a: &Program, b: &Program) -> Result<(), Failure> {
    let names = crate::verify::names(a, b);
    let differs = |what: String| {
        let diag = Diagnostic::error(codes::BOUNDARY_DIFFERS, what);
        Failure::about(&b.name, diag)
    };
    match (a.entry(), b.entry()) {
        (Some(left), Some(right)) => {
            check_boundary(left, right, &names).map_err(|e| differs(e.to_string()))
        }
        (None, None) => Ok(()),
        (Some(_), None) => Err(differs(format!("{} has no function", names[1]))),
        (None, Some(_)) => Err(differs(format!("{} has no function", names[0]))),
    }
}

fn side(compiler: &Compiler, program: &Program, sizes: &SizeTable) -> Result<Side, Failure> {
    let (module, registry) = (&program.module, compiler.registry());
    let target = compiler.target_of(module);
    let live = live_bytes(module, registry, sizes).map_err(|d| program.error(vec![*d]))?;
    let names: Vec<_> = module.funcs.iter().map(value_names).collect();
    let entry = program.entry().map(|f| &f.name);
    let keyed = |item: Item| {
        let func = &module.funcs[item.func];
        let within = match entry == Some(&func.name) {
            true => String::new(),
            false => format!(" in @{}", func.name),
        };
        let (key, kind) = key_of(func, item.of, &names[item.func], &within);
        (key, item, kind)
    };
    let found = items(module, registry, sizes, target.as_deref());
    Ok(Side {
        stats: compiler.stats_at(program, sizes),
        live,
        items: found.into_iter().map(keyed).collect(),
        bound: bound_sizes(module, sizes),
    })
}

/// The key of an operation or argument, and its kind in words.
fn key_of(func: &Func, of: Source, names: &IndexMap<Value, String>, within: &str) -> (Key, String) {
    let called = |value: Value| names.get(&value).map_or("", |n| n);
    match of {
        Source::Arg(value) => {
            let name = format!("%{}{within}", called(value));
            let same = format!("{name} argument");
            (Key::Value { name, same }, "argument".to_owned())
        }
        Source::Op(op) => {
            let data = &func.ops[op];
            let kind = data.name.to_string();
            let from = origins(&data.loc);
            if !from.is_empty() {
                return (Key::From(from), kind);
            }
            let first = data.results.first().copied();
            let name = format!("%{}{within}", first.map_or("", called));
            let ty = first.map(|v| func.ty(v));
            let ty = ty.map(|ty| match ty.as_tensor() {
                Some(ty) => print_type(&ty.without_layout().into()),
                None => print_type(ty),
            });
            let same = format!("{name} {kind} {}", ty.unwrap_or_default());
            (Key::Value { name, same }, kind)
        }
    }
}

/// The names in a location, each once.
fn origins(loc: &Loc) -> Vec<String> {
    match loc {
        Loc::Unknown => Vec::new(),
        Loc::Name(name) => vec![name.to_string()],
        Loc::File(file, line, column) => vec![format!("{file}:{line}:{column}")],
        Loc::Fused(parts) => {
            let all: IndexSet<String> = parts.iter().flat_map(origins).collect();
            all.into_iter().collect()
        }
    }
}

/// Names that belong together, as sets with representatives.
#[derive(Default)]
struct Together(IndexMap<String, usize>);

impl Together {
    /// Joins these names, and all names joined with any of them; returns the number of their representative.
    fn join(&mut self, names: &[String]) -> usize {
        let mut first = None;
        for name in names {
            let next = self.0.len();
            let (at, ..) = self
                .0
                .insert_full(name.clone(), self.0.get(name).copied().unwrap_or(next));
            let root = self.root(at);
            match first {
                None => first = Some(root),
                Some(kept) if kept == root => {}
                Some(kept) => {
                    let (low, high) = (kept.min(root), kept.max(root));
                    self.0[high] = low;
                    first = Some(low);
                }
            }
        }
        first.unwrap_or(0)
    }

    fn root(&self, mut at: usize) -> usize {
        while self.0[at] != at {
            at = self.0[at];
        }
        at
    }
}

/// The rows of the difference, largest first.
fn rows(sides: &[Side; 2]) -> Vec<Row> {
    let mut together = Together::default();
    for (key, ..) in sides.iter().flat_map(|side| &side.items) {
        if let Key::From(names) = key {
            together.join(names);
        }
    }
    let mut more = vec![0usize; together.0.len()];
    for at in 0..together.0.len() {
        more[together.root(at)] += 1;
    }
    let mut rows: IndexMap<String, Row> = IndexMap::new();
    for (number, side) in sides.iter().enumerate() {
        for (key, item, kind) in &side.items {
            let (key, name) = match key {
                Key::Value { name, same } => (same.clone(), name.clone()),
                Key::From(names) => {
                    let root = together.join(names);
                    let first = together.0.get_index(root).map_or("", |(name, _)| name);
                    let name = match more[root] {
                        1 => format!("\"{first}\""),
                        n => format!("\"{first}\" and {} more", n - 1),
                    };
                    (format!("from {first}"), name)
                }
            };
            let row = rows.entry(key).or_insert_with(|| Row {
                name,
                ..Row::default()
            });
            row.sides[number].add(item, kind);
        }
    }
    let mut rows: Vec<Row> = rows.into_values().collect();
    rows.retain(|row| row.differences() != [0; CLASSES.len()]);
    rows.sort_by_key(|row| std::cmp::Reverse(row.weight()));
    rows
}

impl Part {
    fn add(&mut self, item: &Item, kind: &str) {
        self.kinds.insert(kind.to_owned());
        let class = match item.class {
            CostClass::Free => None,
            CostClass::Movement => Some(0),
            CostClass::Copy => Some(1),
            CostClass::Expand => Some(2),
            CostClass::Constant => Some(5),
        };
        let parts = [
            (class, item.bytes),
            (Some(0), item.priced),
            (Some(3), item.padding),
            (Some(4), item.slower),
        ];
        for (class, bytes) in parts {
            if let Some(class) = class {
                self.bytes[class] = self.bytes[class].saturating_add(bytes);
            }
        }
    }

    /// The operations in words.
    fn words(&self) -> String {
        if self.kinds.is_empty() {
            return "nothing".to_owned();
        }
        let named: Vec<String> = self
            .kinds
            .iter()
            .take(NAMED)
            .map(|k| format!("`{k}`"))
            .collect();
        match self.kinds.len().saturating_sub(NAMED) {
            0 => named.join(", "),
            n => format!("{} and {n} more", named.join(", ")),
        }
    }

    /// Bytes at run time, of all classes.
    fn total(&self) -> u64 {
        let all = &self.bytes[..CLASSES.len() - 1];
        all.iter().fold(0, |sum, &n| sum.saturating_add(n))
    }
}

/// The figures of both, with those of memory.
fn figures([a, b]: &[Side; 2]) -> Vec<(&'static str, u64, u64)> {
    let both = a.stats.fields().into_iter().zip(b.stats.fields());
    let mut all: Vec<_> = both.map(|((name, x), (_, y))| (name, x, y)).collect();
    all.push(("live_bytes", a.live, b.live));
    all
}

fn table_of(sides: &[Side; 2], rows: &[Row], top: usize) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:<24} {:>16} {:>16} {:>16}",
        "", "A", "B", "difference"
    );
    for (name, x, y) in figures(sides) {
        let signed = signed(difference(x, y));
        let _ = writeln!(text, "{name:<24} {x:>16} {y:>16} {signed:>16}");
    }
    let [a, b] = sides;
    let bound = match a.bound.is_empty() {
        true => &b.bound,
        false => &a.bound,
    };
    symbols(&mut text, &[&a.stats, &b.stats], bound);
    if rows.is_empty() {
        return text;
    }
    let _ = writeln!(text, "where the bytes differ, largest first:");
    let line = |text: &mut String, [x, y]: [u64; 2], n: i64, what: &str| {
        let signed = signed(n);
        let _ = writeln!(text, "{x:>16} {y:>16} {signed:>16}  {what}");
    };
    for row in rows.iter().take(top) {
        let [a, b] = &row.sides;
        let kinds = match a.kinds == b.kinds {
            true => a.words(),
            false => format!("{} -> {}", a.words(), b.words()),
        };
        let [.., constant] = row.differences();
        let at_compile_time = match constant {
            0 => String::new(),
            n => format!(", {} at compile time", signed(n)),
        };
        let what = format!("{} {kinds}{at_compile_time}", row.name);
        line(&mut text, [a.total(), b.total()], row.total(), &what);
    }
    let left = rows.get(top..).unwrap_or_default();
    if !left.is_empty() {
        let of = |side: usize| {
            let totals = left.iter().map(|row| row.sides[side].total());
            totals.fold(0u64, u64::saturating_add)
        };
        let n = sum(&left.iter().map(Row::total).collect::<Vec<_>>());
        line(
            &mut text,
            [of(0), of(1)],
            n,
            &format!("{} more", left.len()),
        );
    }
    text
}

fn signed(n: i64) -> String {
    match n {
        0 => "0".to_owned(),
        n => format!("{n:+}"),
    }
}

fn json_of(sides: &[Side; 2], rows: &[Row], top: usize) -> String {
    let of = |side: &Side| {
        let mut map = object(&side.stats, &side.bound);
        map.insert("live_bytes".to_owned(), json!(side.live));
        Json::Object(map)
    };
    let differences = figures(sides).into_iter();
    let differences: Map<String, Json> = differences
        .map(|(name, x, y)| (name.to_owned(), json!(difference(x, y))))
        .collect();
    let listed: Vec<Json> = rows.iter().take(top).map(row_json).collect();
    let left = rows.get(top..).unwrap_or_default();
    let left_by_class: [i64; CLASSES.len()] = std::array::from_fn(|i| {
        let all: Vec<i64> = left.iter().map(|row| row.differences()[i]).collect();
        sum(&all)
    });
    let [a, b] = sides;
    let root = json!({
        "schema": SCHEMA,
        "a": of(a),
        "b": of(b),
        "difference": differences,
        "items": listed,
        "unlisted": { "items": left.len(), "difference": by_class(&left_by_class) },
    });
    format!("{root:#}\n")
}

fn row_json(row: &Row) -> Json {
    let part = |part: &Part| {
        let mut map = by_class(&part.bytes);
        map.insert(
            "operations".to_owned(),
            json!(part.kinds.iter().collect::<Vec<_>>()),
        );
        Json::Object(map)
    };
    let [a, b] = &row.sides;
    json!({
        "name": row.name,
        "a": part(a),
        "b": part(b),
        "difference": by_class(&row.differences()),
    })
}

fn by_class<T: serde::Serialize>(bytes: &[T; CLASSES.len()]) -> Map<String, Json> {
    let all = CLASSES.iter().zip(bytes);
    all.map(|(name, n)| ((*name).to_owned(), json!(n)))
        .collect()
}
