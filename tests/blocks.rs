//! Programs folded on machines with tiles, run on their tiled buffers.
//!
//! The blocks are layers of well-known architectures (`blocks/README.md`); the small models and the programs of the
//! file tests are run too. Padding is poison to the naive interpreter, and a view reuses its operand's buffer. So a
//! layout that is wrong in one element changes the numbers.

use libtest_mimic::{Arguments, Failed, Trial};
use optc_compare::{Fill, RandomSource, compare, random_inputs};
use optc_interp::{run_naive, run_reference};
use optc_ir::{Module, Registry, verify};
use optc_passes::manager::{Hooks, run};
use optc_passes::{PassContext, PassList};
use optc_target::Target;
use optc_tests::check::{cases, small_bindings, target, words};
use optc_tests::generate::{Profile, program};
use optc_tests::paths::{files, relative, root};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The number of programs that were run and compared, counted for each target, and the least number that is required.
static RAN: AtomicUsize = AtomicUsize::new(0);
const LEAST: usize = 3000;

/// The programs that were left out, by reason. They are printed after a run of all tests.
static LEFT_OUT: Mutex<BTreeMap<&str, usize>> = Mutex::new(BTreeMap::new());

/// Counts a program that is left out.
fn leave_out(why: &'static str) {
    let mut left_out = LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner);
    *left_out.entry(why).or_default() += 1;
}

/// The largest number of elements of a value in a program that is not a block.
const LARGE: u64 = 1 << 16;

/// A machine of this test: flat tiles whose rows have 32 lanes, with narrow elements in pairs and fours; products with
/// N or M in the lanes; convolutions with channels in the rows.
const FLAT: &str = r#"
name = "flat"
summary = "tiles of up to 4 rows of 32 lanes"
spelling = "order"
[units.all]
summary = "everything"
[[formats]]
bits = [32]
rows = [1, 4]
lanes = 32
[[formats]]
bits = [16]
rows = [4, 4]
lanes = 32
then = [[2, 1]]
[[formats]]
bits = [8]
rows = [4, 4]
lanes = 32
then = [[4, 1]]
[[formats]]
bits = [32]
length = [32, 64]
[[formats]]
bits = [16]
length = [64, 64]
then = [[32], [2, 1]]
[[formats]]
bits = [8]
length = [128, 128]
then = [[32], [4, 1]]
[[formats]]
bits = [8, 16, 32]
scalar = 32
[[rows]]
families = ["elementwise", "softmax", "norm", "reduce", "concat", "slice", "broadcast", "gather"]
unit = "all"
take = [{ share = "all" }, { when = "untiled", share = "all" }]
[[rows]]
families = ["matmul"]
unit = "all"
take = [
  { left = { lanes = ["k"], rows = ["m"] }, right = { lanes = ["n", "k"] }, result = { lanes = ["n", "m"] }, distinct = true },
  { when = "untiled", share = ["k"], one_run = ["k"], not_innermost = ["batch"] },
]
[[rows]]
families = ["conv"]
unit = "all"
take = [
  { lanes = ["spatial", "channel"], rows = ["channel"], distinct = true },
  { when = "untiled", sequence = ["batch", "channel", "spatial"] },
]
[[rows]]
families = ["pool", "resize"]
unit = "all"
take = [
  { lanes = ["spatial"], rows = ["channel"] },
  { when = "untiled", sequence = ["batch", "channel", "spatial"] },
]
[[rows]]
families = ["source"]
unit = "all"
take = [{}]
[[rows]]
families = ["barrier"]
unit = "all"
take = [{ order = "logical" }]
"#;

fn targets() -> Vec<Arc<Target>> {
    let npu = include_str!("../examples/npu16/npu16.toml");
    let parsed = [npu, FLAT].map(|text| Arc::new(Target::parse(text).expect("a target")));
    let built_in = ["tpu", "journey6"].map(target);
    built_in.into_iter().chain(parsed).collect()
}

