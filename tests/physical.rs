//! The physical executor: it gives the numbers of the reference interpreter, in poisoned buffers.

use indexmap::IndexMap;
use optc_check::Stats;
use optc_compare::{Fill, RandomSource, compare, compare_exact, random_inputs};
use optc_exec::{ExecOptions, Executable, Isa, StepProfile};
use optc_interp::{DataSource, NoData, run_naive, run_reference};
use optc_ir::{Bindings, Diagnostic, Module, Registry, SizeTable, Tensor, text};
use optc_passes::manager::{Hooks, run};
use optc_passes::{PassContext, PassList};
use optc_target::Target;
use optc_tests::check::{cases, in_pieces, parse, small_bindings, target, words};
use optc_tests::images::images;
use optc_tests::layout_bound::{Numbers, blocks};
use optc_tests::paths::{files, root};
use optc_tests::tokens::tokens;
use optc_tests::{Profile, Tally, program};
use std::sync::Arc;

const PLAN: &str = "bufferize,plan-memory";
const FOLD: &str = "canonicalize,view-fold,bufferize,plan-memory";

fn npu16() -> Arc<Target> {
    let path = root().join("examples/npu16/npu16.toml");
    let text = std::fs::read_to_string(path).expect("the example is there");
    Arc::new(Target::parse(&text).expect("it is a target"))
}

pub(crate) fn planned(
    module: &Module,
    passes: &str,
    target: &Arc<Target>,
    registry: &Arc<Registry>,
) -> Result<Module, String> {
    let stages = PassList::builtin().parse(passes).expect("built-in passes");
    let mut cx = PassContext::new(registry.clone(), target.clone());
    let mut module = module.clone();
    run(&mut module, &stages, &mut cx, &mut Hooks::default()).map_err(|d| words(&d))?;
    Ok(module)
}

fn physical(
    module: &Module,
    inputs: &IndexMap<String, Tensor>,
    data: &dyn DataSource,
    bindings: &Bindings,
    options: &ExecOptions,
) -> Result<IndexMap<String, Tensor>, Box<Diagnostic>> {
    let registry = optc_ops::registry();
    let main = &module.funcs[0].name;
    let made = Executable::new(module, &registry, main, inputs, data, bindings, options)?;
    let first = made.run(inputs)?;
    let again = made.run(inputs)?;
    assert_eq!(first.len(), again.len());
    for (key, tensor) in &first {
        compare_exact(&again[key], tensor).expect("a second run gives the same");
    }
    // Threads share work in the same way with every instruction set.
    let lesser = options.isa.is_some_and(|isa| isa < Isa::detect());
    let threads: &[usize] = if lesser { &[] } else { &[2, 3, 7] };
    for &threads in threads {
        let options = ExecOptions {
            threads,
            always_share: true,
            ..options.clone()
        };
        let made = Executable::new(module, &registry, main, inputs, data, bindings, &options)?;
        for (key, tensor) in made.run(inputs)? {
            let same = compare_exact(&tensor, &first[&key]);
            same.unwrap_or_else(|e| panic!("{key} on {threads} threads: {e}"));
        }
    }
    Ok(first)
}

fn poisoned(generic: bool) -> ExecOptions {
    ExecOptions {
        poison: true,
        generic,
        ..ExecOptions::default()
    }
}

/// Tensors by their names.
type Named = IndexMap<String, Tensor>;

/// Random inputs of a program, and its results by the reference. The reference refuses some inputs, for example an
/// index out of bounds.
fn reference(original: &Module, seed: u64) -> Result<[Named; 2], String> {
    let registry = optc_ops::registry();
    let bindings = small_bindings(original);
    let main = &original.funcs[0].name;
    let inputs = random_inputs(original, main, Fill::Normal, seed, &bindings, &registry);
    let inputs = inputs.map_err(|e| e.to_string())?;
    let wanted = run_reference(original, &registry, main, &inputs, &RandomSource, &bindings);
    let wanted = wanted.map_err(|e| e.to_string())?;
    Ok([inputs, wanted])
}

/// Checks that the program after the passes gives the numbers of the original: exactly without kernels, within rounding
/// with those of each instruction set.
pub(crate) fn agrees(original: &Module, after: &Module, seed: u64) -> Result<(), String> {
    same_numbers(original, after, &reference(original, seed)?)
}

/// [`agrees`], where a program that the reference refuses is left out.
fn agrees_if_it_runs(
    tally: &mut Tally,
    original: &Module,
    after: &Module,
    seed: u64,
) -> Result<(), String> {
    match reference(original, seed) {
        Ok(ran) => {
            tally.compared();
            same_numbers(original, after, &ran)
        }
        Err(why) => {
            tally.leave_out(format!("seed {seed}: {why}"));
            Ok(())
        }
    }
}

fn same_numbers(
    original: &Module,
    after: &Module,
    [inputs, wanted]: &[Named; 2],
) -> Result<(), String> {
    let registry = optc_ops::registry();
    let bindings = small_bindings(original);
    let main = &original.funcs[0].name;
    let data = RandomSource;
    let folded = run_reference(after, &registry, main, inputs, &data, &bindings);
    let folded = folded.map_err(|e| format!("the reference after the passes: {e}"))?;
    let naive = run_naive(after, &registry, main, inputs, &data, &bindings);
    let naive = naive.map_err(|e| format!("on physical buffers: {e}"))?;
    let executed = |isa: Isa, generic: bool| {
        let options = ExecOptions {
            isa: Some(isa),
            ..poisoned(generic)
        };
        let found = physical(after, inputs, &data, &bindings, &options);
        found.map_err(|d| words(&[*d]))
    };
    // Without kernels, the instruction set does not matter.
    let kernels = Isa::available().into_iter().map(|isa| (isa, false));
    for (isa, generic) in kernels.chain([(Isa::detect(), true)]) {
        let found = executed(isa, generic)?;
        for (((key, found), wanted), (folded, naive)) in found
            .iter()
            .zip(wanted.values())
            .zip(folded.values().zip(naive.values()))
        {
            let same =
                |r: Result<(), _>| r.map_err(|e| format!("{key}, {isa}, generic {generic}: {e}"));
            same(compare(found, wanted))?;
            if generic {
                same(compare_exact(found, folded))?;
                same(compare_exact(found, naive))?;
            }
        }
    }
    Ok(())
}

#[test]
fn random_programs_give_the_numbers_of_the_reference() {
    let registry = Arc::new(optc_ops::registry());
    let targets = [
        (target("cpu"), PLAN),
        (target("cpu"), FOLD),
        (target("tpu"), FOLD),
        (target("journey6"), FOLD),
        (npu16(), FOLD),
    ];
    let mut tally = Tally::default();
    for (target, passes) in targets {
        for seed in 0..cases(80) {
            let module = program(seed, Profile::Mixed, &registry);
            let after = planned(&module, passes, &target, &registry);
            let after = after.unwrap_or_else(|e| panic!("{} seed {seed}: {e}", target.name));
            if let Err(problem) = agrees_if_it_runs(&mut tally, &module, &after, seed) {
                panic!(
                    "{} {passes} seed {seed}: {problem}\n{}",
                    target.name,
                    text::print(&after)
                );
            }
        }
    }
    eprintln!("compared on {:?}", Isa::available());
    tally.leaves_out_at_most_one_in(10);
}

/// The number of concats of a program.
fn concats(module: &Module) -> usize {
    let func = &module.funcs[0];
    let ops = func.body.iter().map(|&op| &func.ops[op]);
    ops.filter(|data| &*data.name == "hbir.concat").count()
}

/// Runs generated programs. At least one in `part` of them must have values in pieces, and at least one in `still` of
/// these must move nothing.
fn runs_in_pieces(generator: impl Fn(u64) -> String, [part, still]: [u64; 2]) {
    let registry = Arc::new(optc_ops::registry());
    let (mut all, mut idle) = (0, 0);
    for seed in 0..cases(120) {
        let module = parse(&generator(seed));
        for passes in ["canonicalize,elide-copies,bufferize,plan-memory", FOLD] {
            let after = planned(&module, passes, &target("cpu"), &registry);
            let after = after.unwrap_or_else(|e| panic!("{passes} seed {seed}: {e}"));
            let fail = |why: String| -> ! {
                panic!("{passes} seed {seed}: {why}\n{}", text::print(&after))
            };
            agrees(&module, &after, seed).unwrap_or_else(|e| fail(e));
            let found = in_pieces(&after);
            let (steps, said) = moved(&module, &after, &registry);
            let bytes: u64 = steps.iter().map(|(_, bytes)| bytes).sum();
            // An operand of a concat that could lie in place is copied if its writer reads the same memory.
            if said < bytes && found == concats(&after) {
                fail(format!("{steps:?}, said {said}"));
            }
            all += u64::from(found != 0);
            idle += u64::from(found != 0 && bytes == 0);
        }
    }
    // The generator would be useless if few of its programs had pieces.
    assert!(
        cases(120) <= part * all && all <= still * idle,
        "{idle} of {all} move nothing"
    );
}

#[test]
fn images_in_pieces_give_the_numbers_of_the_reference() {
    runs_in_pieces(images, [4, 2]);
}

#[test]
fn tokens_in_pieces_give_the_numbers_of_the_reference() {
    runs_in_pieces(tokens, [2, 12]);
}

#[test]
fn small_models_give_the_numbers_of_the_reference() {
    let registry = Arc::new(optc_ops::registry());
    for path in files(&root().join("tests/models"), "onnx") {
        let bytes = std::fs::read(&path).expect("a model can be read");
        let import = optc_onnx::import(&bytes, &optc_onnx::Options::default());
        let module = import.expect("it imports").module;
        for (target, passes) in [
            (target("cpu"), "canonicalize,bufferize,plan-memory"),
            (target("cpu"), FOLD),
            (target("tpu"), FOLD),
            (npu16(), FOLD),
        ] {
            let after = planned(&module, passes, &target, &registry);
            let after = after.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let same = agrees(&module, &after, 1);
            same.unwrap_or_else(|e| panic!("{} on {}: {e}", path.display(), target.name));
        }
    }
}

/// The steps of a program after some passes; the program must compute the same as the reference.
fn steps_of(text: &str, passes: &str) -> Vec<StepProfile> {
    let registry = Arc::new(optc_ops::registry());
    let module = parse(text);
    let after = planned(&module, passes, &target("cpu"), &registry);
    let after = after.unwrap_or_else(|d| panic!("{d}"));
    for seed in 0..4 {
        agrees(&module, &after, seed).unwrap_or_else(|why| panic!("{why}"));
    }
    profiled(&module, &after, &registry).steps
}

/// The profile of a run of a planned program, on inputs and poisoned memory.
fn profiled(module: &Module, after: &Module, registry: &Registry) -> optc_exec::Profile {
    profiled_with(module, after, registry, &poisoned(false))
}

fn profiled_with(
    module: &Module,
    after: &Module,
    registry: &Registry,
    options: &ExecOptions,
) -> optc_exec::Profile {
    let bindings = small_bindings(module);
    let main = &module.funcs[0].name;
    let inputs = random_inputs(module, main, Fill::Normal, 1, &bindings, registry);
    let inputs = inputs.expect("inputs of known sizes");
    let made = Executable::new(
        after,
        registry,
        main,
        &inputs,
        &RandomSource,
        &bindings,
        options,
    );
    let made = made.unwrap_or_else(|d| panic!("{}", words(&[*d])));
    made.profile(&inputs).expect("it runs").1
}

/// The steps of a program that only move, with their bytes, and the bytes that the statistics of the fold report.
pub(crate) fn moved(
    module: &Module,
    after: &Module,
    registry: &Registry,
) -> (Vec<(String, u64)>, u64) {
    let profile = profiled(module, after, registry);
    let stats = Stats::at(after, registry, &SizeTable::new(&IndexMap::new()));
    let said = stats.movement_bytes + stats.copy_bytes + stats.expand_bytes;
    let steps = profile.steps.iter().filter(|s| s.moved + s.staged != 0);
    let steps = steps.map(|s| (format!("{} by {}", s.op, s.kernel), s.moved + s.staged));
    (steps.collect(), said)
}

