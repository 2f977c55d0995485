//! Element types that are only stored and moved, and graphs with open axes or names.

use crate::support;

use optc_ir::text::print_type;
use optc_ir::{DType, Func, MiniFloat, TensorType};
use optc_onnx::{Import, Options, import};
use support::*;

#[track_caller]
fn imported(graph: &Graph) -> Import {
    let import = import(&graph.bytes(), &Options::default());
    let import = import.unwrap_or_else(|diags| panic!("refused: {diags:?}"));
    let verified = optc_ir::verify::verify(&import.module, &optc_ops::registry());
    assert!(verified.is_ok(), "{verified:?}");
    import
}

fn result_type(func: &Func, i: usize) -> TensorType {
    let ty = func.ty(func.results[i]);
    let ty = ty
        .as_tensor()
        .unwrap_or_else(|| panic!("{}", print_type(ty)));
    ty.clone()
}

fn sized(shape: &[u64], dtype: DType) -> TensorType {
    TensorType::fixed(shape, dtype)
}

/// Two complex numbers of 16 bytes each, no two bytes equal.
const TWO_PAIRS: [u8; 32] = {
    let mut bytes = [0; 32];
    let mut i = 0;
    while i < bytes.len() {
        bytes[i] = i as u8;
        i += 1;
    }
    bytes
};

/// The number in `TensorProto.DataType`, the type, and the bytes of the elements 1 and 2.
const STORED: [(i64, DType, &[u8]); 8] = [
    (
        14,
        DType::Complex64,
        &[
            0, 0, 0x80, 0x3F, 0, 0, 0, 0x40, 0, 0, 0, 0x40, 0, 0, 0xC0, 0x7F,
        ],
    ),
    (15, DType::Complex128, &TWO_PAIRS),
    (17, DType::Mini(MiniFloat::E4M3FN), &[0x38, 0xFF]),
    (18, DType::Mini(MiniFloat::E4M3FNUZ), &[0x40, 0x80]),
    (19, DType::Mini(MiniFloat::E5M2), &[0x3C, 0x7D]),
    (20, DType::Mini(MiniFloat::E5M2FNUZ), &[0x40, 0x80]),
    (23, DType::Mini(MiniFloat::E2M1FN), &[0x42]),
    (24, DType::Mini(MiniFloat::E8M0FNU), &[0x7F, 0x80]),
];

#[test]
fn transposes_of_stored_elements_are_operations() {
    for (elem, dtype, bytes) in STORED {
        let graph = Graph::new()
            .input(fixed("x", elem, &[2, 3]))
            .constant(raw("w", elem, &[1, 2], bytes))
            .node(node("Transpose", &["x"], &["t"], vec![]))
            .node(node(
                "Concat",
                &["t", "w"],
                &["y"],
                vec![attr_int("axis", 0)],
            ))
            .output(fixed("y", elem, &[4, 2]));
        let import = imported(&graph);
        let func = &import.module.funcs[0];
        assert!(import.diags.is_empty(), "{:?}", import.diags);
        assert_eq!(names(func), ["transpose", "concat"], "{dtype}");
        assert_eq!(result_type(func, 0), sized(&[4, 2], dtype));
        let mut all = func.body.iter().map(|&op| &func.ops[op]);
        let constant = all.find(|op| &*op.name == "hbir.constant").unwrap();
        let Some(optc_ir::Attr::Dense(dense)) = constant.props.get("value") else {
            panic!("the bytes of {dtype}");
        };
        let unpacked = [2, 4];
        let wanted = if dtype.bits() == 4 {
            &unpacked[..]
        } else {
            bytes
        };
        assert_eq!(dense.bytes, wanted, "{dtype}");
    }
}

/// Arithmetic on such types keeps its operator, and all types around it are known.
#[test]
fn arithmetic_of_stored_elements_stays_opaque() {
    let graph = Graph::new()
        .input(fixed("x", 14, &[2, 3]))
        .node(node("Add", &["x", "x"], &["a"], vec![]))
        .node(node("Transpose", &["a"], &["y"], vec![]))
        .info(fixed("a", 14, &[2, 3]))
        .output(fixed("y", 14, &[3, 2]));
    let import = imported(&graph);
    let func = &import.module.funcs[0];
    assert_eq!(names(func), ["opaque", "transpose"]);
    assert_eq!(result_type(func, 0), sized(&[3, 2], DType::Complex64));
}

#[test]
fn small_floats_are_converted_and_quantized() {
    let to = vec![attr_int("to", 17)];
    let graph = Graph::new()
        .input(fixed("x", F32, &[2, 3]))
        .constant(floats("s", &[], &[0.5]))
        .constant(raw("z", 17, &[], &[0]))
        .node(node("Cast", &["x"], &["c"], to))
        .node(node("QuantizeLinear", &["x", "s", "z"], &["q"], vec![]))
        .node(node("DequantizeLinear", &["q", "s", "z"], &["y"], vec![]))
        .output(fixed("c", 17, &[2, 3]))
        .output(fixed("y", F32, &[2, 3]));
    let import = imported(&graph);
    let found = names(&import.module.funcs[0]).join(" ");
    assert_eq!(found, "clamp cast div clamp cast cast mul");
}

