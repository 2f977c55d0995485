//! Time and result of `view-fold` on the small test models, with and without its rules.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use optc_bench::best;
use optc_passes::Boundary;
use optc_tests::check::run_passes;
use optc_tests::paths::{files, root};
use std::sync::Arc;

const RUNS: usize = 3;

fn main() {
    let registry = Arc::new(optc_ops::registry());
    let header = [
        "model", "target", "ms", "before", "after", "no rules", "nodes", "layouts",
    ];
    let [model, target, ms, before, after, plain, nodes, layouts] = header;
    println!(
        "{model:34} {target:9} {ms:>8} {before:>10} {after:>10} {plain:>10} {nodes:>6} {layouts:>7}"
    );
    for path in files(&root().join("tests/models"), "onnx") {
        let bytes = std::fs::read(&path).expect("a model can be read");
        let name = path
            .file_stem()
            .expect("a file has a name")
            .to_string_lossy()
            .into_owned();
        let import = optc_onnx::import(&bytes, &optc_onnx::Options::default());
        let module = import.expect("the models import").module;
        for target in ["cpu", "journey6"] {
            let fold = |pipeline: &str| {
                let ran = run_passes(&module, pipeline, target, &Boundary::default(), &registry);
                let ran = ran.expect("the models fold");
                ran.fold().expect("view-fold reports").clone()
            };
            let (time, all) = best(RUNS, || fold("canonicalize,view-fold"));
            let none = fold("canonicalize,view-fold{rules=none}");
            println!(
                "{name:34} {target:9} {:8.2} {:10} {:10} {:10} {:6} {:7}",
                time.as_secs_f64() * 1e3,
                all.bytes_before,
                all.bytes_after,
                none.bytes_after,
                all.sizes[1],
                all.sizes[3],
            );
        }
    }
}
