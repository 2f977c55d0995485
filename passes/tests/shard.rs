//! Tests of meshes and of the pass `shard`: closed formulas, wishes, an exhaustive search, and programs of any size.

use indexmap::{IndexMap, IndexSet};
use optc_check::mesh::{Account, Divided, Effort, Links, Site, conversion};
use optc_ir::shard::{Mesh, Piece, Sharding, Split};
use optc_ir::{Diagnostic, Module, Registry, Value, text};
use optc_passes::manager::{Hooks, run};
use optc_passes::shard::{ShardReport, Wishes};
use optc_passes::view_fold::Proof;
use optc_passes::{PassContext, PassList};
use optc_target::Target;
use std::fmt::Write as _;
use std::sync::Arc;

fn target(name: &str) -> Arc<Target> {
    Arc::new(Target::builtin(name).expect("a built-in target"))
}

fn parse(program: &str) -> Module {
    text::parse(program).unwrap_or_else(|d| panic!("{}", words(&d)))
}

fn words(diags: &[Diagnostic]) -> String {
    let line = |d: &Diagnostic| format!("{}: {} {}", d.code, d.message, d.notes.join(" "));
    diags.iter().map(line).collect::<Vec<_>>().join("\n")
}

struct Ran {
    module: Module,
    report: ShardReport,
    remarks: String,
}

/// Runs the pass; the error has the diagnostics.
fn shard(
    module: &Module,
    pass: &str,
    target_name: &str,
    mesh: &str,
    pins: &[(&str, &str)],
) -> Result<Ran, String> {
    let registry = Arc::new(optc_ops::registry());
    let stages = PassList::builtin().parse(pass).expect("a pass");
    let mut cx = PassContext::new(registry.clone(), target(target_name));
    cx.explain_remarks = true;
    cx.shard = Wishes {
        mesh: Some(mesh.parse().expect("a mesh")),
        pins: pins
            .iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect(),
    };
    let mut module = module.clone();
    let mut hooks = Hooks {
        verify_each: true,
        ..Hooks::default()
    };
    run(&mut module, &stages, &mut cx, &mut hooks).map_err(|d| words(&d))?;
    let printed = text_of(&module);
    let again = text::parse(&printed).map_err(|d| words(&d))?;
    assert_eq!(text_of(&again), printed);
    let report: &ShardReport = cx.reports.get().expect("the pass ran");
    Ok(Ran {
        module,
        report: report.clone(),
        remarks: words(&cx.remarks),
    })
}

fn text_of(module: &Module) -> String {
    text::print(module)
}

const MLP: &str = r#"func.func @main(%x: tensor<64x256xf32>, %w: tensor<256x1024xf32>, %v: tensor<1024x256xf32>) -> tensor<64x256xf32> {
  %0 = "hbir.matmul"(%x, %w) : (tensor<64x256xf32>, tensor<256x1024xf32>) -> tensor<64x1024xf32>
  %1 = "hbir.relu"(%0) : (tensor<64x1024xf32>) -> tensor<64x1024xf32>
  %2 = "hbir.matmul"(%1, %v) : (tensor<64x1024xf32>, tensor<1024x256xf32>) -> tensor<64x256xf32>
  return %2 : tensor<64x256xf32>
}"#;

#[test]
fn a_column_and_a_row_split_need_one_all_reduce() {
    let module = parse(MLP);
    let pins = [
        ("x", "[_, _]"),
        ("w", "[_, model]"),
        ("v", "[model, _]"),
        ("result0", "[_, _]"),
    ];
    let ran = shard(&module, "shard", "xla", "model:4", &pins).unwrap();
    let kinds: Vec<_> = ran
        .report
        .account
        .collectives()
        .map(|c| (c.kind.name(), c.bytes))
        .collect();
    assert_eq!(
        kinds,
        [("all-reduce", 2 * 64 * 256 * 4 * 3 / 4)],
        "{}",
        text_of(&ran.module)
    );
    assert!(
        ran.remarks.contains("shard-collective") && ran.remarks.contains("sums over"),
        "{}",
        ran.remarks
    );
    // The stated shardings are kept, and the pass has nothing left to change.
    let again = shard(&ran.module, "shard", "xla", "model:4", &[]).unwrap();
    assert_eq!(text_of(&again.module), text_of(&ran.module));
}

