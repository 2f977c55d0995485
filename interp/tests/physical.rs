//! The naive physical interpreter on programs with layouts: it computes legal views, and exposes illegal ones.

use indexmap::IndexMap;
use optc_compare::{EquivalenceOptions, Fill, compare_exact, equivalent, random_inputs};
use optc_interp::{NoData, OpFailure, RunError, run_naive, run_reference};
use optc_ir::{Bindings, Module, Tensor};
use std::sync::Arc;

#[track_caller]
fn parse(text: &str) -> Module {
    optc_ir::text::parse(text).unwrap_or_else(|e| panic!("{text}\n{e:?}"))
}

type Outputs = IndexMap<String, Tensor>;

/// Runs `@main` on inputs with distinct values, by the reference interpreter and on the layouts.
#[track_caller]
fn run(text: &str) -> (Outputs, Result<Outputs, RunError>) {
    let (module, registry, none) = (parse(text), optc_ops::registry(), Bindings::default());
    let given = random_inputs(
        &module,
        "main",
        Fill::Unique(0),
        0,
        &none,
        &optc_ops::registry(),
    )
    .unwrap();
    let reference = run_reference(&module, &registry, "main", &given, &NoData, &none);
    let reference = reference.unwrap_or_else(|e| panic!("{text}\n{e}"));
    (
        reference,
        run_naive(&module, &registry, "main", &given, &NoData, &none),
    )
}

#[track_caller]
fn legal(text: &str) {
    let (reference, naive) = run(text);
    assert_eq!(
        naive.unwrap_or_else(|e| panic!("{text}\n{e}")),
        reference,
        "{text}"
    );
}

/// Checks that layouts that do not agree with the map give wrong elements.
#[track_caller]
fn wrong(text: &str) {
    let (reference, naive) = run(text);
    let naive = naive.unwrap_or_else(|e| panic!("{text}\n{e}"));
    let same = reference
        .iter()
        .all(|(k, t)| compare_exact(&naive[k], t).is_ok());
    assert!(!same, "the illegal view does not show: {text}");
}

#[track_caller]
fn failure(text: &str) -> OpFailure {
    match run(text).1 {
        Err(RunError::Op { source, .. } | RunError::Boundary { source, .. }) => *source,
        other => panic!("{text}\n{other:?}"),
    }
}

/// One operation on an argument, and a conversion of the result to row-major.
fn one(op: &str, from: &str, to: &str, plain: &str) -> String {
    format!(
        "func.func @main(%x: {from}) -> {plain} {{
           %0 = {op} : ({from}) -> {to}
           %1 = \"hbir.layout_convert\"(%0) : ({to}) -> {plain}
           return %1 : {plain}
         }}"
    )
}

#[test]
fn conversions_keep_the_value() {
    let layouts = [
        "order = [1, 0]",
        "block = \"2W2H\", order = [1, 0]",
        "block = \"3H4W|2H3W\"",
        "offset = 3, size = 60, strides = [9, 1]",
        "digits = \"5:d0 2:_ 4:d1 2:d1/4\"",
        "xla = \"0,1:T(2,4)(2,1)S(1)\"",
    ];
    for layout in layouts {
        let to = format!("tensor<5x7xsi8, {{{layout}}}>");
        legal(&one(
            "\"hbir.layout_convert\"(%x)",
            "tensor<5x7xsi8>",
            &to,
            "tensor<5x7xsi8>",
        ));
        legal(&one(
            "\"hbir.layout_convert\"(%x)",
            &to,
            "tensor<5x7xsi8, {order = [1, 0]}>",
            "tensor<5x7xsi8>",
        ));
        legal(&one(
            "\"hbir.transpose\"(%x) <{perm = [1, 0]}>",
            &to,
            "tensor<7x5xsi8>",
            "tensor<7x5xsi8>",
        ));
        legal(&one(
            "\"hbir.reshape\"(%x) <{shape = [35]}>",
            &to,
            "tensor<35xsi8>",
            "tensor<35xsi8>",
        ));
    }
}

