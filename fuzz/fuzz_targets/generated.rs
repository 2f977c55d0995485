//! Random programs keep their meaning in `view-fold`, and the certificate is accepted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optc_ir::text;
use optc_passes::Boundary;
use optc_target::Target;
use optc_tests::check::{run_passes, same_meaning};
use optc_tests::{Profile, program};
use std::sync::Arc;

fuzz_target!(|input: (u64, bool, bool)| {
    let (seed, on_cpu, free_all) = input;
    let registry = Arc::new(optc_ops::registry());
    let module = program(seed, Profile::Mixed, &registry);
    let name = if on_cpu { "cpu" } else { "journey6" };
    let boundary = Boundary {
        free_all,
        ..Boundary::default()
    };
    let ran = run_passes(&module, "view-fold", name, &boundary, &registry);
    let ran = ran.unwrap_or_else(|e| panic!("{e}\n{}", text::print(&module)));
    let same = same_meaning(&module, &ran.module, &registry);
    same.unwrap_or_else(|e| panic!("{e}\n{}", text::print(&module)));
    let target = Target::builtin(name).expect("built in");
    let certificate = ran.certificate(&module);
    let checked = optc_check::check(&module, &ran.module, &certificate, &registry, &target);
    assert!(checked.is_ok(), "{checked:?}\n{}", text::print(&module));
});
