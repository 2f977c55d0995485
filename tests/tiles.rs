//! Small programs on machines with tiles, against all layouts of whole dimensions in any order.
//!
//! The oracle has no forms, rules or candidates. Every port of every operation is in some order of its dimensions, in
//! the tiles of the target's formats; the checker of folds decides whether an operation takes its ports. The cost is
//! counted directly: converted bytes, and the padding of stored values.

use optc_check::{Stats, check_target};
use optc_ir::size::SizeTable;
use optc_ir::{Attr, Module, Registry, text};
use optc_layout::{Layout, ViewMap, notation::parse_tensor, propagate};
use optc_passes::manager::{Hooks, run};
use optc_passes::view_fold::{FoldReport, Proof};
use optc_passes::{Boundary, PassContext, PassList};
use optc_target::{Row, Target, tiles_text};
use optc_tests::check::{cases, words};
use std::fmt::Write as _;
use std::sync::Arc;

/// A machine of this test: short rows of few lanes, and products with K in the lanes of both operands.
const ODD: &str = r#"
name = "odd"
summary = "tiles of up to 4 rows of 8 lanes"
spelling = "order"
[units.all]
summary = "everything"
[[formats]]
bits = [32]
rows = [1, 4]
lanes = 8
[[formats]]
bits = [32]
length = [8, 32]
[[formats]]
bits = [32]
scalar = 8
[[rows]]
families = ["elementwise", "softmax", "norm", "reduce", "broadcast"]
unit = "all"
take = [{ share = "all" }]
[[rows]]
families = ["slice"]
unit = "all"
take = [{ share = "all", left = { lanes = ["parallel"], rows = ["parallel"] }, subview = true, aligned = true }, { share = "all" }]
[[rows]]
families = ["matmul"]
unit = "all"
take = [{ left = { lanes = ["k"] }, right = { lanes = ["k"] }, result = { rows = ["n", "m"] }, distinct = true }]
[[rows]]
families = ["source"]
unit = "all"
take = [{}]
"#;

/// Another machine: lines of 8 lanes of N, or of M with exchanged operands, beside values without tiles.
const LINES: &str = r#"
name = "lines"
summary = "lines of 8 lanes beside values without tiles"
spelling = "order"
[units.all]
summary = "everything"
[[formats]]
bits = [32]
rows = [1, 1]
lanes = 8
[[formats]]
bits = [32]
length = [8, 8]
[[formats]]
bits = [32]
plain = 4
[[rows]]
families = ["elementwise", "norm", "reduce", "broadcast", "slice", "concat"]
unit = "all"
take = [{ share = "all", run = 4 }]
[[rows]]
families = ["softmax"]
unit = "all"
take = [{ order = "logical" }]
[[rows]]
families = ["matmul"]
unit = "all"
take = [
  { left = { lanes = ["k"] }, right = { lanes = ["k", "n"] }, result = { lanes = ["n"] } },
  { name = "exchanged", left = { lanes = ["k", "m"] }, right = { lanes = ["k"] }, result = { lanes = ["m"] } },
]
[[rows]]
families = ["source"]
unit = "all"
take = [{}]
"#;

/// Another machine, with prices: loads of K along the rows, at the left and at the right, and a conversion by the
/// vector unit on store.
const PRICED: &str = r#"
name = "priced"
summary = "tiles of up to 4 rows of 4 lanes, and prices"
spelling = "order"
[units.all]
summary = "everything"
[[formats]]
bits = [32]
rows = [2, 4]
lanes = 4
[[formats]]
bits = [32]
length = [4, 16]
[[formats]]
bits = [32]
scalar = 4
[[rows]]
families = ["elementwise"]
unit = "all"
take = [{ share = "all" }, { share = "all", writes = "any", price = { port = "result", factor = 0.75 } }]
[[rows]]
families = ["softmax", "slice"]
unit = "all"
take = [{ share = "all" }]
[[rows]]
families = ["matmul"]
unit = "all"
take = [
  { left = { lanes = ["k"] }, right = { lanes = ["k"] }, result = { lanes = ["n"] }, distinct = true },
  { left = { rows = ["k"] }, right = { lanes = ["k"] }, result = { lanes = ["n"] }, distinct = true, price = { port = "left", factor = 0.5 } },
  { left = { lanes = ["k"] }, right = { rows = ["k"] }, result = { lanes = ["n"] }, distinct = true, price = { port = "right", factor = 1.5 } },
]
[[rows]]
families = ["source"]
unit = "all"
take = [{}]
"#;

