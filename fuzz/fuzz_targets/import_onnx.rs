//! Any bytes import or are refused; what imports verifies.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optc_ir::{Registry, verify};

fuzz_target!(|bytes: &[u8]| {
    let Ok(import) = optc_onnx::import(bytes, &optc_onnx::Options::default()) else {
        return;
    };
    let verified = verify::verify(&import.module, &Registry::hbir());
    assert!(verified.is_ok(), "{verified:?}");
});
