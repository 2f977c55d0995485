//! Element-wise operations on special values: zeros of both signs, infinities, NaN, the least and the greatest numbers,
//! halves. The expected results are those of numpy, Python's math and the reference of ONNX, which `ops_special.py`
//! wrote to `ops_special.txt`.

use crate::ops_support;

use ops_support::{cases_of, run, type_of};
use optc_ir::{Bindings, DType, Registry};
use std::collections::BTreeSet;

/// Operations that are not tested here, since they have no expression: they move elements, or have parameters along an
/// axis.
const ELSEWHERE: &[&str] = &[
    "hbir.bit_and",
    "hbir.bit_or",
    "hbir.bit_xor",
    "hbir.bitcast_convert",
    "hbir.dequantize",
    "hbir.dequantize_blocks",
    "hbir.quantize",
    "hbir.select",
    "hbir.sharding_constraint",
    "hbir.trilu",
];

/// Operations that may give a zero of either sign: numpy, ONNX's runtimes and XLA differ.
const OPEN_ZEROS: &[&str] = &[
    "hbir.leaky_relu",
    "hbir.max",
    "hbir.min",
    "hbir.mod",
    "hbir.relu",
    "hbir.sign",
];

/// Returns whether a number is the expected one, up to one or two units in the last place. A zero, an infinity or NaN
/// must be exact; with `signed` so must the sign of a zero.
fn same(found: f64, wanted: f64, dtype: DType, signed: bool) -> bool {
    if wanted.is_nan() {
        return found.is_nan();
    }
    if wanted == 0.0 || wanted.is_infinite() {
        return found == wanted
            && (!signed || found.is_sign_negative() == wanted.is_sign_negative());
    }
    let (relative, least) = match dtype {
        DType::F32 => (3e-7, 2e-45),
        DType::F16 => (1e-3, 6e-8),
        _ => (0.0, 0.0),
    };
    (found - wanted).abs() <= f64::max(relative * wanted.abs(), least)
}

#[test]
fn special_values_agree_with_numpy_and_onnx() {
    let cases = cases_of(include_str!("ops_special.txt"));
    let mut wrong = Vec::new();
    for case in &cases {
        let results: Vec<_> = case.wanted.iter().map(type_of).collect();
        let (name, inputs) = (&case.name, &case.inputs);
        let found = run(name, inputs, &results, &case.props, &Bindings::default());
        let found = found.unwrap_or_else(|e| panic!("{name}: {e}")).remove(0);
        let signed = !OPEN_ZEROS.contains(&&**name);
        let wanted = &case.wanted[0];
        for i in 0..wanted.len() {
            let (f, w) = (found.f64_at(i), wanted.f64_at(i));
            if found.i128_at(i) != wanted.i128_at(i) && wanted.dtype.is_int()
                || !same(f, w, wanted.dtype, signed)
            {
                let of: Vec<f64> = inputs.iter().map(|x| x.f64_at(i)).collect();
                let dtype = inputs[0].dtype;
                wrong.push(format!(
                    "{name} {:?} of {dtype} {of:?}: {f:?}, wanted {w:?}",
                    case.props
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn every_element_wise_operation_has_special_values() {
    let cases = cases_of(include_str!("ops_special.txt"));
    let tried: BTreeSet<&str> = cases.iter().map(|case| &*case.name).collect();
    let registry: Registry = optc_ops::registry();
    for decl in registry.all() {
        let name = decl.name();
        if decl.family() == "elementwise" {
            let elsewhere = ELSEWHERE.contains(&name);
            assert_ne!(tried.contains(name), elsewhere, "{name}");
        }
    }
}
