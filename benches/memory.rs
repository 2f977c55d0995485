//! `bufferize`, `plan-memory` and the checker of their decisions, on programs of 10,000 and 100,000 operations; and the
//! size of the arena relative to the live bytes.
//!
//! ```sh
//! cargo bench -p optc-bench --bench memory                   # every kind of program
//! cargo bench -p optc-bench --bench memory -- line 1000      # one kind, other sizes
//! cargo bench -p optc-bench --bench memory -- model.onnx     # a row for a model, folded for cpu
//! ```
//!
//! Times are processor times. `per op` is the time per operation divided by that of the previous size: 1 is linear.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use optc_bench::processor_time;
use optc_check::{MemoryUse, check_memory};
use optc_ir::{Module, Registry, text};
use optc_passes::manager::{Hooks, run};
use optc_passes::plan_memory::MemoryReport;
use optc_passes::{PassContext, PassList};
use optc_target::Target;
use optc_tests::Scale;
use std::path::Path;
use std::sync::Arc;

const SIZES: [usize; 2] = [10_000, 100_000];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let registry = Arc::new(optc_ops::registry());
    let mut sizes: Vec<usize> = args.iter().filter_map(|a| a.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = SIZES.to_vec();
    }
    let models: Vec<&str> = args
        .iter()
        .map(String::as_str)
        .filter(|a| is_model(a))
        .collect();
    println!(
        "| program | ops | bufferize s | plan-memory s | check s | per op | arena MB | alive MB | ratio | order |"
    );
    println!("|---|{}", "---|".repeat(9));
    for model in &models {
        let bytes = std::fs::read(model).expect("the model can be read");
        let import = optc_onnx::import(&bytes, &optc_onnx::Options::default());
        let mut module = import.expect("the model imports").module;
        pass(&mut module, "canonicalize,view-fold", &registry);
        let name = Path::new(model).file_stem().unwrap_or_default();
        row(&name.to_string_lossy(), module, &registry, None);
    }
    let mut kinds: Vec<Scale> = args.iter().filter_map(|a| Scale::of_name(a)).collect();
    if kinds.is_empty() && models.is_empty() {
        kinds = Scale::ALL.to_vec();
    }
    for kind in kinds {
        let mut before = None;
        for &size in &sizes {
            let module =
                text::parse(&kind.text(size, &registry)).expect("the program is well formed");
            before = Some(row(kind.name(), module, &registry, before));
        }
    }
}

fn is_model(arg: &str) -> bool {
    Path::new(arg).extension().is_some_and(|e| e == "onnx")
}

fn pass(module: &mut Module, name: &str, registry: &Arc<Registry>) -> PassContext {
    let target = Arc::new(Target::builtin("cpu").expect("built in"));
    let mut cx = PassContext::new(registry.clone(), target);
    let stages = PassList::builtin().parse(name).expect("built in");
    run(module, &stages, &mut cx, &mut Hooks::default()).expect("the passes take the program");
    cx
}

/// Prints a row; returns the seconds per operation.
fn row(name: &str, mut module: Module, registry: &Arc<Registry>, before: Option<f64>) -> f64 {
    let ops: usize = module.funcs.iter().map(|f| f.body.len()).sum();
    let mut last = processor_time();
    let mut lap = || {
        let now = processor_time();
        let seconds = (now - last).as_secs_f64();
        last = now;
        seconds
    };
    pass(&mut module, "bufferize", registry);
    let bufferize = lap();
    let cx = pass(&mut module, "plan-memory", registry);
    let plan = lap();
    let diags = check_memory(&module, registry);
    let check = lap();
    assert!(diags.is_empty(), "{diags:?}");
    let used = MemoryUse::of(&module, registry).expect("it is planned");
    let report: &MemoryReport = cx.reports.get().expect("the pass reports");
    let order = report
        .funcs
        .iter()
        .max_by_key(|f| f.arena_bytes)
        .map_or("", |f| f.order);
    let per_op = (bufferize + plan) / ops as f64;
    let ratio = before.map_or(String::new(), |before| format!("{:.2}", per_op / before));
    println!(
        "| {name} | {ops} | {bufferize:.3} | {plan:.3} | {check:.3} | {ratio} | {:.3} | {:.3} | {:.4} | {order} |",
        used.arena_bytes as f64 / 1e6,
        used.live_bytes as f64 / 1e6,
        used.arena_bytes as f64 / used.live_bytes.max(1) as f64,
    );
    per_op
}
