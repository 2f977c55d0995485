//! Throughput for HLO text, in megabytes per second on one core: parsing, printing, import into the IR.
//!
//! `cargo bench -p optc-bench --bench hlo -- [FILE…]`. Without files, a generated transformer in the style of a
//! scheduled module for TPUs.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use optc_bench::{hlo_transformer, nanoseconds};
use optc_hlo::{Strictness, import, parse, print};
use std::hint::black_box;

fn main() {
    let files: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    let mut texts = Vec::new();
    for file in files {
        match std::fs::read_to_string(&file) {
            Ok(text) => texts.push((file, text)),
            Err(error) => println!("{file}: {error}"),
        }
    }
    if texts.is_empty() {
        texts = [1, 12, 96]
            .map(|layers| (format!("{layers} layers"), hlo_transformer(layers)))
            .to_vec();
    }
    println!(
        "{:>10} {:>8} {:>8} {:>8}  MB a second",
        "bytes", "parse", "print", "import"
    );
    for (name, text) in texts {
        let (module, diags) = parse(&text, Strictness::KeepUnknown);
        assert!(diags.is_empty(), "{name}: {diags:?}");
        let bytes = u32::try_from(text.len()).expect("a file of less than 4 GiB");
        let rate = |nanoseconds: f64| f64::from(bytes) * 1e3 / nanoseconds;
        println!(
            "{:10} {:8.0} {:8.0} {:8.0}  {name}",
            bytes,
            rate(nanoseconds(|| parse(
                black_box(&text),
                Strictness::KeepUnknown
            ))),
            rate(nanoseconds(|| print(black_box(&module)))),
            rate(nanoseconds(|| import(black_box(&text)))),
        );
    }
}