#[test]
fn a_constraint_pins_its_result() {
    let text = |split: &str| {
        format!(
            r#"func.func @main(%x: tensor<64x256xf32>) -> tensor<64x256xf32> {{
  %0 = "hbir.tanh"(%x) : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %1 = "hbir.sharding_constraint"(%0) <{{split = [{split}]}}> : (tensor<64x256xf32>) -> tensor<64x256xf32>
  return %1 : tensor<64x256xf32>
}}"#
        )
    };
    for (split, wanted) in [
        (r#""", "a:4""#, r#"shard = ["a@d1/64"]"#),
        (r#""a:4", """#, r#"shard = ["a@d0/16"]"#),
        (r#""", """#, "shard = []"),
    ] {
        let module = parse(&text(split));
        let ran = shard(&module, "shard", "xla", "a:4", &[]).unwrap();
        let found = text_of(&ran.module);
        let line = found
            .lines()
            .find(|line| line.contains("sharding_constraint"));
        assert!(
            line.is_some_and(|line| line.contains(wanted)),
            "{wanted}:\n{found}"
        );
    }
}

#[test]
fn free_arguments_need_no_collective() {
    let ran = shard(&parse(MLP), "shard", "xla", "data:2,model:2", &[]).unwrap();
    assert_eq!(
        ran.report.account.collectives().count(),
        0,
        "{}",
        text_of(&ran.module)
    );
    assert_eq!(ran.report.lower_bound_ps, ran.report.time_ps);
}

#[test]
fn heads_stay_on_their_device_through_reshapes_and_transposes() {
    let module = parse(&llama(2, 16, 64, 4, 128));
    let pins = [
        ("x", "[_, _, _]"),
        ("wq", "[_, model]"),
        ("wk", "[_, model]"),
        ("wv", "[_, model]"),
        ("wo", "[model, _]"),
        ("wg", "[_, model]"),
        ("wu", "[_, model]"),
        ("wd", "[model, _]"),
        ("r1", "[_, _, _]"),
    ];
    let ran = shard(&module, "canonicalize,shard", "tpu", "model:4", &pins).unwrap();
    // The two sums of the layer move as many bytes as two all-reduces, possibly in two halves with work on a part in
    // between, and nothing else moves.
    let account = &ran.report.account;
    let sums = ["all-reduce", "reduce-scatter", "all-gather"];
    let mut kinds = account.collectives().map(|c| c.kind.name());
    assert!(
        kinds.all(|kind| sums.contains(&kind)),
        "{}",
        text_of(&ran.module)
    );
    let bytes: u64 = account.collectives().map(|c| c.bytes).sum();
    assert_eq!(
        bytes,
        2 * (2 * (2 * 16 * 64 * 4) * 3 / 4),
        "{}",
        text_of(&ran.module)
    );
}

/// A layer of Llama with a batch, a sequence, a width, heads and a hidden width.
fn llama(b: u64, s: u64, h: u64, heads: u64, hidden: u64) -> String {
    let d = h / heads;
    let x = format!("tensor<{b}x{s}x{h}xf32>");
    let w = format!("tensor<{h}x{h}xf32>");
    let up = format!("tensor<{h}x{hidden}xf32>");
    let down = format!("tensor<{hidden}x{h}xf32>");
    let wide = format!("tensor<{b}x{s}x{hidden}xf32>");
    let split = format!("tensor<{b}x{s}x{heads}x{d}xf32>");
    let head = format!("tensor<{b}x{heads}x{s}x{d}xf32>");
    let turned = format!("tensor<{b}x{heads}x{d}x{s}xf32>");
    let scores = format!("tensor<{b}x{heads}x{s}x{s}xf32>");
    let g = format!("tensor<{h}xf32>");
    let mut text = format!(
        "func.func @main(%x: {x}, %g: {g}, %wq: {w}, %wk: {w}, %wv: {w}, %wo: {w}, %wg: {up}, %wu: {up}, %wd: {down}) -> {x} {{\n"
    );
    let mut line = |name: &str, op: &str, operands: &str, attrs: &str, from: &str, to: &str| {
        let _ = writeln!(
            text,
            "  %{name} = \"hbir.{op}\"({operands}) {attrs} : ({from}) -> {to} loc(\"{name}\")"
        );
    };
    let pair = |a: &str, b: &str| format!("{a}, {b}");
    line(
        "n0",
        "rms_norm",
        "%x, %g",
        "<{axis = 2}>",
        &pair(&x, &g),
        &x,
    );
    for (name, weight) in [("q", "wq"), ("k", "wk"), ("v", "wv")] {
        line(
            name,
            "matmul",
            &format!("%n0, %{weight}"),
            "",
            &pair(&x, &w),
            &x,
        );
        let reshape = format!("<{{shape = [{b}, {s}, {heads}, {d}]}}>");
        line(
            &format!("{name}r"),
            "reshape",
            &format!("%{name}"),
            &reshape,
            &x,
            &split,
        );
        let (perm, to) = match name {
            "k" => ("<{perm = [0, 2, 3, 1]}>", &turned),
            _ => ("<{perm = [0, 2, 1, 3]}>", &head),
        };
        line(
            &format!("{name}t"),
            "transpose",
            &format!("%{name}r"),
            perm,
            &split,
            to,
        );
    }
    line(
        "s",
        "matmul",
        "%qt, %kt",
        "",
        &pair(&head, &turned),
        &scores,
    );
    line("p", "softmax", "%s", "<{axis = 3}>", &scores, &scores);
    line("o", "matmul", "%p, %vt", "", &pair(&scores, &head), &head);
    line(
        "ot",
        "transpose",
        "%o",
        "<{perm = [0, 2, 1, 3]}>",
        &head,
        &split,
    );
    line(
        "or",
        "reshape",
        "%ot",
        &format!("<{{shape = [{b}, {s}, {h}]}}>"),
        &split,
        &x,
    );
    line("a", "matmul", "%or, %wo", "", &pair(&x, &w), &x);
    line("r0", "add", "%x, %a", "", &pair(&x, &x), &x);
    line(
        "n1",
        "rms_norm",
        "%r0, %g",
        "<{axis = 2}>",
        &pair(&x, &g),
        &x,
    );
    line("gate", "matmul", "%n1, %wg", "", &pair(&x, &up), &wide);
    line("act", "sigmoid", "%gate", "", &wide, &wide);
    line("up", "matmul", "%n1, %wu", "", &pair(&x, &up), &wide);
    line("m", "mul", "%act, %up", "", &pair(&wide, &wide), &wide);
    line("down", "matmul", "%m, %wd", "", &pair(&wide, &down), &x);
    line("r1", "add", "%r0, %down", "", &pair(&x, &x), &x);
    let _ = writeln!(text, "  return %r1 : {x}\n}}");
    text
}

#[test]
fn a_llama_layer_sends_the_bytes_of_the_closed_formulas() {
    for (mesh, data, model) in [
        ("data:2,model:4", 2, 4),
        ("data:16@dcn,model:16", 16, 16),
        ("data:64@dcn,model:64", 64, 64),
    ] {
        // With longer sequences gathered weights would be fewer bytes.
        let (b, s, h, heads, hidden) = (data, 2048, 4096, 64, 16384);
        let module = parse(&llama(b, s, h, heads, hidden));
        let rows = "[data, model, _]";
        let pins = [
            ("x", rows),
            ("g", "[_]"),
            ("wq", "[_, model]"),
            ("wk", "[_, model]"),
            ("wv", "[_, model]"),
            ("wo", "[model, _]"),
            ("wg", "[_, model]"),
            ("wu", "[_, model]"),
            ("wd", "[model, _]"),
            ("r0", rows),
            ("r1", rows),
        ];
        let ran = shard(&module, "shard{memory=100000000000000}", "tpu", mesh, &pins).unwrap();
        // Two all-gathers before the products and two reduce-scatters after them.
        let one = b / data * s * h * 4 / model * (model - 1);
        let account = &ran.report.account;
        assert_eq!(
            account.axis_bytes(1),
            4 * one,
            "{}\n{}",
            ran.remarks,
            text_of(&ran.module)
        );
        assert_eq!(account.axis_bytes(0), 0);
        let link = 50.0e9;
        let steps = 4.0 * 1e-6 * f64::from(u32::try_from(model - 1).unwrap());
        #[expect(clippy::cast_precision_loss, reason = "a model")]
        let wanted = (4 * one) as f64 / link + steps;
        let found = account.collective_seconds();
        assert!(
            (found - wanted).abs() < 1e-9 * wanted,
            "{found} for {wanted}"
        );
    }
}

/// The pass, the pins, the code of the refusal and a part of its text.
type Wish<'t> = (&'t str, &'t [(&'t str, &'t str)], &'t str, &'t str);

#[test]
fn impossible_wishes_are_refused_with_what_is_possible() {
    let text = "%0 = \"hbir.relu\"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>";
    let module = parse(text);
    let refused = |pass: &str, pins: &[(&str, &str)]| {
        shard(&module, pass, "xla", "data:4,model:2", pins)
            .err()
            .expect("it is refused")
    };
    let cases: [Wish<'_>; 7] = [
        ("shard", &[("x", "[data, _]")], "shard-split", "d0/2 padded"),
        (
            "shard",
            &[("x", "[dat, _]")],
            "shard-axis",
            "did you mean `data`",
        ),
        (
            "shard",
            &[("y", "[_, _]")],
            "shard-pin",
            "found no value `y`",
        ),
        ("shard", &[("x", "[_]")], "shard-pin", "2 entries"),
        (
            "shard",
            &[("x", "[_, (model, model)]")],
            "shard-split",
            "two splits over the axis",
        ),
        (
            "shard",
            &[("x", "[_, model]"), ("x", "[_, _]")],
            "shard-pin",
            "two shardings of `x`",
        ),
        ("shard{memory=10}", &[], "shard-memory", "wanted at most 10"),
    ];
    for (pass, pins, code, part) in cases {
        let found = refused(pass, pins);
        assert!(
            found.contains(code) && found.contains(part),
            "{pass} {pins:?}: {found}"
        );
    }
    // Padding that is stated is accepted.
    let padded = [("x", "[data@d0/2 padded]")];
    shard(&module, "shard", "xla", "data:4,model:2", &padded).unwrap();
}

#[test]
fn weights_are_split_where_a_device_has_no_room_for_them() {
    let module = parse(MLP);
    let pins = [("x", "[data, _]"), ("result0", "[data, _]")];
    let free = shard(&module, "shard", "xla", "data:4", &pins).unwrap();
    let all = (256 * 1024 * 2 + 64 * 256 / 4) * 4;
    assert_eq!(free.report.account.resident_bytes, all);
    let small = shard(&module, "shard{memory=1200000}", "xla", "data:4", &pins).unwrap();
    assert!(
        small.report.account.memory_bytes <= 1_200_000,
        "{}",
        text_of(&small.module)
    );
    assert!(free.report.time_ps < small.report.time_ps);
    assert_eq!(small.report.proof, Proof::Bound);
    assert_eq!(small.report.lower_bound_ps, free.report.lower_bound_ps);
}

/// A device holds whole blocks of a layout: parts of a block save neither time nor memory.
#[test]
fn a_digit_that_is_split_lies_outside_of_the_blocks_of_a_layout() {
    // Of the free splits of the rows and of the columns the second one leaves whole blocks: 1x1024 takes 8x1024.
    let columns = ", {block = \"8H64W\", order = [0, 1]}";
    let both = ", {xla = \"1,0:T(8,128)\"}";
    for (layout, mesh, wanted, bytes) in [
        ("", "a:16", "\"a@d0\"", 1024),
        (", {order = [1, 0]}", "a:16", "\"a@d0\"", 1024),
        (columns, "a:16", "\"a@d1/64\"", 16 * 64),
        (both, "a:16", "\"a@d1/64\"", 16 * 128),
        (both, "a:2,b:8", "\"a@d0/8\", \"b@d1/128\"", 8 * 128),
    ] {
        let x = format!("tensor<16x1024xf32{layout}>");
        let text = format!("%0 = \"hbir.tanh\"(%x) : ({x}) -> {x}");
        let ran = shard(&parse(&text), "shard", "xla", mesh, &[]).unwrap();
        let found = text_of(&ran.module);
        assert!(found.contains(&format!("shard = [{wanted}]")), "{found}");
        assert_eq!(ran.report.account.memory_bytes, 2 * 4 * bytes, "{found}");
    }
}

/// The text of a chain of layers.
fn chain(layers: usize) -> String {
    let x = "tensor<32x64xf32>";
    let mut text = format!("func.func @main(%x: {x}, %w: tensor<64x64xf32>) -> {x} {{\n");
    let mut last = "x".to_owned();
    for i in 0..layers {
        let _ = writeln!(
            text,
            "  %a{i} = \"hbir.matmul\"(%{last}, %w) : ({x}, tensor<64x64xf32>) -> {x}"
        );
        let _ = writeln!(text, "  %b{i} = \"hbir.tanh\"(%a{i}) : ({x}) -> {x}");
        let _ = writeln!(
            text,
            "  %c{i} = \"hbir.add\"(%b{i}, %{last}) : ({x}, {x}) -> {x}"
        );
        last = format!("c{i}");
    }
    let _ = writeln!(text, "  return %{last} : {x}\n}}");
    text
}

#[test]
fn the_work_is_linear_in_the_operations() {
    // More operations than have all states, on 32 devices.
    const LAYERS: usize = 3000;
    let sizes = [LAYERS, 2 * LAYERS].map(|layers| {
        let ran = shard(&parse(&chain(layers)), "shard", "xla", "a:2,b:4,c:4", &[]).unwrap();
        ran.report.size
    });
    // Two variables an operation, and as many different tables and questions about digits for any number of layers.
    let [small, large] = sizes;
    assert_eq!(small[0], 6 * LAYERS + 2);
    assert_eq!(large[0], 6 * 2 * LAYERS + 2);
    assert!(0 < small[4] && small[1] == large[1] && small[4] == large[4]);
    // Twice the layers sum no more than twice the entries, and carry no more than twice the digits.
    for count in [2, 3] {
        let [small, large] = [small[count], large[count]];
        assert!(0 < small && large <= 2 * small, "{small} {large}");
    }
}

/// Numbers from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// A random program of a few operations on small values.
fn random(draw: &mut Draw) -> String {
    let ty = |dims: &[u64]| {
        let dims: String = dims.iter().map(|n| format!("{n}x")).collect();
        format!("tensor<{dims}f32>")
    };
    let mut values = vec![("x".to_owned(), vec![4, 4]), ("y".to_owned(), vec![4, 4])];
    let mut body = String::new();
    for i in 0..1 + draw.below(3) {
        let at = usize::try_from(draw.below(values.len() as u64)).unwrap();
        let (name, dims) = values[at].clone();
        let other = values
            .iter()
            .rev()
            .find(|(_, d)| *d == dims)
            .cloned()
            .unwrap();
        let unary = |op: &str, attrs: &str, to: &[u64]| {
            format!(
                "\"hbir.{op}\"(%{name}) {attrs} : ({}) -> {}",
                ty(&dims),
                ty(to)
            )
        };
        let binary = |op: &str| {
            let t = ty(&dims);
            format!("\"hbir.{op}\"(%{name}, %{}) : ({t}, {t}) -> {t}", other.0)
        };
        let (op, to) = match (draw.below(6), dims.len()) {
            (0, _) => (unary("exp", "", &dims), dims.clone()),
            (1, _) => (binary("add"), dims.clone()),
            (2, 2) => (binary("matmul"), dims.clone()),
            (3, 2) => (unary("transpose", "<{perm = [1, 0]}>", &dims), dims.clone()),
            (4, 2) => (unary("reshape", "<{shape = [16]}>", &[16]), vec![16]),
            (4, _) => (unary("reshape", "<{shape = [4, 4]}>", &[4, 4]), vec![4, 4]),
            (5, 2) => (unary("softmax", "<{axis = 1}>", &dims), dims.clone()),
            _ => (unary("tanh", "", &dims), dims.clone()),
        };
        let _ = writeln!(body, "  %v{i} = {op}");
        values.push((format!("v{i}"), to));
    }
    let (name, dims) = values.last().unwrap();
    let t = ty(dims);
    format!(
        "func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> {t} {{\n{body}  return %{name} : {t}\n}}"
    )
}

/// All digits of one dimension for an axis of this extent.
fn digits(sizes: &[u64], extent: u64) -> Vec<Piece> {
    let mut all = Vec::new();
    for (dim, &size) in sizes.iter().enumerate() {
        let strides = (1..=size).filter(|s| size.is_multiple_of(s * extent));
        all.extend(strides.map(|stride| Piece {
            dim,
            stride,
            extent,
        }));
    }
    all
}

/// All choices of one or no digit for each axis.
fn choices(options: &[Vec<Piece>]) -> Vec<Vec<Option<Piece>>> {
    let mut all = vec![Vec::new()];
    for own in options {
        let mut more = Vec::new();
        for chosen in &all {
            for piece in std::iter::once(None).chain(own.iter().copied().map(Some)) {
                let mut chosen: Vec<Option<Piece>> = chosen.clone();
                chosen.push(piece);
                more.push(chosen);
            }
        }
        all = more;
    }
    all
}

fn ps(seconds: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time"
    )]
    let whole = (seconds * 1e12).round() as u64;
    whole
}