#[test]
fn what_the_fold_calls_free_moves_nothing() {
    let registry = Arc::new(optc_ops::registry());
    let (mut free, mut all) = (0, 0);
    let mut tally = Tally::default();
    let blocks = files(&root().join("tests/blocks"), "ir");
    for path in files(&root().join("tests/models"), "onnx")
        .into_iter()
        .chain(blocks)
    {
        let module = match path.extension().is_some_and(|e| e == "onnx") {
            true => {
                let bytes = std::fs::read(&path).expect("a model can be read");
                let import = optc_onnx::import(&bytes, &optc_onnx::Options::default());
                import.expect("it imports").module
            }
            false => parse(&std::fs::read_to_string(&path).expect("it can be read")),
        };
        // Calls copy their arguments, so they are inlined.
        let passes = format!("inline,{FOLD}");
        let after = match planned(&module, &passes, &target("cpu"), &registry) {
            Ok(after) => after,
            Err(why) => {
                tally.leave_out(format!("{}: {why}", path.display()));
                continue;
            }
        };
        tally.compared();
        let (steps, said) = moved(&module, &after, &registry);
        let found: u64 = steps.iter().map(|(_, bytes)| bytes).sum();
        assert!(found <= said, "{}: {steps:?}, said {said}", path.display());
        all += 1;
        free += usize::from(found == 0);
    }
    tally.leaves_out_at_most_one_in(10);
    assert!(10 <= all && all < 2 * free, "{free} of {all} move nothing");
}

/// The number of elements that are still moved after a block is folded: the channels that are not convolved are read
/// and written.
const BOUND: &[(&str, u64)] = &[
    ("swin_window", 0),
    ("shufflenet_unit", 10 * 6 * 6),
    ("shufflenet_units", 0),
    ("pixel_shuffle", 0),
    ("heads_197", 0),
    ("heads_512", 0),
];

/// Compares with the reference. Integers may seldom differ by one step, if a rounded value was itself computed from
/// rounded values.
fn near(found: &Tensor, wanted: &Tensor) -> Result<(), String> {
    if wanted.dtype.is_float() {
        return compare(found, wanted).map_err(|e| e.to_string());
    }
    let off = |i: usize| (found.i64_at(i) - wanted.i64_at(i)).abs();
    let most = (0..wanted.len()).map(off).max().unwrap_or(0);
    let some = (0..wanted.len()).filter(|&i| off(i) != 0).count();
    match most <= 1 && some * 500 <= wanted.len() {
        true => Ok(()),
        false => Err(format!(
            "{some} of {} differ, by up to {most}",
            wanted.len()
        )),
    }
}

#[test]
fn blocks_that_layouts_bound_move_what_is_said() {
    let registry = Arc::new(optc_ops::registry());
    let bindings = Bindings::default();
    for block in Numbers::ALL.iter().flat_map(|&n| blocks(n, true)) {
        let module = parse(&block.text);
        let fail = |why: String| -> ! { panic!("{}: {why}", block.name) };
        let folded = planned(&module, FOLD, &target("cpu"), &registry).unwrap_or_else(|e| fail(e));
        let before = planned(&module, PLAN, &target("cpu"), &registry).unwrap_or_else(|e| fail(e));
        let inputs = random_inputs(&module, "main", Fill::Normal, 3, &bindings, &registry);
        let inputs = inputs.unwrap_or_else(|e| fail(e.to_string()));
        let wanted = run_reference(
            &module,
            &registry,
            "main",
            &inputs,
            &RandomSource,
            &bindings,
        );
        let wanted = wanted.unwrap_or_else(|e| fail(e.to_string()));
        for after in [&before, &folded] {
            let naive = run_naive(after, &registry, "main", &inputs, &RandomSource, &bindings);
            let naive = naive.unwrap_or_else(|e| fail(e.to_string()));
            for generic in [true, false] {
                let found = physical(after, &inputs, &RandomSource, &bindings, &poisoned(generic));
                let found = found.unwrap_or_else(|d| fail(words(&[*d])));
                for ((found, naive), wanted) in
                    found.values().zip(naive.values()).zip(wanted.values())
                {
                    compare_exact(naive, wanted).unwrap_or_else(|e| fail(e.to_string()));
                    match generic {
                        true => {
                            compare_exact(found, wanted).unwrap_or_else(|e| fail(e.to_string()))
                        }
                        false => near(found, wanted).unwrap_or_else(|e| fail(e)),
                    }
                }
            }
        }
        let (steps, said) = moved(&module, &folded, &registry);
        let found: u64 = steps.iter().map(|(_, bytes)| bytes).sum();
        let known = BOUND
            .iter()
            .find(|(name, _)| block.name.starts_with(&format!("{name}_")));
        let (_, elements) = known.unwrap_or_else(|| fail("it is not in the list".to_owned()));
        let bytes = 2 * elements * block.numbers.bytes() as u64;
        assert_eq!([found, said], [bytes; 2], "{}: {steps:?}", block.name);
        let unfolded = profiled(&module, &before, &registry).moved();
        assert!(
            6 * found <= unfolded,
            "{}: {found} of {unfolded}",
            block.name
        );
        let plain = |s: &&StepProfile| matches!(s.kernel, "generic" | "each");
        let steps = profiled(&module, &folded, &registry).steps;
        assert_eq!(steps.iter().find(plain), None, "{}", block.name);
    }
}

/// Operations at sizes for which kernels take different paths. `{…}` is an order; the last type is the result's.
const LARGER: &[(&str, &[&str], &str)] = &[
    // Rows in parallel: 64 and 16 at once, with overlapping last ones; rows at distances of whole pages; short rows.
    (
        r#""hbir.softmax"(%0) <{axis = 2}>"#,
        &["3x75x20xf32, {order = [0, 2, 1]}"],
        "3x75x20xf32, {order = [0, 2, 1]}",
    ),
    (
        r#""hbir.softmax"(%0) <{axis = 2}>"#,
        &["2x1024x5xf32, {order = [2, 0, 1]}"],
        "2x1024x5xf32",
    ),
    (
        r#""hbir.softmax"(%0) <{axis = 1}>"#,
        &["43x5xf32"],
        "43x5xf32",
    ),
    // A scale and a bias with more dimensions than are normalized.
    (
        r#""hbir.layer_norm"(%0, %1, %2) <{axis = 3, epsilon = 1.0e-05}>"#,
        &["5x3x4x33xf32", "1x1x1x33xf32", "1x33xf32"],
        "5x3x4x33xf32",
    ),
    (
        r#""hbir.layer_norm"(%0, %1, %2) <{axis = 1, epsilon = 1.0e-05}>"#,
        &["90x33xf32, {order = [1, 0]}", "33xf32", "33xf32"],
        "90x33xf32, {order = [1, 0]}",
    ),
    (
        r#""hbir.layer_norm"(%0, %1, %2) <{axis = 1, epsilon = 1.0e-05}>"#,
        &["1024x9xf32, {order = [1, 0]}", "9xf32", "9xf32"],
        "1024x9xf32, {order = [1, 0]}",
    ),
    (
        r#""hbir.reduce"(%0) <{axes = [2], keepdims = false, kind = "l2"}>"#,
        &["2x70x9xf32, {order = [0, 2, 1]}"],
        "2x70xf32",
    ),
    (
        r#""hbir.reduce"(%0) <{axes = [1], keepdims = true, kind = "max"}>"#,
        &["150x11xf32, {order = [1, 0]}"],
        "150x1xf32",
    ),
    // Element-wise operations across lines, and in short loops.
    (
        r#""hbir.add"(%0, %1)"#,
        &["70x50xf32", "70x50xf32, {order = [1, 0]}"],
        "70x50xf32",
    ),
    (
        r#""hbir.mul"(%0, %1)"#,
        &["3x40x7xf32, {order = [2, 0, 1]}", "7xf32"],
        "3x40x7xf32",
    ),
    (
        r#""hbir.sub"(%0, %1)"#,
        &["5x33x18xf32, {order = [1, 2, 0]}", "5x33x18xf32"],
        "5x33x18xf32, {order = [0, 2, 1]}",
    ),
    (
        r#""hbir.select"(%0, %1, %2)"#,
        &["40x1xi1", "40x30xf32, {order = [1, 0]}", "f32"],
        "40x30xf32",
    ),
    // Products: several blocks of terms, results not in place, consecutive rows, few rows.
    (
        r#""hbir.matmul"(%0, %1)"#,
        &["61x600xf32", "600x50xf32"],
        "61x50xf32, {order = [1, 0]}",
    ),
    (
        r#""hbir.matmul"(%0, %1)"#,
        &[
            "61x300xf32, {order = [1, 0]}",
            "300x70xf32, {order = [1, 0]}",
        ],
        "61x70xf32",
    ),
    (
        r#""hbir.matmul"(%0, %1)"#,
        &["4x6x8x20xf32, {order = [3, 1, 0, 2]}", "20x40xf32"],
        "4x6x8x40xf32",
    ),
    (
        r#""hbir.matmul"(%0, %1)"#,
        &["3x500xf32", "500x96xf32"],
        "3x96xf32",
    ),
    (
        r#""hbir.matmul"(%0, %1)"#,
        &[
            "5x13x20xf32, {order = [1, 0, 2]}",
            "5x20x30xf32, {order = [2, 0, 1]}",
        ],
        "5x13x30xf32, {order = [1, 2, 0]}",
    ),
    // Rows in pieces of 8, columns in lines of 10; columns in pieces of 14; results written across lines, also with
    // several blocks of terms.
    (
        r#""hbir.matmul"(%0, %1)"#,
        &[
            "4x64x20xf32, {block = \"8H8W\", order = [2, 0, 1]}",
            "20x60xf32",
        ],
        "4x64x60xf32, {block = \"10C\", order = [0, 2, 1]}",
    ),
    (
        r#""hbir.matmul"(%0, %1)"#,
        &["4x42x20xf32, {order = [2, 0, 1]}", "20x40xf32"],
        "4x42x40xf32, {block = \"14W\", order = [2, 1, 0]}",
    ),
    (
        r#""hbir.matmul"(%0, %1)"#,
        &["3x101x300xf32", "300x43xf32"],
        "3x101x43xf32, {order = [2, 0, 1]}",
    ),
    (
        r#""hbir.matmul"(%0, %1)"#,
        &["2x30x14xf32", "2x14x45xf32"],
        "2x30x45xf32, {order = [1, 2, 0]}",
    ),
    // Depthwise convolutions, along rows and along channels.
    (
        r#""hbir.conv"(%0, %1) <{dilations = [1, 1], group = 37, pads = [3, 3, 3, 3], strides = [1, 1]}>"#,
        &["2x37x9x11xf32, {order = [0, 2, 3, 1]}", "37x1x7x7xf32"],
        "2x37x9x11xf32, {order = [0, 2, 3, 1]}",
    ),
    (
        r#""hbir.conv"(%0, %1) <{dilations = [1, 1], group = 18, pads = [1, 2, 1, 2], strides = [2, 2]}>"#,
        &["1x18x5x3xf32, {order = [0, 2, 3, 1]}", "18x1x3x5xf32"],
        "1x18x3x2xf32, {order = [0, 2, 3, 1]}",
    ),
    (
        r#""hbir.conv"(%0, %1) <{dilations = [2, 1], group = 4, pads = [2, 1, 2, 1], strides = [1, 2]}>"#,
        &["1x4x11x41xf32", "4x1x3x3xf32"],
        "1x4x11x21xf32, {order = [0, 1, 3, 2]}",
    ),
    // One number for each short line.
    (
        r#""hbir.max"(%0, %1)"#,
        &["7x12x10xf32", "7x12x1xf32"],
        "7x12x10xf32",
    ),
    (
        r#""hbir.mul"(%0, %1)"#,
        &["5x9x33xf32, {order = [1, 0, 2]}", "1x9x33xf32"],
        "5x9x33xf32",
    ),
    // Windows over few innermost channels, and pools along lines.
    (
        r#""hbir.conv"(%0, %1) <{dilations = [1, 1], group = 1, pads = [1, 1, 1, 1], strides = [1, 1]}>"#,
        &["2x6x11x13xf32, {order = [0, 2, 3, 1]}", "9x6x3x3xf32"],
        "2x9x11x13xf32, {order = [0, 2, 3, 1]}",
    ),
    (
        r#""hbir.conv"(%0, %1) <{dilations = [2, 2], group = 1, pads = [2, 2, 2, 2], strides = [2, 2]}>"#,
        &["1x5x12x14xf32, {order = [0, 2, 3, 1]}", "4x5x3x3xf32"],
        "1x4x6x7xf32, {order = [0, 2, 3, 1]}",
    ),
    (
        r#""hbir.max_pool"(%0) <{kernel = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]}>"#,
        &["1x3x80x81xf32"],
        "1x3x40x41xf32",
    ),
    (
        r#""hbir.avg_pool"(%0) <{kernel = [3, 3], pads = [1, 1, 1, 1], strides = [1, 1]}>"#,
        &["1x2x9x50xf32"],
        "1x2x9x50xf32",
    ),
    // Rows of whole vectors, where panels have one vector, two, or parts of two; with a stride, and with an odd number
    // of vectors.
    (
        r#""hbir.conv"(%0, %1) <{pads = [1, 1, 1, 1]}>"#,
        &["1x5x9x32xf32", "17x5x3x3xf32"],
        "1x17x9x32xf32",
    ),
    (
        r#""hbir.conv"(%0, %1) <{pads = [1, 2, 1, 2], strides = [1, 2], dilations = [1, 2], group = 2}>"#,
        &["2x6x7x96xf32", "14x3x3x3xf32"],
        "2x14x7x48xf32",
    ),
    (
        r#""hbir.conv"(%0, %1) <{pads = [2, 2]}>"#,
        &["2x3x40xf32", "5x3x5xf32"],
        "2x5x40xf32",
    ),
    // Transposed: positions of the result that read different positions of the kernel, or none; groups, and cropped
    // dimensions.
    (
        r#""hbir.conv"(%0, %1) <{transposed = true, strides = [2, 2], pads = [1, 0, 1, 1], output_padding = [1, 0]}>"#,
        &["2x5x6x7xf32", "5x9x3x4xf32"],
        "2x9x12x15xf32",
    ),
    (
        r#""hbir.conv"(%0, %1) <{transposed = true, strides = [2, 3], dilations = [2, 1], group = 2}>"#,
        &["1x4x5x6xf32, {order = [0, 2, 3, 1]}", "4x3x2x2xf32"],
        "1x6x11x17xf32, {order = [0, 2, 3, 1]}",
    ),
    (
        r#""hbir.conv"(%0, %1) <{transposed = true, strides = [2], pads = [4, 3]}>"#,
        &["2x3x17xf32", "3x8x5xf32"],
        "2x8x30xf32, {order = [0, 2, 1]}",
    ),
    // Interpolation: along rows and across them, in one dimension and in several, in other orders, and of the nearest
    // elements.
    (
        r#""hbir.resize"(%0) <{scales = [1.0, 1.0, 2.0, 2.0], mode = "linear"}>"#,
        &["2x3x9x21xf32"],
        "2x3x18x42xf32",
    ),
    (
        r#""hbir.resize"(%0) <{scales = [1.0, 1.0, 2.0, 2.0]}>"#,
        &["1x18x7x5xf32, {order = [0, 2, 3, 1]}"],
        "1x18x14x10xf32, {order = [0, 2, 3, 1]}",
    ),
    (
        r#""hbir.resize"(%0) <{sizes = [2.0, 3.0, 11.0, 40.0], mode = "cubic", exclude_outside = true}>"#,
        &["2x3x8x19xf32, {order = [0, 2, 3, 1]}"],
        "2x3x11x40xf32, {order = [0, 2, 3, 1]}",
    ),
    (
        r#""hbir.resize"(%0) <{sizes = [1.0, 2.0, 5.0, 9.0], mode = "linear", antialias = true, coordinate_transformation_mode = "align_corners"}>"#,
        &["1x2x20x31xf32"],
        "1x2x5x9xf32, {order = [3, 0, 1, 2]}",
    ),
    (
        r#""hbir.resize"(%0) <{scales = [2.0, 1.0, 0.5], mode = "linear"}>"#,
        &["6x17x10xf32, {order = [2, 0, 1]}"],
        "12x17x5xf32",
    ),
];

