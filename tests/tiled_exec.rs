//! Groups that the physical executor runs tile by tile: bit for bit the same as untiled, in memory that is poisoned
//! before every program, on any number of threads.

use indexmap::IndexMap;
use optc_compare::{Fill, RandomSource, compare, compare_exact, random_inputs};
use optc_exec::{ExecOptions, Executable, Untiled};
use optc_interp::{RunError, run_reference};
use optc_ir::{Module, Registry, Tensor, text};
use optc_passes::manager::{Hooks, run};
use optc_passes::{PassContext, PassList};
use optc_target::Target;
use optc_tests::check::{cases, parse, small_bindings, words};
use optc_tests::layout_bound::{Numbers, blocks};
use optc_tests::paths::root;
use optc_tests::{Profile, Tally, program};
use std::sync::Arc;

const FOLD: &str = "canonicalize,view-fold,tile-propagate,bufferize,plan-memory";
const PLAIN: &str = "tile-propagate,bufferize,plan-memory";

/// The target `cpu` with this number of bytes of fast memory.
fn cpu(bytes: u64) -> Arc<Target> {
    let path = root().join("targets/builtin/cpu.toml");
    let text = std::fs::read_to_string(path).expect("it is there");
    let small = text.replace("bytes = 1048576", &format!("bytes = {bytes}"));
    assert_ne!(text, small, "the fast memory has another size");
    Arc::new(Target::parse(&small).expect("it is a target"))
}

fn planned(module: &Module, passes: &str, bytes: u64, registry: &Arc<Registry>) -> Module {
    let stages = PassList::builtin().parse(passes).expect("built-in passes");
    let mut cx = PassContext::new(registry.clone(), cpu(bytes));
    let mut module = module.clone();
    let done = run(&mut module, &stages, &mut cx, &mut Hooks::default());
    done.unwrap_or_else(|d| panic!("{}", words(&d)));
    module
}

/// The results of a program, tile by tile or not, the number of steps that are groups, and the reasons why other groups
/// are not.
struct Ran {
    results: IndexMap<String, Tensor>,
    groups: usize,
    untiled: Vec<Untiled>,
}

fn ran(
    module: &Module,
    inputs: &IndexMap<String, Tensor>,
    registry: &Registry,
    tiles: bool,
    threads: usize,
) -> Ran {
    let options = ExecOptions {
        poison: true,
        tiles,
        threads,
        always_share: 1 < threads,
        ..ExecOptions::default()
    };
    let bindings = small_bindings(module);
    let main = &module.funcs[0].name;
    let made = Executable::new(
        module,
        registry,
        main,
        inputs,
        &RandomSource,
        &bindings,
        &options,
    );
    let made = made.unwrap_or_else(|d| panic!("{}", words(&[*d])));
    let done = made.profile(inputs);
    let (results, profile) = done.unwrap_or_else(|d| panic!("{}", words(&[*d])));
    Ran {
        results,
        groups: profile
            .steps
            .iter()
            .filter(|step| step.kernel == "tiles")
            .count(),
        untiled: made.untiled().to_vec(),
    }
}

/// Runs a program untiled, and tile by tile on several numbers of threads, and compares; returns the run on one thread.
/// The reference refuses some inputs, for example an index out of bounds.
fn same(name: &str, module: &Module, planned: &Module, seed: u64) -> Result<Ran, RunError> {
    let registry = optc_ops::registry();
    let bindings = small_bindings(module);
    let main = &module.funcs[0].name;
    let inputs = random_inputs(module, main, Fill::Normal, seed, &bindings, &registry);
    let inputs = inputs.unwrap_or_else(|e| panic!("{name}: {e}"));
    let wanted = run_reference(module, &registry, main, &inputs, &RandomSource, &bindings);
    let wanted = wanted?;
    let untiled = ran(planned, &inputs, &registry, false, 1);
    assert_eq!((untiled.groups, untiled.untiled.len()), (0, 0), "{name}");
    let counts = [1, 2, 4];
    let runs = counts.map(|threads| ran(planned, &inputs, &registry, true, threads));
    for (threads, tiled) in counts.iter().zip(&runs) {
        let all = tiled
            .results
            .iter()
            .zip(untiled.results.values())
            .zip(wanted.values());
        for (((key, found), plain), wanted) in all {
            let told = |what: &str, e: &dyn std::fmt::Display| -> ! {
                let text = text::print(planned);
                panic!("{name}, {key} on {threads} threads beside {what}: {e}\n{text}")
            };
            compare_exact(found, plain).unwrap_or_else(|e| told("the untiled one", &e));
            compare(found, wanted).unwrap_or_else(|e| told("the reference", &e));
        }
    }
    let [one, ..] = runs;
    Ok(one)
}

#[test]
fn random_programs_give_the_same_tile_by_tile() {
    let registry = Arc::new(optc_ops::registry());
    let (mut groups, mut reasons) = (0, IndexMap::<String, usize>::new());
    let mut tally = Tally::default();
    for (passes, bytes) in [(FOLD, 1 << 10), (PLAIN, 1 << 10), (FOLD, 1 << 13)] {
        for seed in 0..cases(60) {
            let module = program(seed, Profile::Mixed, &registry);
            let after = planned(&module, passes, bytes, &registry);
            let name = format!("{passes} with {bytes} bytes, seed {seed}");
            let tiled = match same(&name, &module, &after, seed) {
                Ok(tiled) => tiled,
                Err(why) => {
                    tally.leave_out(format!("{name}: {why}"));
                    continue;
                }
            };
            tally.compared();
            groups += tiled.groups;
            for Untiled { why, .. } in tiled.untiled {
                *reasons.entry(why).or_default() += 1;
            }
        }
    }
    tally.leaves_out_at_most_one_in(10);
    let left: usize = reasons.values().sum();
    assert!(
        left < 2 * groups,
        "{groups} groups ran on tiles, and not {reasons:?}"
    );
}

#[test]
fn blocks_that_layouts_bound_give_the_same_tile_by_tile() {
    let registry = Arc::new(optc_ops::registry());
    let mut groups = 0;
    for block in Numbers::ALL.iter().flat_map(|&n| blocks(n, true)) {
        for (passes, bytes) in [(FOLD, 1 << 13), (PLAIN, 1 << 13), (FOLD, 1 << 16)] {
            let module = parse(&block.text);
            let after = planned(&module, passes, bytes, &registry);
            let name = format!("{} {passes} with {bytes} bytes", block.name);
            let tiled = same(&name, &module, &after, 1);
            let tiled = tiled.unwrap_or_else(|e| panic!("{name}: {e}"));
            groups += tiled.groups;
        }
    }
    assert!(20 < groups, "{groups} groups ran on tiles");
}
