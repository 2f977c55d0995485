//! Error codes of programs that cannot be run: one program for each code that no other test has.

use indexmap::IndexMap;
use optc_interp::{NoData, run_naive, run_reference};
use optc_ir::{AttrDict, Bindings, DType, Func, Loc, Module, Tensor, Type, Value, text};
use std::sync::Arc;

fn input(shape: &[usize]) -> IndexMap<String, Tensor> {
    let n: usize = shape.iter().product();
    let values = (0..n).map(|i| i as f64);
    IndexMap::from([(
        "x".to_owned(),
        Tensor::from_f64(DType::F32, shape.to_vec(), values),
    )])
}

/// The codes that the reference interpreter and the naive interpreter report.
fn codes(module: &Module, inputs: &IndexMap<String, Tensor>) -> [&'static str; 2] {
    let (registry, bindings) = (optc_ops::registry(), Bindings::default());
    let reference = run_reference(module, &registry, "main", inputs, &NoData, &bindings);
    let naive = run_naive(module, &registry, "main", inputs, &NoData, &bindings);
    [reference, naive].map(|run| run.map_or_else(|e| e.to_diagnostic().code.as_str(), |_| "done"))
}

#[track_caller]
fn check(source: &str, shape: &[usize], wanted: [&str; 2]) {
    let module = text::parse(source).expect("the text is well formed");
    assert_eq!(codes(&module, &input(shape)), wanted, "{source}");
}

#[test]
fn indices_out_of_bounds_and_absent_constants() {
    let gather = r#"func.func @main(%x: tensor<3xf32>) -> tensor<1xf32> {
  %0 = "hbir.constant"() <{value = dense<7> : tensor<1xsi64>}> : () -> tensor<1xsi64>
  %1 = "hbir.gather"(%x, %0) <{axis = 0}> : (tensor<3xf32>, tensor<1xsi64>) -> tensor<1xf32>
  return %1 : tensor<1xf32>
}"#;
    check(gather, &[3], ["run-failed"; 2]);
    let absent = r#"func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "hbir.constant"() <{data = #hbir.external<"absent.weights", 0, 12>}> : () -> tensor<3xf32>
  %1 = "hbir.add"(%x, %0) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}"#;
    check(absent, &[3], ["constant-data"; 2]);
    let circle = r#"func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "hbir.call"(%x) <{callee = @main}> : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}"#;
    check(circle, &[3], ["run-call"; 2]);
    check(
        &circle.replace("callee = @main", "callee = @other"),
        &[3],
        ["run-call"; 2],
    );
}

#[test]
fn layouts_that_lie_show_on_buffers_alone() {
    let view = r#"func.func @main(%x: tensor<3x5xf32>) -> tensor<15xf32> {
  %0 = "hbir.layout_convert"(%x) : (tensor<3x5xf32>) -> tensor<3x5xf32, {block = "4H", order = [0, 1]}>
  %1 = "hbir.view"(%0) : (tensor<3x5xf32, {block = "4H", order = [0, 1]}>) -> tensor<15xf32>
  return %1 : tensor<15xf32>
}"#;
    check(view, &[3, 5], ["done", "run-illegal-view"]);
}

/// A function whose operation is made without the parser and the verifier.
fn by_hand(make: impl FnOnce(&mut Func, Value)) -> Module {
    let mut func = Func::new("main");
    let x = func.add_arg(Type::tensor(&[3], DType::F32), Some("x"));
    make(&mut func, x);
    Module {
        funcs: vec![func],
        ..Module::default()
    }
}