/// The module of a file; `None` if it is no program for a whole module (a file test of a broken one).
fn read(path: &Path, registry: &Registry) -> Option<Module> {
    let bytes = std::fs::read(path).expect("a program can be read");
    let kind = path.extension().and_then(|e| e.to_str());
    let module = match kind {
        Some("onnx") => {
            optc_onnx::import(&bytes, &optc_onnx::Options::default())
                .ok()?
                .module
        }
        Some("hlo") => {
            optc_hlo::import(&String::from_utf8(bytes).ok()?)
                .ok()?
                .module
        }
        _ => optc_ir::text::parse(&String::from_utf8(bytes).ok()?).ok()?,
    };
    verify::verify(&module, registry).ok()?;
    // A part that a program declares to be in its operand's memory has no tile of its own.
    let lies_within = |f: &optc_ir::Func| f.ops.iter().any(|(_, op)| &*op.name == "hbir.subview");
    if module.funcs.iter().any(lies_within) {
        return None;
    }
    // A case whose layouts the target refuses cannot be one of its programs.
    let named = module.attrs.str("hbir.target");
    let built_in = named.and_then(|name| Target::builtin(name).ok());
    let refused = |t: &Target| !optc_check::check_target(&module, registry, t).is_empty();
    (!built_in.is_some_and(|t| refused(&t))).then_some(module)
}

/// The kind of a program, which decides how it is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The program must run, and its results must not be NaN.
    Block,
    /// The program may be one that no interpreter runs: with an opaque operation, or without a function `main`.
    Any,
    /// A generated program, with many dimensions of extent 1: only numbers are compared.
    Random,
}

/// Folds and runs one program for all targets, and compares.
fn agree(path: &Path, targets: &[Arc<Target>], kind: Kind) -> Result<(), Failed> {
    let registry = Arc::new(optc_ops::registry());
    let Some(module) = read(path, &registry) else {
        return match kind {
            Kind::Block => Err("the program cannot be read".into()),
            Kind::Any | Kind::Random => {
                leave_out("it is no program for a whole module");
                Ok(())
            }
        };
    };
    agree_on(&module, &registry, targets, kind)
}