/// More operations of `f32` only: depthwise convolutions with a bias.
const BIASED: &[(&str, &[&str], &str)] = &[
    // A bias that varies along a dimension that is not normalized, so no kernel of rows applies.
    (
        r#""hbir.layer_norm"(%0, %1, %2) <{axis = 2, epsilon = 1.0e-05}>"#,
        &["5x3x4x9xf32", "1x4x9xf32", "3x1x9xf32"],
        "5x3x4x9xf32",
    ),
    (
        r#""hbir.conv"(%0, %1, %2) <{dilations = [1, 2], group = 70, pads = [0, 1, 2, 3], strides = [2, 1]}>"#,
        &[
            "1x70x6x7xf32, {order = [0, 2, 3, 1]}",
            "70x1x3x2xf32",
            "70xf32",
        ],
        "1x70x3x9xf32, {order = [0, 3, 2, 1]}",
    ),
    (
        r#""hbir.conv"(%0, %1, %2) <{dilations = [1, 1], group = 3, pads = [2, 2, 2, 2], strides = [1, 1]}>"#,
        &["1x3x21x35xf32", "6x1x5x5xf32", "6xf32"],
        "1x6x21x35xf32",
    ),
];

/// A program of one operation.
fn single(operation: &str, operands: &[&str], result: &str) -> String {
    let list = |each: &dyn Fn(usize, &str) -> String| {
        let all = operands.iter().enumerate().map(|(i, ty)| each(i, ty));
        all.collect::<Vec<_>>().join(", ")
    };
    let operation = operation.replace('%', "%x");
    let arguments = list(&|i, ty| format!("%x{i}: tensor<{ty}>"));
    let types = list(&|_, ty| format!("tensor<{ty}>"));
    format!(
        "func.func @main({arguments}) -> tensor<{result}> {{\n  %y = {operation} : ({types}) -> tensor<{result}>\n  \
         return %y : tensor<{result}>\n}}\n"
    )
}

#[test]
fn kernels_of_larger_sizes_give_the_numbers_of_the_reference() {
    let registry = Arc::new(optc_ops::registry());
    for (operation, operands, result) in LARGER.iter().chain(BIASED) {
        let text = single(operation, operands, result);
        let module = parse(&text);
        let after = planned(&module, PLAN, &target("cpu"), &registry);
        let after = after.unwrap_or_else(|d| panic!("{text}{d}"));
        agrees(&module, &after, 5).unwrap_or_else(|why| panic!("{text}{why}"));
    }
}

/// The same operations, and all others that are not for floats only, have kernels for other types too.
#[test]
fn kernels_of_narrow_types_give_the_numbers_of_the_reference() {
    let registry = Arc::new(optc_ops::registry());
    let floats = [
        "softmax",
        "layer_norm",
        "avg_pool",
        "reduce",
        "max_pool",
        "resize",
    ];
    let mut ran = 0;
    for (operation, operands, result) in LARGER {
        let of = |names: &[&str]| {
            let name = operation.split('"').nth(1).unwrap_or_default();
            names.contains(&name.trim_start_matches("hbir."))
        };
        let sums = of(&["matmul", "conv"]);
        for (dtype, to) in [
            ("bf16", "bf16"),
            ("f16", "f16"),
            ("bf16", "f32"),
            ("f16", "f32"),
            ("si8", "si8"),
            ("ui8", "ui8"),
            ("si8", "si32"),
            ("ui8", "si32"),
            ("si32", "si32"),
        ] {
            if of(&floats) && !dtype.contains('f') || dtype != to && !sums {
                continue;
            }
            let operation = match (dtype == to, operation.split_once("<{")) {
                (true, _) => (*operation).to_owned(),
                (false, None) => format!("{operation} <{{to = {to}}}>"),
                (false, Some((head, tail))) => format!("{head}<{{to = {to}, {tail}"),
            };
            let operands: Vec<String> =
                operands.iter().map(|ty| ty.replace("f32", dtype)).collect();
            let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
            let text = single(&operation, &operands, &result.replace("f32", to));
            let module = parse(&text);
            let after = planned(&module, PLAN, &target("cpu"), &registry);
            let after = after.unwrap_or_else(|d| panic!("{text}{d}"));
            agrees(&module, &after, 5).unwrap_or_else(|why| panic!("{text}{why}"));
            let steps = profiled(&module, &after, &registry).steps;
            let kernels: Vec<&str> = steps.iter().map(|s| s.kernel).collect();
            let plain = kernels.iter().any(|k| matches!(*k, "generic" | "each"));
            assert!(!plain, "{kernels:?}\n{text}");
            ran += 1;
        }
    }
    assert!(100 <= ran, "{ran}");
}

/// Conversions of element types, which must agree exactly with the reference.
const CHANGED: &[(&str, &[&str], &str)] = &[
    (
        r#""hbir.cast"(%0) <{to = si8}>"#,
        &["40x30xf32"],
        "40x30xsi8",
    ),
    (
        r#""hbir.cast"(%0) <{to = ui8}>"#,
        &["40x30xf32, {order = [1, 0]}"],
        "40x30xui8",
    ),
    (
        r#""hbir.cast"(%0) <{to = si32}>"#,
        &["40x30xbf16"],
        "40x30xsi32",
    ),
    (
        r#""hbir.cast"(%0) <{to = f16}>"#,
        &["40x30xsi8, {order = [1, 0]}"],
        "40x30xf16",
    ),
    (
        r#""hbir.cast"(%0) <{to = ui8}>"#,
        &["40x30xsi32"],
        "40x30xui8",
    ),
    (
        r#""hbir.cast"(%0) <{to = bf16}>"#,
        &["40x30xf32"],
        "40x30xbf16, {order = [1, 0]}",
    ),
    (
        r#""hbir.quantize"(%0, %1) <{to = si8}>"#,
        &["40x30xf32", "f32"],
        "40x30xsi8",
    ),
    (
        r#""hbir.quantize"(%0, %1, %2) <{axis = -1}>"#,
        &["40x30xf32, {order = [1, 0]}", "30xf32", "30xui8"],
        "40x30xui8",
    ),
    (
        r#""hbir.dequantize"(%0, %1)"#,
        &["40x30xsi32", "f32"],
        "40x30xf32",
    ),
    (
        r#""hbir.dequantize"(%0, %1, %2) <{axis = 1}>"#,
        &["40x30xsi8", "30xf32", "30xsi8"],
        "40x30xf32, {order = [1, 0]}",
    ),
    (
        r#""hbir.cast"(%0) <{to = i1}>"#,
        &["40x30xf16, {order = [1, 0]}"],
        "40x30xi1",
    ),
    (
        r#""hbir.cast"(%0) <{to = si32}>"#,
        &["40x30xi1"],
        "40x30xsi32",
    ),
    (
        r#""hbir.compare"(%0, %1) <{direction = "le"}>"#,
        &["40x1xsi32", "30xsi32"],
        "40x30xi1",
    ),
    (
        r#""hbir.compare"(%0, %1) <{direction = "ne"}>"#,
        &["40x30xi1, {order = [1, 0]}", "30xi1"],
        "40x30xi1",
    ),
    (
        r#""hbir.compare"(%0, %1) <{direction = "gt"}>"#,
        &["40x30xbf16", "40x30xbf16, {order = [1, 0]}"],
        "40x30xi1",
    ),
    (
        r#""hbir.xor"(%0, %1)"#,
        &["40x30xi1", "40x1xi1"],
        "40x30xi1",
    ),
    (
        r#""hbir.mul"(%0, %1)"#,
        &["40x30xi1", "40x30xi1"],
        "40x30xi1, {order = [1, 0]}",
    ),
];

/// Operations on element types that are not 32 bits wide.
const WIDE: &[(&str, &[&str], &str)] = &[
    (
        r#""hbir.compare"(%0, %1) <{direction = "lt"}>"#,
        &["40x1xsi64", "30xsi64"],
        "40x30xi1",
    ),
    (
        r#""hbir.cast"(%0) <{to = f32}>"#,
        &["7x3000xsi64, {order = [1, 0]}"],
        "7x3000xf32",
    ),
    (
        r#""hbir.cast"(%0) <{to = si64}>"#,
        &["40x30xi1"],
        "40x30xsi64",
    ),
    (
        r#""hbir.cast"(%0) <{to = bf16}>"#,
        &["40x30xf64"],
        "40x30xbf16, {order = [1, 0]}",
    ),
    (
        r#""hbir.div"(%0, %1)"#,
        &["40x30xsi64", "30xsi64"],
        "40x30xsi64",
    ),
    (
        r#""hbir.max"(%0, %1)"#,
        &["40x30xf64, {order = [1, 0]}", "40x30xf64"],
        "40x30xf64",
    ),
    (
        r#""hbir.sub"(%0, %1)"#,
        &["40x30xui16", "40x1xui16"],
        "40x30xui16",
    ),
    (
        r#""hbir.cast"(%0) <{to = i1}>"#,
        &["40x30xsi64"],
        "40x30xi1",
    ),
];