/// The least time of a program in picoseconds, found by trying everything. The arguments are pinned.
struct Exhaustive<'a> {
    module: &'a Module,
    links: &'a Links,
    states: Vec<Vec<(Divided, u64)>>,
    values: IndexMap<Value, Vec<Sharding>>,
    known: IndexMap<(Sharding, Sharding), u64>,
}

impl Exhaustive<'_> {
    fn time(&mut self, from: &Sharding, to: &Sharding) -> u64 {
        let key = (from.clone(), to.clone());
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        // Every value has 16 elements of 4 bytes.
        let all = conversion(from, to, 64, self.links);
        let time = ps(all.iter().map(|c| c.seconds).sum());
        self.known.insert(key, time);
        time
    }

    /// The least time of the collectives of a value that is made so, if it is, and read so.
    fn value(&mut self, value: Value, made: Option<&Sharding>, reads: &[&Sharding]) -> u64 {
        let mut least = u64::MAX;
        for stored in self.values[&value].clone() {
            let made = made.map_or(0, |m| self.time(m, &stored));
            let reads: u64 = reads.iter().map(|r| self.time(&stored, r)).sum();
            least = least.min(made + reads);
        }
        least
    }

    /// The least time; `None` if there is too much to try.
    fn least(&mut self) -> Option<u64> {
        let func = &self.module.funcs[0];
        let mut known: IndexMap<(Value, Vec<usize>), u64> = IndexMap::new();
        let states = std::mem::take(&mut self.states);
        let values: Vec<Value> = self.values.keys().copied().collect();
        let counts: Vec<usize> = states.iter().map(Vec::len).collect();
        let all: usize = counts.iter().product();
        if MOST_TRIED < all {
            return None;
        }
        let mut least = u64::MAX;
        for mut number in 0..all {
            let mut chosen = Vec::new();
            for count in &counts {
                chosen.push(number % count);
                number /= count;
            }
            let mut sum: u64 = chosen.iter().zip(&states).map(|(&c, s)| s[c].1).sum();
            for &value in &values {
                let mut key = Vec::new();
                let (mut made, mut reads) = (None, Vec::new());
                for (at, &op) in func.body.iter().enumerate() {
                    let (data, divided) = (&func.ops[op], &states[at][chosen[at]].0);
                    if data.results[0] == value {
                        made = Some(&divided.results[0]);
                        key.push(chosen[at]);
                    }
                    for (i, _) in data
                        .operands
                        .iter()
                        .enumerate()
                        .filter(|(_, v)| **v == value)
                    {
                        reads.push(&divided.operands[i]);
                        key.push(chosen[at]);
                    }
                }
                let key = (value, key);
                let found = known.get(&key).copied();
                sum += found.unwrap_or_else(|| {
                    let time = self.value(value, made, &reads);
                    known.insert(key, time);
                    time
                });
            }
            least = least.min(sum);
        }
        Some(least)
    }
}

