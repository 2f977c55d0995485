//! The HLO emitter preserves the results of operations: the reference cases of the operations are emitted as HLO text,
//! imported again, and give the same numbers.

use crate::ops_support;

use indexmap::IndexMap;
use ops_support::{Case, cases, close, type_of};
use optc_emit::hlo;
use optc_interp::{NoData, argument_keys, run_reference};
use optc_ir::text::{parse, print_attr, print_type};
use optc_ir::verify::verify;
use optc_ir::{Bindings, Module, Tensor, Value};
use std::collections::BTreeMap;

/// Operations that are emitted as custom calls, which are imported as opaque.
const WITHOUT_FORM: &[&str] = &[
    "hbir.dequantize_blocks",
    "hbir.grid_sample",
    "hbir.max_pool_indices",
    "hbir.recurrent",
];

/// Operations of which only some cases are, and the number of these cases.
const PARTLY: &[(&str, usize)] = &[
    ("hbir.avg_pool", 3),
    ("hbir.conv", 1),
    ("hbir.einsum", 3),
    ("hbir.matmul", 4),
    ("hbir.pad", 3),
];

/// Operations whose instructions are imported as opaque, so that only XLA can check their numbers:
/// `tests/interop/xla_forms.py`.
const OPAQUE_BACK: &[&str] = &["hbir.top_k"];

/// Operations that cannot be tested alone: calls, and instructions of HLO text that are opaque themselves.
const ELSEWHERE: &[&str] = &["func.call", "hbir.call", "hbir.opaque"];

/// Operations with a form but no reference case, with attributes and types.
const MORE: &[[&str; 3]] = &[
    [
        "hbir.sharding_constraint",
        "split = [\"data:2\", \"\"]",
        "(tensor<4x3xf32>) -> tensor<4x3xf32>",
    ],
    ["hbir.erfc", "", "(tensor<5x6xf32>) -> tensor<5x6xf32>"],
    [
        "hbir.atan2",
        "",
        "(tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
    ],
    [
        "hbir.bitcast_convert",
        "to = si32",
        "(tensor<2x3xf32>) -> tensor<2x3xsi32>",
    ],
    ["hbir.cbrt", "", "(tensor<2x3xf32>) -> tensor<2x3xf32>"],
    [
        "hbir.constant",
        "value = dense<[[1.5, -2.0], [0.1, 7.0]]> : tensor<2x2xf32>",
        "() -> tensor<2x2xf32>",
    ],
    [
        "hbir.cumprod",
        "axis = 1, exclusive = true, reverse = true",
        "(tensor<2x3xf32>) -> tensor<2x3xf32>",
    ],
    [
        "hbir.dot_general",
        "lhs_batch = [0], rhs_batch = [1], lhs_contract = [2], rhs_contract = [0]",
        "(tensor<2x3x4xf32>, tensor<4x2x5xf32>) -> tensor<2x3x5xf32>",
    ],
    [
        "hbir.dynamic_update_slice",
        "",
        "(tensor<4x5xf32>, tensor<2x3xf32>, tensor<si32>, tensor<si32>) -> tensor<4x5xf32>",
    ],
    ["hbir.expm1", "", "(tensor<2x3xf32>) -> tensor<2x3xf32>"],
    ["hbir.identity", "", "(tensor<2x3xf32>) -> tensor<2x3xf32>"],
    ["hbir.iota", "axis = -1", "() -> tensor<2x3xsi32>"],
    [
        "hbir.layout_convert",
        "",
        "(tensor<2x3xf32>) -> tensor<2x3xf32>",
    ],
    ["hbir.log1p", "", "(tensor<2x3xf32>) -> tensor<2x3xf32>"],
    [
        "hbir.one_hot",
        "depth = 5, axis = 0",
        "(tensor<2x3xsi64>, tensor<2xf32>) -> tensor<5x2x3xf32>",
    ],
    [
        "hbir.rms_norm",
        "axis = -2, epsilon = 0.01",
        "(tensor<2x3x4xf32>, tensor<3x4xf32>) -> tensor<2x3x4xf32>",
    ],
    [
        "hbir.rotary_embedding",
        "size = 4",
        "(tensor<2x3x5x6xf32>, tensor<1x5x2xf32>, tensor<1x5x2xf32>) -> tensor<2x3x5x6xf32>",
    ],
    ["hbir.rsqrt", "", "(tensor<2x3xf32>) -> tensor<2x3xf32>"],
    ["hbir.silu", "", "(tensor<2x3xf32>) -> tensor<2x3xf32>"],
    [
        "hbir.slice",
        "starts = [3, 1], limits = [0, 5], strides = [-2, 2]",
        "(tensor<4x6xf32>) -> tensor<2x2xf32>",
    ],
    [
        "hbir.subview",
        "starts = [1, 0], limits = [3, 3], strides = [1, 2]",
        "(tensor<4x3xf32>) -> tensor<2x2xf32>",
    ],
    [
        "hbir.view",
        "shape = [2, 3, 4], perm = [2, 0, 1]",
        "(tensor<6x4xf32>) -> tensor<4x2x3xf32, {xla = \"0,2,1\"}>",
    ],
];