#[test]
fn legal_views_compute() {
    let cases = [
        ("", "tensor<3x4xsi8>", "tensor<4x3xsi8>"),
        (
            "perm = [1, 0]",
            "tensor<3x5xsi8>",
            "tensor<5x3xsi8, {order = [1, 0]}>",
        ),
        (
            "perm = [1, 0]",
            "tensor<4x6xsi8, {block = \"2H\"}>",
            "tensor<6x4xsi8, {block = \"2W\", order = [1, 0]}>",
        ),
        (
            "perm = [1, 0]",
            "tensor<5x7xsi8, {block = \"2H4W\"}>",
            "tensor<7x5xsi8, {block = \"2W4H\", order = [1, 0]}>",
        ),
        (
            "shape = [4, 2, 3], perm = [1, 0, 2]",
            "tensor<8x3xsi8>",
            "tensor<2x4x3xsi8, {order = [1, 0, 2]}>",
        ),
        (
            "",
            "tensor<4x8xsi8, {order = [1, 0]}>",
            "tensor<32xsi8, {digits = \"8:d0 4:d0/8\"}>",
        ),
    ];
    for (attrs, from, to) in cases {
        let dims = to.split_once("xsi8").expect("an element type").0;
        let plain = format!("{dims}xsi8>");
        legal(&one(
            &format!("\"hbir.view\"(%x) <{{{attrs}}}>"),
            from,
            to,
            &plain,
        ));
    }
}

/// A named size counts as at least 1 when sizes are compared, but may be 0 at run time.
#[test]
fn views_of_named_sizes_compute_where_one_is_empty() {
    let module = parse(
        r#"func.func @main(%x: tensor<2x?x4xf32, {dims = [2, "N", 4], order = [1, 0, 2]}>, %y: tensor<2x3x4xf32, {order = [1, 0, 2]}>) -> tensor<?x2x4xf32, {dims = ["N+3", 2, 4]}> {
  %0 = "hbir.concat"(%x, %y) <{axis = 1}> : (tensor<2x?x4xf32, {dims = [2, "N", 4], order = [1, 0, 2]}>, tensor<2x3x4xf32, {order = [1, 0, 2]}>) -> tensor<2x?x4xf32, {dims = [2, "N+3", 4], order = [1, 0, 2]}>
  %1 = "hbir.view"(%0) <{perm = [1, 0, 2]}> : (tensor<2x?x4xf32, {dims = [2, "N+3", 4], order = [1, 0, 2]}>) -> tensor<?x2x4xf32, {dims = ["N+3", 2, 4]}>
  return %1 : tensor<?x2x4xf32, {dims = ["N+3", 2, 4]}>
}"#,
    );
    let (registry, none) = (optc_ops::registry(), Bindings::default());
    for n in [0, 2] {
        let bound = Bindings(IndexMap::from([(Arc::from("N"), n)]));
        let given = random_inputs(&module, "main", Fill::Unique(0), 0, &bound, &registry).unwrap();
        let result = run_reference(&module, &registry, "main", &given, &NoData, &none);
        let result = result.unwrap_or_else(|e| panic!("{n}: {e}"));
        let rows = usize::try_from(n).unwrap() + 3;
        assert_eq!(result["result0"].shape, [rows, 2, 4]);
    }
}

