//! Any bytes are a model or are refused; a model verifies, prints, reads back the same and folds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optc_tests::door::{target_for, through};

/// Models above this many operations are read and printed but not folded: short runs find more.
const MOST_OPS: usize = 24;

fuzz_target!(|bytes: &[u8]| {
    if let Err(broken) = through("fuzz.onnx", bytes, target_for(bytes), MOST_OPS) {
        panic!("{broken}");
    }
});
