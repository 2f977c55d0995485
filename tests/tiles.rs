//! Small programs on machines with tiles, against all layouts of whole dimensions in any order.
//!
//! The oracle has no forms, rules or candidates. Every port of every operation is in some order of its dimensions, in
//! the tiles of the target's formats; the checker of folds decides whether an operation takes its ports. The cost is
//! counted directly: converted bytes, and the padding of stored values.

use optc_check::{Stats, check_target};
use optc_ir::op::in_place;
use optc_ir::size::SizeTable;
use optc_ir::{
    Attr, AttrDict, Func, Loc, Module, Operation, Registry, TensorType, Type, Value, text,
};
use optc_layout::{Layout, ViewMap, notation::parse_tensor, propagate};
use optc_ops::Subview;
use optc_passes::manager::{Hooks, run};
use optc_passes::view_fold::{FoldReport, Proof};
use optc_passes::{Boundary, PassContext, PassList};
use optc_target::{Target, tiles_text};
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
families = ["elementwise", "softmax", "norm", "reduce", "broadcast", "slice", "concat"]
unit = "all"
parts = "any"
take = [{ share = "all" }]
[[rows]]
families = ["matmul"]
unit = "all"
parts = "tiles"
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
parts = "any"
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
families = ["softmax", "slice", "concat"]
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
    /// Bytes read plus written if a port is copied that may be a part of a live value: the result of a slice, the first
    /// operand of a concat or pad where the program computes it.
    copied: u64,
    /// Bytes read plus written by copies of arguments.
    given: u64,
}

impl Step {
    /// An operation that copies nothing.
    fn plain(name: &'static str, props: String, shapes: Vec<Vec<u64>>, streams: bool) -> Step {
        Step {
            name,
            props,
            shapes,
            streams,
            copied: 0,
            given: 0,
        }
    }
}

/// Bytes read plus written if a value of this shape is copied.
fn copy(shape: &[u64]) -> u64 {
    8 * shape.iter().product::<u64>()
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

/// A step that reads a value of this shape, an argument if it is the first step.
fn step(random: &mut Random, shape: &[u64], is_first: bool) -> Step {
    let rank = shape.len();
    let same = |operands: usize| vec![shape.to_vec(); operands + 1];
    match random.below(6) {
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
            let bytes = copy(&result);
            // A result of the function is copied.
            let (copied, given) = if is_first { (bytes, 0) } else { (0, bytes) };
            Step {
                copied,
                given,
                ..Step::plain(
                    "slice",
                    format!(" <{{limits = {limits:?}, starts = {starts:?}}}>"),
                    vec![shape.to_vec(), result],
                    false,
                )
            }
        }
        0 | 4 => Step::plain("relu", String::new(), same(1), true),
        5 => {
            let axis = random.usize(rank);
            let is_pad = random.below(3) == 0;
            let more = 1 + random.below(9);
            let (mut other, mut result) = (shape.to_vec(), shape.to_vec());
            (other[axis], result[axis]) = (more, shape[axis] + more);
            let own = copy(shape);
            let (copied, given) = if is_first { (0, own) } else { (own, 0) };
            let zeros = vec![0; rank];
            let high: Vec<u64> = (0..rank)
                .map(|d| if d == axis { more } else { 0 })
                .collect();
            match is_pad {
                // The pad writes its own elements, too.
                true => Step {
                    copied,
                    given: given + (copy(&result) - own) / 2,
                    ..Step::plain(
                        "pad",
                        format!(" <{{high = {high:?}, low = {zeros:?}, value = 0.0 : f64}}>"),
                        vec![shape.to_vec(), result],
                        false,
                    )
                },
                false => Step {
                    copied,
                    given: given + copy(&other),
                    ..Step::plain(
                        "concat",
                        format!(" <{{axis = {axis}}}>"),
                        vec![shape.to_vec(), other, result],
                        false,
                    )
                },
            }
        }
        1 => {
            let props = format!(" <{{axis = {}}}>", random.below(rank as u64));
            Step::plain("softmax", props, same(1), true)
        }
        2 => Step::plain("add", String::new(), same(2), true),
        _ => {
            let n = SIZES[random.usize(SIZES.len())];
            let k = shape[rank - 1];
            let mut result = shape.to_vec();
            result[rank - 1] = n;
            let shapes = vec![shape.to_vec(), vec![k, n], result];
            Step::plain("matmul", String::new(), shapes, false)
        }
    }
}

const SIZES: [u64; 8] = [2, 3, 4, 7, 8, 12, 16, 40];

