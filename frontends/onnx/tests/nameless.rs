//! Graphs of operators that stay whole are equal if they differ in names alone.

use crate::support::{F32, Graph, Msg, attr_float, attr_graph, attr_int, fixed, floats, node};
use optc_ir::{Attr, AttrDict};
use optc_onnx::nameless;

/// The contents of an operator with this graph that captures values of these names.
fn contents(graph: &Graph, captured: &[&str]) -> Vec<Vec<u8>> {
    let bytes = graph.graph().done();
    let body = Attr::External {
        file: "m.onnx".into(),
        offset: 0,
        length: bytes.len() as u64,
    };
    let kinds = Attr::Array(vec![Attr::str("body"), Attr::int(5)]);
    let names = captured.iter().map(|name| Attr::str(name)).collect();
    let props = AttrDict::new()
        .with("captures", Attr::int(captured.len() as i64))
        .with("capture_names", Attr::Array(names))
        .with("attribute_kinds", Attr::Array(vec![kinds]))
        .with("onnx.body", body);
    let found = nameless(&props, &|_| Some(bytes.clone())).expect("it is a graph");
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        ["onnx.body", "capture_names"]
    );
    found.into_values().collect()
}

fn f32(name: &str) -> Msg {
    fixed(name, F32, &[2])
}

/// A round of a loop: it reads the outer value `o` and branches; names of its own values are given.
fn body([x, c, w, y, z]: [&str; 5], outer: &str) -> Graph {
    let branch = |op: &str, read: &str| {
        let own = Graph::new().node(node(op, &[read, outer], &[y], vec![]));
        attr_graph(op, own.output(f32(y)).graph())
    };
    let branches = vec![branch("Add", x), branch("Sub", w)];
    Graph::new()
        .input(f32(x))
        .input(f32(c))
        .constant(floats(w, &[2], &[1.0, 2.0]))
        .node(node("If", &[c], &[z], branches))
        .node(node("Clip", &[z, "", w], &[y], vec![attr_int("a", 1)]))
        .info(f32(z))
        .output(f32(c))
        .output(f32(y))
}

const PLAIN: [&str; 5] = ["x", "c", "w", "y", "z"];

#[test]
fn names_of_inner_values_do_not_matter() {
    let plain = contents(&body(PLAIN, "o"), &["o"]);
    for names in [
        ["x.1", "c.1", "w.1", "y.1", "z.1"],
        ["c", "x", "y", "z", "w"],
        // Names that look like those that stand for others.
        ["%1", "%0", "^0", "=x", "%2"],
    ] {
        assert!(contents(&body(names, "o"), &["o"]) == plain, "{names:?}");
    }
    // The name of the outer value matters no more than those inside: it is the first that is captured.
    assert!(contents(&body(PLAIN, "p"), &["p"]) == plain);
}

/// Each graph is another one than the first.
#[track_caller]
fn differ(graphs: &[(Graph, &[&str])]) {
    let all: Vec<_> = graphs.iter().map(|(g, names)| contents(g, names)).collect();
    for (i, found) in all.iter().enumerate().skip(1) {
        assert!(*found != all[0], "graph {i}");
    }
}

#[test]
fn what_values_are_used_matters() {
    let of = |nodes: &[(&str, &[&str], &[&str])], outputs: &[&str]| {
        let graph = Graph::new().input(f32("x")).input(f32("y"));
        let nodes = nodes.iter().map(|(op, i, o)| node(op, i, o, vec![]));
        let graph = nodes.fold(graph, Graph::node);
        outputs.iter().fold(graph, |g, name| g.output(f32(name)))
    };
    differ(&[
        (of(&[("Sub", &["x", "y"], &["z"])], &["z"]), &[]),
        (of(&[("Sub", &["y", "x"], &["z"])], &["z"]), &[]),
        (of(&[("Sub", &["x", "x"], &["z"])], &["z"]), &[]),
        (of(&[("Sub", &["x", "o"], &["z"])], &["z"]), &["o"]),
        (of(&[("Sub", &["x", "o"], &["z"])], &["z"]), &[]),
        (of(&[("Sub", &["x", ""], &["z"])], &["z"]), &[]),
        (of(&[("Sub", &["x", "y"], &["z"])], &["x"]), &[]),
        (of(&[("Add", &["x", "y"], &["z"])], &["z"]), &[]),
        (of(&[("Sub", &["x", "y"], &["", "z"])], &["z"]), &[]),
    ]);
    // A value that is used before it is defined is an outer one to some readers, and then its name tells which.
    let early = |name: &str| {
        of(
            &[("Neg", &[name], &["z"]), ("Neg", &["x"], &[name])],
            &["z"],
        )
    };
    differ(&[(early("a"), &[]), (early("b"), &[])]);
    // Captured values are told apart by their place, in the order that is stated.
    let both = of(&[("Sub", &["o", "p"], &["z"])], &["z"]);
    differ(&[(both.clone(), &["o", "p"]), (both, &["p", "o"])]);
}

#[test]
fn a_branch_sees_the_values_around_it() {
    let branch = |read: &str, own: &str| {
        let own = Graph::new().node(node("Neg", &["x"], &[own], vec![]));
        let own = own.node(node("Neg", &[read], &["r"], vec![]));
        attr_graph("g", own.output(f32("r")).graph())
    };
    let of = |read: &str, own: &str| {
        Graph::new()
            .input(f32("x"))
            .node(node("Neg", &["x"], &["t"], vec![]))
            .node(node("If", &["x"], &["y"], vec![branch(read, own)]))
            .output(f32("y"))
    };
    // The second reads its own value, as this one hides the outer one.
    differ(&[
        (of("t", "s"), &[]),
        (of("t", "t"), &[]),
        (of("s", "s"), &[]),
    ]);
    assert!(contents(&of("t", "t"), &[]) == contents(&of("s", "s"), &[]));
    // Values of a branch are not seen behind it.
    let behind = |name: &str| of("t", name).node(node("Neg", &["s"], &["w"], vec![]));
    assert!(contents(&behind("s"), &[]) == contents(&behind("u"), &[]));
}

#[test]
fn constants_and_attributes_matter() {
    let of = |values: &[f32], slope: f32, input: &str| {
        let attrs = vec![attr_float("alpha", slope)];
        Graph::new()
            .input(f32("x"))
            .constant(floats(input, &[2], values))
            .node(node("Add", &["x", "w"], &["y"], attrs))
            .output(f32("y"))
    };
    differ(&[
        (of(&[1.0, 2.0], 0.5, "w"), &[]),
        (of(&[2.0, 1.0], 0.5, "w"), &[]),
        (of(&[1.0, 2.0], 0.25, "w"), &[]),
        // The default of an input.
        (of(&[1.0, 2.0], 0.5, "x"), &["w"]),
        (of(&[1.0, 2.0], 0.5, "v"), &["w"]),
    ]);
    let default = |name: &str, read: &str| {
        Graph::new()
            .input(f32("x"))
            .constant(floats(name, &[2], &[1.0, 2.0]))
            .node(node("Neg", &[read], &["y"], vec![]))
            .output(f32("y"))
    };
    differ(&[
        (default("x", "x"), &[]),
        (default("w", "w"), &[]),
        (default("w", "x"), &[]),
    ]);
}
