//! The lists `WITHOUT_FORM` agree with emission: they name the operations that a format cannot write.

use crate::ops_support;

use ops_support::{cases, type_of};
use optc_emit::{hlo, linalg, onnx, pallas, triton};
use optc_ir::text::{parse, print_attr, print_type};
use optc_ir::{Attr, Module, Registry, Tensor};
use optc_target::Target;
use std::collections::BTreeMap;

/// The reference cases as programs, by the name of the operation.
fn programs() -> BTreeMap<String, Vec<Module>> {
    let mut all: BTreeMap<String, Vec<Module>> = BTreeMap::new();
    for case in cases() {
        let args: Vec<String> = (0..case.inputs.len()).map(|i| format!("%a{i}")).collect();
        let attrs = case.props.iter();
        let attrs = attrs.map(|(key, attr)| format!("{key} = {}", print_attr(attr)));
        let list = |tensors: &[Tensor]| {
            let types = tensors.iter().map(|t| print_type(&type_of(t)));
            types.collect::<Vec<_>>().join(", ")
        };
        let left = match case.wanted.len() {
            1 => "%0".to_owned(),
            n => format!("%0:{n}"),
        };
        let source = format!(
            "{left} = \"{}\"({}) <{{{}}}> : ({}) -> ({})\n",
            case.name,
            args.join(", "),
            attrs.collect::<Vec<_>>().join(", "),
            list(&case.inputs),
            list(&case.wanted)
        );
        let module = parse(&source).unwrap_or_else(|e| panic!("{source}: {e:?}"));
        all.entry(case.name).or_default().push(module);
    }
    all
}

fn hlo_writes(module: &Module, registry: &Registry) -> bool {
    let none = |_: &str, _, _, _| Err("no files".to_owned());
    let made = hlo::emit(module, registry, None, &none);
    made.is_ok_and(|made| !made.text.contains(" custom-call("))
}

fn linalg_writes(module: &Module, registry: &Registry) -> bool {
    linalg::emit(module, registry, &|_, _, _, _| Err("no files".to_owned())).is_ok()
}

fn pallas_writes(module: &Module, registry: &Registry) -> bool {
    let target = Target::builtin("tpu").expect("a built-in target");
    pallas::emit(module, registry, &target).is_ok()
}

fn onnx_writes(module: &Module, registry: &Registry) -> bool {
    let mut module = module.clone();
    module.attrs.set("hbir.onnx_opset", Attr::int(28));
    let none = |_: &str, _, _, _| Err("no files".to_owned());
    onnx::emit(&module, registry, onnx::Options::default(), &none).is_ok()
}

/// Checks that an operation is listed exactly if none of its reference cases can be written.
fn check(without: &[&str], writes: fn(&Module, &Registry) -> bool) {
    let registry = optc_ops::registry();
    assert!(without.is_sorted(), "the names are sorted");
    for name in without {
        assert!(registry.get(name).is_some(), "{name}: no operation");
    }
    for (name, modules) in programs() {
        let written = modules.iter().any(|module| writes(module, &registry));
        let listed = without.contains(&&*name);
        assert_ne!(listed, written, "{name}: listed, and written");
    }
}

#[test]
fn hlo_writes_the_operations_that_it_does_not_list() {
    check(hlo::WITHOUT_FORM, hlo_writes);
}

#[test]
fn linalg_writes_the_operations_that_it_does_not_list() {
    check(linalg::WITHOUT_FORM, linalg_writes);
}

#[test]
fn pallas_writes_the_operations_that_it_does_not_list() {
    check(pallas::WITHOUT_FORM, pallas_writes);
}

#[test]
fn triton_writes_the_operations_that_it_does_not_list() {
    check(triton::WITHOUT_FORM, |module, registry| {
        let target = Target::builtin("triton").expect("a built-in target");
        triton::emit(module, registry, &target).is_ok()
    });
}

#[test]
fn a_layout_is_no_onnx() {
    let source = "func.func @main(%x: tensor<4x6xf32, {order = [1, 0]}>) -> tensor<4x6xf32, {order = [1, 0]}> {\n  \
                  return %x : tensor<4x6xf32, {order = [1, 0]}>\n}";
    let module = parse(source).expect("a program");
    let none = |_: &str, _, _, _| Err("no files".to_owned());
    let options = onnx::Options::default();
    let refused = onnx::emit(&module, &optc_ops::registry(), options, &none);
    assert_eq!(
        refused.expect_err("it has a layout").code.as_str(),
        "onnx-layout"
    );
}

#[test]
fn onnx_writes_the_operations_that_it_does_not_list() {
    check(onnx::WITHOUT_FORM, onnx_writes);
}

#[test]
fn linalg_keeps_locations() {
    let text = r#"func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x5xf32>) -> tensor<2x5xf32> {
  %0 = "hbir.softmax"(%x) <{axis = 1}> : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("soft")
  %1 = "hbir.matmul"(%0, %y) : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
  return %1 : tensor<2x5xf32>
}"#;
    let module = optc_ir::text::parse(text).unwrap();
    let out = linalg::emit(&module, &optc_ops::registry(), &|_, _, _, _| {
        Err("no files".to_owned())
    })
    .unwrap();
    let ends = |line: &&str| line.starts_with("    %") || line.starts_with("    }");
    let ends = out.lines().filter(ends).filter(|line| !line.ends_with('{'));
    let with = ends.clone().filter(|line| line.ends_with(" loc(\"soft\")"));
    let product = out.find("linalg.matmul").unwrap();
    let soft = out[..product].matches("loc(\"soft\")").count();
    assert!(1 < soft && soft == with.count(), "{out}");
    assert!(!out[product..].contains("loc("), "{out}");
}
