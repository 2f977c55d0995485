//! Compositions against the reference semantics of their operations, which are written apart, and against onnxruntime.

use crate::ops_support;

use ops_support::{Case, cases, close, op_ref, props, run, type_of};
use optc_ir::{AttrDict, Bindings, DType, Tensor, Type};

/// The composition's result; `None` for an operation without one.
fn composed(name: &str, inputs: &[Tensor], props: &AttrDict) -> Option<Tensor> {
    let types: Vec<Type> = inputs.iter().map(type_of).collect();
    let results = [types[0].clone()];
    let composition = optc_ops::registry().composition(&op_ref(name, &types, &results, props))?;
    let refs: Vec<&Tensor> = inputs.iter().collect();
    let made = composition.eval(&refs, inputs[0].dtype);
    Some(made.unwrap_or_else(|e| panic!("{name}: {e}")))
}

#[test]
fn agree_with_onnxruntime() {
    let mut compared = 0;
    for Case {
        name,
        props,
        inputs,
        wanted,
    } in cases()
    {
        if let Some(found) = composed(&name, &inputs, &props) {
            close(&name, &found, &wanted[0], 1e-5);
            compared += 1;
        }
    }
    assert!(6 <= compared, "{compared} cases");
}

/// Numbers that repeat after some steps, with both infinities and NaN if `special`.
fn numbers(shape: &[usize], special: bool) -> Tensor {
    let count: usize = shape.iter().product();
    let of = |i: usize| match (special, i % 23) {
        (true, 5) => f64::INFINITY,
        (true, 9) => f64::NEG_INFINITY,
        (true, 14) => f64::NAN,
        (true, 16) => 3.0e38,
        _ => ((i * 37 + 11) % 101) as f64 / 10.0 - 5.0,
    };
    Tensor::from_f64(DType::F32, shape.to_vec(), (0..count).map(of))
}

#[test]
fn agree_with_the_reference_semantics_of_their_operations() {
    let trailing = |axis: i64| props! { axis: axis };
    let grouped = |n: i64| props! { num_groups: n };
    let mut cases: Vec<(&str, Vec<&[usize]>, AttrDict)> = Vec::new();
    for shape in [&[4, 6, 3, 2][..], &[1, 2, 1], &[5, 4], &[2, 4, 0]] {
        for axis in 0..shape.len() {
            let along = trailing(i64::try_from(axis).expect("a small rank"));
            cases.push(("hbir.softmax", vec![shape], along.clone()));
            cases.push(("hbir.log_softmax", vec![shape], along.clone()));
            cases.push(("hbir.rms_norm", vec![shape, &shape[axis..]], along.clone()));
            let last = &shape[shape.len() - 1..];
            cases.push(("hbir.layer_norm", vec![shape, &shape[axis..], last], along));
        }
        let channels = &shape[1..2];
        let of_channels = vec![shape, channels, channels];
        cases.push((
            "hbir.instance_norm",
            of_channels.clone(),
            AttrDict::default(),
        ));
        for groups in [1, 2] {
            cases.push(("hbir.group_norm", of_channels.clone(), grouped(groups)));
        }
    }
    for (name, shapes, props) in cases {
        for special in [false, true] {
            let inputs: Vec<Tensor> = shapes.iter().map(|s| numbers(s, special)).collect();
            let results = [type_of(&inputs[0])];
            let wanted = run(name, &inputs, &results, &props, &Bindings::default());
            let wanted = wanted.unwrap_or_else(|e| panic!("{name}: {e}"));
            let found = composed(name, &inputs, &props);
            let found = found.unwrap_or_else(|| panic!("{name} has no composition"));
            let what = format!("{name} {props:?} of {shapes:?}, special numbers: {special}");
            close(&what, &found, &wanted[0], 1e-6);
        }
    }
}
