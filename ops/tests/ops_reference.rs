//! The operations against onnxruntime: the cases that `ops_reference.py` wrote to `ops_reference.txt`.

use crate::ops_support;

use ops_support::{cases, close, run, type_of};
use optc_ir::{Bindings, Type};

#[test]
fn agree_with_onnxruntime() {
    let cases = cases();
    assert!(200 < cases.len(), "{} cases", cases.len());
    for (number, case) in cases.iter().enumerate() {
        let results: Vec<Type> = case.wanted.iter().map(type_of).collect();
        let found = run(
            &case.name,
            &case.inputs,
            &results,
            &case.props,
            &Bindings::default(),
        );
        let what = format!("case {number}, {} {:?}", case.name, case.props);
        let found = found.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(found.len(), case.wanted.len(), "{what}");
        for (found, wanted) in found.iter().zip(&case.wanted) {
            close(&what, found, wanted, 1e-5);
        }
    }
}