fn targets() -> Vec<Arc<Target>> {
    let npu = include_str!("../examples/npu16/npu16.toml");
    let parsed = [npu, ODD, PRICED, LINES].map(|text| Target::parse(text).expect("a target"));
    let tpu = Target::builtin("tpu").expect("built in");
    [tpu].into_iter().chain(parsed).map(Arc::new).collect()
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    fn usize(&mut self, n: usize) -> usize {
        usize::try_from(self.below(n as u64)).expect("small")
    }
}

/// An operation of the program: its operands are the previous value and perhaps an argument of its own.
#[derive(Clone)]
struct Step {
    name: &'static str,
    props: String,
    /// The shapes of all ports, operands before the result.
    shapes: Vec<Vec<u64>>,
    streams: bool,
    /// For a slice: the bytes that it reads and writes if its result is no part of a live value.
    copied: u64,
}

/// Two operations, and the rearrangement between them.
struct Program {
    steps: [Step; 2],
    map: ViewMap,
    between: String,
}

fn ty(shape: &[u64]) -> String {
    let dims: String = shape.iter().map(|n| format!("{n}x")).collect();
    format!("tensor<{dims}f32>")
}

fn step(random: &mut Random, shape: &[u64]) -> Step {
    let rank = shape.len();
    let same = |operands: usize| vec![shape.to_vec(); operands + 1];
    match random.below(5) {
        0 if 3 < shape[0] => {
            // Never the whole dimension, which canonicalize would remove.
            let axis = random.usize(rank);
            let axis = if shape[axis] == 1 { 0 } else { axis };
            let start = random.below(shape[axis]);
            let mut result = shape.to_vec();
            result[axis] = 1 + random.below(shape[axis] - start.max(1));
            let starts: Vec<u64> = (0..rank)
                .map(|d| if d == axis { start } else { 0 })
                .collect();
            let limits: Vec<u64> = starts.iter().zip(&result).map(|(s, n)| s + n).collect();
            let copied = 8 * result.iter().product::<u64>();
            Step {
                name: "slice",
                props: format!(" <{{limits = {limits:?}, starts = {starts:?}}}>"),
                shapes: vec![shape.to_vec(), result],
                streams: false,
                copied,
            }
        }
        0 | 4 => Step {
            name: "relu",
            props: String::new(),
            shapes: same(1),
            streams: true,
            copied: 0,
        },
        1 => Step {
            name: "softmax",
            props: format!(" <{{axis = {}}}>", random.below(rank as u64)),
            shapes: same(1),
            streams: true,
            copied: 0,
        },
        2 => Step {
            name: "add",
            props: String::new(),
            shapes: same(2),
            streams: true,
            copied: 0,
        },
        _ => {
            let n = SIZES[random.usize(SIZES.len())];
            let k = shape[rank - 1];
            let mut result = shape.to_vec();
            result[rank - 1] = n;
            Step {
                name: "matmul",
                props: String::new(),
                shapes: vec![shape.to_vec(), vec![k, n], result],
                streams: false,
                copied: 0,
            }
        }
    }
}

const SIZES: [u64; 8] = [2, 3, 4, 7, 8, 12, 16, 40];

