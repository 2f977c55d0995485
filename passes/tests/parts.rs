//! Accesses to parts of larger values as the pass decides them, compared with the checker's judgement.

use optc_check::{parts, pieces};
use optc_ir::effects::Effects;
use optc_ir::op::part::Port;
use optc_ir::{Func, Module, Op, Registry, text};
use optc_layout::{Layout, Pick, Spread};
use optc_passes::elide_copies::{takes, takes_pieces, writes_pieces};
use optc_target::Target;
use std::collections::BTreeSet;
use std::sync::Arc;

const OPERATIONS: &[&str] = &[
    r#""hbir.add"(%x, %y) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>"#,
    r#""hbir.broadcast"(%x) <{shape = [2, 4, 6]}> : (tensor<4x6xf32>) -> tensor<2x4x6xf32>"#,
    r#""hbir.softmax"(%x) <{axis = 1}> : (tensor<4x6x2xf32>) -> tensor<4x6x2xf32>"#,
    r#""hbir.reduce"(%x) <{axes = [0, 2], kind = "mean"}> : (tensor<4x6x2xf32>) -> tensor<6xf32>"#,
    r#""hbir.concat"(%x, %y) <{axis = 1}> : (tensor<4x2xf32>, tensor<4x6xf32>) -> tensor<4x8xf32>"#,
    r#""hbir.gather"(%x, %i) <{axis = 1}> : (tensor<4x6x2xf32>, tensor<3xsi64>) -> tensor<4x3x2xf32>"#,
    r#""hbir.matmul"(%x, %y) : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>"#,
    r#""hbir.matmul"(%x, %y) : (tensor<2x4x8xf16>, tensor<2x8x16xf16>) -> tensor<2x4x16xf16>"#,
    r#""hbir.matmul"(%x, %y) : (tensor<1x4x32xf32>, tensor<1x32x16xf32>) -> tensor<1x4x16xf32>"#,
    r#""hbir.einsum"(%x, %y) <{equation = "abkc,bkcn->abn"}> : (tensor<2x3x4x2xf32>, tensor<3x4x2x8xf32>) -> tensor<2x3x8xf32>"#,
    r#""hbir.linear"(%x, %w) : (tensor<3x4x16xf32>, tensor<8x16xf32>) -> tensor<3x4x8xf32>"#,
    r#""hbir.conv"(%x, %w) <{group = 1}> : (tensor<2x4x6x6xf32>, tensor<8x4x1x1xf32>) -> tensor<2x8x6x6xf32>"#,
    r#""hbir.conv"(%x, %w) <{group = 4}> : (tensor<2x4x6x6xf32>, tensor<4x1x3x3xf32>) -> tensor<2x4x4x4xf32>"#,
    r#""hbir.max_pool"(%x) <{kernel = [2, 2]}> : (tensor<2x4x6x6xf32>) -> tensor<2x4x5x5xf32>"#,
    r#""hbir.layout_convert"(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32, {order = [1, 0]}>"#,
    r#""user.opaque"(%x, %y) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>"#,
];

/// Targets with parts, one of them in one piece beside the batch.
fn targets() -> Vec<Arc<Target>> {
    let leading = include_str!("../../tests/cases/passes/elide-copies/leading_convolutions.toml");
    let cpu = Target::source("cpu").expect("built in");
    // Parts in runs of any length, and of none.
    let apart = cpu.replace("several_runs = 32, ", "");
    let batch = cpu.replace("parts = \"any\"\n", "parts = \"leading\"\n");
    let batch: Vec<&str> = batch.lines().filter(|l| !l.starts_with("pieces")).collect();
    let read = |text: &str| Arc::new(Target::parse(text).expect("a target"));
    let named = |name: &str| Arc::new(Target::builtin(name).expect("built in"));
    vec![
        named("cpu"),
        named("cpu:bytes"),
        named("onnx"),
        named("tpu"),
        read(leading),
        read(&apart),
        read(&batch.join("\n")),
    ]
}

