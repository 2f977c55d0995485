//! Parses, verifies, folds and prints transformers of 1,000, 10,000 and 100,000 operations.
//!
//! Each size runs in a process of its own, so that its peak memory is its own. The last column
//! compares the time and memory of one operation with those at the size before: 1 is linear.
//! `cargo bench -p optc-bench --bench scaling -- 1000 2000` tries other sizes.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use optc_bench::{once, peak_memory};
use optc_ir::{Registry, text, verify};
use optc_passes::manager::{Hooks, run};
use optc_passes::{PassContext, PassList, Stats};
use optc_target::Target;
use optc_tests::Transformer;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const CHILD: &str = "--child";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == CHILD) {
        child();
        return;
    }
    let mut sizes: Vec<usize> = args.iter().filter_map(|a| a.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = SIZES.to_vec();
    }
    parent(&sizes);
}

/// One step of one size: seconds, and the peak memory so far in bytes.
type Step = (String, f64, f64);

fn parent(sizes: &[usize]) {
    let mut last: Option<(f64, Vec<Step>)> = None;
    println!(
        "step           ops  seconds   peak MB   time/op  memory/op (ratio to the size before)"
    );
    for &size in sizes {
        let (ops, steps) = measure(size);
        for (i, (step, seconds, peak)) in steps.iter().enumerate() {
            let ratios = last.as_ref().map(|(n, before)| {
                let scale = n / ops;
                (seconds / before[i].1 * scale, peak / before[i].2 * scale)
            });
            let ratios = ratios.map_or(String::new(), |(t, m)| format!("{t:9.2}  {m:9.2}"));
            println!(
                "{step:10} {ops:7} {seconds:8.3}  {:8.1} {ratios}",
                peak / 1e6
            );
        }
        last = Some((ops, steps));
    }
}

/// Runs one size in a child, which gets the program on its standard input.
fn measure(size: usize) -> (f64, Vec<Step>) {
    let program = Transformer::with_ops(size).text(&Registry::hbir());
    let me = std::env::current_exe().expect("a process knows its file");
    let mut child = Command::new(me)
        .arg(CHILD)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the benchmark can start itself");
    let mut input = child.stdin.take().expect("the input is a pipe");
    input
        .write_all(program.as_bytes())
        .expect("the child reads");
    drop(input);
    let output = child.wait_with_output().expect("the child ends");
    assert!(output.status.success(), "the child failed");
    let lines = String::from_utf8(output.stdout).expect("the child prints text");
    let mut ops = 0.0;
    let mut steps = Vec::new();
    for line in lines.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| words[i].parse::<f64>().expect("a number");
        match words[0] {
            "ops" => ops = number(1),
            step => steps.push((step.to_owned(), number(1), number(2))),
        }
    }
    (ops, steps)
}

fn report(step: &str, time: std::time::Duration) {
    let peak = peak_memory().unwrap_or(0);
    println!("{step} {} {peak}", time.as_secs_f64());
}

fn child() {
    let mut source = String::new();
    std::io::stdin()
        .read_to_string(&mut source)
        .expect("the program is text");
    let registry = Arc::new(Registry::hbir());
    let (time, module) = once(|| text::parse(&source));
    let mut module = module.expect("the program is well formed");
    println!("ops {}", Stats::of(&module, &registry).ops);
    report("parse", time);
    let (time, verified) = once(|| verify::verify(&module, &registry));
    verified.expect("the program verifies");
    report("verify", time);
    let target = Arc::new(Target::builtin("cpu").expect("built in"));
    let mut cx = PassContext::new(registry.clone(), target);
    for pass in ["canonicalize", "view-fold"] {
        let stages = PassList::builtin().parse(pass).expect("built in");
        let (time, done) = once(|| run(&mut module, &stages, &mut cx, &mut Hooks::default()));
        done.expect("the passes take the program");
        report(pass, time);
    }
    let (time, printed) = once(|| text::print(&module));
    report("print", time);
    let stats = Stats::of(&module, &registry);
    assert_eq!(
        (stats.reshape, stats.transpose, stats.movement_bytes),
        (0, 0, 0)
    );
    assert!(!printed.is_empty());
}