fn program(random: &mut Random) -> Program {
    let rank = 2 + random.usize(2);
    let shape: Vec<u64> = (0..rank)
        .map(|_| SIZES[random.usize(SIZES.len())])
        .collect();
    let first = step(random, &shape);
    let from = first.shapes.last().expect("a result").clone();
    let mut perm: Vec<usize> = (0..rank).collect();
    for i in (1..rank).rev() {
        perm.swap(i, random.usize(i + 1));
    }
    let mut result: Vec<u64> = perm.iter().map(|&p| from[p]).collect();
    let name = |perm: &[usize]| format!("{perm:?}");
    let mut between = format!(
        "  %t = \"hbir.transpose\"(%a) <{{perm = {}}}> : ({}) -> {}\n",
        name(&perm),
        ty(&from),
        ty(&result)
    );
    let permuted = result.clone();
    // Two adjacent dimensions are merged, or none.
    if rank == 3 && random.below(2) == 0 {
        let at = random.usize(2);
        let merged = result[at] * result[at + 1];
        result.splice(at..at + 2, [merged]);
    }
    let _ = writeln!(
        between,
        "  %b = \"hbir.reshape\"(%t) <{{shape = {result:?}}}> : ({}) -> {}",
        ty(&permuted),
        ty(&result)
    );
    let second = step(random, &result);
    Program {
        steps: [first, second],
        map: ViewMap {
            shape: None,
            perm: Some(perm),
            result,
        },
        between,
    }
}

impl Program {
    fn text(&self) -> String {
        let [first, second] = &self.steps;
        let arg = |i: usize, step: &Step| match step.shapes.len() {
            3 => format!(", %y{i}: {}", ty(&step.shapes[1])),
            _ => String::new(),
        };
        let line = |to: &str, of: &str, i: usize, step: &Step| {
            let own = if step.shapes.len() == 3 {
                format!(", %y{i}")
            } else {
                String::new()
            };
            let types: Vec<String> = step.shapes.iter().map(|s| ty(s)).collect();
            let (result, operands) = types.split_last().expect("ports");
            format!(
                "  {to} = \"hbir.{}\"({of}{own}){} : ({}) -> {result}\n",
                step.name,
                step.props,
                operands.join(", ")
            )
        };
        let last = ty(second.shapes.last().expect("a result"));
        format!(
            "func.func @main(%x: {}{}{}) -> {last} {{\n{}{}{}  return %c : {last}\n}}\n",
            ty(&first.shapes[0]),
            arg(0, first),
            arg(1, second),
            line("%a", "%x", 0, first),
            self.between,
            line("%c", "%b", 1, second)
        )
    }
}

/// All orders of the dimensions of a shape in the target's tiles, as types; row-major first.
fn layouts(shape: &[u64], target: &Target) -> Vec<(String, Layout)> {
    let mut orders: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in shape {
        let longer = orders.iter().flat_map(|order| {
            let free = (0..shape.len()).filter(|d| !order.contains(d));
            free.map(|d| [order.clone(), vec![d]].concat())
                .collect::<Vec<_>>()
        });
        orders = longer.collect();
    }
    let of = |(order, tiles): (Vec<usize>, Vec<Vec<u64>>)| {
        let tiles = match tiles.is_empty() {
            true => String::new(),
            false => format!(":{}", tiles_text(&tiles)),
        };
        let minor: Vec<String> = order.iter().rev().map(usize::to_string).collect();
        let dims: String = shape.iter().map(|n| format!("{n}x")).collect();
        let text = format!(
            "tensor<{dims}f32, {{xla = \"{}{tiles}\"}}>",
            minor.join(",")
        );
        let layout = parse_tensor(&text).expect("a layout").layout;
        (text, layout)
    };
    let tiles = |order: Vec<usize>| {
        let physical: Vec<u64> = order.iter().map(|&d| shape[d]).collect();
        let all = match target.plain(32) {
            None => vec![target.tiles(32, &physical)],
            // The order without tiles, the order with the last dimension padded up to a run, and the order in lines.
            Some(run) => vec![
                Vec::new(),
                vec![vec![run]],
                vec![vec![target.tiles(32, &[8])[0][0]]],
            ],
        };
        all.into_iter().map(move |tiles| (order.clone(), tiles))
    };
    orders.into_iter().flat_map(tiles).map(of).collect()
}