#[test]
fn programs_that_no_verifier_saw() {
    let ty = || Type::tensor(&[3], DType::F32);
    let undefined = by_hand(|func, _| {
        let late = func.make_op(
            Arc::from("hbir.neg"),
            Vec::new(),
            AttrDict::new(),
            vec![ty()],
            Loc::Unknown,
        );
        let late = func.ops[late].results[0];
        let op = func.push_op(
            "hbir.neg",
            vec![late],
            AttrDict::new(),
            vec![ty()],
            Loc::Unknown,
        );
        let result = func.ops[op].results[0];
        func.add_result(result, None);
    });
    assert_eq!(codes(&undefined, &input(&[3])), ["run-undefined"; 2]);
    let no_tensor = by_hand(|func, x| {
        let none = vec![Type::Other(Arc::from("none"))];
        let op = func.push_op("hbir.neg", vec![x], AttrDict::new(), none, Loc::Unknown);
        let result = func.ops[op].results[0];
        func.add_result(result, None);
    });
    assert_eq!(codes(&no_tensor, &input(&[3])), ["run-not-tensor"; 2]);
    let mut argument = by_hand(|func, x| func.add_result(x, None));
    let arg = argument.funcs[0].args[0];
    argument.funcs[0].values[arg].ty = Type::Other(Arc::from("none"));
    assert_eq!(codes(&argument, &input(&[3])), ["input-kind"; 2]);
}

#[test]
fn layouts_that_cannot_be_addressed() {
    let module = by_hand(|func, x| {
        let source = r#"func.func @main(%x: tensor<3x5xf32, {order = [1, 0]}>) -> tensor<3x5xf32, {order = [1, 0]}> {
  return %x : tensor<3x5xf32, {order = [1, 0]}>
}"#;
        let donor = text::parse(source).expect("the text is well formed");
        let donor = &donor.funcs[0];
        let notation = donor
            .ty(donor.args[0])
            .as_tensor()
            .expect("a tensor")
            .notation
            .clone();
        let plain = func.ty(x).as_tensor().expect("a tensor").clone();
        let wrong = vec![plain.with_notation(notation).into()];
        let op = func.push_op(
            "hbir.layout_convert",
            vec![x],
            AttrDict::new(),
            wrong,
            Loc::Unknown,
        );
        let result = func.ops[op].results[0];
        func.add_result(result, None);
    });
    assert_eq!(codes(&module, &input(&[3])), ["done", "run-layout"]);
}

/// `depth` functions; each calls the next one twice.
fn doubled(depth: usize) -> Module {
    let ty = "(tensor<2xf32>) -> tensor<2xf32>";
    let func = |i: usize| {
        let name = if i == 0 {
            "main".to_owned()
        } else {
            format!("f{i}")
        };
        let line = |at: usize, of: &str| match i + 1 < depth {
            true => format!(
                "  %{at} = \"hbir.call\"({of}) <{{callee = @f{}}}> : {ty}\n",
                i + 1
            ),
            false => format!("  %{at} = \"hbir.relu\"({of}) : {ty}\n"),
        };
        let (first, second) = (line(0, "%x"), line(1, "%0"));
        format!(
            "func.func @{name}(%x: tensor<2xf32>) -> tensor<2xf32> {{\n{first}{second}  return %1 : tensor<2xf32>\n}}\n"
        )
    };
    let source: String = (0..depth).map(func).collect();
    text::parse(&source).expect("the text is well formed")
}

#[test]
fn calls_that_add_up_to_too_many_operations_are_not_begun() {
    assert_eq!(codes(&doubled(6), &input(&[2])), ["done"; 2]);
    assert_eq!(codes(&doubled(40), &input(&[2])), ["run-steps"; 2]);
    let module = doubled(40);
    let (registry, bindings) = (optc_ops::registry(), Bindings::default());
    let run = run_reference(&module, &registry, "main", &input(&[2]), &NoData, &bindings);
    let wanted = format!("@main executes {} operations", (1u64 << 41) - 2);
    let error = run.unwrap_err().to_string();
    assert!(error.starts_with(&wanted), "{error}");
    let circle = r#"func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "hbir.call"(%x) <{callee = @main}> : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "hbir.call"(%0) <{callee = @main}> : (tensor<3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}"#;
    check(circle, &[3], ["run-steps"; 2]);
}