#[test]
fn illegal_views_show() {
    let view = |attrs: &str| format!("\"hbir.view\"(%x) <{{{attrs}}}>");
    let t = "tensor<3x5xsi8>";
    wrong(&one(
        &view("perm = [1, 0]"),
        t,
        "tensor<5x3xsi8>",
        "tensor<5x3xsi8>",
    ));
    wrong(&one(
        &view(""),
        "tensor<4x8xsi8, {order = [1, 0]}>",
        "tensor<32xsi8>",
        "tensor<32xsi8>",
    ));
    wrong(&one(&view(""), t, "tensor<3x5xsi8, {order = [1, 0]}>", t));

    let shifted = |n| format!("tensor<3xsi8, {{offset = {n}, size = 4, strides = [1]}}>");
    let error = failure(&one(&view(""), &shifted(0), &shifted(1), "tensor<3xsi8>"));
    let OpFailure::Poison {
        element, position, ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!((element.as_str(), *position), ("[2]", 3));

    let error = failure(&one(&view(""), "tensor<3x5xsi8, {block = \"4W\"}>", t, t));
    let wanted = "a view reuses its operand's buffer, but \
                  the layout row-major needs 15 positions and the buffer has 24";
    assert_eq!(error.to_string(), wanted);

    let space = |n| format!("tensor<8x128xsi8, {{xla = \"1,0:T(8,128)S({n})\"}}>");
    let error = failure(&one(&view(""), &space(0), &space(1), "tensor<8x128xsi8>"));
    assert!(
        error.to_string().contains("it leaves memory space 0 for 1"),
        "{error}"
    );
}

#[test]
fn operations_compute_through_layouts() {
    legal(
        "func.func @main(%x: tensor<3x5xf32, {block = \"2H2W\", order = [1, 0]}>,
                         %w: tensor<5x4xf32, {order = [1, 0]}>) -> tensor<4x3xf32> {
           %0 = \"hbir.matmul\"(%x, %w) : (tensor<3x5xf32, {block = \"2H2W\", order = [1, 0]}>,
             tensor<5x4xf32, {order = [1, 0]}>) -> tensor<3x4xf32, {order = [1, 0]}>
           %1 = \"hbir.relu\"(%0) : (tensor<3x4xf32, {order = [1, 0]}>) -> tensor<3x4xf32, {order = [1, 0]}>
           %2 = \"hbir.view\"(%1) <{perm = [1, 0]}> : (tensor<3x4xf32, {order = [1, 0]}>) -> tensor<4x3xf32>
           return %2 : tensor<4x3xf32>
         }",
    );
}

#[test]
fn results_and_arguments_have_their_layouts() {
    legal(
        "func.func @main(%x: tensor<3x5xsi8, {block = \"4W\"}>) -> tensor<5x3xsi8, {order = [1, 0]}> {
           %0 = \"hbir.layout_convert\"(%x) : (tensor<3x5xsi8, {block = \"4W\"}>) -> tensor<3x5xsi8>
           %1 = \"hbir.view\"(%0) <{perm = [1, 0]}> : (tensor<3x5xsi8>) -> tensor<5x3xsi8, {order = [1, 0]}>
           return %1 : tensor<5x3xsi8, {order = [1, 0]}>
         }",
    );
}

#[test]
fn calls_convert_at_the_boundary() {
    legal(
        "func.func @main(%x: tensor<3x5xsi8, {block = \"4W\"}>) -> tensor<5x3xsi8> {
           %0 = \"hbir.call\"(%x) <{callee = @f}> : (tensor<3x5xsi8, {block = \"4W\"}>) -> tensor<5x3xsi8>
           return %0 : tensor<5x3xsi8>
         }
         func.func @f(%y: tensor<3x5xsi8, {order = [1, 0]}>) -> tensor<5x3xsi8> {
           %0 = \"hbir.view\"(%y) <{perm = [1, 0]}> : (tensor<3x5xsi8, {order = [1, 0]}>) -> tensor<5x3xsi8>
           return %0 : tensor<5x3xsi8>
         }",
    );
}

/// The example of the documentation, before and after the fold of its transpose into a view.
#[test]
fn a_program_and_its_view_form_are_equivalent() {
    let before = parse(
        "func.func @main(%x: tensor<12x8xf32>) -> tensor<4x3x8xf32> {
           %0 = \"hbir.reshape\"(%x) <{shape = [3, 4, 8]}> : (tensor<12x8xf32>) -> tensor<3x4x8xf32>
           %1 = \"hbir.transpose\"(%0) <{perm = [1, 0, 2]}> : (tensor<3x4x8xf32>) -> tensor<4x3x8xf32>
           return %1 : tensor<4x3x8xf32>
         }",
    );
    let after = |order: &str| {
        parse(&format!(
            "func.func @main(%x: tensor<12x8xf32>) -> tensor<4x3x8xf32> {{
               %0 = \"hbir.view\"(%x) <{{shape = [3, 4, 8], perm = [1, 0, 2]}}>
                 : (tensor<12x8xf32>) -> tensor<4x3x8xf32, {{order = {order}}}>
               %1 = \"hbir.layout_convert\"(%0)
                 : (tensor<4x3x8xf32, {{order = {order}}}>) -> tensor<4x3x8xf32>
               return %1 : tensor<4x3x8xf32>
             }}"
        ))
    };
    let options = EquivalenceOptions::default();
    let check = |b: &Module| {
        equivalent(
            &before,
            b,
            &optc_ops::registry(),
            &NoData,
            &NoData,
            &options,
        )
    };
    check(&after("[1, 0, 2]")).unwrap();
    let error = check(&after("[0, 1, 2]")).unwrap_err().to_string();
    assert!(
        error.contains("of the second program on its layouts differs"),
        "{error}"
    );
}