#[test]
fn indices_of_pooling_are_a_value() {
    let attrs = vec![
        attr_ints("kernel_shape", &[2, 2]),
        attr_int("storage_order", 1),
    ];
    let graph = Graph::new()
        .input(fixed("x", F32, &[1, 2, 3, 5]))
        .node(node("MaxPool", &["x"], &["y", "i"], attrs))
        .output(fixed("y", F32, &[1, 2, 2, 4]))
        .output(fixed("i", 7, &[1, 2, 2, 4]));
    let import = imported(&graph);
    let func = &import.module.funcs[0];
    assert_eq!(names(func), ["max_pool_indices", "max_pool"]);
    assert_eq!(result_type(func, 1), sized(&[1, 2, 2, 4], DType::SI64));
}

/// A node whose axes are an input of the graph, followed by a relu.
fn with_axes(op: &str, shape: &[i64], count: i64, declared: &[D<'_>]) -> Graph {
    let graph = Graph::new()
        .input(fixed("x", F32, shape))
        .input(fixed("axes", 7, &[count]))
        .node(node(op, &["x", "axes"], &["a"], vec![]))
        .node(node("Relu", &["a"], &["y"], vec![]));
    if declared.is_empty() {
        return graph.output(value("y", F32, &[D::Open]));
    }
    graph
        .info(value("a", F32, declared))
        .output(value("y", F32, declared))
}

#[test]
fn axes_of_known_length_give_a_rank() {
    let check = |graph: &Graph, wanted: &[&str], rank: usize| {
        let import = imported(graph);
        let func = &import.module.funcs[0];
        assert_eq!(names(func), wanted);
        assert_eq!(result_type(func, 0).rank(), rank);
    };
    // The values of the axes do not matter.
    check(
        &with_axes("Squeeze", &[1, 3, 1], 2, &[]),
        &["squeeze", "relu"],
        1,
    );
    check(
        &with_axes("Squeeze", &[1, 1], 2, &[]),
        &["squeeze", "relu"],
        0,
    );
    check(
        &with_axes("Unsqueeze", &[1], 2, &[]),
        &["reshape", "relu"],
        3,
    );
    // The file declares the result.
    let declared = [D::N(1), D::N(2), D::N(3)];
    check(
        &with_axes("Unsqueeze", &[2, 3], 1, &declared),
        &["reshape", "relu"],
        3,
    );
    // Only the number of axes is known, but the operators after it are translated.
    check(
        &with_axes("Unsqueeze", &[2, 3], 1, &[]),
        &["opaque", "relu"],
        3,
    );
    check(
        &with_axes("Squeeze", &[1, 1, 3], 1, &[]),
        &["opaque", "relu"],
        2,
    );
}

/// Axes that depend only on shapes are known at import.
#[test]
fn folded_axes_are_known() {
    let graph = Graph::new()
        .input(fixed("x", F32, &[2, 3]))
        .input(fixed("like", F32, &[2, 7]))
        .node(node("Shape", &["like"], &["s"], vec![attr_int("end", 1)]))
        .node(node("Unsqueeze", &["x", "s"], &["y"], vec![]))
        .output(fixed("y", F32, &[2, 3, 1]));
    let import = imported(&graph);
    assert_eq!(names(&import.module.funcs[0]), ["unsqueeze"]);
}

#[test]
fn an_output_may_be_listed_twice() {
    let graph = Graph::new()
        .input(fixed("x", F32, &[2, 3]))
        .node(node("Relu", &["x"], &["y"], vec![]))
        .output(fixed("y", F32, &[2, 3]))
        .output(fixed("y", F32, &[2, 3]));
    let import = imported(&graph);
    let func = &import.module.funcs[0];
    assert_eq!(func.results.len(), 2);
    assert_eq!(func.results[0], func.results[1]);
    let keys: Vec<String> = (0..2).map(|i| func.result_key(i)).collect();
    assert_eq!(keys, ["y", "y_1"]);
    let text = optc_ir::text::print(&import.module);
    let again = optc_ir::text::parse(&text).unwrap();
    assert_eq!(optc_ir::text::print(&again), text);
}

/// A size that follows from the operands takes precedence; else the size gets the name that the file declares.
#[test]
fn names_of_the_file_stand_for_open_sizes() {
    let graph = Graph::new()
        .input(value("x", F32, &[D::P("B"), D::N(3)]))
        .node(node("NonZero", &["x"], &["at"], vec![]))
        .info(value("at", 7, &[D::Open, D::P("found")]))
        .node(node("Transpose", &["at"], &["y"], vec![]))
        .output(value("y", 7, &[D::Open, D::Open]));
    let import = imported(&graph);
    let ty = result_type(&import.module.funcs[0], 0);
    assert_eq!(
        ty.dims,
        [optc_ir::Dim::named("found"), optc_ir::Dim::Fixed(2)]
    );
}
