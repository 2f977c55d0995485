//! Written models use only operators of their opset: programs and the operators that they become, version by version.

use optc_emit::onnx;
use optc_ir::text::parse;
use optc_ir::{Attr, Module};
use optc_onnx_proto::prost::Message;
use optc_onnx_proto::{GraphProto, ModelProto, schema};

/// A program whose function `main` has one argument, `%x` of the type `from`.
fn program(from: &str, lines: &str, to: &str) -> Module {
    let text = format!("func.func @main(%x: {from}) -> {to} {{\n{lines}\n  return %y : {to}\n}}");
    parse(&text).unwrap_or_else(|e| panic!("{text}: {e:?}"))
}

fn graph(module: &Module, opset: i64) -> Result<GraphProto, String> {
    let mut module = module.clone();
    module.attrs.set("hbir.onnx_opset", Attr::int(opset));
    let none = |_: &str, _, _, _| Err(String::new());
    let options = onnx::Options::default();
    let made = onnx::emit(&module, &optc_ops::registry(), options, &none).map_err(|e| e.message)?;
    let model = ModelProto::decode(&*made.bytes).expect("a model");
    Ok(model.graph.expect("a graph"))
}

/// The operators that a program becomes; each must exist in this version, with its attributes and inputs.
#[track_caller]
fn operators(module: &Module, opset: i64) -> Vec<String> {
    let graph = graph(module, opset).unwrap_or_else(|e| panic!("version {opset}: {e}"));
    for node in &graph.node {
        let schema = schema("", &node.op_type, opset);
        let schema = schema.unwrap_or_else(|| panic!("{} in version {opset}", node.op_type));
        for attr in &node.attribute {
            assert!(schema.has_attribute(&attr.name), "{}", attr.name);
        }
        assert!(schema.has_inputs(node.input.len()), "{}", node.op_type);
    }
    graph.node.into_iter().map(|node| node.op_type).collect()
}