#[test]
fn wide_elements_give_the_numbers_of_the_reference() {
    let registry = Arc::new(optc_ops::registry());
    for (operation, operands, result) in WIDE {
        let text = single(operation, operands, result);
        let module = parse(&text);
        let after = planned(&module, PLAN, &target("cpu"), &registry);
        let after = after.unwrap_or_else(|d| panic!("{text}{d}"));
        for seed in 0..4 {
            agrees(&module, &after, seed).unwrap_or_else(|why| panic!("{text}{why}"));
        }
        let steps = profiled(&module, &after, &registry).steps;
        assert!(
            steps.iter().all(|s| s.kernel == "wide"),
            "{steps:?}\n{text}"
        );
    }
}

/// A recurrent network of 5 steps and 3 sequences, with inputs of 7 numbers and states of 20; with lengths if the
/// attributes say so.
fn network(cell: &str, attributes: &str, known: bool, [directions, states]: [usize; 2]) -> String {
    let gates = match cell {
        "lstm" => 4,
        "gru" => 3,
        _ => 1,
    };
    let (rows, kept) = (gates * 20, if cell == "lstm" { 2 } else { 1 });
    let weights = [
        format!("tensor<{directions}x{rows}x7x@>"),
        format!("tensor<{directions}x{rows}x20x@>"),
        format!("tensor<{directions}x{}x@>", 2 * rows),
    ];
    let state = format!("tensor<{directions}x3x20x@, {{order = [1, 2, 0]}}>");
    let mut arguments = vec!["%x: tensor<5x3x7x@, {order = [1, 0, 2]}>".to_owned()];
    let (mut lines, mut names) = (String::new(), vec!["%x".to_owned()]);
    let mut types = vec!["tensor<5x3x7x@, {order = [1, 0, 2]}>".to_owned()];
    for (i, ty) in weights.into_iter().enumerate() {
        match known {
            true => {
                lines += &format!(
                    "  %w{i} = \"hbir.constant\"() <{{data = #hbir.external<\"w{i}\", 0, @{i}>}}> : () -> {ty}\n"
                )
            }
            false => arguments.push(format!("%w{i}: {ty}")),
        }
        names.push(format!("%w{i}"));
        types.push(ty);
    }
    for i in 0..states {
        arguments.push(format!("%h{i}: {state}"));
        names.push(format!("%h{i}"));
        types.push(state.clone());
    }
    if attributes.contains("lengths") {
        let ty = "tensor<3xsi32>";
        lines += &format!(
            "  %n = \"hbir.constant\"() <{{value = dense<[3, 0, 5]> : {ty}}}> : () -> {ty}\n"
        );
        names.push("%n".to_owned());
        types.push(ty.to_owned());
    }
    let mut results = vec![format!(
        "tensor<5x{directions}x3x20x@, {{order = [2, 0, 1, 3]}}>"
    )];
    results.resize(1 + kept, format!("tensor<{directions}x3x20x@>"));
    let given: Vec<String> = (0..=kept).map(|i| format!("%{i}")).collect();
    let (results, given) = (results.join(", "), given.join(", "));
    format!(
        "func.func @main({}) -> ({results}) {{\n{lines}  {given} = \"hbir.recurrent\"({}) \
         <{{cell = \"{cell}\", {attributes}}}> : ({}) -> ({results})\n  return {given} : {results}\n}}\n",
        arguments.join(", "),
        names.join(", "),
        types.join(", "),
    )
}

#[test]
fn recurrent_networks_give_the_numbers_of_the_reference() {
    let registry = Arc::new(optc_ops::registry());
    let mut ran = 0;
    for cell in ["lstm", "gru", "plain"] {
        let kept = if cell == "lstm" { 2 } else { 1 };
        for direction in ["forward", "reverse", "bidirectional"] {
            let directions = if direction == "bidirectional" { 2 } else { 1 };
            for (linear, known, states, dtype, lengths) in [
                (true, true, 0, "f32", false),
                (true, false, kept, "f32", false),
                (false, true, kept, "f32", false),
                (false, false, 0, "f16", false),
                (true, true, kept, "bf16", false),
                (true, true, kept, "f32", true),
                (false, true, 0, "f32", true),
            ] {
                let mut attributes = format!("direction = \"{direction}\"");
                if lengths {
                    attributes += ", lengths = true";
                }
                if cell == "gru" {
                    attributes += &format!(", linear_before_reset = {linear}");
                }
                let text = network(cell, &attributes, known, [directions, states]);
                let gates = [("lstm", 4), ("gru", 3), ("plain", 1)];
                let gates = gates
                    .iter()
                    .find(|own| own.0 == cell)
                    .map_or(0, |own| own.1);
                let mut text = text;
                for (i, terms) in [7, 20, 2].into_iter().enumerate() {
                    let bytes =
                        directions * gates * 20 * terms * if dtype == "f32" { 4 } else { 2 };
                    text = text.replace(&format!("@{i}"), &bytes.to_string());
                }
                let text = text.replace("x@", &format!("x{dtype}"));
                let module = parse(&text);
                let after = planned(&module, PLAN, &target("cpu"), &registry);
                let after = after.unwrap_or_else(|d| panic!("{text}{d}"));
                agrees(&module, &after, ran).unwrap_or_else(|why| panic!("{text}{why}"));
                let steps = profiled(&module, &after, &registry).steps;
                let kernels: Vec<&str> = steps.iter().map(|s| s.kernel).collect();
                assert!(kernels.contains(&"recurrent"), "{kernels:?}\n{text}");
                ran += 1;
            }
        }
    }
}

/// Operations that select elements by numbers, with the types of operands and results.
const FOUND: &[(&str, &[&str], &[&str])] = &[
    (
        r#""hbir.top_k"(%0) <{axis = 1, k = 7}>"#,
        &["5x90x4xf32"],
        &["5x7x4xf32", "5x7x4xsi64"],
    ),
    // All elements, in ascending order.
    (
        r#""hbir.top_k"(%0) <{k = 40, largest = false}>"#,
        &["3x40xf16, {order = [1, 0]}"],
        &["3x40xf16", "3x40xsi64, {order = [1, 0]}"],
    ),
    // Many equal elements.
    (
        r#""hbir.top_k"(%0) <{axis = 0, k = 50}>"#,
        &["300x3xsi8"],
        &["50x3xsi8", "50x3xsi64"],
    ),
    (
        r#""hbir.top_k"(%0) <{axis = 0, k = 2, largest = false}>"#,
        &["9xsi32"],
        &["2xsi32", "2xsi64"],
    ),
    (
        r#""hbir.gather_elements"(%0, %1) <{axis = 1}>"#,
        &["4x9x3xf32", "4x5x2xsi64"],
        &["4x5x2xf32"],
    ),
    (
        r#""hbir.gather_elements"(%0, %1) <{axis = 0}>"#,
        &["6x4xsi8, {order = [1, 0]}", "8x4xsi32, {order = [1, 0]}"],
        &["8x4xsi8"],
    ),
    (
        r#""hbir.scatter_elements"(%0, %1, %2) <{axis = 1}>"#,
        &["4x9x3xf64, {order = [2, 0, 1]}", "4x5x2xsi64", "4x5x2xf64"],
        &["4x9x3xf64"],
    ),
    (
        r#""hbir.scatter_elements"(%0, %1, %2) <{axis = 0, reduction = "add"}>"#,
        &["5x6xf32", "40x6xsi32", "40x6xf32, {order = [1, 0]}"],
        &["5x6xf32"],
    ),
    (
        r#""hbir.grid_sample"(%0, %1)"#,
        &["2x3x7x9xf32", "2x4x5x2xf32"],
        &["2x3x4x5xf32"],
    ),
    (
        r#""hbir.grid_sample"(%0, %1) <{mode = "nearest", padding_mode = "border", align_corners = true}>"#,
        &["2x3x7x9xbf16, {order = [0, 2, 3, 1]}", "2x4x5x2xf32"],
        &["2x3x4x5xbf16, {order = [0, 2, 3, 1]}"],
    ),
    (
        r#""hbir.grid_sample"(%0, %1) <{mode = "cubic", padding_mode = "reflection"}>"#,
        &["1x2x6x5xf32", "1x8x3x2xf32, {order = [0, 3, 1, 2]}"],
        &["1x2x8x3xf32"],
    ),
    (
        r#""hbir.grid_sample"(%0, %1) <{padding_mode = "border"}>"#,
        &["2x3x4x3x5xf16", "2x2x3x4x3xf16"],
        &["2x3x2x3x4xf16"],
    ),
];

#[test]
fn elements_that_are_found_by_numbers_are_those_of_the_reference() {
    let registry = Arc::new(optc_ops::registry());
    for (operation, operands, results) in FOUND {
        let tensor = |ty: &&str| format!("tensor<{ty}>");
        let operands: Vec<String> = operands.iter().map(tensor).collect();
        let results: Vec<String> = results.iter().map(tensor).collect();
        let given: Vec<String> = (0..results.len()).map(|i| format!("%r{i}")).collect();
        let args = operands.iter().enumerate();
        let args: Vec<String> = args.map(|(i, ty)| format!("%{i}: {ty}")).collect();
        let (given, results) = (given.join(", "), results.join(", "));
        let text = format!(
            "func.func @main({}) -> ({results}) {{\n  {given} = {operation} : ({}) -> ({results})\n  return {given} : {results}\n}}\n",
            args.join(", "),
            operands.join(", "),
        );
        let module = parse(&text);
        let after = planned(&module, PLAN, &target("cpu"), &registry);
        let after = after.unwrap_or_else(|d| panic!("{text}{d}"));
        for seed in 0..6 {
            agrees(&module, &after, seed).unwrap_or_else(|why| panic!("{text}{why}"));
        }
        let steps = profiled(&module, &after, &registry).steps;
        let own = ["top_k", "gather", "scatter", "sample"];
        assert!(
            steps.iter().all(|s| own.contains(&s.kernel)),
            "{steps:?}\n{text}"
        );
    }
}

#[test]
fn numbers_change_their_type_in_chains() {
    let registry = Arc::new(optc_ops::registry());
    for (operation, operands, result) in CHANGED {
        let text = single(operation, operands, result);
        let module = parse(&text);
        let after = planned(&module, PLAN, &target("cpu"), &registry);
        let after = after.unwrap_or_else(|d| panic!("{text}{d}"));
        for seed in 0..8 {
            agrees(&module, &after, seed).unwrap_or_else(|why| panic!("{text}{why}"));
        }
        let steps = profiled(&module, &after, &registry).steps;
        let chains = ["elementwise", "chain"];
        assert!(
            steps.iter().all(|s| chains.contains(&s.kernel)),
            "{steps:?}\n{text}"
        );
    }
}