/// The most choices of the states of operations that are tried.
const MOST_TRIED: usize = 12_000;

fn exhaustive(module: &Module, mesh: &Mesh, registry: &Registry, pins: &[Sharding]) -> Option<u64> {
    let on = target("xla");
    let links = Links::of(mesh, &on).unwrap();
    let func = &module.funcs[0];
    let mut states = Vec::new();
    for &op in &func.body {
        let site = Site::of(func, op, registry);
        let extents: Vec<u64> = site.domain.loops.iter().map(|l| l.extent).collect();
        let options: Vec<Vec<Piece>> = mesh
            .axes
            .iter()
            .map(|a| digits(&extents, a.extent))
            .collect();
        let all: IndexSet<Divided> = choices(&options)
            .iter()
            .filter_map(|c| site.divided(c))
            .collect();
        let effort = Effort::of(func, op, registry, &on);
        states.push(
            all.into_iter()
                .map(|d| (d.clone(), ps(effort.seconds(&site, &d))))
                .collect::<Vec<_>>(),
        );
    }
    let mut values = IndexMap::new();
    let results = func.body.iter().map(|&op| func.ops[op].results[0]);
    for (i, value) in func.args.iter().copied().chain(results).enumerate() {
        if let Some(pin) = pins.get(i) {
            values.insert(value, vec![pin.clone()]);
            continue;
        }
        let ty = func.ty(value).as_tensor().unwrap();
        let sizes: Vec<u64> = ty.dims.iter().map(|d| d.fixed().unwrap()).collect();
        let options: Vec<Vec<Piece>> = mesh.axes.iter().map(|a| digits(&sizes, a.extent)).collect();
        let sharding = |c: &Vec<Option<Piece>>| {
            let splits = c.iter().enumerate();
            let splits = splits.filter_map(|(axis, p)| Some(Split::over(axis, &[(*p)?])));
            splits.fold(Sharding::replicated(), Sharding::with)
        };
        let all = choices(&options)
            .iter()
            .map(sharding)
            .filter(|s| s.fits(ty, mesh).is_ok())
            .collect();
        values.insert(value, all);
    }
    let mut search = Exhaustive {
        module,
        links: &links,
        states,
        values,
        known: IndexMap::new(),
    };
    search.least()
}