/// Numbers that look random, the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) % n.max(1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A place of a value of this layout in a random larger one.
fn spread(random: &mut Random, own: &Layout) -> Option<Spread> {
    let mut picks = Vec::new();
    let mut shape = Vec::new();
    for (dim, &n) in own.shape().iter().enumerate() {
        let step = if random.one_in(4) { 2 } else { 1 };
        let start = if random.one_in(3) { random.below(4) } else { 0 };
        let after = if random.one_in(3) { random.below(4) } else { 0 };
        let backwards = random.one_in(12);
        let last = start + (n.max(1) - 1) * step;
        shape.push(last + 1 + after);
        let step = i64::try_from(step).ok()?;
        picks.push(Pick {
            from: Some(dim),
            start: if backwards { last } else { start },
            step: if backwards { -step } else { step },
        });
    }
    let mut order: Vec<usize> = (0..shape.len()).collect();
    if random.one_in(2) {
        let a = usize::try_from(random.below(shape.len() as u64)).ok()?;
        order.rotate_left(a);
    }
    let whole = Layout::from_order(&shape, own.elem_bits(), &order).ok()?;
    Spread::of(whole.positions()).part(&whole, own, &picks)
}

/// A random place of a value in pieces.
fn in_pieces(random: &mut Random, own: &Layout) -> Option<pieces::Pieces> {
    let mut dims = BTreeSet::new();
    for dim in 0..own.rank() {
        if random.one_in(2) {
            dims.insert(dim);
        }
    }
    let strides = spread(random, own)?.strides(own)?;
    let run = dims.iter().next_back().map(|&dim| pieces::Run {
        dim,
        elements: 2 << random.below(6),
    });
    Some(pieces::Pieces {
        beside: strides
            .into_iter()
            .filter(|s| !dims.contains(&s.dim))
            .collect(),
        dims,
        run: run.filter(|_| random.one_in(2)),
        bases: Vec::new(),
    })
}

fn parse(operation: &str) -> Module {
    text::parse(&format!("%0 = {operation}\n")).expect("well formed")
}

fn site<'a>(func: &'a Func, registry: &'a Registry, module: &'a Module) -> parts::Site<'a> {
    parts::Site::new(func, registry, &Effects::of_module(module, registry))
}

fn ports(func: &Func, op: Op) -> Vec<Port> {
    let data = &func.ops[op];
    let operands = (0..data.operands.len()).map(Port::Operand);
    operands
        .chain((0..data.results.len()).map(Port::Result))
        .collect()
}

#[test]
fn the_pass_takes_the_parts_that_the_checker_accepts() {
    let registry = optc_ops::registry();
    let (mut taken, mut refused) = ([0u64; 2], [0u64; 2]);
    for target in targets() {
        for operation in OPERATIONS {
            let module = parse(operation);
            let func = &module.funcs[0];
            let (op, site) = (func.body[0], site(func, &registry, &module));
            let told = format!("{} {operation}", target.name);
            assert_eq!(
                writes_pieces(&site, &target, op),
                parts::writes_pieces(&site, &target, op),
                "{told}"
            );
            let mut random = Random(0x9e37_79b9_7f4a_7c15);
            for _ in 0..300 {
                for port in ports(func, op) {
                    let value = port.value(&func.ops[op]).expect("a port");
                    let own = site.layout(value).expect("known");
                    let Some(spread) = spread(&mut random, own) else {
                        continue;
                    };
                    let judged = parts::takes(&site, &target, op, port, &spread);
                    let found = takes(&site, &target, op, port, &spread);
                    assert_eq!(found, judged, "{told} {port:?} {:?}", spread.strides(own));
                    match judged {
                        Ok(()) => taken[0] += 1,
                        Err(_) => refused[0] += 1,
                    }
                    let Port::Operand(n) = port else { continue };
                    let Some(pieces) = in_pieces(&mut random, own) else {
                        continue;
                    };
                    let judged = pieces::takes_pieces(&site, &target, op, n, &pieces);
                    let found = takes_pieces(&site, &target, op, n, &pieces);
                    assert_eq!(
                        found,
                        judged.is_ok(),
                        "{told} {port:?} {pieces:?} {judged:?}"
                    );
                    match judged {
                        Ok(()) => taken[1] += 1,
                        Err(_) => refused[1] += 1,
                    }
                }
            }
        }
    }
    // Both answers are tried often.
    let least = *taken.iter().chain(&refused).min().expect("four counts");
    assert!(1_000 < least, "{taken:?} {refused:?}");
}