/// Additions that may be fused into contractions: of two products, of a product to itself, of a value that is read
/// again, of one that broadcasts, of a residual that is dead afterwards, and of a product with other readers.
const ADDED: &str = r#"
func.func @main(%x: tensor<5x7xf32>, %w: tensor<7x6xf32>, %v: tensor<7x6xf32>, %b: tensor<6xf32>, %r: tensor<5x6xf32>)
    -> (tensor<5x6xf32>, tensor<5x6xf32>, tensor<5x6xf32>, tensor<5x6xf32>, tensor<5x6xf32>) {
  %0 = "hbir.matmul"(%x, %w) : (tensor<5x7xf32>, tensor<7x6xf32>) -> tensor<5x6xf32>
  %1 = "hbir.matmul"(%x, %v) : (tensor<5x7xf32>, tensor<7x6xf32>) -> tensor<5x6xf32>
  %2 = "hbir.add"(%0, %1) : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  %3 = "hbir.matmul"(%x, %w) : (tensor<5x7xf32>, tensor<7x6xf32>) -> tensor<5x6xf32>
  %4 = "hbir.add"(%3, %3) : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  %5 = "hbir.matmul"(%x, %v) : (tensor<5x7xf32>, tensor<7x6xf32>) -> tensor<5x6xf32>
  %6 = "hbir.add"(%b, %5) : (tensor<6xf32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  %7 = "hbir.neg"(%r) : (tensor<5x6xf32>) -> tensor<5x6xf32>
  %8 = "hbir.matmul"(%x, %w) : (tensor<5x7xf32>, tensor<7x6xf32>) -> tensor<5x6xf32>
  %9 = "hbir.add"(%7, %8) : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  %10 = "hbir.add"(%9, %6) : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  %11 = "hbir.matmul"(%x, %v) : (tensor<5x7xf32>, tensor<7x6xf32>) -> tensor<5x6xf32>
  %12 = "hbir.add"(%11, %r) : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  %13 = "hbir.mul"(%11, %12) : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  return %2, %4, %6, %10, %13 : tensor<5x6xf32>, tensor<5x6xf32>, tensor<5x6xf32>, tensor<5x6xf32>, tensor<5x6xf32>
}
"#;

#[test]
fn what_is_added_to_a_contraction_begins_its_sums() {
    let registry = Arc::new(optc_ops::registry());
    let module = parse(ADDED);
    for passes in [PLAN, FOLD] {
        let after = planned(&module, passes, &target("cpu"), &registry);
        let after = after.unwrap_or_else(|d| panic!("{d}"));
        for seed in 0..4 {
            agrees(&module, &after, seed).unwrap_or_else(|why| panic!("{passes}: {why}"));
        }
    }
    // Two sums of products (one of them of two products), one residual and one bias are no steps of their own.
    let plan = planned(&module, PLAN, &target("cpu"), &registry).unwrap_or_else(|d| panic!("{d}"));
    let profile = profiled(&module, &plan, &registry);
    let by_sums = |s: &&StepProfile| s.kernel == "contract" && s.op == "add";
    assert_eq!(profile.steps.iter().filter(by_sums).count(), 3);
}

/// Residuals stored across lines, and a bias of windows that are rolled back.
const ACROSS: &str = r#"
func.func @main(%x: tensor<4x16x12xf32>, %w: tensor<12x20xf32>, %b: tensor<20xf32>, %r: tensor<4x16x20xf32, {order = [2, 0, 1]}>)
    -> (tensor<4x16x20xf32, {order = [2, 0, 1]}>, tensor<1x8x8x20xf32>) {
  %0 = "hbir.matmul"(%x, %w) : (tensor<4x16x12xf32>, tensor<12x20xf32>) -> tensor<4x16x20xf32, {order = [2, 0, 1]}>
  %1 = "hbir.add"(%0, %r) : (tensor<4x16x20xf32, {order = [2, 0, 1]}>, tensor<4x16x20xf32, {order = [2, 0, 1]}>) -> tensor<4x16x20xf32, {order = [2, 0, 1]}>
  %y = "hbir.neg"(%x) : (tensor<4x16x12xf32>) -> tensor<4x16x12xf32>
  %2 = "hbir.matmul"(%y, %w) : (tensor<4x16x12xf32>, tensor<12x20xf32>) -> tensor<4x16x20xf32>
  %3 = "hbir.add"(%b, %2) : (tensor<20xf32>, tensor<4x16x20xf32>) -> tensor<4x16x20xf32>
  %4 = "hbir.reshape"(%3) <{shape = [1, 2, 2, 4, 4, 20]}> : (tensor<4x16x20xf32>) -> tensor<1x2x2x4x4x20xf32>
  %5 = "hbir.transpose"(%4) <{perm = [0, 1, 3, 2, 4, 5]}> : (tensor<1x2x2x4x4x20xf32>) -> tensor<1x2x4x2x4x20xf32>
  %6 = "hbir.reshape"(%5) <{shape = [1, 8, 8, 20]}> : (tensor<1x2x4x2x4x20xf32>) -> tensor<1x8x8x20xf32>
  %7 = "hbir.slice"(%6) <{limits = [1, 8, 8, 20], starts = [0, 6, 0, 0], strides = [1, 1, 1, 1]}> : (tensor<1x8x8x20xf32>) -> tensor<1x2x8x20xf32>
  %8 = "hbir.slice"(%6) <{limits = [1, 6, 8, 20], starts = [0, 0, 0, 0], strides = [1, 1, 1, 1]}> : (tensor<1x8x8x20xf32>) -> tensor<1x6x8x20xf32>
  %9 = "hbir.concat"(%7, %8) <{axis = 1}> : (tensor<1x2x8x20xf32>, tensor<1x6x8x20xf32>) -> tensor<1x8x8x20xf32>
  %10 = "hbir.slice"(%9) <{limits = [1, 8, 8, 20], starts = [0, 0, 5, 0], strides = [1, 1, 1, 1]}> : (tensor<1x8x8x20xf32>) -> tensor<1x8x3x20xf32>
  %11 = "hbir.slice"(%9) <{limits = [1, 8, 5, 20], starts = [0, 0, 0, 0], strides = [1, 1, 1, 1]}> : (tensor<1x8x8x20xf32>) -> tensor<1x8x5x20xf32>
  %12 = "hbir.concat"(%10, %11) <{axis = 2}> : (tensor<1x8x3x20xf32>, tensor<1x8x5x20xf32>) -> tensor<1x8x8x20xf32>
  %13 = "hbir.exp"(%12) : (tensor<1x8x8x20xf32>) -> tensor<1x8x8x20xf32>
  return %1, %13 : tensor<4x16x20xf32, {order = [2, 0, 1]}>, tensor<1x8x8x20xf32>
}
"#;

#[test]
fn sums_begin_with_what_lies_in_other_places() {
    let steps = steps_of(ACROSS, FOLD);
    let kernels: Vec<_> = steps.iter().map(|s| (&*s.op, s.kernel)).collect();
    let sums = kernels.iter().filter(|&&step| step == ("add", "contract"));
    assert_eq!(sums.count(), 2, "{kernels:?}");
    assert!(
        kernels.iter().all(|(_, kernel)| *kernel != "copy"),
        "{kernels:?}"
    );
}

/// Softmax and norms with an epilogue that converts to 8-bit elements: along rows and across them, of dead values and
/// of arguments.
const ROUNDED: &str = r#"
func.func @main(%x: tensor<4x33x49xf32>, %t: tensor<40x37xf32, {order = [1, 0]}>, %s: tensor<50x7xf32>, %g: tensor<49xf32>, %w: tensor<49x8xsi8>)
    -> (tensor<4x33x8xsi32>, tensor<40x37xui8, {order = [1, 0]}>, tensor<50x7xsi8>, tensor<4x33x49xsi8>) {
  %a = "hbir.constant"() <{value = dense<0.0078125> : tensor<f32>}> : () -> tensor<f32>
  %b = "hbir.constant"() <{value = dense<0.037> : tensor<f32>}> : () -> tensor<f32>
  %z = "hbir.constant"() <{value = dense<3> : tensor<ui8>}> : () -> tensor<ui8>
  %e = "hbir.exp"(%x) : (tensor<4x33x49xf32>) -> tensor<4x33x49xf32>
  %0 = "hbir.softmax"(%e) <{axis = 2}> : (tensor<4x33x49xf32>) -> tensor<4x33x49xf32>
  %1 = "hbir.quantize"(%0, %a) <{to = si8}> : (tensor<4x33x49xf32>, tensor<f32>) -> tensor<4x33x49xsi8>
  %2 = "hbir.matmul"(%1, %w) <{to = si32}> : (tensor<4x33x49xsi8>, tensor<49x8xsi8>) -> tensor<4x33x8xsi32>
  %3 = "hbir.softmax"(%t) <{axis = 1}> : (tensor<40x37xf32, {order = [1, 0]}>) -> tensor<40x37xf32, {order = [1, 0]}>
  %4 = "hbir.quantize"(%3, %a, %z) : (tensor<40x37xf32, {order = [1, 0]}>, tensor<f32>, tensor<ui8>) -> tensor<40x37xui8, {order = [1, 0]}>
  %5 = "hbir.softmax"(%s) <{axis = 1}> : (tensor<50x7xf32>) -> tensor<50x7xf32>
  %6 = "hbir.sqrt"(%5) : (tensor<50x7xf32>) -> tensor<50x7xf32>
  %7 = "hbir.quantize"(%6, %a) <{to = si8}> : (tensor<50x7xf32>, tensor<f32>) -> tensor<50x7xsi8>
  %8 = "hbir.rms_norm"(%x, %g) : (tensor<4x33x49xf32>, tensor<49xf32>) -> tensor<4x33x49xf32>
  %9 = "hbir.quantize"(%8, %b) <{to = si8}> : (tensor<4x33x49xf32>, tensor<f32>) -> tensor<4x33x49xsi8>
  return %2, %4, %7, %9 : tensor<4x33x8xsi32>, tensor<40x37xui8, {order = [1, 0]}>, tensor<50x7xsi8>, tensor<4x33x49xsi8>
}
"#;

#[test]
fn what_rows_are_rounded_to_is_all_they_write() {
    let steps = steps_of(ROUNDED, PLAN);
    let kernels: Vec<_> = steps.iter().map(|s| (&*s.op, s.kernel)).collect();
    let rows = kernels.iter().filter(|&&step| step == ("quantize", "rows"));
    assert_eq!(rows.count(), 4, "{kernels:?}");
}

/// Depthwise convolutions of bytes, channels last and rows last, with known and with unknown weights. Their epilogues
/// give bytes of both signs, floats, and something that is not a single loop.
fn made_of_channels(dtype: &str) -> String {
    let last = ", {order = [0, 2, 3, 1]}";
    let all = [
        (
            last,
            70,
            "9x12",
            "dilations = [1, 2], pads = [1, 2, 1, 2], strides = [2, 1]",
            "5x12",
        ),
        (
            "",
            5,
            "9x34",
            "dilations = [2, 1], pads = [2, 1, 2, 1], strides = [1, 2]",
            "9x17",
        ),
        (
            last,
            19,
            "9x12",
            "dilations = [1, 1], pads = [0, 0, 0, 0], strides = [1, 1]",
            "7x10",
        ),
        (
            "",
            3,
            "9x34",
            "dilations = [1, 1], pads = [1, 1, 1, 1], strides = [1, 1]",
            "9x34",
        ),
    ];
    let (mut arguments, mut values, mut types) = (Vec::new(), Vec::new(), Vec::new());
    let mut text = String::new();
    for (name, value) in [("scale", "0.3"), ("step", "0.7")] {
        text += &format!(
            "  %{name} = \"hbir.constant\"() <{{value = dense<{value}> : tensor<f32>}}> : () -> tensor<f32>\n"
        );
    }
    for (n, (order, channels, size, attrs, made)) in all.into_iter().enumerate() {
        let image = format!("tensor<2x{channels}x{size}x{dtype}{order}>");
        let weights = format!("tensor<{channels}x1x3x3x{dtype}>");
        arguments.push(format!("%x{n}: {image}, %w{n}: {weights}"));
        text += &format!(
            "  %k{n} = \"hbir.constant\"() <{{value = dense<93> : {weights}}}> : () -> {weights}\n"
        );
        let of = |dtype: &str| format!("tensor<2x{channels}x{made}x{dtype}{order}>");
        let (sums, floats) = (of("si32"), of("f32"));
        for (k, to) in ["si8", "ui8", "f32", "si8"].into_iter().enumerate() {
            let (v, by) = (format!("%v{n}_{k}"), if k < 2 { "w" } else { "k" });
            text += &format!(
                "  {v}a = \"hbir.conv\"(%x{n}, %{by}{n}) <{{{attrs}, group = {channels}, to = si32}}> : ({image}, {weights}) -> {sums}\n"
            );
            text += &format!(
                "  {v}b = \"hbir.dequantize\"({v}a, %scale) : ({sums}, tensor<f32>) -> {floats}\n"
            );
            types.push(of(to));
            if to == "f32" {
                values.push(format!("{v}b"));
                continue;
            }
            let then = if k == 3 { "tanh" } else { "relu" };
            text += &format!("  {v}c = \"hbir.{then}\"({v}b) : ({floats}) -> {floats}\n");
            text += &format!(
                "  {v}d = \"hbir.quantize\"({v}c, %step) <{{to = {to}}}> : ({floats}, tensor<f32>) -> {}\n",
                of(to)
            );
            values.push(format!("{v}d"));
        }
    }
    let [arguments, values, types] = [arguments, values, types].map(|list| list.join(", "));
    format!("func.func @main({arguments}) -> ({types}) {{\n{text}  return {values} : {types}\n}}\n")
}

#[test]
fn what_is_made_of_bytes_of_channels_is_one_step() {
    for dtype in ["si8", "ui8"] {
        let steps = steps_of(&made_of_channels(dtype), "bufferize,plan-memory");
        let kernels: Vec<_> = steps.iter().map(|s| (&*s.op, s.kernel)).collect();
        let made = kernels
            .iter()
            .filter(|step| step.1 == "depthwise" && step.0 != "conv");
        assert_eq!(made.count(), 16, "{kernels:?}");
    }
}

/// Contractions of floats with an epilogue: one block of terms and several, in lines and across them, convolutions of
/// each kind, with norms of known means before them. Also several operations on floats that are a step of their own.
fn made_of_floats() -> String {
    let one = |name: &str, value: &str, ty: &str| {
        format!(
            "  {name} = \"hbir.constant\"() <{{value = dense<{value}> : tensor<{ty}>}}> : () -> tensor<{ty}>\n"
        )
    };
    let list = |first: f64| {
        let all: Vec<String> = (0..8)
            .map(|i| format!("{:?}", first + f64::from(i) * 0.25))
            .collect();
        format!("[{}]", all.join(", "))
    };
    let mut text = String::from(
        "func.func @main(%x: tensor<30x300xf32>, %w: tensor<300x70xf32>, %b: tensor<70xf32>, %q: tensor<70x70xf32>, %i: tensor<2x8x9x9xf32>, %l: tensor<2x8x9x9xf32, {order = [0, 2, 3, 1]}>)\n    -> (tensor<30x70xf32>, tensor<30x70xf32>, tensor<30x70xf32, {order = [1, 0]}>, tensor<2x8x9x9xf32>, tensor<2x8x9x9xf32, {order = [0, 2, 3, 1]}>, tensor<2x8x9x9xf32>) {\n",
    );
    text += &one("%h", "0.5", "f32");
    text += &one("%scale", &list(0.5), "8xf32");
    text += &one("%bias", &list(-1.0), "8xf32");
    text += &one("%mean", &list(-0.75), "8xf32");
    text += &one("%variance", &list(0.25), "8xf32");
    for (name, shape, offset) in [("%full", "8x8x3x3", 0), ("%each", "8x1x3x3", 4096)] {
        let bytes = shape
            .split('x')
            .map(|n| n.parse::<usize>().unwrap_or(1))
            .product::<usize>()
            * 4;
        text += &format!(
            "  {name} = \"hbir.constant\"() <{{data = #hbir.external<\"block.weights\", {offset}, {bytes}>}}> : () -> tensor<{shape}xf32>\n"
        );
    }
    let rows = "tensor<30x70xf32>";
    let across = "tensor<30x70xf32, {order = [1, 0]}>";
    for (n, ty) in [rows, across].into_iter().enumerate() {
        text += &format!(
            "  %m{n} = \"hbir.matmul\"(%x, %w) : (tensor<30x300xf32>, tensor<300x70xf32>) -> {ty}\n"
        );
        text += &format!("  %a{n} = \"hbir.add\"(%m{n}, %b) : ({ty}, tensor<70xf32>) -> {ty}\n");
        text += &format!("  %r{n} = \"hbir.relu\"(%a{n}) : ({ty}) -> {ty}\n");
    }
    text += &format!("  %s = \"hbir.sigmoid\"(%r0) : ({rows}) -> {rows}\n");
    text += &format!("  %m = \"hbir.matmul\"(%s, %q) : ({rows}, tensor<70x70xf32>) -> {rows}\n");
    text += &format!("  %p = \"hbir.sqrt\"(%m) : ({rows}) -> {rows}\n");
    text += &format!("  %e = \"hbir.mul\"(%p, %h) : ({rows}, tensor<f32>) -> {rows}\n");
    let (first, last) = (
        "tensor<2x8x9x9xf32>",
        "tensor<2x8x9x9xf32, {order = [0, 2, 3, 1]}>",
    );
    let each = ("%each", "8x1x3x3", 8);
    for (n, (image, ty, (weights, shape, group))) in [
        ("%i", first, ("%full", "8x8x3x3", 1)),
        ("%l", last, each),
        ("%i", first, each),
    ]
    .into_iter()
    .enumerate()
    {
        text += &format!(
            "  %c{n} = \"hbir.conv\"({image}, {weights}) <{{group = {group}, pads = [1, 1, 1, 1]}}> : ({ty}, tensor<{shape}xf32>) -> {ty}\n"
        );
        text += &format!(
            "  %n{n} = \"hbir.batch_norm\"(%c{n}, %scale, %bias, %mean, %variance) : ({ty}, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> {ty}\n"
        );
        text += &format!("  %k{n} = \"hbir.relu\"(%n{n}) : ({ty}) -> {ty}\n");
    }
    text + &format!(
        "  return %r0, %e, %r1, %k0, %k1, %k2 : {rows}, {rows}, {across}, {first}, {last}, {first}\n}}\n"
    )
}

#[test]
fn what_is_made_of_sums_of_floats_is_one_step() {
    let steps = steps_of(&made_of_floats(), PLAN);
    let kernels: Vec<_> = steps.iter().map(|s| (&*s.op, s.kernel)).collect();
    let wanted = [
        ("relu", "contract"),
        ("relu", "contract"),
        ("sigmoid", "elementwise"),
        ("matmul", "contract"),
        ("mul", "chain"),
        ("relu", "convolve"),
        ("relu", "depthwise"),
        ("relu", "depthwise"),
    ];
    assert_eq!(kernels, wanted);
}

/// Products with a scaled operand: the left one, the right one, both with an addition after them, in other orders, of a
/// dead value, and of one that is read again.
const MULTIPLIED: &str = r#"
func.func @main(%q: tensor<3x60x33xf32>, %k: tensor<3x33x70xf32>, %t: tensor<3x33x70xf32, {order = [0, 2, 1]}>, %r: tensor<3x60x70xf32>)
    -> (tensor<3x60x70xf32>, tensor<3x60x70xf32>, tensor<3x60x70xf32>, tensor<3x60x70xf32, {order = [0, 2, 1]}>, tensor<3x60x70xf32>, tensor<3x60x33xf32>) {
  %c = "hbir.constant"() <{value = dense<0.3> : tensor<f32>}> : () -> tensor<f32>
  %d = "hbir.constant"() <{value = dense<-1.7> : tensor<1x1x1xf32>}> : () -> tensor<1x1x1xf32>
  %0 = "hbir.mul"(%q, %c) : (tensor<3x60x33xf32>, tensor<f32>) -> tensor<3x60x33xf32>
  %1 = "hbir.matmul"(%0, %k) : (tensor<3x60x33xf32>, tensor<3x33x70xf32>) -> tensor<3x60x70xf32>
  %2 = "hbir.mul"(%c, %k) : (tensor<f32>, tensor<3x33x70xf32>) -> tensor<3x33x70xf32>
  %3 = "hbir.matmul"(%q, %2) : (tensor<3x60x33xf32>, tensor<3x33x70xf32>) -> tensor<3x60x70xf32>
  %4 = "hbir.mul"(%q, %d) : (tensor<3x60x33xf32>, tensor<1x1x1xf32>) -> tensor<3x60x33xf32>
  %5 = "hbir.mul"(%t, %c) : (tensor<3x33x70xf32, {order = [0, 2, 1]}>, tensor<f32>) -> tensor<3x33x70xf32, {order = [0, 2, 1]}>
  %6 = "hbir.matmul"(%4, %5) : (tensor<3x60x33xf32>, tensor<3x33x70xf32, {order = [0, 2, 1]}>) -> tensor<3x60x70xf32>
  %7 = "hbir.add"(%6, %r) : (tensor<3x60x70xf32>, tensor<3x60x70xf32>) -> tensor<3x60x70xf32>
  %8 = "hbir.exp"(%q) : (tensor<3x60x33xf32>) -> tensor<3x60x33xf32>
  %9 = "hbir.mul"(%8, %c) : (tensor<3x60x33xf32>, tensor<f32>) -> tensor<3x60x33xf32>
  %10 = "hbir.matmul"(%9, %t) : (tensor<3x60x33xf32>, tensor<3x33x70xf32, {order = [0, 2, 1]}>) -> tensor<3x60x70xf32, {order = [0, 2, 1]}>
  %11 = "hbir.mul"(%q, %c) : (tensor<3x60x33xf32>, tensor<f32>) -> tensor<3x60x33xf32>
  %12 = "hbir.matmul"(%11, %k) : (tensor<3x60x33xf32>, tensor<3x33x70xf32>) -> tensor<3x60x70xf32>
  %13 = "hbir.neg"(%11) : (tensor<3x60x33xf32>) -> tensor<3x60x33xf32>
  return %1, %3, %7, %10, %12, %13 : tensor<3x60x70xf32>, tensor<3x60x70xf32>, tensor<3x60x70xf32>, tensor<3x60x70xf32, {order = [0, 2, 1]}>, tensor<3x60x70xf32>, tensor<3x60x33xf32>
}
"#;

#[test]
fn operands_of_products_are_multiplied_as_they_are_brought() {
    let steps = steps_of(MULTIPLIED, PLAN);
    let kernels: Vec<_> = steps.iter().map(|s| (&*s.op, s.kernel)).collect();
    // A value with another reader is a step of its own.
    let muls = kernels.iter().filter(|(op, _)| *op == "mul");
    assert_eq!(muls.count(), 1, "{kernels:?}");
}

const SUM: &str = r#"module attributes {hbir.memory = "planned"} {
  func.func @main(%x: tensor<3x5xf32>, %y: tensor<?x5xf32, {dims = ["B", 5]}>) -> (tensor<3x5xf32>, tensor<?x5xf32, {dims = ["B", 5]}>) attributes {hbir.arena = 64} {
    %0 = "hbir.softmax"(%x) <{axis = 1}> {memory = ["arena 0"]} : (tensor<3x5xf32>) -> tensor<3x5xf32>
    %1 = "hbir.exp"(%0) {memory = ["result 0"]} : (tensor<3x5xf32>) -> tensor<3x5xf32>
    %2 = "hbir.softmax"(%y) <{axis = 0}> {memory = ["own"]} : (tensor<?x5xf32, {dims = ["B", 5]}>) -> tensor<?x5xf32, {dims = ["B", 5]}>
    %3 = "hbir.exp"(%2) {memory = ["result 1"]} : (tensor<?x5xf32, {dims = ["B", 5]}>) -> tensor<?x5xf32, {dims = ["B", 5]}>
    return %1, %3 : tensor<3x5xf32>, tensor<?x5xf32, {dims = ["B", 5]}>
  }
}"#;