/// Random token numbers are within the table that they index.
#[test]
fn indices_stay_in_range() {
    let module = parse(
        "func.func @main(%ids: tensor<64xsi64>, %t: tensor<3x4xf32>) -> tensor<64x4xf32> {
           %0 = \"hbir.gather\"(%t, %ids) <{axis = 0}> : (tensor<3x4xf32>, tensor<64xsi64>) -> tensor<64x4xf32>
           return %0 : tensor<64x4xf32>
         }",
    );
    for seed in 0..4 {
        let none = Bindings::default();
        let given = random_inputs(
            &module,
            "main",
            Fill::Normal,
            seed,
            &none,
            &optc_ops::registry(),
        )
        .unwrap();
        let ids = &given["ids"];
        let all: Vec<i64> = (0..64).map(|i| ids.i64_at(i)).collect();
        assert_eq!((all.iter().min(), all.iter().max()), (Some(&0), Some(&2)));
        run_reference(
            &module,
            &optc_ops::registry(),
            "main",
            &given,
            &NoData,
            &none,
        )
        .unwrap();
    }
}

#[test]
fn integers_that_become_floats_are_masks() {
    let module = parse(
        "func.func @main(%m: tensor<64xsi64>, %n: tensor<64xsi64>) -> (tensor<64xf32>, tensor<64xsi64>) {
           %0 = \"hbir.cast\"(%m) <{to = f32}> : (tensor<64xsi64>) -> tensor<64xf32>
           %1 = \"hbir.neg\"(%n) : (tensor<64xsi64>) -> tensor<64xsi64>
           return %0, %1 : tensor<64xf32>, tensor<64xsi64>
         }",
    );
    let given = random_inputs(
        &module,
        "main",
        Fill::Normal,
        0,
        &Bindings::default(),
        &optc_ops::registry(),
    )
    .unwrap();
    let largest = |key: &str| (0..64).map(|i| given[key].i64_at(i).abs()).max();
    assert_eq!((largest("m"), largest("n")), (Some(1), Some(8)));
}

/// Infinite positions belong to no row. The program does not run on such inputs, and is compared on others.
#[test]
fn inputs_that_the_first_program_refuses_are_left_out() {
    let gathers = parse(
        "func.func @main(%x: tensor<4xf32>, %rows: tensor<9x2xf32>) -> tensor<4x2xf32> {
           %0 = \"hbir.cast\"(%x) <{to = si32}> : (tensor<4xf32>) -> tensor<4xsi32>
           %1 = \"hbir.gather\"(%rows, %0) <{axis = 0}> : (tensor<9x2xf32>, tensor<4xsi32>) -> tensor<4x2xf32>
           return %1 : tensor<4x2xf32>
         }",
    );
    let twice = parse(
        "func.func @main(%x: tensor<4xf32>, %rows: tensor<9x2xf32>) -> tensor<4x2xf32> {
           %0 = \"hbir.cast\"(%x) <{to = si32}> : (tensor<4xf32>) -> tensor<4xsi32>
           %1 = \"hbir.add\"(%rows, %rows) : (tensor<9x2xf32>, tensor<9x2xf32>) -> tensor<9x2xf32>
           %2 = \"hbir.gather\"(%1, %0) <{axis = 0}> : (tensor<9x2xf32>, tensor<4xsi32>) -> tensor<4x2xf32>
           return %2 : tensor<4x2xf32>
         }",
    );
    let registry = optc_ops::registry();
    let options = EquivalenceOptions::default();
    let check = |b| equivalent(&gathers, b, &registry, &NoData, &NoData, &options);
    check(&gathers).unwrap();
    let error = check(&twice).unwrap_err().to_string();
    assert!(error.contains("differs"), "{error}");
}
