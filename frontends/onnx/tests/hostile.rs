//! Small files whose import would take much memory or time without limits.

use crate::support;

use optc_onnx::{Options, import};
use support::*;

#[test]
fn many_large_constants_from_a_small_file() {
    let shape = ints("shape", &[65536]);
    let mut graph = Graph::new()
        .constant(shape)
        .output(fixed("y", F32, &[65536]));
    for i in 0..5000 {
        let zeros = format!("z{i}");
        graph = graph.node(node("ConstantOfShape", &["shape"], &[&zeros], vec![]));
        graph = graph.node(node("Cos", &[&zeros], &[&format!("c{i}")], vec![]));
    }
    let graph = graph.node(node("Add", &["c4998", "c4999"], &["y"], vec![]));
    let import = import(&graph.bytes(), &Options::default()).unwrap();
    assert!(ops(&import.module.funcs[0]).len() < 6);
}

#[test]
fn contractions_are_not_computed_at_import() {
    let letters = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let names: Vec<String> = letters.iter().map(|l| format!("w{l}")).collect();
    let mut graph = Graph::new().output(value("y", F32, &[]));
    for name in &names {
        graph = graph.constant(floats(name, &[200], &[1.0; 200]));
    }
    let equation = vec![attr_str("equation", &format!("{}->", letters.join(",")))];
    let inputs: Vec<&str> = names.iter().map(|n| n.as_str()).collect();
    let graph = graph.node(node("Einsum", &inputs, &["y"], equation));
    let import = import(&graph.bytes(), &Options::default()).unwrap();
    assert_eq!(names_of(&import), ["einsum"]);
}

fn names_of(import: &optc_onnx::Import) -> Vec<&str> {
    names(&import.module.funcs[0])
}

/// A long chain of operations on constants is processed without recursion.
#[test]
fn long_chains_of_constants() {
    let mut graph = Graph::new()
        .constant(floats(
            "c0",
            &[2, 200],
            &(0..400).map(|i| i as f32).collect::<Vec<_>>(),
        ))
        .output(value("c50000", F32, &[D::Open, D::Open]));
    for i in 0..50_000 {
        let (from, to) = (format!("c{i}"), format!("c{}", i + 1));
        graph = graph.node(node("Neg", &[&from], &[&to], vec![]));
    }
    let import = import(&graph.bytes(), &Options::default()).unwrap();
    assert_eq!(ops(&import.module.funcs[0]).len(), 50_001);
}

#[test]
fn deep_subgraphs_are_bytes() {
    let mut inner = Graph::new()
        .node(node("Relu", &["x"], &["deep"], vec![]))
        .graph();
    for _ in 0..2000 {
        let flow = node("If", &["c"], &["r"], vec![attr_graph("then_branch", inner)]);
        inner = Graph {
            nodes: vec![flow],
            ..Graph::new()
        }
        .graph();
    }
    let graph = Graph::new()
        .input(fixed("c", 9, &[]))
        .input(fixed("x", F32, &[2]))
        .node(node(
            "If",
            &["c"],
            &["y"],
            vec![attr_graph("then_branch", inner)],
        ))
        .output(fixed("y", F32, &[2]));
    let import = import(&graph.bytes(), &Options::default()).unwrap();
    assert_eq!(names_of(&import), ["opaque"]);
}

#[test]
fn deep_branches_become_functions_to_a_depth() {
    let leaf = |from: &str| {
        let inner = Graph::new().node(node("Relu", &[from], &["leaf"], vec![]));
        inner.output(fixed("leaf", F32, &[2])).graph()
    };
    let flow = |inner: Msg| {
        let attrs = vec![
            attr_graph("then_branch", inner),
            attr_graph("else_branch", leaf("x")),
        ];
        node("If", &["c"], &["r"], attrs)
    };
    let mut inner = leaf("x");
    for _ in 0..400 {
        inner = Graph::new()
            .node(flow(inner))
            .output(fixed("r", F32, &[2]))
            .graph();
    }
    let graph = Graph::new()
        .input(fixed("c", 9, &[]))
        .input(fixed("x", F32, &[2]))
        .node(flow(inner))
        .output(fixed("r", F32, &[2]));
    let import = import(&graph.bytes(), &Options::default()).unwrap();
    assert_eq!(import.module.funcs.len(), 1 + 2 * 16);
    let note = "graphs lie more than 16 deep inside one another";
    assert_eq!(import.diags[0].notes[0], note);
}

#[test]
fn loops_inside_of_loops_that_change_sizes_are_bounded() {
    let mut inner = node("Concat", &["v", "v"], &["w"], vec![attr_int("axis", 0)]);
    for _ in 0..15 {
        let body = Graph::new()
            .input(fixed("i", 7, &[]))
            .input(fixed("go", 9, &[]))
            .input(value("v", F32, &[D::Open]))
            .node(inner)
            .output(fixed("go", 9, &[]))
            .output(value("w", F32, &[D::Open]));
        let body = vec![attr_graph("body", body.graph())];
        inner = node("Loop", &["n", "", "v"], &["w"], body);
    }
    let graph = Graph::new()
        .input(fixed("n", 7, &[]))
        .input(fixed("v", F32, &[2]))
        .node(inner)
        .output(value("w", F32, &[D::Open]));
    let import = import(&graph.bytes(), &Options::default()).unwrap();
    assert_eq!(import.module.funcs.len(), 16);
}

#[test]
fn functions_that_double_are_bounded() {
    let mut graph = Graph::new()
        .input(fixed("x", F32, &[2]))
        .node(node("F0", &["x"], &["y"], vec![]).str(7, "local"))
        .output(fixed("y", F32, &[2]));
    for i in 0..31 {
        let next = format!("F{}", i + 1);
        let body = [
            node(&next, &["in"], &["mid"], vec![]).str(7, "local"),
            node(&next, &["mid"], &["out"], vec![]).str(7, "local"),
        ];
        let m = Msg::new()
            .str(1, &format!("F{i}"))
            .str(4, "in")
            .str(5, "out")
            .str(10, "local");
        graph
            .functions
            .push(body.into_iter().fold(m, |m, n| m.msg(7, n)));
    }
    let mut empty = graph.clone();
    let leaf = Msg::new()
        .str(1, "F31")
        .str(4, "in")
        .str(5, "out")
        .str(10, "local");
    empty.functions.push(leaf);
    for graph in [graph, empty] {
        let diags = import(&graph.bytes(), &Options::default()).expect_err("2^31 calls");
        assert_eq!(diags[0].code, "function-expansion");
        let message = &diags[0].message;
        assert!(
            message.contains("expand to more than 134217728 bytes"),
            "{message}"
        );
    }
}

#[test]
fn shapes_that_overflow() {
    let big = i64::MAX;
    let graph = Graph::new()
        .input(fixed("x", F32, &[big, big, big]))
        .constant(ints("shape", &[big, big, -1]))
        .constant(ints("repeats", &[big, big, big]))
        .node(node("Reshape", &["x", "shape"], &["a"], vec![]))
        .node(node("Flatten", &["a"], &["b"], vec![]))
        .node(node("Tile", &["x", "repeats"], &["y"], vec![]))
        .output(value("y", F32, &[D::Open, D::Open, D::Open]));
    if let Err(diags) = import(&graph.bytes(), &Options::default()) {
        assert!(!diags.is_empty());
    }
}
