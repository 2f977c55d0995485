//! Parsing, verification, folding, checking and printing of programs of 10,000 and 100,000 operations.
//!
//! ```sh
//! cargo bench -p optc-bench --bench scaling                      # every kind of program
//! cargo bench -p optc-bench --bench scaling -- line 1000 2000    # one kind, other sizes
//! cargo bench -p optc-bench --bench scaling -- --dump DIR line   # write the programs instead
//! cargo bench -p optc-bench --bench scaling -- model.onnx        # a row for a model
//! cargo bench -p optc-bench --bench scaling -- --target=tpu line # folded for another target than cpu
//! ```
//!
//! Each program runs in a process of its own, so that its peak memory is measured separately. Times are processor times
//! of all its threads. `total` is the sum of all steps up to `print`; `elapsed` is the elapsed time of the same steps.
//! `per op` is the total per operation (as read) divided by that of the previous size: 1 is linear. `check` verifies
//! the folded program, views included, and checks the certificate. `tile` is `tile-propagate` for the target `tpu` on
//! the folded program; `tile per op` is like `per op`.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use optc_bench::{peak_memory, processor_time};
use optc_check::Stats;
use optc_ir::{text, verify};
use optc_passes::manager::{Hooks, run};
use optc_passes::view_fold::FoldReport;
use optc_passes::{PassContext, PassList};
use optc_target::Target;
use optc_tests::Scale;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

/// The allocator of `optc`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SIZES: [usize; 2] = [10_000, 100_000];
const CHILD: &str = "--child";
const MODEL: &str = "--model";
const TARGET: &str = "--target=";
const STEPS: [&str; 7] = [
    "parse",
    "verify",
    "canonicalize",
    "view-fold",
    "print",
    "check",
    "tile",
];
/// The number of steps up to `print`.
const TOTAL: usize = 5;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let target = args.iter().find_map(|a| a.strip_prefix(TARGET));
    let target = target.unwrap_or("cpu");
    if args.first().is_some_and(|a| a == CHILD) {
        child(args.iter().any(|a| a == MODEL), target);
        return;
    }
    let target = format!("{TARGET}{target}");
    let mut sizes: Vec<usize> = args.iter().filter_map(|a| a.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = SIZES.to_vec();
    }
    let mut kinds: Vec<Scale> = args.iter().filter_map(|a| Scale::of_name(a)).collect();
    if kinds.is_empty() {
        kinds = Scale::ALL.to_vec();
    }
    let folder = args.iter().position(|a| a == "--dump");
    match folder.and_then(|at| args.get(at + 1)) {
        Some(folder) => dump(Path::new(folder), &kinds, &sizes),
        None => {
            let models: Vec<&str> = args
                .iter()
                .map(String::as_str)
                .filter(|a| is_model(a))
                .collect();
            header();
            if models.is_empty() {
                table(&kinds, &sizes, &target);
            }
            for model in models {
                let bytes = std::fs::read(model).expect("the model can be read");
                let name = Path::new(model).file_name().unwrap_or_default();
                row(
                    &name.to_string_lossy(),
                    &measure(&bytes, &[CHILD, MODEL, &target]),
                    None,
                );
            }
        }
    }
}

fn is_model(arg: &str) -> bool {
    Path::new(arg).extension().is_some_and(|e| e == "onnx")
}

fn dump(folder: &Path, kinds: &[Scale], sizes: &[usize]) {
    for &kind in kinds {
        for &size in sizes {
            let path = folder.join(format!("{}_{size}.ir", kind.name()));
            let text = kind.text(size, &optc_ops::registry());
            std::fs::write(&path, text).expect("the folder can be written");
            println!("{}", path.display());
        }
    }
}

/// The measurements of one size: seconds of each step, and peak memory in bytes after `print`.
struct Figures {
    ops: f64,
    seconds: Vec<f64>,
    /// The elapsed seconds up to `print`.
    elapsed: f64,
    peak: f64,
}

impl Figures {
    /// Seconds of all steps up to `print`.
    fn total(&self) -> f64 {
        self.seconds[..TOTAL].iter().sum()
    }

    /// The seconds per operation: of all steps up to `print`, and of `tile`.
    fn per_op(&self) -> [f64; 2] {
        [
            self.total() / self.ops,
            self.seconds[STEPS.len() - 1] / self.ops,
        ]
    }
}

fn header() {
    println!(
        "| program | ops | {} | total | elapsed | µs per op | per op | tile per op | peak MB |",
        STEPS.join(" | ")
    );
    println!("|---|{}", "---|".repeat(STEPS.len() + 7));
}