fn inputs(rows: usize) -> IndexMap<String, Tensor> {
    use optc_ir::DType;
    let numbers = |n: usize| (0..n).map(|i| i as f64 / 7.0 - 1.0);
    IndexMap::from([
        (
            "x".to_owned(),
            Tensor::from_f64(DType::F32, vec![3, 5], numbers(15)),
        ),
        (
            "y".to_owned(),
            Tensor::from_f64(DType::F32, vec![rows, 5], numbers(rows * 5)),
        ),
    ])
}

#[test]
fn sizes_come_with_the_inputs() {
    let module = parse(SUM);
    let registry = optc_ops::registry();
    for rows in [1, 4] {
        let (inputs, bindings) = (inputs(rows), Bindings::default());
        let found = physical(&module, &inputs, &NoData, &bindings, &poisoned(false));
        let found = found.unwrap_or_else(|d| panic!("{}", words(&[*d])));
        let wanted = run_reference(&module, &registry, "main", &inputs, &NoData, &bindings);
        for (key, wanted) in wanted.expect("it runs") {
            compare(&found[&key], &wanted).expect("the numbers agree");
        }
    }
}

const PARTS_OF_A_NAMED_BATCH: &str = r#"
func.func @main(%x: tensor<?x7x10xf32, {dims = ["N", 7, 10]}>) -> tensor<?x7x7xf32, {dims = ["N", 7, 7]}> {
  %0 = "hbir.exp"(%x) : (tensor<?x7x10xf32, {dims = ["N", 7, 10]}>) -> tensor<?x7x10xf32, {dims = ["N", 7, 10]}>
  %1 = "hbir.reshape"(%0) <{shape = ["N", 7, 2, 5]}> : (tensor<?x7x10xf32, {dims = ["N", 7, 10]}>) -> tensor<?x7x2x5xf32, {dims = ["N", 7, 2, 5]}>
  %2 = "hbir.transpose"(%1) <{perm = [2, 0, 1, 3]}> : (tensor<?x7x2x5xf32, {dims = ["N", 7, 2, 5]}>) -> tensor<2x?x7x5xf32, {dims = [2, "N", 7, 5]}>
  %3:2 = "hbir.split"(%2) <{axis = 0, sizes = [1, 1]}> : (tensor<2x?x7x5xf32, {dims = [2, "N", 7, 5]}>) -> (tensor<1x?x7x5xf32, {dims = [1, "N", 7, 5]}>, tensor<1x?x7x5xf32, {dims = [1, "N", 7, 5]}>)
  %4 = "hbir.reshape"(%3#0) <{shape = ["N", 7, 5]}> : (tensor<1x?x7x5xf32, {dims = [1, "N", 7, 5]}>) -> tensor<?x7x5xf32, {dims = ["N", 7, 5]}>
  %5 = "hbir.reshape"(%3#1) <{shape = ["N", 7, 5]}> : (tensor<1x?x7x5xf32, {dims = [1, "N", 7, 5]}>) -> tensor<?x7x5xf32, {dims = ["N", 7, 5]}>
  %6 = "hbir.transpose"(%5) <{perm = [0, 2, 1]}> : (tensor<?x7x5xf32, {dims = ["N", 7, 5]}>) -> tensor<?x5x7xf32, {dims = ["N", 5, 7]}>
  %7 = "hbir.matmul"(%4, %6) : (tensor<?x7x5xf32, {dims = ["N", 7, 5]}>, tensor<?x5x7xf32, {dims = ["N", 5, 7]}>) -> tensor<?x7x7xf32, {dims = ["N", 7, 7]}>
  return %7 : tensor<?x7x7xf32, {dims = ["N", 7, 7]}>
}
"#;

/// A size that is no polynomial is computed from the inputs at run time; a branch that is not taken need not fit the
/// sizes.
#[test]
fn sizes_follow_from_those_of_the_inputs() {
    let module = parse(
        r#"
func.func @main(%a: tensor<?xf32, {dims = ["A"]}>, %b: tensor<?xf32, {dims = ["B"]}>, %c: tensor<i1>) -> (tensor<?xf32>, tensor<2x?xf32, {dims = [2, "M"]}>) {
  %0 = "hbir.slice"(%b) <{starts = [0], limits = ["B//2"]}> : (tensor<?xf32, {dims = ["B"]}>) -> tensor<?xf32, {dims = ["B//2"]}>
  %1 = "hbir.add"(%a, %0) : (tensor<?xf32, {dims = ["A"]}>, tensor<?xf32, {dims = ["B//2"]}>) -> tensor<?xf32>
  %2 = "hbir.exp"(%1) : (tensor<?xf32>) -> tensor<?xf32>
  %u = "hbir.unsqueeze"(%2) <{axes = [0]}> : (tensor<?xf32>) -> tensor<1x?xf32>
  %3 = "hbir.concat"(%u, %u) <{axis = 0}> : (tensor<1x?xf32>, tensor<1x?xf32>) -> tensor<2x?xf32, {dims = [2, "M"]}>
  %4 = "hbir.opaque"(%c, %3, %a) <{kind = "If", domain = "", effect = "pure", captures = 2, onnx.then_branch = @yes, onnx.else_branch = @no}> : (tensor<i1>, tensor<2x?xf32, {dims = [2, "M"]}>, tensor<?xf32, {dims = ["A"]}>) -> tensor<2x?xf32, {dims = [2, "M"]}>
  return %1, %4 : tensor<?xf32>, tensor<2x?xf32, {dims = [2, "M"]}>
}
func.func private @yes(%x: tensor<2x?xf32, {dims = [2, "M"]}>) -> tensor<2x?xf32, {dims = [2, "M"]}> {
  %0 = "hbir.neg"(%x) : (tensor<2x?xf32, {dims = [2, "M"]}>) -> tensor<2x?xf32, {dims = [2, "M"]}>
  return %0 : tensor<2x?xf32, {dims = [2, "M"]}>
}
func.func private @no(%y: tensor<?xf32, {dims = ["A"]}>) -> tensor<2x?xf32, {dims = [2, "M"]}> {
  %0 = "hbir.reshape"(%y) <{shape = [2, 4]}> : (tensor<?xf32, {dims = ["A"]}>) -> tensor<2x4xf32>
  %1 = "hbir.slice"(%0) <{starts = [0, 0], limits = [2, "M"]}> : (tensor<2x4xf32>) -> tensor<2x?xf32, {dims = [2, "M"]}>
  return %1 : tensor<2x?xf32, {dims = [2, "M"]}>
}
"#,
    );
    let registry = Arc::new(optc_ops::registry());
    let after = planned(&module, PLAN, &target("cpu"), &registry);
    let after = after.unwrap_or_else(|d| panic!("{d}"));
    let dtype = optc_ir::DType::F32;
    let ramp = |n: usize| Tensor::from_f64(dtype, vec![n], (0..n).map(|i| i as f64 / 4.0));
    for (a, b, taken) in [(3, 7, true), (1, 5, true), (4, 2, true), (3, 7, false)] {
        let condition = Tensor::from_i64(optc_ir::DType::BOOL, vec![], [i64::from(taken)]);
        let inputs = [("a", ramp(a)), ("b", ramp(b)), ("c", condition)];
        let inputs: IndexMap<String, Tensor> =
            inputs.into_iter().map(|(k, t)| (k.to_owned(), t)).collect();
        let bindings = Bindings::default();
        let found = physical(&after, &inputs, &NoData, &bindings, &poisoned(false));
        let wanted = run_reference(&module, &registry, "main", &inputs, &NoData, &bindings);
        assert_eq!(wanted.is_ok(), taken, "{a} {b}");
        match (found, wanted) {
            (Ok(found), Ok(wanted)) => {
                for (key, wanted) in wanted {
                    compare(&found[&key], &wanted).expect("the numbers agree");
                }
            }
            (Err(d), _) => assert_eq!((taken, &*d.code.to_string()), (false, "execution-failed")),
            (Ok(_), Err(e)) => panic!("{e}"),
        }
    }
}

#[test]
fn parts_of_values_with_named_sizes_are_renamed() {
    let module = parse(PARTS_OF_A_NAMED_BATCH);
    let registry = Arc::new(optc_ops::registry());
    let after = planned(&module, FOLD, &target("cpu"), &registry);
    let after = after.unwrap_or_else(|d| panic!("{d}"));
    agrees(&module, &after, 0).unwrap_or_else(|why| panic!("{why}"));
}

const LOOPS_AND_BRANCHES: &str = r#"
func.func @main(%x: tensor<2x3xf32>, %c: tensor<i1>, %p: tensor<2x5x3xf32>) -> (tensor<2x3xf32>, tensor<4x2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3x5xf32>, tensor<2x3xf32>) {
  %n = "hbir.constant"() <{value = dense<4> : tensor<si64>}> : () -> tensor<si64>
  %0:2 = "hbir.opaque"(%n, %x) <{kind = "Loop", domain = "", effect = "pure", input_positions = [0, 2], onnx.body = @round}> : (tensor<si64>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<4x2x3xf32>)
  %1 = "hbir.opaque"(%c, %0#0, %x) <{kind = "If", domain = "", effect = "pure", captures = 2, onnx.then_branch = @yes, onnx.else_branch = @no}> : (tensor<i1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %2:2 = "hbir.opaque"(%x, %p) <{kind = "Scan", domain = "", effect = "pure", onnx.body = @part, onnx.num_scan_inputs = 1, onnx.scan_input_axes = [1], onnx.scan_input_directions = [1], onnx.scan_output_axes = [-1]}> : (tensor<2x3xf32>, tensor<2x5x3xf32>) -> (tensor<2x3xf32>, tensor<2x3x5xf32>)
  %i = "hbir.constant"() <{value = dense<0> : tensor<si32>}> : () -> tensor<si32>
  %3:2 = "hbir.opaque"(%i, %x) <{domain = "hlo", effect = "pure", hlo.body = @step, hlo.condition = @goes_on, kind = "while"}> : (tensor<si32>, tensor<2x3xf32>) -> (tensor<si32>, tensor<2x3xf32>)
  return %0#0, %0#1, %1, %2#0, %2#1, %3#1 : tensor<2x3xf32>, tensor<4x2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3x5xf32>, tensor<2x3xf32>
}
func.func private @round(%i: tensor<si64>, %go: tensor<i1>, %v: tensor<2x3xf32>) -> (tensor<i1>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = "hbir.transpose"(%v) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = "hbir.tanh"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %2 = "hbir.transpose"(%1) <{perm = [1, 0]}> : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %3 = "hbir.add"(%2, %v) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %go, %3, %2 : tensor<i1>, tensor<2x3xf32>, tensor<2x3xf32>
}
func.func private @yes(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "hbir.exp"(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
func.func private @no(%b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "hbir.neg"(%b) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
func.func private @part(%s: tensor<2x3xf32>, %p: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = "hbir.sub"(%s, %p) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "hbir.abs"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xf32>
}
func.func private @goes_on(%i: tensor<si32>, %v: tensor<2x3xf32>) -> tensor<i1> {
  %0 = "hbir.constant"() <{value = dense<3> : tensor<si32>}> : () -> tensor<si32>
  %1 = "hbir.compare"(%i, %0) <{direction = "lt"}> : (tensor<si32>, tensor<si32>) -> tensor<i1>
  return %1 : tensor<i1>
}
func.func private @step(%i: tensor<si32>, %v: tensor<2x3xf32>) -> (tensor<si32>, tensor<2x3xf32>) {
  %0 = "hbir.constant"() <{value = dense<1> : tensor<si32>}> : () -> tensor<si32>
  %1 = "hbir.add"(%i, %0) : (tensor<si32>, tensor<si32>) -> tensor<si32>
  %2 = "hbir.sin"(%v) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1, %2 : tensor<si32>, tensor<2x3xf32>
}
"#;

/// Loops with constant operands: a loop-invariant one, two that are swapped in each round, one for all rounds, and one
/// that a function shared by two loops gets from one of them.
const HANDED: &str = r#"
func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<3x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %n = "hbir.constant"() <{value = dense<3> : tensor<si64>}> : () -> tensor<si64>
  %w = "hbir.constant"() <{value = dense<[[0.5, -1.0, 0.25], [1.5, 0.5, -0.5], [0.125, 1.0, -0.75]]> : tensor<3x3xf32>}> : () -> tensor<3x3xf32>
  %a = "hbir.constant"() <{value = dense<1.0> : tensor<2x3xf32>}> : () -> tensor<2x3xf32>
  %b = "hbir.constant"() <{value = dense<-2.0> : tensor<2x3xf32>}> : () -> tensor<2x3xf32>
  %0:4 = "hbir.opaque"(%n, %x, %w, %a, %b, %a) <{kind = "Loop", domain = "", effect = "pure", input_positions = [0, 2, 3, 4, 5], captures = 1, onnx.body = @round}> : (tensor<si64>, tensor<2x3xf32>, tensor<3x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<3x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  %1 = "hbir.opaque"(%n, %x, %a) <{kind = "Loop", domain = "", effect = "pure", input_positions = [0, 2], captures = 1, onnx.body = @twice}> : (tensor<si64>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = "hbir.opaque"(%n, %x, %y) <{kind = "Loop", domain = "", effect = "pure", input_positions = [0, 2], captures = 1, onnx.body = @twice}> : (tensor<si64>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0#0, %0#1, %0#2, %0#3, %1, %2 : tensor<2x3xf32>, tensor<3x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}
func.func private @round(%i: tensor<si64>, %go: tensor<i1>, %v: tensor<2x3xf32>, %w: tensor<3x3xf32>, %a: tensor<2x3xf32>, %b: tensor<2x3xf32>, %k: tensor<2x3xf32>) -> (tensor<i1>, tensor<2x3xf32>, tensor<3x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = "hbir.matmul"(%v, %w) : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  %1 = "hbir.mul"(%0, %a) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = "hbir.add"(%1, %k) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %go, %2, %w, %b, %a : tensor<i1>, tensor<2x3xf32>, tensor<3x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}
func.func private @twice(%i: tensor<si64>, %go: tensor<i1>, %v: tensor<2x3xf32>, %k: tensor<2x3xf32>) -> (tensor<i1>, tensor<2x3xf32>) {
  %0 = "hbir.mul"(%v, %k) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "hbir.sub"(%0, %k) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %go, %1 : tensor<i1>, tensor<2x3xf32>
}
"#;

#[test]
fn loops_that_are_handed_constants_give_the_numbers_of_the_reference() {
    let module = parse(HANDED);
    let registry = Arc::new(optc_ops::registry());
    for passes in [PLAN, FOLD] {
        let after = planned(&module, passes, &target("cpu"), &registry);
        let after = after.unwrap_or_else(|d| panic!("{d}"));
        for seed in 0..4 {
            agrees(&module, &after, seed).unwrap_or_else(|why| panic!("{passes}: {why}"));
        }
    }
}

#[test]
fn loops_and_branches_give_the_numbers_of_the_reference() {
    let module = parse(LOOPS_AND_BRANCHES);
    let registry = Arc::new(optc_ops::registry());
    let bindings = Bindings::default();
    for seed in 0..3 {
        let inputs = random_inputs(&module, "main", Fill::Normal, seed, &bindings, &registry);
        let inputs = inputs.expect("sizes are known");
        let wanted = run_reference(&module, &registry, "main", &inputs, &NoData, &bindings);
        assert_eq!(wanted.expect("it runs").len(), 6);
        for passes in [PLAN, FOLD] {
            let after = planned(&module, passes, &target("cpu"), &registry);
            let after = after.unwrap_or_else(|d| panic!("{d}"));
            agrees(&module, &after, seed).unwrap_or_else(|why| panic!("{why}"));
        }
    }
    // A function that runs itself would not terminate.
    let endless = LOOPS_AND_BRANCHES.replace("hlo.body = @step", "hlo.body = @main");
    let endless = parse(&endless);
    let inputs = random_inputs(&endless, "main", Fill::Normal, 0, &bindings, &registry);
    let inputs = inputs.expect("sizes are known");
    let after = planned(&endless, PLAN, &target("cpu"), &registry);
    let after = after.unwrap_or_else(|d| panic!("{d}"));
    let done = physical(&after, &inputs, &NoData, &bindings, &poisoned(false));
    assert_eq!(done.expect_err("no end").code, "execution-unsupported");
}

/// Operations with named sizes: without rows, without columns, with one, and with several.
#[test]
fn values_of_no_elements_give_those_of_the_reference() {
    let registry = Arc::new(optc_ops::registry());
    let x = "?x6xf32, {dims = [\"N\", 6]}";
    let turned = "6x?xf32, {dims = [6, \"N\"]}";
    let programs = [
        format!(
            "%y = \"hbir.softmax\"(%x) <{{axis = 0}}> : (tensor<{x}>) -> tensor<{x}>\n  return %y : tensor<{x}>"
        ),
        format!(
            "%y = \"hbir.softmax\"(%x) <{{axis = 1}}> : (tensor<{x}>) -> tensor<{x}>\n  return %y : tensor<{x}>"
        ),
        format!(
            "%y = \"hbir.reduce\"(%x) <{{axes = [0], keepdims = false, kind = \"sum\"}}> : (tensor<{x}>) -> tensor<6xf32>\n  \
             return %y : tensor<6xf32>"
        ),
        format!(
            "%s = \"hbir.constant\"() <{{value = dense<0.5> : tensor<6xf32>}}> : () -> tensor<6xf32>\n  \
             %y = \"hbir.layer_norm\"(%x, %s) <{{axis = 1, epsilon = 1.0e-5}}> : (tensor<{x}>, tensor<6xf32>) -> tensor<{x}>\n  \
             return %y : tensor<{x}>"
        ),
        format!(
            "%t = \"hbir.transpose\"(%x) <{{perm = [1, 0]}}> : (tensor<{x}>) -> tensor<{turned}>\n  \
             %y = \"hbir.matmul\"(%t, %x) : (tensor<{turned}>, tensor<{x}>) -> tensor<6x6xf32>\n  \
             return %y : tensor<6x6xf32>"
        ),
        format!(
            "%w = \"hbir.constant\"() <{{value = dense<0.25> : tensor<6x6xf32>}}> : () -> tensor<6x6xf32>\n  \
             %b = \"hbir.constant\"() <{{value = dense<2.0> : tensor<6xf32>}}> : () -> tensor<6xf32>\n  \
             %m = \"hbir.matmul\"(%x, %w) : (tensor<{x}>, tensor<6x6xf32>) -> tensor<{x}>\n  \
             %y = \"hbir.add\"(%m, %b) : (tensor<{x}>, tensor<6xf32>) -> tensor<{x}>\n  return %y : tensor<{x}>"
        ),
    ];
    for program in &programs {
        let ty = program.rsplit("return %y : ").next().unwrap_or_default();
        let text = format!("func.func @main(%x: tensor<{x}>) -> {ty} {{\n  {program}\n}}\n");
        let module = parse(&text);
        for n in [0, 1, 3] {
            let numbers = (0..n * 6).map(|i| f64::from(i as u32) / 7.0 - 1.0);
            let x = Tensor::from_f64(optc_ir::DType::F32, vec![n, 6], numbers);
            let (inputs, none) = (IndexMap::from([("x".to_owned(), x)]), Bindings::default());
            let wanted = run_reference(&module, &registry, "main", &inputs, &NoData, &none);
            let wanted = wanted.expect("it runs");
            for passes in [PLAN, FOLD] {
                let after = planned(&module, passes, &target("cpu"), &registry);
                let after = after.unwrap_or_else(|d| panic!("{text}{d}"));
                let found = physical(&after, &inputs, &NoData, &none, &poisoned(false));
                let found = found.unwrap_or_else(|d| panic!("{text}{}", words(&[*d])));
                for (key, wanted) in &wanted {
                    let same = compare(&found[key], wanted);
                    same.unwrap_or_else(|e| panic!("{n}: {e}\n{text}"));
                }
            }
        }
    }
}

/// Sizes that do not agree, which the reference refuses at run time, are refused by the executor before it starts.
#[test]
fn sizes_that_do_not_agree_are_refused() {
    let x = "?x4xf32, {dims = [\"N\", 4]}";
    let constant =
        "\"hbir.constant\"() <{value = dense<1.0> : tensor<3x4xf32>}> : () -> tensor<3x4xf32>";
    for program in [
        format!(
            "%c = {constant}\n  %y = \"hbir.add\"(%x, %c) : (tensor<{x}>, tensor<3x4xf32>) -> tensor<3x4xf32>\n  return %y : tensor<3x4xf32>"
        ),
        format!(
            "%y = \"hbir.reshape\"(%x) <{{shape = [3, 4]}}> : (tensor<{x}>) -> tensor<3x4xf32>\n  return %y : tensor<3x4xf32>"
        ),
    ] {
        let text =
            format!("func.func @main(%x: tensor<{x}>) -> tensor<3x4xf32> {{\n  {program}\n}}\n");
        let registry = Arc::new(optc_ops::registry());
        let after = planned(&parse(&text), PLAN, &target("cpu"), &registry);
        let after = after.unwrap_or_else(|d| panic!("{text}{d}"));
        for (n, fits) in [(3, true), (2, false), (500, false)] {
            let x = Tensor::from_f64(
                optc_ir::DType::F32,
                vec![n, 4],
                (0..n * 4).map(|i| i as f64),
            );
            let inputs = IndexMap::from([("x".to_owned(), x)]);
            let done = physical(
                &after,
                &inputs,
                &NoData,
                &Bindings::default(),
                &poisoned(false),
            );
            match done {
                Ok(_) => assert!(fits, "{n}\n{text}"),
                Err(d) => assert_eq!((fits, &*d.code.to_string()), (false, "execution-failed")),
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_before_anything_runs() {
    let module = parse(SUM);
    let refused = |module: &Module, inputs: &IndexMap<String, Tensor>, options: &ExecOptions| {
        let done = physical(module, inputs, &NoData, &Bindings::default(), options);
        done.expect_err("it is refused").code.to_string()
    };
    let limited = ExecOptions {
        memory_limit: Some(64),
        ..ExecOptions::default()
    };
    assert_eq!(refused(&module, &inputs(3), &limited), "execution-memory");
    let mut missing = inputs(3);
    missing.shift_remove("y");
    assert_eq!(
        refused(&module, &missing, &poisoned(false)),
        "input-missing"
    );
    let mut wide = inputs(3);
    wide["x"].shape = vec![5, 3];
    assert_eq!(refused(&module, &wide, &poisoned(false)), "input-shape");
    let plain = parse("%0 = \"hbir.exp\"(%x) : (tensor<3x5xf32>) -> tensor<3x5xf32>");
    let mut one = inputs(3);
    one.shift_remove("y");
    assert_eq!(
        refused(&plain, &one, &poisoned(false)),
        "execution-unplanned"
    );
    let opaque = parse(
        r#"module attributes {hbir.memory = "bufferized"} {
  func.func @main(%x: tensor<3x5xf32>) -> tensor<3x5xf32> {
    %0 = "hbir.opaque"(%x) <{effect = "pure", kind = "f"}> {memory = ["result 0"]} : (tensor<3x5xf32>) -> tensor<3x5xf32>
    return %0 : tensor<3x5xf32>
  }
}"#,
    );
    assert_eq!(
        refused(&opaque, &one, &poisoned(false)),
        "execution-unsupported"
    );
    // The index is known only at run time.
    let gather = parse(
        r#"module attributes {hbir.memory = "bufferized"} {
  func.func @main(%x: tensor<3x5xf32>, %i: tensor<2xsi64>) -> tensor<2x5xf32> {
    %0 = "hbir.gather"(%x, %i) <{axis = 0}> {memory = ["result 0"]} : (tensor<3x5xf32>, tensor<2xsi64>) -> tensor<2x5xf32>
    return %0 : tensor<2x5xf32>
  }
}"#,
    );
    let indices = Tensor::from_i64(optc_ir::DType::SI64, vec![2], [1, 7]);
    one.insert("i".to_owned(), indices);
    assert_eq!(refused(&gather, &one, &poisoned(false)), "execution-failed");
    if let Some(&lacked) = Isa::ALL.get(Isa::available().len()) {
        let options = ExecOptions {
            isa: Some(lacked),
            ..ExecOptions::default()
        };
        assert_eq!(refused(&module, &inputs(3), &options), "execution-isa");
    }
}

#[test]
fn every_kernel_with_much_to_do_is_shared() {
    let registry = Arc::new(optc_ops::registry());
    let (mut alone, mut shared) = (Vec::new(), Vec::new());
    let all = Numbers::ALL.iter().flat_map(|&n| blocks(n, true));
    let chain = "%0 = \"hbir.exp\"(%x) : (tensor<30x50xf32>) -> tensor<30x50xf32>\n\
                 %1 = \"hbir.add\"(%0, %x) : (tensor<30x50xf32>, tensor<30x50xf32>) -> tensor<30x50xf32>\n";
    for text in all.map(|block| block.text).chain([chain.to_owned()]) {
        let module = parse(&text);
        let after = planned(&module, PLAN, &target("cpu"), &registry).expect("it is planned");
        let options = ExecOptions {
            threads: 2,
            always_share: true,
            ..poisoned(false)
        };
        for step in profiled_with(&module, &after, &registry, &options).steps {
            match step.threads {
                1 => alone.push(step.kernel),
                _ => shared.push(step.kernel),
            }
        }
    }
    for kernel in [
        "contract",
        "convolve",
        "depthwise",
        "chain",
        "elementwise",
        "rows",
        "copy",
    ] {
        // With few output channels, or with values in parts of others, a step runs on one thread.
        let found = shared.contains(&kernel);
        assert!(found, "{kernel} has one thread, as {alone:?}");
    }
}