#[test]
fn nothing_is_cheaper_than_what_is_called_optimal() {
    let registry = optc_ops::registry();
    let mut draw = Draw(7);
    let mut optimal = 0;
    for case in 0..24 {
        let text = random(&mut draw);
        let module = parse(&text);
        for mesh in ["a:2", "a:2,b:2@slow", "a:4"] {
            let devices: Mesh = mesh.parse().unwrap();
            let named = [
                ["[a, _]", "[_, a]", "[_, _]"],
                ["[_, a]", "[_, _]", "[a, _]"],
            ];
            let pick = named.map(|all| all[usize::try_from(draw.below(3)).unwrap()]);
            let pins = [("x", pick[0]), ("y", pick[1])];
            let ran = shard(&module, "shard{max-states=512}", "xla", mesh, &pins).unwrap();
            let stated = |i| {
                optc_ir::shard::argument(&ran.module.funcs[0], i, &devices)
                    .unwrap()
                    .unwrap()
            };
            let Some(least) = exhaustive(&module, &devices, &registry, &[stated(0), stated(1)])
            else {
                continue;
            };
            let (found, report) = (ran.report.time_ps, &ran.report);
            let about = format!(
                "case {case} on {mesh}, {pins:?}: {least}\n{text}\n{}",
                text_of(&ran.module)
            );
            assert!(
                report.lower_bound_ps <= least,
                "a bound of {} above: {about}",
                report.lower_bound_ps
            );
            match report.proof {
                Proof::Optimal => {
                    optimal += 1;
                    assert!(found <= least, "{found} is not optimal: {about}");
                }
                Proof::OptimalInCandidates | Proof::Bound => assert!(least <= found, "{about}"),
            }
            let account = Account::of(&ran.module, &registry, &target("xla"))
                .unwrap()
                .unwrap();
            let counted = ps(account.seconds());
            assert!(
                counted.abs_diff(found) <= 16,
                "{found} is counted as {counted}: {about}"
            );
        }
    }
    assert!(40 <= optimal, "only {optimal} results are called optimal");
}