fn row(name: &str, figures: &Figures, last: Option<[f64; 2]>) {
    let ratio = |which: usize| match last {
        Some(before) if 0.0 < before[which] => {
            format!("{:.2}", figures.per_op()[which] / before[which])
        }
        _ => String::new(),
    };
    let seconds: Vec<String> = figures.seconds.iter().map(|s| format!("{s:.2}")).collect();
    println!(
        "| {name} | {} | {} | {:.2} | {:.2} | {:.1} | {} | {} | {:.0} |",
        figures.ops,
        seconds.join(" | "),
        figures.total(),
        figures.elapsed,
        figures.per_op()[0] * 1e6,
        ratio(0),
        ratio(1),
        figures.peak / 1e6
    );
}

fn table(kinds: &[Scale], sizes: &[usize], target: &str) {
    for &kind in kinds {
        let mut last: Option<[f64; 2]> = None;
        for &size in sizes {
            // Random programs have no locality, so the choice of layouts is not near-linear for them.
            let few = kind == Scale::Random && sizes == SIZES;
            let size = if few { size / 10 } else { size };
            let program = kind.text(size, &optc_ops::registry());
            let figures = measure(program.as_bytes(), &[CHILD, target]);
            row(kind.name(), &figures, last);
            last = Some(figures.per_op());
        }
    }
}

/// Runs a program in a child process, which reads it from standard input.
fn measure(program: &[u8], args: &[&str]) -> Figures {
    let me = std::env::current_exe().expect("a process knows its file");
    let mut child = Command::new(me)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the benchmark can start itself");
    let mut input = child.stdin.take().expect("the input is a pipe");
    input.write_all(program).expect("the child reads");
    drop(input);
    let output = child.wait_with_output().expect("the child ends");
    assert!(output.status.success(), "the child failed");
    let text = String::from_utf8(output.stdout).expect("the child prints text");
    let mut numbers = text
        .split_whitespace()
        .map(|n| n.parse::<f64>().expect("a number"));
    let mut next = || numbers.next().expect("the child prints all figures");
    Figures {
        ops: next(),
        peak: next(),
        elapsed: next(),
        seconds: STEPS.iter().map(|_| next()).collect(),
    }
}

fn child(is_model: bool, target: &str) {
    let mut source = Vec::new();
    std::io::stdin()
        .read_to_end(&mut source)
        .expect("the parent writes the program");
    let registry = Arc::new(optc_ops::registry());
    let target = Arc::new(Target::builtin(target).expect("built in"));
    let mut cx = PassContext::new(registry.clone(), target.clone());
    let mut seconds = Vec::new();
    let begin = Instant::now();
    let mut last = processor_time();
    let mut lap = || {
        let now = processor_time();
        seconds.push((now - last).as_secs_f64());
        last = now;
    };
    let mut module = if is_model {
        let import = optc_onnx::import(&source, &optc_onnx::Options::default());
        import.expect("the model imports").module
    } else {
        let source = std::str::from_utf8(&source).expect("the program is text");
        text::parse(source).expect("the program is well formed")
    };
    lap();
    let ops: usize = module.funcs.iter().map(|f| f.body.len()).sum();
    verify::verify(&module, &registry).expect("the program verifies");
    lap();
    let mut pass = |module: &mut _, name: &str| {
        let stages = PassList::builtin().parse(name).expect("built in");
        run(module, &stages, &mut cx, &mut Hooks::default()).expect("the passes take the program");
    };
    pass(&mut module, "canonicalize");
    lap();
    let canonical = module.clone();
    pass(&mut module, "view-fold");
    lap();
    let printed = text::print(&module);
    assert!(!printed.is_empty());
    lap();
    let elapsed = begin.elapsed().as_secs_f64();
    let peak = peak_memory().unwrap_or(0);
    drop(printed);
    verify::verify(&module, &registry).expect("the folded program verifies");
    let report = cx.reports.get::<FoldReport>().expect("view-fold reports");
    let certificate = report.certificate(&canonical, &module, &registry, &target);
    optc_check::check(&canonical, &module, &certificate, &registry, &target)
        .expect("the checker accepts what view-fold did");
    lap();
    let tpu = Arc::new(Target::builtin("tpu").expect("built in"));
    let mut tiling = PassContext::new(registry.clone(), tpu);
    let stages = PassList::builtin()
        .parse("tile-propagate")
        .expect("built in");
    run(&mut module, &stages, &mut tiling, &mut Hooks::default()).expect("any program is tiled");
    lap();
    let stats = Stats::of(&module, &registry);
    assert_eq!((stats.reshape, stats.transpose), (0, 0));
    println!("{ops} {peak} {elapsed}");
    for time in seconds {
        println!("{time}");
    }
}