/// The combinations of layouts of all ports that the checker accepts for an operation, as indices; the additional cost
/// of each; and whether the operation writes its result. A slice may be a part of its operand if something can read it
/// there.
fn taken(
    step: &Step,
    target: &Target,
    registry: &Registry,
    read: bool,
) -> Vec<(Vec<usize>, u64, bool)> {
    let ports: Vec<Vec<(String, Layout)>> =
        step.shapes.iter().map(|s| layouts(s, target)).collect();
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for port in &ports {
        let longer = all.iter().flat_map(|known| {
            (0..port.len())
                .map(|i| [known.clone(), vec![i]].concat())
                .collect::<Vec<_>>()
        });
        all = longer.collect();
    }
    let price = |choice: Vec<usize>| {
        let types: Vec<&str> = choice
            .iter()
            .zip(&ports)
            .map(|(&i, p)| p[i].0.as_str())
            .collect();
        let (result, operands) = types.split_last().expect("ports");
        let args: Vec<String> = operands
            .iter()
            .enumerate()
            .map(|(i, t)| format!("%a{i}: {t}"))
            .collect();
        let names: Vec<String> = (0..operands.len()).map(|i| format!("%a{i}")).collect();
        let with = |name: &str, last: &str| {
            let module = text::parse(&format!(
                "func.func @main({}) -> {result} {{\n  %r = \"hbir.{name}\"({}){} : ({}) -> {result}\n{last}}}\n",
                args.join(", "),
                names.join(", "),
                step.props,
                operands.join(", ")
            ));
            let mut module = module.expect("a module");
            module.attrs.set("hbir.target", Attr::str(&target.name));
            check_target(&module, registry, target)
                .is_empty()
                .then_some(module)
        };
        let relu =
            format!("  %s = \"hbir.relu\"(%r) : ({result}) -> {result}\n  return %s : {result}\n");
        let row = target.row("slice");
        let part = step.copied != 0 && read && row.is_some_and(Row::takes_subviews);
        if part && with("subview", &relu).is_some() {
            return Some((choice, 0, false));
        }
        let module = with(step.name, &format!("  return %r : {result}\n"))?;
        let stats = Stats::on(&module, registry, &SizeTable::default(), target);
        Some((choice, stats.priced_bytes + step.copied, true))
    };
    all.into_iter().filter_map(price).collect()
}

fn padding(layout: &Layout) -> u64 {
    layout.bytes() - layout.elements() * 4
}

/// The least bytes moved and padded over all layouts; `None` if some operation takes no layouts.
fn least(program: &Program, target: &Target, registry: &Registry, free: bool) -> Option<u64> {
    let [first, second] = &program.steps;
    let (all_first, all_second) = (
        taken(first, target, registry, true),
        taken(second, target, registry, false),
    );
    let of = |step: &Step, port: usize| layouts(&step.shapes[port], target);
    let ports = |step: &Step| -> Vec<Vec<(String, Layout)>> {
        (0..step.shapes.len()).map(|p| of(step, p)).collect()
    };
    let (left, right) = (ports(first), ports(second));
    // An argument is read in its own layout, or converted.
    let argument = |layouts: &[(String, Layout)], i: usize| {
        let (have, want) = (&layouts[0].1, &layouts[i].1);
        match free || have.same_function(want) {
            true => padding(want),
            false => have.bytes() + want.bytes() + padding(want),
        }
    };
    let mut best: Option<u64> = None;
    for (a, price_first, written) in &all_first {
        let produced = &left[a.len() - 1][a[a.len() - 1]].1;
        let seen = propagate(produced, &program.map).ok();
        let before: u64 = (0..a.len() - 1).map(|p| argument(&left[p], a[p])).sum();
        for (b, price_second, _) in &all_second {
            let wanted = &right[0][b[0]].1;
            let direct = seen.as_ref().is_some_and(|seen| seen.same_function(wanted));
            let write = if *written { padding(produced) } else { 0 };
            let epilogue = first.name == "matmul" && matches!(second.name, "relu" | "add");
            let between = match (direct, (first.streams && second.streams) || epilogue) {
                (true, true) => 0,
                (true, false) => write + padding(produced),
                // The conversion reads the buffer, and the operation reads the converted copy.
                (false, _) => write + produced.bytes() + wanted.bytes() + padding(wanted),
            };
            let own: u64 = (1..b.len() - 1).map(|p| argument(&right[p], b[p])).sum();
            let result = &right[b.len() - 1];
            let (have, natural) = (&result[b[b.len() - 1]].1, &result[0].1);
            let after = match free || have.same_function(natural) {
                true => padding(have),
                false => padding(have) + have.bytes() + natural.bytes(),
            };
            let all = before + between + own + after + price_first + price_second;
            best = Some(best.map_or(all, |least: u64| least.min(all)));
        }
    }
    best
}