#[test]
fn contractions_become_products_where_there_is_no_einsum() {
    let turned = program(
        "tensor<3x4xf32>",
        r#"  %w = "hbir.constant"() <{value = dense<1.0> : tensor<3x5xf32>}> : () -> tensor<3x5xf32>
  %y = "hbir.einsum"(%x, %w) <{equation = "KM,KN->MN"}> : (tensor<3x4xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>"#,
        "tensor<4x5xf32>",
    );
    for opset in [7, 10, 11, 12, 28] {
        assert_eq!(operators(&turned, opset), ["Gemm"], "{opset}");
    }
    let several = program(
        "tensor<2x3x4x5xf32>",
        r#"  %y = "hbir.einsum"(%x, %x) <{equation = "bhij,bkij->bhk"}> : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x3xf32>"#,
        "tensor<2x3x3xf32>",
    );
    assert_eq!(operators(&several, 12), ["Einsum"]);
    assert_eq!(
        operators(&several, 11),
        ["Reshape", "Transpose", "Reshape", "MatMul"]
    );
}

#[test]
fn reductions_of_no_dimension_are_of_each_element() {
    for (kind, wanted) in [
        ("sum", "Identity"),
        ("max", "Identity"),
        ("l2", "Abs"),
        ("sum_square", "Mul"),
        ("log_sum", "Log"),
    ] {
        let line = format!(
            r#"  %y = "hbir.reduce"(%x) <{{axes = [], keepdims = true, kind = "{kind}"}}> : (tensor<f32>) -> tensor<f32>"#
        );
        let scalar = program("tensor<f32>", &line, "tensor<f32>");
        for opset in [7, 13, 18, 28] {
            assert_eq!(operators(&scalar, opset), [wanted], "{kind}");
        }
    }
}

#[test]
fn resizes_are_upsamples_before_they_came() {
    let larger = program(
        "tensor<1x2x3x4xf32>",
        r#"  %y = "hbir.resize"(%x) <{coordinate_transformation_mode = "asymmetric", mode = "linear", nearest_mode = "floor", scales = [1.0, 1.0, 2.0, 3.0]}> : (tensor<1x2x3x4xf32>) -> tensor<1x2x6x12xf32>"#,
        "tensor<1x2x6x12xf32>",
    );
    for (opset, wanted) in [
        (7, "Upsample"),
        (9, "Upsample"),
        (10, "Resize"),
        (11, "Resize"),
        (28, "Resize"),
    ] {
        assert_eq!(operators(&larger, opset), [wanted], "{opset}");
    }
    // The mode was removed in version 13, so the nearest elements are gathered.
    let nearest = program(
        "tensor<1x2x3x4xf32>",
        r#"  %y = "hbir.resize"(%x) <{coordinate_transformation_mode = "tf_half_pixel_for_nn", mode = "nearest", nearest_mode = "floor", sizes = [1, 2, 5, 4]}> : (tensor<1x2x3x4xf32>) -> tensor<1x2x5x4xf32>"#,
        "tensor<1x2x5x4xf32>",
    );
    assert_eq!(operators(&nearest, 10), ["Gather"]);
    assert_eq!(operators(&nearest, 11), ["Resize"]);
    assert_eq!(operators(&nearest, 13), ["Gather"]);
}

/// The inputs that a resize is written with, true if present.
fn inputs(module: &Module, opset: i64) -> Vec<bool> {
    let graph = graph(module, opset).expect("a model");
    let mut nodes = graph.node.iter();
    let resize = nodes
        .find(|node| node.op_type == "Resize")
        .expect("a resize");
    resize.input.iter().map(|name| !name.is_empty()).collect()
}

#[test]
fn scales_that_no_float_is_are_sizes() {
    let ty = r#"tensor<?x4x3x3xf32, {dims = ["N", 4, 3, 3]}>"#;
    let to = r#"tensor<?x4x7x7xf32, {dims = ["N", 4, 7, 7]}>"#;
    let line = |scale: &str| {
        format!(
            r#"  %y = "hbir.resize"(%x) <{{coordinate_transformation_mode = "asymmetric", mode = "nearest", nearest_mode = "floor", scales = [1.0, 1.0, {scale}, {scale}]}}> : ({ty}) -> {to}"#
        )
    };
    // 7/3 is smaller as an `f32`, which would give 6 elements.
    let third = program(ty, &line("2.3333333333333335"), to);
    assert_eq!(inputs(&third, 17), [true, false, false, true]);
    let exact = program(ty, &line("2.5"), to);
    assert_eq!(inputs(&exact, 17), [true, false, true]);
}

#[test]
fn one_scale_of_several_sizes_keeps_the_ratio() {
    // 5.6 elements become 6, but the factor alone would give 5.
    let kept = program(
        "tensor<1x3x4x5xf32>",
        r#"  %y = "hbir.resize"(%x) <{mode = "linear", scales = [1.0, 1.0, 1.4, 1.4], sizes = [1, 3, 6, 7]}> : (tensor<1x3x4x5xf32>) -> tensor<1x3x6x7xf32>"#,
        "tensor<1x3x6x7xf32>",
    );
    let graph = graph(&kept, 18).expect("a model");
    let attribute = |name: &str| graph.node[0].attribute.iter().find(|a| a.name == name);
    let policy = attribute("keep_aspect_ratio_policy").and_then(|a| a.s.clone());
    assert_eq!(policy.as_deref(), Some(&b"not_larger"[..]));
    assert_eq!(attribute("axes").map(|a| &a.ints[..]), Some(&[2, 3][..]));
    // Without the policy each dimension is a product with its weights.
    let products = operators(&kept, 17);
    assert_eq!(products.iter().filter(|name| *name == "MatMul").count(), 2);
}

#[test]
fn windows_that_are_left_out_are_not_padded_for() {
    let pool = |to: u64, more: &str| {
        let line = format!(
            r#"  %y = "hbir.max_pool"(%x) <{{kernel = [3], strides = [3], {more}}}> : (tensor<1x1x8xf32>) -> tensor<1x1x{to}xf32>"#
        );
        let program = program("tensor<1x1x8xf32>", &line, &format!("tensor<1x1x{to}xf32>"));
        let node = graph(&program, 12).expect("a model").node.remove(0);
        let ints = |name: &str| node.attribute.iter().find(|a| a.name == name).cloned();
        (ints("pads").map(|a| a.ints), ints("ceil_mode").is_some())
    };
    // The fourth window would begin after the last element.
    let dropped = pool(3, "pads = [1, 1], ceil_mode = true");
    assert_eq!(dropped, (Some(vec![1, 0]), false));
    // The last window exceeds the end.
    let kept = pool(3, "pads = [0, 0], ceil_mode = true");
    assert_eq!(kept, (Some(vec![0, 0]), true));
}

#[test]
fn the_greatest_elements_are_found_in_every_version() {
    let line = |largest: bool| {
        format!(
            r#"  %y:2 = "hbir.top_k"(%x) <{{axis = 0, k = 2, largest = {largest}, sorted = true}}> : (tensor<6x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xsi64>)"#
        )
    };
    let made = |largest: bool| {
        let text = format!(
            "func.func @main(%x: tensor<6x3xf32>) -> tensor<2x3xf32> {{\n{}\n  return %y#0 : tensor<2x3xf32>\n}}",
            line(largest)
        );
        parse(&text).expect("a program")
    };
    for opset in [7, 10, 11, 28] {
        assert_eq!(operators(&made(true), opset), ["TopK"], "{opset}");
    }
    assert_eq!(operators(&made(false), 10), ["Neg", "TopK", "Neg"]);
    assert_eq!(operators(&made(false), 11), ["TopK"]);
}

#[test]
fn what_a_version_has_no_operators_for_is_refused() {
    let bits = program(
        "tensor<4xui8>",
        r#"  %y = "hbir.bit_xor"(%x, %x) : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>"#,
        "tensor<4xui8>",
    );
    let refused = graph(&bits, 17).expect_err("it came with version 18");
    assert!(refused.contains("version 17"), "{refused}");
    assert_eq!(operators(&bits, 18), ["BitwiseXor"]);
    // A type that was added later than the operator.
    let narrow = program(
        "tensor<4xbf16>",
        r#"  %y = "hbir.cos"(%x) : (tensor<4xbf16>) -> tensor<4xbf16>"#,
        "tensor<4xbf16>",
    );
    assert_eq!(operators(&narrow, 22), ["Cos"]);
    assert_eq!(operators(&narrow, 21), ["Cast", "Cos", "Cast"]);
}

/// Before version 13 all dimensions from the axis on were merged. No transpose is needed if the other dimensions have
/// extent 1.
#[test]
fn softmax_over_the_only_long_dimension_is_not_transposed() {
    let soft = |ty: &str| {
        let line = format!("  %y = \"hbir.softmax\"(%x) <{{axis = 1}}> : ({ty}) -> {ty}");
        program(ty, &line, ty)
    };
    let one = soft("tensor<2x5x1x1xf32>");
    assert_eq!(operators(&one, 9), ["Softmax"]);
    let two = soft("tensor<2x5x1x3xf32>");
    assert_eq!(operators(&two, 9), ["Transpose", "Softmax", "Transpose"]);
    assert_eq!(operators(&two, 13), ["Softmax"]);
}

/// A product and a sum that were one operator are restored, whatever the number of rows; others are not.
#[test]
fn a_gemm_stays_one() {
    let sum = |location: &str, bias: &str| {
        let lines = format!(
            r#"  %w = "hbir.constant"() <{{value = dense<1.0> : tensor<4x3xf32>}}> : () -> tensor<4x3xf32>
  %b = "hbir.constant"() <{{value = dense<2.0> : {bias}}}> : () -> {bias}
  %0 = "hbir.matmul"(%x, %w) : (tensor<?x4xf32, {{dims = ["B", 4]}}>, tensor<4x3xf32>) -> tensor<?x3xf32, {{dims = ["B", 3]}}> loc("gemm")
  %y = "hbir.add"(%0, %b) : (tensor<?x3xf32, {{dims = ["B", 3]}}>, {bias}) -> tensor<?x3xf32, {{dims = ["B", 3]}}> loc("{location}")"#
        );
        let [from, to] = [4, 3].map(|n| format!("tensor<?x{n}xf32, {{dims = [\"B\", {n}]}}>"));
        operators(&program(&from, &lines, &to), 13)
    };
    assert_eq!(sum("gemm", "tensor<3xf32>"), ["Gemm"]);
    assert_eq!(sum("sum", "tensor<3xf32>"), ["MatMul", "Add"]);
    assert_eq!(sum("gemm", "tensor<1xf32>"), ["MatMul", "Add"]);
}

/// A large splat constant is made by a node, which precedes the product that the sum belongs to.
#[test]
fn large_constants_stand_before_what_reads_them() {
    let lines = r#"  %w = "hbir.constant"() <{value = dense<1.0> : tensor<2x20000xf32>}> : () -> tensor<2x20000xf32>
  %b = "hbir.constant"() <{value = dense<2.0> : tensor<20000xf32>}> : () -> tensor<20000xf32>
  %0 = "hbir.matmul"(%x, %w) : (tensor<3x2xf32>, tensor<2x20000xf32>) -> tensor<3x20000xf32> loc("gemm")
  %y = "hbir.add"(%0, %b) : (tensor<3x20000xf32>, tensor<20000xf32>) -> tensor<3x20000xf32> loc("gemm")"#;
    let sum = program("tensor<3x2xf32>", lines, "tensor<3x20000xf32>");
    let fill = "ConstantOfShape";
    assert_eq!(operators(&sum, 13), [fill, fill, "Gemm"]);
    // Version 9 added the node.
    assert_eq!(operators(&sum, 8), ["Gemm"]);
}

/// A size that several nodes need is computed once; one that is the extent of a value is read from the value.
#[test]
fn sizes_are_computed_once() {
    let half = "tensor<?x?xf32, {dims = [\"H\", \"(W+1)//2\"]}>";
    let grown = "tensor<?x3x?xf32, {dims = [\"H\", 3, \"(W+1)//2\"]}>";
    let lines = format!(
        r#"  %0 = "hbir.slice"(%x) <{{limits = ["H", "W"], starts = [0, 0], strides = [1, 2]}}> : (tensor<?x?xf32, {{dims = ["H", "W"]}}>) -> {half}
  %1 = "hbir.broadcast"(%0) <{{dims = [0, 2], shape = ["H", 3, "(W+1)//2"]}}> : ({half}) -> {grown}
  %2 = "hbir.exp"(%0) : ({half}) -> {half}
  %3 = "hbir.broadcast"(%2) <{{dims = [0, 2], shape = ["H", 3, "(W+1)//2"]}}> : ({half}) -> {grown}
  %y = "hbir.add"(%1, %3) : ({grown}, {grown}) -> {grown}"#
    );
    let from = "tensor<?x?xf32, {dims = [\"H\", \"W\"]}>";
    let found = operators(&program(from, &lines, grown), 13);
    let count = |op: &str| found.iter().filter(|found| *found == op).count();
    assert_eq!(count("Div"), 0, "{found:?}");
    assert_eq!(count("Shape"), 2, "{found:?}");
    assert_eq!(count("Gather"), 3, "{found:?}");
    // The shape of both broadcasts; the slice has one limit.
    assert_eq!(count("Concat"), 1, "{found:?}");
}

/// An extent is a part of a shape where the version has such, and is read once.
#[test]
fn sizes_take_few_operators() {
    let repeated = program(
        r#"tensor<?x1xf32, {dims = ["S", 1]}>"#,
        r#"  %y = "hbir.broadcast"(%x) <{shape = ["S", "S+(3*S+1)//4"]}> : (tensor<?x1xf32, {dims = ["S", 1]}>) -> tensor<?x?xf32, {dims = ["S", "S+(3*S+1)//4"]}>"#,
        r#"tensor<?x?xf32, {dims = ["S", "S+(3*S+1)//4"]}>"#,
    );
    let computed = ["Mul", "Add", "Div", "Concat", "Expand"];
    assert_eq!(
        operators(&repeated, 15),
        [&["Shape"][..], &computed].concat()
    );
    let older = [&["Shape", "Gather"][..], &computed].concat();
    assert_eq!(operators(&repeated, 14), older);
}

/// A size that is used as a number is an extent and a cast. It is read from a value that has several readers: a second reader
/// would keep a runtime from fusing the only one with the value.
#[test]
fn sizes_as_numbers_take_few_operators() {
    let half = "tensor<?xf32, {dims = [\"(W+1)//2\"]}>";
    let lines = format!(
        r#"  %0 = "hbir.slice"(%x) <{{limits = ["W"], starts = [0], strides = [2]}}> : (tensor<?xf32, {{dims = ["W"]}}>) -> {half}
  %1 = "hbir.relu"(%0) : ({half}) -> {half}
  %2 = "hbir.iota"() <{{axis = 0}}> : () -> tensor<?xf32, {{dims = ["(W+1)//2"]}}>
  %3 = "hbir.slice"(%2) <{{limits = ["(W+1)//2"], starts = ["(W+1)//2-1"]}}> : ({half}) -> tensor<1xf32>
  %4 = "hbir.mul"(%1, %3) : ({half}, tensor<1xf32>) -> {half}
  %y = "hbir.add"(%4, %1) : ({half}, {half}) -> {half}"#
    );
    let from = "tensor<?xf32, {dims = [\"W\"]}>";
    let graph = graph(&program(from, &lines, half), 15).expect("a model");
    let found: Vec<&str> = graph.node.iter().map(|n| &*n.op_type).collect();
    let bound_and_number = ["Shape", "Slice", "Relu", "Shape", "Add", "Cast"];
    assert_eq!(found, [&bound_and_number[..], &["Mul", "Add"]].concat());
    assert_eq!(graph.node[3].input, graph.node[2].output);
}

#[test]
fn bits_are_cast_where_the_version_can() {
    let line =
        r#"  %y = "hbir.bitcast_convert"(%x) <{to = si32}> : (tensor<3xf32>) -> tensor<3xsi32>"#;
    let program = program("tensor<3xf32>", line, "tensor<3xsi32>");
    assert_eq!(operators(&program, 26), ["BitCast"]);
    assert!(graph(&program, 25).unwrap_err().contains("version 26"));
}

/// `Slice` takes the minimum of a bound and the extent itself, and counts from the end.
#[test]
fn bounds_of_named_extents_are_written_as_numbers() {
    let slice = |list: &str, to: &str| {
        let line = format!(
            r#"  %y = "hbir.slice"(%x) <{{{list}}}> : (tensor<?xf32, {{dims = ["S"]}}>) -> {to}"#
        );
        let made = program(r#"tensor<?xf32, {dims = ["S"]}>"#, &line, to);
        assert_eq!(operators(&made, 17), ["Slice"], "{list}");
    };
    let to = |size: &str| format!(r#"tensor<?xf32, {{dims = ["{size}"]}}>"#);
    slice(r#"limits = ["min(7,S)"], starts = [0]"#, &to("min(7,S)"));
    slice(
        r#"limits = [9223372036854775807], starts = ["min(7,S)"]"#,
        &to("S-min(7,S)"),
    );
    slice(r#"limits = ["S-2"], starts = ["S-5"]"#, "tensor<3xf32>");
    slice(
        r#"limits = [-1], starts = ["min(7,S-1)"], strides = [-1]"#,
        &to("min(7,S-1)+1"),
    );
}

/// onnxruntime makes one operator of a GELU by tanh only if the argument is halved first.
#[test]
fn a_gelu_by_tanh_halves_its_argument() {
    let gelu = program(
        "tensor<4xf32>",
        r#"  %y = "hbir.gelu"(%x) <{approximate = "tanh"}> : (tensor<4xf32>) -> tensor<4xf32>"#,
        "tensor<4xf32>",
    );
    let graph = graph(&gelu, 17).unwrap();
    let by = |name: &str| {
        let made = graph.node.iter().find(|n| n.output[0] == name);
        made.map_or("", |n| &n.op_type)
    };
    let last = graph.node.last().unwrap();
    let from: Vec<&str> = last.input.iter().map(|name| by(name)).collect();
    assert_eq!((&*last.op_type, from), ("Mul", vec!["Mul", "Add"]));
    assert_eq!(operators(&gelu, 20), ["Gelu"]);
}
