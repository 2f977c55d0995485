//! Any text parses or is refused; what parses and verifies prints and parses to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optc_ir::{Registry, text, verify};

fuzz_target!(|source: &str| {
    let Ok(module) = text::parse(source) else {
        return;
    };
    let printed = text::print(&module);
    let again = text::parse(&printed).expect("what is printed parses");
    assert_eq!(printed, text::print(&again));
    let _ = verify::verify(&module, &Registry::hbir());
});