fn program(random: &mut Random) -> Program {
    let rank = 2 + random.usize(2);
    let shape: Vec<u64> = (0..rank)
        .map(|_| SIZES[random.usize(SIZES.len())])
        .collect();
    let first = step(random, &shape, true);
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
    let second = step(random, &result, false);
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

/// All orders of the dimensions of a shape in the target's tiles, as types.
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

/// Layouts of all ports of an operation, as indices; the additional cost; and whether its part is in place, if it has
/// one.
type Taken = (Vec<usize>, u64, bool);

/// The combinations of layouts of all ports that the checker accepts for an operation. A part may be in place as far as
/// this operation is concerned.
fn taken(step: &Step, target: &Target, registry: &Registry) -> Vec<Taken> {
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
        let module = text::parse(&format!(
            "func.func @main({}) -> {result} {{\n  %r = \"hbir.{}\"({}){} : ({}) -> {result}\n  return %r : {result}\n}}\n",
            args.join(", "),
            step.name,
            names.join(", "),
            step.props,
            operands.join(", ")
        ));
        let mut module = module.expect("a module");
        module.attrs.set("hbir.target", Attr::str(&target.name));
        if !check_target(&module, registry, target).is_empty() {
            return Vec::new();
        }
        let stats = Stats::on(&module, registry, &SizeTable::default(), target);
        let cost = stats.priced_bytes + step.given;
        let copied = (choice.clone(), cost + step.copied, false);
        // The checker asks the readers of a part, and not the row of the operation that made it.
        let has_parts = target.row(step.name).is_none_or(|row| row.parts.is_some());
        let in_place = (0 < step.copied && has_parts).then_some((choice, cost, true));
        [copied].into_iter().chain(in_place).collect()
    };
    all.into_iter().flat_map(price).collect()
}