/// The program of one operation with these types.
fn program(name: &str, attributes: &str, types: &str) -> Module {
    let (operands, results) = types.split_once(" -> ").expect("operands and results");
    let args = (0..operands.matches("tensor<").count()).map(|i| format!("%a{i}"));
    let args = args.collect::<Vec<_>>().join(", ");
    let left = match results.matches("tensor<").count() {
        1 => "%0".to_owned(),
        n => format!("%0:{n}"),
    };
    let source = format!("{left} = \"{name}\"({args}) <{{{attributes}}}> : {types}\n");
    parse(&source).unwrap_or_else(|e| panic!("{source}: {e:?}"))
}

/// The program of a reference case.
fn program_of(case: &Case) -> Module {
    let attrs = case.props.iter();
    let attrs = attrs.map(|(key, attr)| format!("{key} = {}", print_attr(attr)));
    let attrs = attrs.collect::<Vec<_>>().join(", ");
    let list = |tensors: &[Tensor]| {
        let types = tensors.iter().map(|t| print_type(&type_of(t)));
        types.collect::<Vec<_>>().join(", ")
    };
    let types = format!("({}) -> ({})", list(&case.inputs), list(&case.wanted));
    program(&case.name, &attrs, &types)
}

/// Runs the only function.
fn run(module: &Module, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
    let func = &module.funcs[0];
    let inputs: IndexMap<String, Tensor> = argument_keys(func)
        .into_iter()
        .zip(inputs.iter().cloned())
        .collect();
    let registry = optc_ops::registry();
    let found = run_reference(
        module,
        &registry,
        &func.name,
        &inputs,
        &NoData,
        &Bindings::default(),
    );
    Ok(found.map_err(|e| e.to_string())?.into_values().collect())
}

/// The HLO text, if it has instructions for the whole program.
fn written(module: &Module) -> Option<String> {
    let none = |_: &str, _, _, _| Err("no files".to_owned());
    let made = hlo::emit(module, &optc_ops::registry(), None, &none);
    let text = made.unwrap_or_else(|e| panic!("{e:?}")).text;
    (!text.contains(" custom-call(")).then_some(text)
}

/// Imports and runs the text, and compares the results.
fn check(what: &str, text: &str, inputs: &[Tensor], wanted: &[Tensor]) {
    let back = optc_hlo::import(text).unwrap_or_else(|e| panic!("{what}: {e:?}\n{text}"));
    let found = run(&back.module, inputs).unwrap_or_else(|e| panic!("{what}: {e}\n{text}"));
    assert_eq!(found.len(), wanted.len(), "{what}\n{text}");
    for (found, wanted) in found.iter().zip(wanted) {
        close(&format!("{what}\n{text}"), found, wanted, 1e-5);
    }
}

#[test]
fn the_reference_cases_compute_the_same() {
    let mut opaque: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (number, case) in cases().iter().enumerate() {
        let what = format!("case {number}, {} {:?}", case.name, case.props);
        let text = written(&program_of(case));
        let counts = opaque.entry(case.name.clone()).or_default();
        counts.0 += usize::from(text.is_none());
        counts.1 += 1;
        let Some(text) = text else { continue };
        if OPAQUE_BACK.contains(&&*case.name) {
            let back = optc_hlo::import(&text).unwrap_or_else(|e| panic!("{what}: {e:?}\n{text}"));
            let opaque = |op| &*back.module.funcs[0].ops[op].name == "hbir.opaque";
            let some = back.module.funcs[0].body.iter().any(|&op| opaque(op));
            assert!(some, "{what}: nothing is opaque\n{text}");
            continue;
        }
        check(&what, &text, &case.inputs, &case.wanted);
    }
    let mut wrong = Vec::new();
    for (name, (count, all)) in opaque {
        let partly = PARTLY.iter().find(|(known, _)| *known == name);
        let wanted = match (WITHOUT_FORM.contains(&&*name), partly) {
            (true, _) => all,
            (false, Some((_, some))) => *some,
            (false, None) => 0,
        };
        if count != wanted {
            wrong.push(format!(
                "{name}: {count} custom calls of {all} cases, wanted {wanted}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Test elements for every parameter.
fn inputs(module: &Module) -> Vec<Tensor> {
    let func = &module.funcs[0];
    let input = |(n, &arg): (usize, &Value)| {
        let ty = func.ty(arg).as_tensor().expect("a tensor");
        let shape = ty.shape().expect("known sizes");
        let shape: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
        let count = shape.iter().product::<usize>();
        match ty.dtype.is_float() {
            true => {
                let element = |i: usize| 0.3 + 0.7 * ((i * 5 + n) % 11) as f64;
                Tensor::from_f64(ty.dtype, shape, (0..count).map(element))
            }
            false => Tensor::from_i64(ty.dtype, shape, (0..count).map(|i| (i + n) as i64 - 1)),
        }
    };
    func.args.iter().enumerate().map(input).collect()
}

#[test]
fn other_operations_compute_the_same() {
    for [name, attributes, types] in MORE {
        let module = program(name, attributes, types);
        verify(&module, &optc_ops::registry()).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let inputs = inputs(&module);
        let wanted = run(&module, &inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
        let text = written(&module).unwrap_or_else(|| panic!("{name} is a custom call"));
        check(name, &text, &inputs, &wanted);
    }
}

#[test]
fn every_operation_with_a_form_is_tried() {
    let cases = cases();
    for decl in optc_ops::registry().all() {
        let name = decl.name();
        let tried = cases.iter().any(|case| case.name == name)
            || MORE.iter().any(|more| more[0] == name)
            || ELSEWHERE.contains(&name);
        let without = WITHOUT_FORM.contains(&name);
        assert!(tried || without, "{name}: no program");
    }
}