fn agree_on(
    module: &Module,
    registry: &Arc<Registry>,
    targets: &[Arc<Target>],
    kind: Kind,
) -> Result<(), Failed> {
    let bindings = small_bindings(module);
    if kind == Kind::Any && LARGE < largest(module) {
        leave_out("a value has many elements");
        return Ok(());
    }
    let wanted =
        random_inputs(module, "main", Fill::Normal, 11, &bindings, registry).and_then(|inputs| {
            let found = run_reference(module, registry, "main", &inputs, &RandomSource, &bindings)?;
            Ok((inputs, found))
        });
    let (inputs, wanted) = match (wanted, kind) {
        (Ok(found), _) => found,
        (Err(why), Kind::Block) => return Err(why.into()),
        (Err(_), Kind::Any | Kind::Random) => {
            leave_out("the reference cannot run it");
            return Ok(());
        }
    };
    for (key, wanted) in &wanted {
        let numbers = (0..wanted.len()).all(|i| wanted.f64_at(i).is_finite());
        if kind == Kind::Block && !numbers {
            return Err(format!("{key}: the reference has results that are no numbers").into());
        }
    }
    for (target, free) in targets.iter().flat_map(|t| [(t, false), (t, true)]) {
        let boundary = if free { ", any layouts outside" } else { "" };
        let at = |why: String| Failed::from(format!("{}{boundary}: {why}", target.name));
        let folded = match fold(module, target, registry, (free, kind)) {
            Ok(folded) => folded,
            // A target with padding refuses unknown sizes.
            Err((code, _)) if code == "target-wants-sizes" && !bindings.0.is_empty() => {
                leave_out("a target refuses unknown sizes");
                continue;
            }
            Err((_, why)) => return Err(at(why)),
        };
        let found = run_naive(&folded, registry, "main", &inputs, &RandomSource, &bindings);
        let found = found.map_err(|e| at(e.to_string()))?;
        for (key, wanted) in &wanted {
            compare(&found[key], wanted).map_err(|e| at(format!("{key}: {e}")))?;
        }
        RAN.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// The number of elements of the largest value with known sizes.
fn largest(module: &Module) -> u64 {
    let values = module.funcs.iter().flat_map(|f| f.values.iter());
    let shapes = values.filter_map(|(_, v)| v.ty.as_tensor()?.shape());
    let sizes = shapes.map(|shape| shape.iter().product());
    sizes.max().unwrap_or(0)
}

fn fold(
    module: &Module,
    target: &Arc<Target>,
    registry: &Arc<Registry>,
    (free, kind): (bool, Kind),
) -> Result<Module, (String, String)> {
    let stages = PassList::builtin().parse("canonicalize,view-fold");
    let stages = stages.expect("built-in passes");
    let mut cx = PassContext::new(registry.clone(), target.clone());
    cx.boundary.free_all = free;
    let mut folded = module.clone();
    let mut hooks = Hooks {
        verify_each: kind != Kind::Random,
        ..Hooks::default()
    };
    let ran = run(&mut folded, &stages, &mut cx, &mut hooks);
    let refused = match ran {
        Ok(_) if kind == Kind::Random => {
            verify::verify(&folded, registry).err().unwrap_or_default()
        }
        Ok(_) => optc_check::check_target(&folded, registry, target),
        Err(diags) => diags,
    };
    match refused.first() {
        None => Ok(folded),
        Some(first) => Err((first.code.to_string(), words(&refused))),
    }
}

/// Random programs with all kinds of operations and element types.
fn random_programs(part: u64, targets: &[Arc<Target>]) -> Result<(), Failed> {
    let registry = Arc::new(optc_ops::registry());
    for case in 0..cases(60) {
        let seed = 4 * case + part;
        let profile = match seed % 3 {
            0 => Profile::Mixed,
            1 => Profile::Moves,
            _ => Profile::TinyParts,
        };
        let module = program(seed, profile, &registry);
        let run = |module: &Module| agree_on(module, &registry, targets, Kind::Random);
        if run(&module).is_err() {
            let mut fails = |m: &Module| run(m).is_err();
            let small = optc_reduce::reduce(&module, &registry, &mut fails);
            let small = small.map_or_else(|| module.clone(), |reduced| reduced.module);
            let why = run(&small)
                .err()
                .and_then(|e| e.message().map(str::to_owned));
            let why = why.unwrap_or_default();
            let text = optc_ir::text::print(&small);
            return Err(format!("seed {seed}, made smaller: {why}\n{text}").into());
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let folders = [
        ("tests/blocks", "ir", Kind::Block),
        ("tests/models", "onnx", Kind::Any),
        ("tests/cases", "ir", Kind::Any),
        ("tests/plans", "ir", Kind::Any),
        ("tests/door/base", "ir", Kind::Any),
        ("frontends/hlo/tests/modules", "hlo", Kind::Any),
    ];
    let args = Arguments::from_args();
    let targets = targets();
    let mut trials = Vec::new();
    for (folder, extension, kind) in folders {
        for path in files(&root().join(folder), extension) {
            let targets = targets.clone();
            let name = relative(&path);
            trials.push(Trial::test(name, move || agree(&path, &targets, kind)));
        }
    }
    for part in 0..4 {
        let targets = targets.clone();
        trials.push(Trial::test(format!("random programs {part}"), move || {
            random_programs(part, &targets)
        }));
    }
    let whole = args.filter.is_none() && args.skip.is_empty() && !args.list;
    let conclusion = libtest_mimic::run(&args, trials);
    let ran = RAN.load(Ordering::Relaxed);
    if whole {
        let left_out = LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner);
        eprintln!("{ran} programs were run and compared; left out: {left_out:?}");
    }
    if whole && !conclusion.has_failed() && ran < LEAST {
        eprintln!("{ran} programs were run and compared, wanted {LEAST}");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}