/// The layout at each port of an operation.
type Ports<'a> = &'a [&'a (String, Layout)];

/// Returns whether the checker accepts the program with these layouts, `seen` before and `b[0]` behind a conversion, if
/// these differ, and with the parts in place that are marked.
fn holds(
    program: &Program,
    (seen, a, b): (&Layout, Ports<'_>, Ports<'_>),
    [first, second]: [bool; 2],
    target: &Target,
    registry: &Registry,
) -> bool {
    let text = program.text();
    let mut module = text::parse(&text).expect("a module");
    let func = &mut module.funcs[0];
    let set = |func: &mut Func, value: Value, layout: &Layout| {
        let ty = func.ty(value).as_tensor().expect("a tensor").clone();
        let notation = layout.notation().clone();
        func.values[value].ty = TensorType { notation, ..ty }.into();
    };
    let body = func.body.clone();
    let (one, last) = (body[0], body[body.len() - 1]);
    for (op, layouts) in [(one, a), (last, b)] {
        let data = func.ops[op].clone();
        for (&value, (_, layout)) in data
            .operands
            .iter()
            .chain(&data.results)
            .zip(layouts.iter())
        {
            set(func, value, layout);
        }
    }
    // One view stands for the rearrangement, and a conversion behind it for a difference.
    let (source, read) = (func.ops[one].results[0], func.ops[last].operands[0]);
    let perm: Vec<u64> = program
        .map
        .perm
        .iter()
        .flatten()
        .map(|&p| p as u64)
        .collect();
    let ty = func
        .ty(read)
        .as_tensor()
        .expect("a tensor")
        .without_layout();
    let mut props = AttrDict::new();
    props.set("perm", Attr::ints(&perm));
    let types = vec![Type::from(ty.clone())];
    func.body.truncate(1);
    let view = func.push_op("hbir.view", vec![source], props, types, Loc::Unknown);
    let mut at = func.ops[view].results[0];
    set(func, at, seen);
    if !seen.same_function(&b[0].1) {
        let types = vec![Type::from(ty)];
        let op = func.push_op(
            "hbir.layout_convert",
            vec![at],
            AttrDict::new(),
            types,
            Loc::Unknown,
        );
        at = func.ops[op].results[0];
        set(func, at, &b[0].1);
    }
    func.ops[last].operands[0] = at;
    func.body.push(last);
    for (op, is_part) in [(one, first), (last, second)] {
        let data = &mut func.ops[op];
        match Subview::of_copy(&data.name, &data.props).filter(|_| is_part) {
            Some(props) => (data.name, data.props) = (Subview::NAME.into(), props),
            None => in_place::set(data, if is_part { &[0] } else { &[] }),
        }
    }
    module.attrs.set("hbir.target", Attr::str(&target.name));
    let found = check_target(&module, registry, target);
    found.is_empty()
}

/// The layouts of the arguments and the results of a module's function.
fn boundary(module: &Module) -> Vec<Layout> {
    let func = &module.funcs[0];
    let values = func.args.iter().chain(&func.results);
    let layout = |&v: &Value| func.ty(v).as_tensor()?.layout()?.ok();
    values.filter_map(layout).collect()
}

fn padding(layout: &Layout) -> u64 {
    layout.bytes() - layout.elements() * 4
}

/// The least bytes moved and padded over all layouts, and the layouts of each operation; `None` if some operation takes no layouts. `pinned` has the layouts
/// of the arguments and the result; if it is empty they are free.
fn least(
    program: &Program,
    target: &Target,
    registry: &Registry,
    pinned: &[Layout],
) -> Option<(u64, String)> {
    let [first, second] = &program.steps;
    let (all_first, all_second) = (
        taken(first, target, registry),
        taken(second, target, registry),
    );
    let of = |step: &Step, port: usize| layouts(&step.shapes[port], target);
    let ports = |step: &Step| -> Vec<Vec<(String, Layout)>> {
        (0..step.shapes.len()).map(|p| of(step, p)).collect()
    };
    let (left, right) = (ports(first), ports(second));
    // An argument is read in its own layout, or converted.
    let argument = |at: usize, want: &Layout| match pinned.get(at) {
        Some(have) if !have.same_function(want) => have.bytes() + want.bytes() + padding(want),
        _ => padding(want),
    };
    let of_second = left.len() - 1;
    let mut best: Option<(u64, String)> = None;
    for (a, price_first, first_in_place) in &all_first {
        let produced = &left[a.len() - 1][a[a.len() - 1]].1;
        let seen = propagate(produced, &program.map).ok();
        let before: u64 = (0..a.len() - 1)
            .map(|p| argument(p, &left[p][a[p]].1))
            .sum();
        for (b, price_second, second_in_place) in &all_second {
            let wanted = &right[0][b[0]].1;
            let direct = seen.as_ref().is_some_and(|seen| seen.same_function(wanted));
            // A part is written nowhere.
            let write = if *first_in_place {
                0
            } else {
                padding(produced)
            };
            let epilogue = first.name == "matmul" && matches!(second.name, "relu" | "add");
            let between = match (direct, (first.streams && second.streams) || epilogue) {
                (true, true) => 0,
                (true, false) => write + padding(produced),
                // The conversion reads the buffer, and the operation reads the converted copy.
                (false, _) => write + produced.bytes() + wanted.bytes() + padding(wanted),
            };
            let own: u64 = (1..b.len() - 1)
                .map(|p| argument(of_second + p - 1, &right[p][b[p]].1))
                .sum();
            let have = &right[b.len() - 1][b[b.len() - 1]].1;
            let after = match pinned.last() {
                Some(pin) if !have.same_function(pin) => padding(have) + have.bytes() + pin.bytes(),
                _ => padding(have),
            };
            let all = before + between + own + after + price_first + price_second;
            if best.as_ref().is_some_and(|(least, _)| *least <= all) {
                continue;
            }
            let parts = [*first_in_place, *second_in_place];
            let types_a: Vec<_> = left.iter().zip(a).map(|(port, &i)| &port[i]).collect();
            let types_b: Vec<_> = right.iter().zip(b).map(|(port, &i)| &port[i]).collect();
            let legal = |seen: &Layout| {
                let chosen = (seen, &types_a[..], &types_b[..]);
                holds(program, chosen, parts, target, registry)
            };
            if !parts.contains(&true) || seen.as_ref().is_some_and(legal) {
                let texts = [&types_a, &types_b].map(|types| {
                    let texts = types.iter().map(|(text, _)| text.as_str());
                    texts.collect::<Vec<_>>().join(", ")
                });
                best = Some((all, texts.join("\n")));
            }
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
                let (found, report, folded) =
                    fold(&module, &target, &registry, "canonicalize,view-fold", free);
                let pinned = if free { Vec::new() } else { boundary(&folded) };
                let Some((least, by)) = least(&program, &target, &registry, &pinned) else {
                    continue;
                };
                let place = || {
                    format!(
                        "{} seed {seed} free {free}: {found} bytes, least {least}, bound {}, {}\n{}{}least with\n{by}",
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
                // More candidates never make the result worse, nor any number of them worse than naive lowering. Where
                // something is copied only the latter holds: that a part is in place is decided after the layouts, and
                // the search does not see that a conversion may read a part that its readers refuse.
                let copies = program
                    .steps
                    .iter()
                    .any(|step| 0 < step.copied + step.given);
                let mut fewer: Option<u64> = None;
                for cap in [1, 2, 3, 5, 24] {
                    let pipeline = format!("canonicalize,view-fold{{max-layouts={cap}}}");
                    let (bytes, report, _) = fold(&module, &target, &registry, &pipeline, free);
                    assert!(bytes <= report.bytes_before, "{}", place());
                    let least = fewer.map_or(bytes, |n| n.min(bytes));
                    assert!(
                        bytes <= least || copies,
                        "{bytes} with {cap} candidates, {least} with fewer\n{}",
                        place()
                    );
                    fewer = Some(least);
                }
                assert!(fewer.is_some_and(|n| n <= found || copies), "{}", place());
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
