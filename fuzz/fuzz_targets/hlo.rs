//! Any text is a module of HLO or is refused. A module prints as it is read; what is imported verifies,
//! prints, folds and is emitted as a module again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optc_hlo::{HloModule, Strictness, parse, print, printed};
use optc_ir::Severity;
use optc_tests::door::{target_for, through};

/// Programs above this many operations are read and printed but not folded: short runs find more.
const MOST_OPS: usize = 24;

fuzz_target!(|text: &str| {
    if let Err(broken) = through(
        "fuzz.hlo",
        text.as_bytes(),
        target_for(text.as_bytes()),
        MOST_OPS,
    ) {
        panic!("{broken}");
    }
    let Some(module) = read(text) else { return };
    let written = print(&module);
    let again = read(&written).unwrap_or_else(|| panic!("what is printed is refused:\n{written}"));
    assert_eq!(printed(&again), printed(&module), "{written}");
    let Ok(import) = optc_hlo::lower(&module) else {
        return;
    };
    let none = |_: &str, _, _, _| Err(String::new());
    let registry = optc_ops::registry();
    if let Ok(emitted) = optc_emit::hlo::emit(&import.module, &registry, None, &none) {
        let text = emitted.text;
        assert!(read(&text).is_some(), "what is emitted is refused:\n{text}");
    }
});

/// The module, if nothing is wrong with it.
fn read(text: &str) -> Option<HloModule<'_>> {
    let (module, diags) = parse(text, Strictness::KeepUnknown);
    let broken = diags.iter().any(|d| d.severity == Severity::Error);
    (!broken).then_some(module)
}