/// Folds a module; returns its moved bytes, its padding, and the report.
fn fold(
    module: &Module,
    target: &Arc<Target>,
    registry: &Arc<Registry>,
    pipeline: &str,
    free: bool,
) -> (u64, FoldReport, Module) {
    let stages = PassList::builtin().parse(pipeline).expect("a pipeline");
    let mut cx = PassContext::new(registry.clone(), target.clone());
    cx.boundary = Boundary {
        free_all: free,
        ..Boundary::default()
    };
    let mut module = module.clone();
    let mut hooks = Hooks {
        verify_each: true,
        ..Hooks::default()
    };
    let ran = run(&mut module, &stages, &mut cx, &mut hooks).map_err(|d| words(&d));
    let printed = || text::print(&module);
    assert!(
        ran.is_ok(),
        "{}: {}\n{}",
        target.name,
        ran.unwrap_err(),
        printed()
    );
    let stats = Stats::on(&module, registry, &SizeTable::default(), target);
    let report = cx.reports.get::<FoldReport>().expect("a report").clone();
    let bytes = stats.movement_bytes + stats.copy_bytes + stats.padding_bytes;
    (bytes, report, module)
}

#[test]
fn folds_on_tiles_against_all_orders() {
    let registry = Arc::new(optc_ops::registry());
    let (mut tried, mut reached, mut proved, mut tight) = (0, 0, 0, 0);
    let (mut paid, mut parts) = (0, 0);
    for target in targets() {
        // With values without tiles each port has three times as many layouts.
        let programs = if target.plain(32).is_some() { 24 } else { 120 };
        for seed in 1..=cases(programs) {
            let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let program = program(&mut random);
            let module = text::parse(&program.text()).expect("a module");
            for free in [false, true] {
                let Some(least) = least(&program, &target, &registry, free) else {
                    continue;
                };
                let (found, report, folded) =
                    fold(&module, &target, &registry, "canonicalize,view-fold", free);
                let place = || {
                    format!(
                        "{} seed {seed} free {free}: {found} bytes, least {least}, bound {}, {}\n{}{}",
                        target.name,
                        report.lower_bound_bytes,
                        report.proof.name(),
                        program.text(),
                        text::print(&folded)
                    )
                };
                assert!(report.lower_bound_bytes <= least, "{}", place());
                assert!(report.lower_bound_bytes <= found, "{}", place());
                assert!(found <= report.bytes_before, "{}", place());
                let optimal = report.proof == Proof::Optimal;
                assert!(!optimal || found <= least, "{}", place());
                // More candidates never make the result worse.
                let mut fewer: Option<u64> = None;
                for cap in [1, 2, 3, 5, 24] {
                    let pipeline = format!("canonicalize,view-fold{{max-layouts={cap}}}");
                    let (bytes, ..) = fold(&module, &target, &registry, &pipeline, free);
                    let least = fewer.map_or(bytes, |n| n.min(bytes));
                    assert!(
                        bytes <= least,
                        "{bytes} with {cap} candidates, {least} with fewer\n{}",
                        place()
                    );
                    fewer = Some(least);
                }
                assert!(fewer.is_some_and(|n| n <= found), "{}", place());
                let stats = Stats::on(&folded, &registry, &SizeTable::default(), &target);
                paid += usize::from(stats.priced_bytes != 0 && target.name == "priced");
                parts += usize::from(text::print(&folded).contains("hbir.subview"));
                tried += 1;
                reached += usize::from(found <= least);
                proved += usize::from(optimal);
                tight += usize::from(report.lower_bound_bytes == least);
            }
        }
    }
    let all =
        format!("{tried} folds, {reached} as good as all orders, {proved} proved, {tight} tight");
    assert!(tried * 9 <= reached * 10, "{all}");
    assert!(0 < parts, "no slice is a part of a live value: {all}");
    assert!(0 < paid, "no fold pays a price: {all}");
}
