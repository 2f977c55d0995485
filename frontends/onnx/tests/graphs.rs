//! Import of small handwritten graphs, and graphs that it refuses.

use crate::support;

use optc_ir::text::{print_attr, print_type};
use optc_ir::{Attr, Diagnostic, Dim, Func, Loc, Severity, TensorType};
use optc_onnx::{Import, Options, Whole, import};
use support::*;

#[track_caller]
fn imported(graph: &Graph) -> Import {
    let result = import(
        &graph.bytes(),
        &Options {
            name: Some("m.onnx".into()),
            ..Options::default()
        },
    );
    let import = result.unwrap_or_else(|diags| panic!("refused: {diags:?}"));
    let verified = optc_ir::verify::verify(&import.module, &optc_ops::registry());
    assert!(
        verified.is_ok(),
        "{verified:?}\n{}",
        optc_ir::text::print(&import.module)
    );
    import
}

#[track_caller]
fn refused(graph: &Graph, code: &str) -> Diagnostic {
    let diags = import(&graph.bytes(), &Options::default()).expect_err("the model is wrong");
    let found = diags
        .iter()
        .find(|d| d.code == code && d.severity == Severity::Error);
    found
        .unwrap_or_else(|| panic!("wanted {code}, found {diags:?}"))
        .clone()
}

fn main_of(import: &Import) -> &Func {
    assert_eq!(import.module.funcs.len(), 1);
    &import.module.funcs[0]
}

fn relu_graph() -> Graph {
    Graph::new()
        .input(fixed("x", F32, &[2, 3]))
        .node(node("Relu", &["x"], &["y"], vec![]))
        .output(fixed("y", F32, &[2, 3]))
}

#[test]
fn ports_locations_and_module_attributes() {
    let import = imported(&relu_graph());
    let func = main_of(&import);
    assert_eq!(&*func.name, "main");
    assert_eq!(func.arg_ports[0].name.as_deref(), Some("x"));
    assert_eq!(func.arg_ports[0].attrs.str("hbir.name"), Some("x"));
    assert_eq!(func.result_ports[0].attrs.str("hbir.name"), Some("y"));
    assert_eq!(names(func), ["relu"]);
    assert_eq!(ops(func)[0].loc, Loc::name("y_node"));
    assert_eq!(import.module.attrs.str("hbir.source"), Some("onnx"));
    assert_eq!(import.module.attrs.int("hbir.onnx_opset"), Some(17));
    assert!(import.diags.is_empty(), "{:?}", import.diags);
}

#[test]
fn unnamed_nodes_are_located_by_their_output() {
    let bare = Msg::new().str(1, "x").str(2, "y").str(4, "Relu");
    let graph = Graph {
        nodes: vec![bare],
        ..relu_graph()
    };
    assert_eq!(ops(main_of(&imported(&graph)))[0].loc, Loc::name("y"));
}

#[test]
fn nodes_are_sorted() {
    let graph = Graph::new()
        .input(fixed("x", F32, &[2, 3]))
        .node(node("Tanh", &["a"], &["y"], vec![]))
        .node(node("Relu", &["x"], &["a"], vec![]))
        .output(fixed("y", F32, &[2, 3]));
    assert_eq!(names(main_of(&imported(&graph))), ["relu", "tanh"]);
}

#[test]
fn cycles_duplicates_and_missing_names_are_refused() {
    let cycle = Graph::new()
        .node(node("Relu", &["b"], &["a"], vec![]))
        .node(node("Tanh", &["a"], &["b"], vec![]))
        .output(fixed("a", F32, &[2]));
    assert!(
        refused(&cycle, "graph-cycle")
            .message
            .contains("node `a_node` (Relu)")
    );
    let twice = relu_graph().node(node("Tanh", &["x"], &["y"], vec![]));
    assert!(
        refused(&twice, "duplicate-name")
            .message
            .contains("node `y_node` (Tanh)")
    );
    let shadow = relu_graph().node(node("Tanh", &["y"], &["x"], vec![]));
    refused(&shadow, "duplicate-name");
    let initializers = relu_graph()
        .constant(ints("c", &[1]))
        .constant(ints("c", &[2]));
    refused(&initializers, "duplicate-name");
    refused(&relu_graph().input(fixed("x", F32, &[2])), "duplicate-name");
    let missing = relu_graph().node(node("Tanh", &["nowhere"], &["z"], vec![]));
    assert!(
        refused(&missing, "undefined-value")
            .message
            .contains("`nowhere`")
    );
    refused(
        &relu_graph().output(fixed("z", F32, &[2])),
        "undefined-value",
    );
    let nameless = relu_graph().node(node("", &["x"], &["z"], vec![]));
    refused(&nameless, "onnx-node");
    let no_input = Graph {
        nodes: vec![node("Relu", &[""], &["y"], vec![])],
        ..relu_graph()
    };
    assert!(
        refused(&no_input, "missing-input")
            .message
            .contains("node `y_node` (Relu)")
    );
}

#[test]
fn no_graph_no_opset_and_no_protobuf() {
    let codes = |bytes: &[u8]| {
        import(bytes, &Options::default())
            .map_err(|d| d[0].code.as_str())
            .err()
    };
    assert_eq!(codes(&Msg::new().int(1, 8).done()), Some("onnx-no-graph"));
    assert_eq!(
        codes(&Msg::new().msg(7, Msg::new()).done()),
        Some("opset-missing")
    );
    assert_eq!(codes(b"not a model"), Some("malformed-protobuf"));
    assert_eq!(codes(b""), Some("onnx-no-graph"));
}

/// A node of `x` (2x3x4) and other inputs, in one version of the standard operators.
fn old_node(opset: i64, op: &str, more: Vec<(&str, Msg)>, attrs: Vec<Msg>) -> Graph {
    let mut inputs = vec!["x"];
    inputs.extend(more.iter().map(|(name, _)| *name));
    let graph = Graph {
        opset,
        ..Graph::new()
    };
    let graph = graph.input(fixed("x", F32, &[2, 3, 4]));
    let graph = more.iter().fold(graph, |g, (_, t)| g.constant(t.clone()));
    graph
        .node(node(op, &inputs, &["y"], attrs))
        .output(Msg::new().str(1, "y"))
}

#[test]
fn operators_of_old_versions_mean_what_they_meant() {
    let of = |graph: &Graph| -> Vec<String> {
        let import = imported(graph);
        assert!(import.diags.is_empty(), "{:?}", import.diags);
        let func = main_of(&import);
        let types = func.results.iter().map(|&v| print_type(func.ty(v)));
        names(func)
            .into_iter()
            .map(str::to_owned)
            .chain(types)
            .collect()
    };
    let column = || vec![("c", floats("c", &[3], &[1.0, 2.0, 3.0]))];
    let flags = || vec![attr_int("broadcast", 1), attr_int("axis", 1)];
    assert_eq!(
        of(&old_node(6, "Add", column(), flags())),
        ["add", "tensor<2x3x4xf32>"]
    );
    assert_eq!(
        of(&old_node(6, "Less", column(), flags())),
        ["compare", "tensor<2x3x4xi1>"]
    );
    assert_eq!(
        of(&old_node(6, "PRelu", column(), vec![])),
        ["prelu", "tensor<2x3x4xf32>"]
    );
    let to = vec![attr_str("to", "INT64")];
    assert_eq!(
        of(&old_node(1, "Cast", vec![], to)),
        ["cast", "tensor<2x3x4xsi64>"]
    );
    let times = [("t", 2.0), ("a", 1.0)].map(|(name, n)| (name, floats(name, &[], &[n])));
    assert_eq!(
        of(&old_node(1, "Tile", times.into(), vec![])),
        ["tile", "tensor<2x6x4xf32>"]
    );
}

#[test]
fn attributes_that_are_not_known_keep_their_operator_opaque() {
    let opaque = |graph: &Graph| {
        let import = imported(graph);
        assert_eq!(names(main_of(&import)), ["opaque"]);
        assert_eq!(import.diags[0].code, "opaque-op");
        import.diags[0].notes.join(" ")
    };
    // An attribute of a later version, and one of no version.
    let later = opaque(&old_node(18, "Relu", vec![], vec![attr_int("slope", 1)]));
    assert!(later.contains("`slope`"), "{later}");
    opaque(&old_node(14, "Shape", vec![], vec![attr_int("start", 1)]));
    // Words that exist in no version.
    let scales = || vec![("", Msg::new()), ("s", floats("s", &[3], &[1.0, 2.0, 2.0]))];
    for (name, word) in [
        ("mode", "area"),
        ("coordinate_transformation_mode", "none"),
        ("nearest_mode", "far"),
    ] {
        let mut graph = old_node(19, "Resize", vec![], vec![attr_str(name, word)]);
        graph.constants = vec![scales()[1].1.clone()];
        graph.nodes = vec![node(
            "Resize",
            &["x", "", "s"],
            &["y"],
            vec![attr_str(name, word)],
        )];
        opaque(&graph);
    }
    opaque(&old_node(
        20,
        "Gelu",
        vec![],
        vec![attr_str("approximate", "some")],
    ));
}

#[test]
fn extents_are_taken_without_bounds_where_there_are_none() {
    let graph = Graph::new()
        .input(value("x", F32, &[D::Open, D::Open]))
        .node(node("Shape", &["x"], &["y"], vec![]))
        .output(Msg::new().str(1, "y"));
    let import = imported(&graph);
    let shape = &ops(main_of(&import))[0].props;
    assert!(shape.get("onnx.start").is_none() && shape.get("onnx.end").is_none());
}

#[test]
fn sizes_that_keep_the_ratio_have_one_scale() {
    let graph = Graph {
        opset: 18,
        ..Graph::new()
    };
    let attrs = vec![
        attr_ints("axes", &[2, 3]),
        attr_str("keep_aspect_ratio_policy", "not_larger"),
    ];
    let graph = graph
        .input(fixed("x", F32, &[1, 3, 4, 6]))
        .constant(ints("s", &[9, 8]))
        .node(node("Resize", &["x", "", "", "s"], &["y"], attrs))
        .output(Msg::new().str(1, "y"));
    let import = imported(&graph);
    let resize = ops(main_of(&import))[0];
    assert_eq!(resize.props.ints("sizes"), Some(vec![1, 3, 5, 8]));
    let scales = resize.props.get("scales").and_then(Attr::as_array);
    let scales: Vec<f64> = scales
        .unwrap_or_default()
        .iter()
        .filter_map(Attr::as_float)
        .collect();
    assert_eq!(scales, [1.0, 1.0, 8.0 / 6.0, 8.0 / 6.0]);
}

#[test]
fn scalars_are_reduced_along_dimensions_that_they_lack() {
    for axes in [&[0i64][..], &[-1], &[]] {
        let graph = Graph {
            opset: 13,
            ..Graph::new()
        };
        let graph = graph
            .input(fixed("x", F32, &[]))
            .constant(ints("a", axes))
            .node(node("ReduceSum", &["x", "a"], &["y"], vec![]))
            .output(Msg::new().str(1, "y"));
        assert_eq!(names(main_of(&imported(&graph))), ["reduce"], "{axes:?}");
    }
}

#[test]
fn old_and_new_operator_sets_are_noted() {
    for opset in [0, 99] {
        let import = imported(&Graph {
            opset,
            ..relu_graph()
        });
        assert_eq!(import.diags[0].code, "opset-untested");
    }
}

#[test]
fn paths_that_leave_the_folder_are_refused() {
    let with = |location: &str| {
        let weights = external("w", &[2, 3], &[("location", location)]);
        let mut graph = relu_graph().constant(weights);
        graph.nodes = vec![node("Add", &["x", "w"], &["y"], vec![])];
        graph
    };
    let bad = [
        "/etc/passwd",
        "../w",
        "a/../../w",
        "a\\w",
        "C:w",
        "\\\\host\\w",
        "",
        "..",
        "a\nb",
    ];
    for location in bad {
        refused(&with(location), "external-path-escapes");
    }
    let import = imported(&with("data/w.bin"));
    let data = ops(main_of(&import))[0].props.get("data").cloned();
    let (file, length) = ("data/w.bin".into(), 24);
    assert_eq!(
        data,
        Some(Attr::External {
            file,
            offset: 0,
            length
        })
    );
}

#[test]
fn sizes_that_lie_are_refused() {
    let with = |weights: Msg| {
        let mut graph = relu_graph().constant(weights);
        graph.nodes = vec![node("Add", &["x", "w"], &["y"], vec![])];
        graph
    };
    let at = |offset: &str, length: &str| {
        let entries = [("location", "w"), ("offset", offset), ("length", length)];
        with(external("w", &[2, 3], &entries))
    };
    let code = "tensor-size-mismatch";
    refused(&at("0", "25"), code);
    refused(&at("18446744073709551615", "24"), code);
    refused(&at("-1", "24"), code);
    refused(&at("x", "24"), code);
    refused(&with(raw("w", F32, &[2, 3], &[0; 23])), code);
    refused(&with(raw("w", F32, &[-2, 3], &[0; 24])), code);
    refused(&with(raw("w", F32, &[i64::MAX, i64::MAX], &[])), code);
    refused(&with(raw("w", F32, &[1 << 40], &[])), code);
    refused(&with(floats("w", &[2, 3], &[0.0; 5])), code);
    refused(&with(floats("w", &[7], &[0.0; 6])), code);
    imported(&at("64", "24"));
}

#[test]
fn element_types_without_a_counterpart_stay_opaque() {
    for elem in [0, 8, 77] {
        let graph = Graph {
            inputs: vec![fixed("x", elem, &[2, 3])],
            ..relu_graph()
        };
        let import = imported(&graph);
        assert_eq!(import.diags[0].code, "unsupported-dtype");
        assert_eq!(import.diags[0].severity, Severity::Warning);
        assert_eq!(names(main_of(&import)), ["opaque"]);
        let graph = Graph::new()
            .input(fixed("x", F32, &[2, 3]))
            .constant(raw("w", elem, &[1], &[0; 4]))
            .node(node("Mystery", &["x", "w"], &["y"], vec![]))
            .output(fixed("y", F32, &[2, 3]));
        let import = imported(&graph);
        let constant = ops(main_of(&import))[0];
        assert_eq!(constant.props.str("kind"), Some("Constant"));
        let value = constant.props.get("onnx.value");
        assert!(matches!(value, Some(Attr::External { .. })), "{value:?}");
    }
}

#[test]
fn inputs_that_are_no_tensors_have_an_unknown_type() {
    let sequence = Msg::new().str(1, "x").msg(2, Msg::new().msg(4, Msg::new()));
    let graph = Graph {
        inputs: vec![sequence],
        ..relu_graph()
    };
    assert_eq!(names(main_of(&imported(&graph))), ["opaque"]);
    let untyped = Graph {
        inputs: vec![Msg::new().str(1, "x")],
        ..relu_graph()
    };
    refused(&untyped, "shape-unknown");
}

/// A model without standard operators needs no version of them.
#[test]
fn models_of_other_domains_need_no_standard_version() {
    let foreign = node("Mystery", &["x"], &["y"], vec![]).str(7, "other");
    let graph = Graph::new()
        .input(fixed("x", F32, &[2, 3]))
        .node(foreign)
        .output(fixed("y", F32, &[2, 3]));
    let bytes = Msg::new().int(1, 8).msg(7, graph.graph());
    let bytes = bytes.msg(8, Msg::new().str(1, "other").int(2, 1)).done();
    let import = import(&bytes, &Options::default()).expect("it names no standard operator");
    assert_eq!(import.module.attrs.int("hbir.onnx_opset"), None);
    assert_eq!(names(main_of(&import)), ["opaque"]);
}

/// `y = if c then relu(x) else tanh(x)`, with a name that is used both inside and outside.
fn branches(condition: Option<bool>) -> Graph {
    let branch = |op: &str| {
        let inner = Graph::new()
            .node(node(op, &["x"], &["a"], vec![]))
            .node(node("Neg", &["a"], &["b"], vec![]))
            .output(fixed("b", F32, &[2, 3]));
        inner.graph()
    };
    let attrs = vec![
        attr_graph("then_branch", branch("Relu")),
        attr_graph("else_branch", branch("Tanh")),
    ];
    let graph = Graph::new()
        .input(fixed("x", F32, &[2, 3]))
        .node(node("If", &["c"], &["b"], attrs))
        .node(node("Abs", &["b"], &["a"], vec![]))
        .output(fixed("a", F32, &[2, 3]));
    match condition {
        Some(value) => graph.constant(raw("c", 9, &[], &[u8::from(value)])),
        None => graph.input(fixed("c", 9, &[])),
    }
}

#[test]
fn known_branches_are_put_in_place() {
    let taken = |condition| {
        let import = imported(&branches(condition));
        let names = names(main_of(&import));
        names.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(taken(Some(true)), ["relu", "neg", "abs"]);
    assert_eq!(taken(Some(false)), ["tanh", "neg", "abs"]);
    let import = imported(&branches(None));
    let funcs: Vec<(&str, Vec<&str>)> = (import.module.funcs.iter())
        .map(|func| (&*func.name, names(func)))
        .collect();
    let wanted = [
        ("main", vec!["opaque", "abs"]),
        ("then_branch.0", vec!["relu", "neg"]),
        ("else_branch.1", vec!["tanh", "neg"]),
    ];
    assert_eq!(funcs, wanted);
    assert!(import.diags.is_empty(), "{:?}", import.diags);
}

/// The type of a result as text.
fn type_text(import: &Import, result: usize) -> String {
    let func = &import.module.funcs[0];
    print_type(func.ty(func.results[result]))
}

/// `y, all = Loop(n, go, x)`. The body returns `sum` of the carried value and `w`, both as the next carried value and
/// as a slice.
fn rounds(body: Graph) -> Graph {
    let body = body
        .input(fixed("i", 7, &[]))
        .input(fixed("go_on", 9, &[]))
        .input(value("v", F32, &[D::P("k"), D::N(3)]));
    let body = attr_graph("body", body.output(fixed("sum", F32, &[2, 3])).graph());
    Graph::new()
        .input(fixed("x", F32, &[2, 3]))
        .input(fixed("w", F32, &[2, 3]))
        .node(node("Loop", &["n", "go", "x"], &["y", "all"], vec![body]))
        .output(value("y", F32, &[D::P("r"), D::N(3)]))
        .output(value("all", F32, &[D::P("s"), D::N(2), D::N(3)]))
}

fn add_of(name: &str) -> Graph {
    Graph::new().node(node("Add", &["v", "w"], &[name], vec![]))
}

#[test]
fn loops_run_functions_of_what_they_carry_and_capture() {
    let body = || add_of("sum").output(fixed("go_on", 9, &[]));
    let carried = |body: Graph| body.output(fixed("sum", F32, &[2, 3]));
    let known = rounds(carried(body()))
        .constant(scalar_int("n", 5))
        .constant(raw("go", 9, &[], &[1]));
    let import = imported(&known);
    let flow = ops(&import.module.funcs[0])
        .into_iter()
        .find(|op| &*op.name == "hbir.opaque");
    let flow = flow.expect("a loop");
    assert_eq!(flow.operands.len(), 4);
    assert_eq!(flow.props.int("captures"), Some(1));
    assert_eq!(
        flow.props.get("onnx.body"),
        Some(&Attr::Symbol("body.0".into()))
    );
    assert_eq!(flow.props.str("effect"), Some("pure"));
    assert_eq!(type_text(&import, 0), "tensor<2x3xf32>");
    assert_eq!(type_text(&import, 1), "tensor<5x2x3xf32>");
    let func = &import.module.funcs[1];
    assert_eq!((func.args.len(), func.results.len()), (4, 3));
    assert_eq!(func.arg_key(3), "w");

    // The number of rounds is known only at run time; the file has a name for it.
    let open = rounds(carried(body()))
        .input(fixed("n", 7, &[]))
        .input(fixed("go", 9, &[]));
    assert_eq!(
        type_text(&imported(&open), 1),
        r#"tensor<?x2x3xf32, {dims = ["s", 2, 3]}>"#
    );

    // A value that grows has an open size.
    let grown = Graph::new()
        .node(node("Add", &["w", "w"], &["sum"], vec![]))
        .node(node(
            "Concat",
            &["v", "sum"],
            &["next"],
            vec![attr_int("axis", 0)],
        ))
        .output(fixed("go_on", 9, &[]))
        .output(value("next", F32, &[D::P("k2"), D::N(3)]));
    let grown = rounds(grown)
        .input(fixed("n", 7, &[]))
        .input(fixed("go", 9, &[]));
    let import = imported(&grown);
    assert_eq!(
        type_text(&import, 0),
        r#"tensor<?x3xf32, {dims = ["r", 3]}>"#
    );
    assert!(import.diags.is_empty(), "{:?}", import.diags);
}

#[test]
fn scans_take_operands_apart() {
    let body = Graph::new()
        .input(fixed("s", F32, &[3]))
        .input(fixed("v", F32, &[2, 3]))
        .node(node("Add", &["v", "s"], &["o"], vec![]))
        .node(node(
            "ReduceMax",
            &["o"],
            &["t"],
            vec![attr_ints("axes", &[0]), attr_int("keepdims", 0)],
        ))
        .output(fixed("t", F32, &[3]))
        .output(fixed("o", F32, &[2, 3]));
    let scan = |opset: i64, axis: i64| {
        let attrs = vec![
            attr_int("num_scan_inputs", 1),
            attr_ints("scan_input_axes", &[axis]),
            attr_ints("scan_output_axes", &[-1]),
            attr_graph("body", body.graph()),
        ];
        let mut graph = Graph::new()
            .input(fixed("h", F32, &[3]))
            .input(fixed("x", F32, &[2, 7, 3]))
            .node(node("Scan", &["h", "x"], &["last", "all"], attrs))
            .output(fixed("last", F32, &[3]))
            .output(fixed("all", F32, &[2, 3, 7]));
        graph.opset = opset;
        graph
    };
    let import = imported(&scan(17, -2));
    assert_eq!(type_text(&import, 1), "tensor<2x3x7xf32>");
    assert_eq!(names(&import.module.funcs[1]), ["add", "reduce"]);
    refused(&scan(17, 3), "axis-out-of-range");
    // The old Scan with batches is not translated.
    let import = imported(&scan(8, 1));
    assert_eq!(import.module.funcs.len(), 1);
    let note = import.diags[0].notes.first().map(String::as_str);
    let wanted = "a Scan of operator set 8 has batches, wanted 9 or later";
    assert_eq!(note, Some(wanted));
}

#[test]
fn graphs_that_contradict_their_nodes_are_refused() {
    let flow = |then: Graph, other: Graph| {
        let attrs = vec![
            attr_graph("then_branch", then.graph()),
            attr_graph("else_branch", other.graph()),
        ];
        Graph::new()
            .input(fixed("c", 9, &[]))
            .input(fixed("x", F32, &[2, 3]))
            .node(node("If", &["c"], &["y"], attrs))
            .output(fixed("y", F32, &[2, 3]))
    };
    let out = |name: &str| fixed(name, F32, &[2, 3]);
    let of = |from: &str| Graph::new().node(node("Relu", &[from], &["r"], vec![]));
    let good = || of("x").output(out("r"));
    assert_eq!(imported(&flow(good(), good())).module.funcs.len(), 3);
    let missing = refused(
        &flow(of("nowhere").output(out("r")), good()),
        "undefined-value",
    );
    assert!(missing.message.contains("`nowhere`"), "{missing:?}");
    refused(
        &flow(of("x").output(out("nothing")), good()),
        "undefined-value",
    );
    let two = || good().output(out("r"));
    let count = refused(&flow(good(), two()), "onnx-node");
    assert!(
        count
            .message
            .contains("2 outputs of `else_branch`, wanted 1"),
        "{count:?}"
    );
    refused(&flow(two(), two()), "onnx-node");
    refused(&flow(good().input(out("q")), good()), "onnx-node");
    let circle = Graph::new()
        .node(node("Add", &["x", "b"], &["a"], vec![]))
        .node(node("Relu", &["a"], &["b"], vec![]))
        .output(out("b"));
    refused(&flow(circle, good()), "graph-cycle");
    // A value that a branch captures must not depend on the branch's result.
    refused(&flow(of("y").output(out("r")), good()), "graph-cycle");
    let again = of("x")
        .node(node("Tanh", &["x"], &["r"], vec![]))
        .output(out("r"));
    refused(&flow(again, good()), "duplicate-name");
    let loops = |inputs: &[&str], carried: &[&str]| {
        let body = Graph::new()
            .input(fixed("i", 7, &[]))
            .input(fixed("go", 9, &[]))
            .output(fixed("go", 9, &[]));
        let body = carried
            .iter()
            .fold(body, |b, name| b.input(out(name)).output(out(name)));
        let attrs = vec![attr_graph("body", body.graph())];
        Graph::new()
            .input(fixed("n", 7, &[]))
            .input(out("x"))
            .node(node("Loop", inputs, &["y"], attrs))
            .output(out("y"))
    };
    imported(&loops(&["n", "", "x"], &["v"]));
    refused(&loops(&["n", "", "x"], &["v", "u"]), "onnx-node");
    refused(&loops(&["n", "", "x", "x"], &["v"]), "onnx-node");
    refused(&loops(&["n", "", ""], &["v"]), "missing-input");
}

#[test]
fn subgraphs_of_functions_say_what_they_call_their_captures() {
    let body = Graph::new()
        .node(node("Relu", &["inner"], &["r"], vec![]))
        .output(fixed("r", F32, &[2, 3]))
        .graph();
    // The rank differs, so the operator is kept.
    let other = Graph::new()
        .node(node(
            "ReduceMax",
            &["inner"],
            &["s"],
            vec![attr_int("keepdims", 0)],
        ))
        .output(fixed("s", F32, &[]))
        .graph();
    let attrs = vec![
        attr_graph("then_branch", body),
        attr_graph("else_branch", other),
    ];
    let nodes = [
        node("Tanh", &["p"], &["inner"], vec![]),
        node("If", &["q"], &["out"], attrs),
    ];
    let function = ["p", "q"]
        .iter()
        .fold(Msg::new().str(1, "F"), |m, i| m.str(4, i))
        .str(5, "out");
    let function = nodes.into_iter().fold(function, |m, n| m.msg(7, n));
    let function = function
        .msg(9, Msg::new().str(1, "").int(2, 17))
        .str(10, "local");
    let mut graph = Graph::new()
        .input(fixed("x", F32, &[2, 3]))
        .input(fixed("c", 9, &[]))
        .node(node("F", &["x", "c"], &["y"], vec![]).str(7, "local"))
        .output(fixed("y", F32, &[2, 3]));
    graph.functions.push(function);
    let import = imported(&graph);
    let opaque = ops(main_of(&import))[1];
    assert_eq!(opaque.operands.len(), 2);
    let names = opaque.props.get("capture_names").and_then(Attr::as_array);
    let names: Option<Vec<_>> = names.map(|n| n.iter().filter_map(Attr::as_str).collect());
    assert_eq!(names, Some(vec!["inner"]));
}

#[test]
fn gathers_of_every_element_in_order_are_reshapes() {
    let gather = |indices: &[i64]| {
        let graph = Graph::new()
            .input(fixed("x", F32, &[3, 2]))
            .constant(ints("i", indices))
            .node(node("Gather", &["x", "i"], &["y"], vec![]))
            .output(value("y", F32, &[D::Open, D::N(2)]));
        names(main_of(&imported(&graph))).join(" ")
    };
    assert_eq!(gather(&[0, 1, 2]), "reshape");
    assert_eq!(gather(&[0, -2, 2]), "reshape");
    assert_eq!(gather(&[2, 0, 1]), "gather");
    assert_eq!(gather(&[0, 1]), "gather");
}

/// The standard's attention and the contrib operator's: no operand is transposed or repeated.
#[test]
fn attention_is_two_contractions() {
    let graph = |heads: i64| Graph {
        opset: 23,
        ..Graph::new()
            .input(fixed("q", F32, &[2, 5, 24]))
            .input(fixed("k", F32, &[2, 7, 6 * heads]))
            .input(fixed("v", F32, &[2, 7, 6 * heads]))
            .node(node(
                "Attention",
                &["q", "k", "v"],
                &["y"],
                vec![
                    attr_int("q_num_heads", 4),
                    attr_int("kv_num_heads", heads),
                    attr_int("is_causal", 1),
                ],
            ))
            .output(fixed("y", F32, &[2, 5, 24]))
    };
    for heads in [1, 2, 4] {
        let import = imported(&graph(heads));
        let names = names(main_of(&import));
        assert_eq!(names.iter().filter(|n| **n == "einsum").count(), 2);
        assert!(!names.contains(&"transpose") && !names.contains(&"broadcast"));
        assert!(import.diags.is_empty(), "{:?}", import.diags);
    }
    assert_eq!(names(main_of(&imported(&graph(3)))), ["opaque"]);
}

fn of_onnxruntime(op: &str, inputs: &[&str], outputs: &[&str], attrs: Vec<Msg>) -> Msg {
    node(op, inputs, outputs, attrs).str(7, "com.microsoft")
}

/// A step of two sequences, one of which is shorter than the cache. It has two contractions, and the new cache selects
/// from the old cache and the new tokens. A prompt is put into the cache unchanged.
#[test]
fn grouped_attention_has_a_cache() {
    let graph = |tokens: i64, past: i64, total: i64| {
        let heads = vec![attr_int("num_heads", 4), attr_int("kv_num_heads", 2)];
        let inputs = ["q", "k", "v", "pk", "pv", "lengths", "total"];
        Graph::new()
            .input(fixed("q", F32, &[2, tokens, 64]))
            .input(fixed("k", F32, &[2, tokens, 32]))
            .input(fixed("v", F32, &[2, tokens, 32]))
            .input(fixed("pk", F32, &[2, 2, past, 16]))
            .input(fixed("pv", F32, &[2, 2, past, 16]))
            .constant(ints("lengths", &[total - 1, total - 1]))
            .constant(ints("total", &[total]))
            .node(of_onnxruntime(
                "GroupQueryAttention",
                &inputs,
                &["y", "key", "value"],
                heads,
            ))
            .output(value("y", F32, &[D::Open, D::Open, D::Open]))
            .output(value("key", F32, &[D::Open, D::Open, D::Open, D::Open]))
            .output(value("value", F32, &[D::Open, D::Open, D::Open, D::Open]))
    };
    for (tokens, past, total, picked) in [(1, 6, 7, 2), (5, 0, 5, 0), (5, 9, 5, 2), (3, 6, 9, 2)] {
        let import = imported(&graph(tokens, past, total));
        assert!(import.diags.is_empty(), "{:?}", import.diags);
        let func = main_of(&import);
        let names = names(func);
        assert_eq!(names.iter().filter(|n| **n == "einsum").count(), 2);
        assert_eq!(names.iter().filter(|n| **n == "gather_nd").count(), picked);
        let key = func.ty(func.results[1]).as_tensor().unwrap();
        let length = u64::try_from(total.max(past)).unwrap();
        assert_eq!(key.shape(), Some(vec![2, 2, length, 16]));
    }
}

/// 4-bit weights stay packed in bytes until execution; the written model has the operator again.
#[test]
fn packed_weights_stay_packed() {
    let graph = Graph::new()
        .input(fixed("x", F32, &[3, 150]))
        .constant(raw("w", 2, &[512, 5, 16], &[7; 512 * 5 * 16]))
        .constant(floats("s", &[512, 5], &[1.0; 512 * 5]))
        .node(of_onnxruntime(
            "MatMulNBits",
            &["x", "w", "s"],
            &["y"],
            vec![
                attr_int("K", 150),
                attr_int("N", 512),
                attr_int("bits", 4),
                attr_int("block_size", 32),
            ],
        ))
        .output(fixed("y", F32, &[3, 512]));
    let read = |whole| {
        let name = Some("m.onnx".into());
        import(
            &graph.bytes(),
            &Options {
                name,
                whole,
                ..Options::default()
            },
        )
        .expect("a model")
    };
    let apart = read(Whole::None);
    let shown = names(main_of(&apart)).join(" ");
    assert!(shown.ends_with("dequantize_blocks slice linear"), "{shown}");
    for whole in [Whole::Large, Whole::All] {
        let import = read(whole);
        assert!(import.diags.is_empty(), "{:?}", import.diags);
        let kept: Vec<_> = ops(main_of(&import))
            .into_iter()
            .filter_map(|op| op.props.str("kind"))
            .collect();
        assert_eq!(kept, ["MatMulNBits"]);
    }
}

/// `y = op(x, constants…)`, where `x` has this shape.
fn one_node(shape: &[i64], op: &str, constants: Vec<(&str, Msg)>, attrs: Vec<Msg>) -> Graph {
    let names: Vec<&str> = constants.iter().map(|(name, _)| *name).collect();
    let inputs = [&["x"], names.as_slice()].concat();
    let graph = Graph::new()
        .input(fixed("x", F32, shape))
        .node(node(op, &inputs, &["y"], attrs))
        .output(value("y", F32, &[D::Open]));
    constants
        .into_iter()
        .filter(|(name, _)| !name.is_empty())
        .fold(graph, |g, (_, tensor)| g.constant(tensor))
}

#[test]
fn nodes_that_contradict_themselves_are_refused() {
    let c = |name: &'static str, list: &[i64]| (name, ints(name, list));
    let none = || ("", Msg::new());
    let w = || ("w", floats("w", &[3], &[0.0; 3]));
    let scales = ("s", floats("s", &[1], &[2.0]));
    let slice = |a: &[i64], b: &[i64], d: &[i64]| {
        let lists = vec![c("a", a), c("b", b), c("c", &[0]), c("d", d)];
        one_node(&[2, 3], "Slice", lists, vec![])
    };
    let pool = |strides: &[i64]| {
        let attrs = vec![
            attr_ints("kernel_shape", &[2, 2]),
            attr_ints("strides", strides),
        ];
        one_node(&[1, 2, 5, 5], "MaxPool", vec![], attrs)
    };
    refused(
        &one_node(&[2, 3], "Unsqueeze", vec![c("a", &[0, 0])], vec![]),
        "axis-repeated",
    );
    refused(&one_node(&[2, 3], "Gemm", vec![w()], vec![]), "gemm-rank");
    refused(
        &one_node(&[2, 3], "Pad", vec![c("p", &[1])], vec![]),
        "pad-count",
    );
    refused(
        &one_node(&[2, 3], "Resize", vec![none(), scales], vec![]),
        "resize-count",
    );
    let zero = [("s", vec![0, -1]), ("s", vec![-1, 0])];
    for (name, list) in zero {
        let flag = vec![attr_int("allowzero", 1)];
        let graph = one_node(&[0, 3], "Reshape", vec![(name, ints(name, &list))], flag);
        refused(&graph, "reshape-zero-and-rest");
    }
    refused(&slice(&[0, 0], &[1], &[1]), "slice-lists");
    refused(&slice(&[0], &[1], &[0]), "slice-step");
    let halves = one_node(
        &[2, 3],
        "Split",
        vec![c("s", &[1, 1])],
        vec![attr_int("axis", 0)],
    );
    refused(&halves, "split-outputs");
    refused(&pool(&[1]), "window-list");
    refused(&pool(&[1, 0]), "window-list");
    let groups = vec![w(), ("b", floats("b", &[3], &[0.0; 3]))];
    let groups = one_node(
        &[2, 3, 4],
        "GroupNormalization",
        groups,
        vec![attr_int("num_groups", 2)],
    );
    refused(
        &Graph {
            opset: 18,
            ..groups
        },
        "group-norm-groups",
    );
}

#[test]
fn constants_without_a_value_are_refused() {
    let made = |op: &str, inputs: &[&str], constants: Vec<Msg>| {
        let graph = relu_graph().node(node(op, inputs, &["z"], vec![]));
        let graph = graph.output(value("z", F32, &[D::Open]));
        constants.into_iter().fold(graph, Graph::constant)
    };
    refused(
        &made("ConstantOfShape", &["n"], vec![ints("n", &[-1])]),
        "constant-shape",
    );
    let bounds = vec![scalar_int("a", 0), scalar_int("b", 9), scalar_int("c", 0)];
    refused(&made("Range", &["a", "b", "c"], bounds), "range-bounds");
}

#[test]
fn inputs_without_a_rank_are_refused() {
    let tensor = Msg::new().int(1, F32);
    let open = Msg::new().str(1, "x").msg(2, Msg::new().msg(1, tensor));
    let graph = Graph {
        inputs: vec![open],
        ..relu_graph()
    };
    refused(&graph, "shape-unknown");
}

/// `y = x + w` with these 400 weights.
fn add_weights(weights: Msg, elem: i64) -> Graph {
    Graph::new()
        .input(fixed("x", elem, &[20, 20]))
        .constant(weights)
        .node(node("Add", &["x", "w"], &["y"], vec![]))
        .output(fixed("y", elem, &[20, 20]))
}

#[test]
fn large_constants_refer_to_the_file() {
    let values: Vec<f32> = (0..400).map(|i| i as f32).collect();
    let data: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    for weights in [
        raw("w", F32, &[20, 20], &data),
        floats("w", &[20, 20], &values),
    ] {
        let graph = add_weights(weights, F32);
        let import = imported(&graph);
        let Some(Attr::External {
            file,
            offset,
            length,
        }) = ops(main_of(&import))[0].props.get("data").cloned()
        else {
            panic!("wanted external data");
        };
        assert_eq!((&*file, length), ("m.onnx", 1600));
        assert_eq!(graph.bytes()[offset as usize..][..1600], data);
    }
}

#[test]
fn large_varints_and_splats_are_dense() {
    let list: Vec<i64> = (0..400).collect();
    let weights = Msg::new()
        .int(1, 20)
        .int(1, 20)
        .int(2, I64)
        .str(8, "w")
        .packed(7, &list);
    let import = imported(&add_weights(weights, I64));
    let Some(Attr::Dense(dense)) = ops(main_of(&import))[0].props.get("value") else {
        panic!("wanted dense data");
    };
    assert_eq!(dense.bytes[8 * 399..], 399i64.to_le_bytes());
    let same: Vec<u8> = [1.5f32; 400].iter().flat_map(|x| x.to_le_bytes()).collect();
    let import = imported(&add_weights(raw("w", F32, &[20, 20], &same), F32));
    let Some(Attr::Dense(dense)) = ops(main_of(&import))[0].props.get("value") else {
        panic!("wanted dense data");
    };
    assert!(dense.splat);
    assert_eq!(dense.bytes, 1.5f32.to_le_bytes());
}

#[test]
fn an_initializer_that_is_an_input_is_its_default() {
    let mut graph = add_weights(floats("w", &[1], &[2.0]), F32);
    graph.inputs.push(fixed("w", F32, &[1]));
    let import = imported(&graph);
    let func = main_of(&import);
    assert_eq!(func.args.len(), 2);
    assert!(func.arg_ports[1].attrs.get("hbir.default").is_some());
    assert_eq!(names(func), ["add"]);
}

#[test]
fn constants_that_nothing_uses_stay_out() {
    let graph = relu_graph().constant(ints("unused", &[1, 2])).node(node(
        "Neg",
        &["unused"],
        &["also_unused"],
        vec![],
    ));
    assert_eq!(ops(main_of(&imported(&graph))).len(), 1);
}

/// Reshapes `x` of `[B, S, 6]` to `[B, -1, 2, 3]`, with sizes from `Shape`.
#[test]
fn shapes_are_computed_with_symbols() {
    let graph = Graph::new()
        .input(value("x", F32, &[D::P("B"), D::P("S"), D::N(6)]))
        .constant(scalar_int("zero", 0))
        .constant(ints("axis", &[0]))
        .constant(ints("rest", &[-1, 2, 3]))
        .node(node("Shape", &["x"], &["s"], vec![]))
        .node(node(
            "Gather",
            &["s", "zero"],
            &["b"],
            vec![attr_int("axis", 0)],
        ))
        .node(node("Unsqueeze", &["b", "axis"], &["b1"], vec![]))
        .node(node(
            "Concat",
            &["b1", "rest"],
            &["t"],
            vec![attr_int("axis", 0)],
        ))
        .node(node("Reshape", &["x", "t"], &["y"], vec![]))
        .output(value("y", F32, &[D::P("B"), D::P("S"), D::N(2), D::N(3)]));
    let import = imported(&graph);
    let func = main_of(&import);
    assert_eq!(names(func), ["reshape"]);
    let shape = ops(func).last().unwrap().props.get("shape").cloned();
    let wanted = vec![Attr::str("B"), Attr::int(-1), Attr::int(2), Attr::int(3)];
    assert_eq!(shape, Some(Attr::Array(wanted)));
    let dims = &func.ty(func.results[0]).as_tensor().unwrap().dims;
    assert_eq!(dims[0], Dim::Symbol("B".into()));
    assert_eq!(dims[2..], [Dim::Fixed(2), Dim::Fixed(3)]);
}

/// A named size may be 1 at run time, so the result has the larger of the two extents.
#[test]
fn named_extents_expand() {
    let expanded = |shape: &str| {
        let dims = [D::P("B"), D::P("S"), D::N(4)];
        let graph = Graph::new()
            .input(value("x", F32, &dims))
            .input(value("p", F32, &[D::P("P"), D::N(4)]))
            .constant(ints("known", &[2, 5, 1]))
            .node(node("Shape", &["p"], &["of_p"], vec![]))
            .node(node("Shape", &["x"], &["of_x"], vec![]))
            .node(node("Expand", &["x", shape], &["y"], vec![]))
            .output(value("y", F32, &[D::Open, D::Open, D::N(4)]));
        let import = imported(&graph);
        let func = main_of(&import);
        func.ty(func.results[0]).as_tensor().unwrap().dims.clone()
    };
    let dims = |a: &str, b: &str| vec![Dim::named(a), Dim::named(b), Dim::Fixed(4)];
    let known = [Dim::Fixed(2), Dim::Fixed(5), Dim::Fixed(4)];
    assert_eq!(expanded("known"), known);
    assert_eq!(expanded("of_x"), dims("B", "S"));
    assert_eq!(expanded("of_p"), dims("B", "max(S,P)"));
}

#[test]
fn open_extents_keep_their_place() {
    let dims = [D::P("B"), D::Open, D::N(4)];
    let graph = Graph::new()
        .input(value("x", F32, &dims))
        .node(node("Softmax", &["x"], &["a"], vec![]))
        .node(node(
            "Transpose",
            &["a"],
            &["y"],
            vec![attr_ints("perm", &[2, 0, 1])],
        ))
        .output(value("y", F32, &[D::N(4), D::P("B"), D::Open]));
    let import = imported(&graph);
    let func = main_of(&import);
    let ty = func.ty(func.results[0]).as_tensor().unwrap();
    let own = Dim::named("x_dim_1");
    assert_eq!(ty.dims, [Dim::Fixed(4), Dim::named("B"), own]);
}

/// Each unnamed size gets a name from its input and dimension, which no other size has.
#[test]
fn open_extents_have_names() {
    let dims = [D::Open, D::P("x_dim_0"), D::Open];
    let graph = Graph::new()
        .input(value("x", F32, &dims))
        .input(value("x.dim", F32, &[D::Open]))
        .node(node("Relu", &["x"], &["y"], vec![]))
        .output(value("y", F32, &[D::Open, D::Open, D::Open]));
    let import = imported(&graph);
    let func = main_of(&import);
    let dims_of = |i: usize| &func.ty(func.args[i]).as_tensor().unwrap().dims;
    let names = ["x_dim_0_1", "x_dim_0", "x_dim_2"].map(Dim::named);
    assert_eq!(dims_of(0)[..], names);
    assert_eq!(dims_of(1)[..], [Dim::named("x_dim_dim_0")]);
    assert_eq!(func.ty(func.results[0]).as_tensor().unwrap().dims, names);
}

/// The padding amounts that PyTorch's `pad` is exported to: pairs, put in order two dimensions at a time.
#[test]
fn sizes_are_followed_through_what_moves_them() {
    let graph = Graph::new()
        .input(value("x", F32, &[D::P("B"), D::P("S")]))
        .constant(ints("zero", &[0]))
        .constant(ints("one", &[1]))
        .constant(ints("two", &[2]))
        .constant(ints("eight", &[8]))
        .constant(ints("zeros", &[0, 0]))
        .constant(ints("pairs", &[-1, 2]))
        .constant(ints("last", &[-1]))
        .constant(ints("before", &[i64::MIN + 1]))
        .constant(ints("rows", &[0, -1, 8]))
        .node(node("Shape", &["x"], &["s"], vec![]))
        .node(node("Slice", &["s", "one", "two"], &["n"], vec![]))
        .node(node("Mod", &["n", "eight"], &["rest"], vec![]))
        .node(node("Sub", &["eight", "rest"], &["more"], vec![]))
        .node(node(
            "Concat",
            &["zero", "more", "zeros"],
            &["listed"],
            vec![attr_int("axis", 0)],
        ))
        .node(node("Reshape", &["listed", "pairs"], &["p"], vec![]))
        .node(node(
            "Slice",
            &["p", "last", "before", "zero", "last"],
            &["back"],
            vec![],
        ))
        .node(node(
            "Transpose",
            &["back"],
            &["turned"],
            vec![attr_ints("perm", &[1, 0])],
        ))
        .node(node("Reshape", &["turned", "last"], &["pads"], vec![]))
        .node(node("Pad", &["x", "pads"], &["wide"], vec![]))
        .node(node("Reshape", &["wide", "rows"], &["y"], vec![]))
        .output(value("y", F32, &[D::Open, D::Open, D::N(8)]));
    let import = imported(&graph);
    assert_eq!(
        type_text(&import, 0),
        r#"tensor<?x?x8xf32, {dims = ["B", "(S//8)+1", 8]}>"#
    );
    let made = names(main_of(&import));
    assert_eq!(made, ["broadcast", "concat", "reshape"]);
}

#[test]
fn shape_arithmetic_of_known_shapes_is_a_constant() {
    let graph = Graph::new()
        .input(fixed("x", F32, &[2, 3, 4]))
        .constant(ints("six", &[6]))
        .constant(scalar_int("two", 2))
        .constant(ints("axis", &[0]))
        .node(node("Shape", &["x"], &["s"], vec![]))
        .node(node("Gather", &["s", "two"], &["d"], vec![]))
        .node(node("Unsqueeze", &["d", "axis"], &["d1"], vec![]))
        .node(node(
            "Concat",
            &["six", "d1"],
            &["t"],
            vec![attr_int("axis", 0)],
        ))
        .node(node("Reshape", &["x", "t"], &["y"], vec![]))
        .output(fixed("y", F32, &[6, 4]));
    let import = imported(&graph);
    assert_eq!(names(main_of(&import)), ["reshape"]);
    assert_eq!(ops(main_of(&import)).len(), 1);
}

#[test]
fn reshape_copies_zeros_unless_they_are_meant() {
    let with = |sizes: &[i64], attrs: Vec<Msg>, dims: &[i64]| {
        Graph::new()
            .input(fixed("x", F32, dims))
            .constant(ints("t", sizes))
            .node(node("Reshape", &["x", "t"], &["y"], attrs))
            .output(value("y", F32, &[D::Open, D::Open]))
    };
    let shape = |graph: &Graph| {
        let import = imported(graph);
        ops(main_of(&import))[0].props.ints("shape")
    };
    assert_eq!(
        shape(&with(&[0, -1], vec![], &[2, 3, 4])),
        Some(vec![2, 12])
    );
    let meant = vec![attr_int("allowzero", 1)];
    assert_eq!(shape(&with(&[0, 7], meant, &[0, 3, 4])), Some(vec![0, 7]));
    let beyond = with(&[1, 1, 6, 0], vec![], &[2, 3]);
    refused(&beyond, "reshape-copies-missing-extent");
}

#[test]
fn ends_of_open_extents_are_sliced() {
    let with = |start: i64, end: i64| {
        Graph::new()
            .input(value("x", F32, &[D::N(2), D::P("S"), D::N(4)]))
            .constant(ints("from", &[start]))
            .constant(ints("to", &[end]))
            .constant(ints("axis", &[1]))
            .node(node("Slice", &["x", "from", "to", "axis"], &["y"], vec![]))
            .output(value("y", F32, &[D::N(2), D::Open, D::N(4)]))
    };
    let result = |graph: &Graph| {
        let import = imported(graph);
        let func = main_of(&import);
        let ty = func.ty(func.results[0]).as_tensor().unwrap();
        (names(func).join(" "), ty.dims[1].clone())
    };
    let end = i64::MAX;
    assert_eq!(
        result(&with(0, end)),
        (String::new(), Dim::Symbol("S".into()))
    );
    assert_eq!(result(&with(0, 1)), ("slice".into(), Dim::Fixed(1)));
    assert_eq!(result(&with(2, end)), ("slice".into(), Dim::named("S-2")));
    assert_eq!(result(&with(-1, end)), ("slice".into(), Dim::Fixed(1)));
    assert_eq!(result(&with(-5, -2)), ("slice".into(), Dim::Fixed(3)));
    assert_eq!(
        result(&with(0, 7)),
        ("slice".into(), Dim::named("min(7,S)"))
    );
    assert_eq!(result(&with(0, -1)), ("slice".into(), Dim::named("S-1")));
    // Large numbers that exporters write for the end.
    for far in [1_000_000_000, i64::from(i32::MAX)] {
        assert_eq!(result(&with(0, far)), (String::new(), Dim::named("S")));
        assert_eq!(result(&with(2, far)), ("slice".into(), Dim::named("S-2")));
    }
    // Backwards, from an element that may lie beyond the last one.
    let backwards = with(6, i64::MIN).constant(ints("step", &[-1]));
    let inputs = ["x", "from", "to", "axis", "step"];
    let backwards = backwards.node(node("Slice", &inputs, &["z"], vec![]));
    let backwards = backwards.output(value("z", F32, &[D::N(2), D::Open, D::N(4)]));
    let import = imported(&backwards);
    let func = main_of(&import);
    let ty = func.ty(func.results[1]).as_tensor().unwrap();
    assert_eq!(ty.dims[1], Dim::named("min(6,S-1)+1"));
}

#[test]
fn gemm_is_decomposed() {
    let attrs = vec![
        attr_int("transB", 1),
        attr_float("alpha", 2.0),
        attr_float("beta", 0.5),
    ];
    let graph = Graph::new()
        .input(fixed("a", F32, &[2, 3]))
        .input(fixed("b", F32, &[5, 3]))
        .input(fixed("c", F32, &[5]))
        .node(node("Gemm", &["a", "b", "c"], &["y"], attrs))
        .output(fixed("y", F32, &[2, 5]));
    let import = imported(&graph);
    assert_eq!(names(main_of(&import)), ["einsum", "mul", "mul", "add"]);
}

#[test]
fn statistics_of_a_layer_norm_are_computed_beside_it() {
    let graph = Graph::new()
        .input(fixed("x", F32, &[2, 3, 4]))
        .constant(floats("w", &[4], &[1.0, 2.0, 3.0, 4.0]))
        .node(node(
            "LayerNormalization",
            &["x", "w"],
            &["y", "mean", "inv"],
            vec![],
        ))
        .output(fixed("y", F32, &[2, 3, 4]))
        .output(fixed("inv", F32, &[2, 3, 1]));
    let import = imported(&graph);
    let wanted = [
        "layer_norm",
        "reduce",
        "sub",
        "mul",
        "reduce",
        "add",
        "rsqrt",
    ];
    assert_eq!(names(main_of(&import)), wanted);
    let only_y = Graph {
        outputs: graph.outputs[..1].to_vec(),
        ..graph
    };
    assert_eq!(names(main_of(&imported(&only_y))), ["layer_norm"]);
}

#[test]
fn statistics_of_a_batch_are_computed() {
    let stats = |name: &str| floats(name, &[3], &[0.5, 1.0, 2.0]);
    let inputs = ["x", "scale", "bias", "mean", "variance"];
    let attrs = vec![attr_int("training_mode", 1), attr_float("momentum", 0.75)];
    let graph = inputs[1..]
        .iter()
        .fold(Graph::new(), |g, name| g.constant(stats(name)));
    let graph = graph
        .input(fixed("x", F32, &[2, 3, 4]))
        .node(node("BatchNormalization", &inputs, &["y", "m", "v"], attrs))
        .output(fixed("y", F32, &[2, 3, 4]))
        .output(fixed("v", F32, &[3]));
    let moments = ["reduce", "sub", "mul", "reduce", "squeeze", "squeeze"];
    let running = ["mul", "add"];
    let all = [&moments[..], &["batch_norm"], &running].concat();
    assert_eq!(sorted(names(main_of(&imported(&graph)))), sorted(all));
    let only_y = Graph {
        outputs: graph.outputs[..1].to_vec(),
        ..graph
    };
    let all = [&moments[..], &["batch_norm"]].concat();
    assert_eq!(sorted(names(main_of(&imported(&only_y)))), sorted(all));
}

fn sorted(mut names: Vec<&str>) -> Vec<&str> {
    names.sort_unstable();
    names
}

#[test]
fn places_of_what_is_not_zero_are_known_of_constants() {
    let table = floats("c", &[2, 3], &[0.0, 1.0, 0.0, 2.0, 0.0, 3.0]);
    let graph = Graph::new()
        .constant(table)
        .node(node("NonZero", &["c"], &["y"], vec![]))
        .output(fixed("y", I64, &[2, 3]));
    let import = imported(&graph);
    let func = main_of(&import);
    let [only] = func.body[..] else {
        panic!("wanted a constant, found {:?}", names(func));
    };
    let Some(Attr::Dense(found)) = func.ops[only].props.get("value") else {
        panic!("wanted elements");
    };
    let words = found.bytes.chunks_exact(8);
    let found: Vec<i64> = words
        .map(|w| i64::from_le_bytes(w.try_into().unwrap()))
        .collect();
    assert_eq!(found, [0, 1, 1, 1, 0, 2]);

    // `arange(S)` as it is exported.
    let ones = attr_tensor("value", ints("", &[1]));
    let range = |ones: Msg| {
        Graph::new()
            .input(value("x", F32, &[D::P("S")]))
            .node(node("Shape", &["x"], &["s"], vec![]))
            .node(node("ConstantOfShape", &["s"], &["ones"], vec![ones]))
            .node(node("NonZero", &["ones"], &["y"], vec![]))
            .output(value("y", I64, &[D::Open, D::Open]))
    };
    let import = imported(&range(ones));
    assert_eq!(names(main_of(&import)), ["iota"]);
    let ty = print_type(main_of(&import).ty(main_of(&import).results[0]));
    assert_eq!(ty, r#"tensor<1x?xsi64, {dims = [1, "S"]}>"#);
    let zeros = attr_tensor("value", ints("", &[0]));
    assert!(names(main_of(&imported(&range(zeros)))).contains(&"opaque"));
}

#[test]
fn open_sizes_repeat_resize_and_give_diagonals() {
    let graph = |op: &str, inputs: &[&str], attrs: Vec<Msg>| {
        Graph::new()
            .input(value("x", F32, &[D::P("B"), D::N(4)]))
            .input(value("image", F32, &[D::P("B"), D::N(3), D::N(8), D::N(6)]))
            .constant(ints("one", &[1]))
            .constant(ints("sizes", &[3, 4, 12]))
            .node(node("Shape", &["x"], &["b"], vec![attr_int("end", 1)]))
            .node(node(
                "Concat",
                &["b", "one"],
                &["repeats"],
                vec![attr_int("axis", 0)],
            ))
            .node(node(
                "Concat",
                &["b", "sizes"],
                &["all"],
                vec![attr_int("axis", 0)],
            ))
            .node(node(op, inputs, &["y"], attrs))
            .output(Msg::new().str(1, "y"))
    };
    let made = |op: &str, inputs: &[&str], attrs: Vec<Msg>| {
        let import = imported(&graph(op, inputs, attrs));
        let func = main_of(&import);
        let names: Vec<String> = names(func).into_iter().map(str::to_owned).collect();
        (names, print_type(func.ty(func.results[0])))
    };
    let (ops, ty) = made("Tile", &["x", "repeats"], vec![]);
    assert_eq!(ops, ["reshape", "broadcast", "reshape"]);
    assert_eq!(ty, r#"tensor<?x4xf32, {dims = ["B*B", 4]}>"#);
    let (ops, ty) = made("Resize", &["image", "", "", "all"], vec![]);
    assert_eq!(ops, ["resize"]);
    assert_eq!(ty, r#"tensor<?x3x4x12xf32, {dims = ["B", 3, 4, 12]}>"#);
    let (ops, ty) = made("EyeLike", &["x"], vec![]);
    assert!(!ops.contains(&"opaque".to_owned()), "{ops:?}");
    assert_eq!(ty, r#"tensor<?x4xf32, {dims = ["B", 4]}>"#);
}

/// A transform of a signal is a product with a constant matrix, one of its frames a convolution.
#[test]
fn fourier_transforms_are_products() {
    let made = |op: &str, x: &[D], inputs: &[&str], attrs: Vec<Msg>| {
        let graph = Graph {
            opset: 20,
            ..Graph::new()
        };
        let graph = graph
            .input(value("x", F32, x))
            .constant(ints("two", &[2]))
            .constant(ints("eight", &[8]))
            .node(node(op, inputs, &["y"], attrs))
            .output(Msg::new().str(1, "y"));
        let import = imported(&graph);
        let func = main_of(&import);
        let ops = names(func).into_iter().map(str::to_owned);
        let ops: Vec<String> = ops.filter(|op| op != "constant").collect();
        (ops, print_type(func.ty(func.results[0])))
    };
    let one_sided = || vec![attr_int("onesided", 1)];
    let x = [D::P("B"), D::N(8), D::N(1)];
    let (ops, ty) = made("DFT", &x, &["x"], one_sided());
    assert_eq!(ops, ["einsum"]);
    assert_eq!(ty, r#"tensor<?x5x2xf32, {dims = ["B", 5, 2]}>"#);
    let x = [D::P("B"), D::N(5), D::N(2)];
    let both = vec![attr_int("onesided", 1), attr_int("inverse", 1)];
    let (_, ty) = made("DFT", &x, &["x"], both);
    assert_eq!(ty, r#"tensor<?x8x1xf32, {dims = ["B", 8, 1]}>"#);
    let x = [D::P("B"), D::P("N"), D::N(1)];
    let (ops, ty) = made("STFT", &x, &["x", "two", "", "eight"], vec![]);
    assert_eq!(ops, ["transpose", "conv", "transpose", "reshape"]);
    assert_eq!(
        ty,
        r#"tensor<?x?x5x2xf32, {dims = ["B", "(N//2)-3", 5, 2]}>"#
    );
    // The extent of the axis is not known.
    let (ops, _) = made("DFT", &x, &["x"], vec![]);
    assert_eq!(ops, ["opaque"]);
}

#[test]
fn types_of_opaque_results_follow_from_the_standard() {
    let x = || fixed("x", F32, &[2, 3, 8]);
    let n = |name: &str| value(name, I64, &[D::Open]);
    let typed = |op: &str, inputs: &[&str], attrs: Vec<Msg>, opset: i64| {
        let graph = Graph::new()
            .input(x())
            .input(n("n"))
            .input(fixed("two", I64, &[2]))
            .input(fixed("c", 9, &[3]))
            .constant(ints("image", &[4, 6]))
            .constant(ints("block", &[1, 3]))
            .constant(ints("axes", &[2]))
            .node(node(op, inputs, &["y"], attrs))
            .output(Msg::new().str(1, "y"));
        let import = imported(&Graph { opset, ..graph });
        let func = main_of(&import);
        assert_eq!(names(func), ["opaque"], "{op}");
        // Sizes that are known only at run time have names.
        let mut ty = func.ty(func.results[0]).as_tensor().unwrap().clone();
        for (axis, dim) in ty.dims.iter_mut().enumerate() {
            assert_ne!(*dim, Dim::Unknown, "{op}");
            if *dim == Dim::named(&format!("y_dim_{axis}")) {
                *dim = Dim::Unknown;
            }
        }
        print_type(&TensorType::new(ty.dims, ty.dtype).into())
    };
    type Case<'a> = (&'a str, &'a [&'a str], Vec<Msg>, i64, &'a str);
    let cases: Vec<Case<'_>> = vec![
        ("NonZero", &["x"], vec![], 17, "tensor<3x?xsi64>"),
        ("ReduceSum", &["x", "n"], vec![], 17, "tensor<?x?x?xf32>"),
        ("Unique", &["x"], vec![], 17, "tensor<?xf32>"),
        (
            "Unique",
            &["x"],
            vec![attr_int("axis", 1)],
            17,
            "tensor<2x?x8xf32>",
        ),
        (
            "Compress",
            &["x", "c"],
            vec![attr_int("axis", -2)],
            17,
            "tensor<2x?x8xf32>",
        ),
        (
            "RandomUniformLike",
            &["x"],
            vec![attr_int("dtype", 10)],
            17,
            "tensor<2x3x8xf16>",
        ),
        (
            "RandomNormal",
            &[],
            vec![attr_ints("shape", &[4, 5])],
            17,
            "tensor<4x5xf32>",
        ),
        (
            "DFT",
            &["x"],
            vec![attr_int("axis", 1)],
            17,
            "tensor<2x3x2xf32>",
        ),
        (
            "DFT",
            &["x"],
            vec![attr_int("onesided", 1)],
            20,
            "tensor<2x2x2xf32>",
        ),
        (
            "Col2Im",
            &["x", "image", "block"],
            vec![],
            18,
            "tensor<2x1x4x6xf32>",
        ),
        ("Reshape", &["x", "two"], vec![], 17, "tensor<?x?xf32>"),
        ("Expand", &["x", "two"], vec![], 17, "tensor<2x3x8xf32>"),
        ("ConstantOfShape", &["two"], vec![], 17, "tensor<?x?xf32>"),
        (
            "Slice",
            &["x", "two", "two", "axes"],
            vec![],
            17,
            "tensor<2x3x?xf32>",
        ),
        (
            "TopK",
            &["x", "n"],
            vec![attr_int("axis", 0)],
            17,
            "tensor<?x3x8xf32>",
        ),
        ("Tile", &["x", "n"], vec![], 17, "tensor<?x?x?xf32>"),
        ("Det", &["x"], vec![], 17, "tensor<2xf32>"),
    ];
    for (op, inputs, attrs, opset, wanted) in cases {
        assert_eq!(typed(op, inputs, attrs, opset), wanted, "{op}");
    }
}

#[test]
fn old_softmax_flattens() {
    let graph = Graph::new()
        .input(fixed("x", F32, &[2, 3, 5]))
        .node(node("Softmax", &["x"], &["y"], vec![]))
        .output(fixed("y", F32, &[2, 3, 5]));
    assert_eq!(names(main_of(&imported(&graph))), ["softmax"]);
    let old = Graph { opset: 11, ..graph };
    assert_eq!(
        names(main_of(&imported(&old))),
        ["flatten", "softmax", "reshape"]
    );
}

#[test]
fn recurrent_networks_are_one_operation_unless_they_are_told_more() {
    let network = |op: &str, inputs: &[&str], attrs: Vec<Msg>| {
        let graph = Graph::new()
            .input(fixed("x", F32, &[5, 3, 2]))
            .input(fixed("w", F32, &[1, 12, 2]))
            .input(fixed("r", F32, &[1, 12, 3]))
            .input(fixed("h", F32, &[1, 3, 3]))
            .input(fixed("n", 6, &[3]))
            .node(node(op, inputs, &["y"], attrs))
            .output(value("y", F32, &[D::Open, D::Open, D::Open, D::Open]));
        let import = imported(&graph);
        let all = names(main_of(&import));
        all.last().map(|name| (*name).to_owned())
    };
    let known = |op, inputs: &[&str], attrs| {
        assert_eq!(network(op, inputs, attrs).as_deref(), Some("recurrent"));
    };
    let kept = |op, inputs: &[&str], attrs| {
        assert_eq!(network(op, inputs, attrs).as_deref(), Some("opaque"));
    };
    let plain = &["x", "w", "r"];
    known("LSTM", plain, vec![attr_int("hidden_size", 3)]);
    known("LSTM", &["x", "w", "r", "", "", "h", "h"], vec![]);
    known("LSTM", plain, vec![attr_str("direction", "reverse")]);
    kept("LSTM", plain, vec![attr_str("direction", "sideways")]);
    kept("LSTM", plain, vec![attr_float("clip", 0.5)]);
    kept("LSTM", plain, vec![attr_int("input_forget", 1)]);
    known("LSTM", &["x", "w", "r", "", "", "h"], vec![]);
    let last = |inputs: &[&str], attrs| network("LSTM", inputs, attrs).unwrap_or_default();
    let turned = [attr_int("layout", 1)];
    assert_eq!(last(plain, turned.to_vec()), "transpose");
    known("LSTM", &["x", "w", "r", "", "n"], vec![]);
}

/// A Squeeze without axes keeps a named size that cannot be 1; one that can be 1 leaves the number of dimensions open.
#[test]
fn a_squeeze_without_axes_keeps_sizes_above_1() {
    let made = |size: D| {
        let graph = Graph::new()
            .input(value("x", F32, &[D::N(1), size, D::N(1)]))
            .node(node(
                "Concat",
                &["x", "x"],
                &["xx"],
                vec![attr_int("axis", 1)],
            ))
            .node(node("Squeeze", &["xx"], &["y"], vec![]))
            .node(node("Squeeze", &["x"], &["z"], vec![]))
            .output(Msg::new().str(1, "y"))
            .output(Msg::new().str(1, "z"));
        let import = imported(&graph);
        let func = main_of(&import);
        let names: Vec<String> = names(func).into_iter().map(str::to_owned).collect();
        (names, print_type(func.ty(func.results[0])))
    };
    let (ops, ty) = made(D::P("N"));
    assert_eq!(ops, ["concat", "squeeze", "opaque"]);
    assert_eq!(ty, r#"tensor<?xf32, {dims = ["2*N"]}>"#);
}

/// An `If` that squeezes a dimension if its size is 1, before an operator that requires this rank.
#[test]
fn a_branch_that_the_rest_refuses_is_never_taken() {
    let network = |rank: usize| {
        let squeeze = Graph::new()
            .node(node("Squeeze", &["x", "last"], &["flat"], vec![]))
            .output(Msg::new().str(1, "flat"));
        let same = Graph::new()
            .node(node("Identity", &["x"], &["same"], vec![]))
            .output(Msg::new().str(1, "same"));
        let branches = vec![
            attr_graph("then_branch", squeeze.graph()),
            attr_graph("else_branch", same.graph()),
        ];
        let graph = Graph::new()
            .input(value("x", F32, &[D::N(5), D::P("B"), D::N(2), D::P("n")]))
            .input(fixed("w", F32, &[1, 12, 2]))
            .input(fixed("r", F32, &[1, 12, 3]))
            .constant(ints("last", &[3]))
            .constant(ints("one", &[1]))
            .node(node("Shape", &["x"], &["s"], vec![]))
            .node(node("Gather", &["s", "last"], &["n"], vec![]))
            .node(node("Equal", &["n", "one"], &["is_one"], vec![]))
            .node(node("If", &["is_one"], &["taken"], branches));
        let rest = match rank {
            3 => node("LSTM", &["taken", "w", "r"], &["y"], vec![]),
            _ => node("Relu", &["taken"], &["y"], vec![]),
        };
        graph.node(rest).output(Msg::new().str(1, "y"))
    };
    let import = imported(&network(3));
    assert_eq!(
        type_text(&import, 0),
        r#"tensor<5x1x?x3xf32, {dims = [5, 1, "B", 3]}>"#
    );
    let remark = import.diags.iter().find(|d| d.code == "branch-decided");
    assert_eq!(remark.map(|d| d.severity), Some(Severity::Remark));
    // If both branches are possible, neither is chosen.
    let import = imported(&network(0));
    assert!(names(main_of(&import)).contains(&"opaque"));
    assert!(
        import.diags.iter().all(|d| d.code == "opaque-op"),
        "{:?}",
        import.diags
    );
}

/// A loop that continues while its counter, which increases by 2, is less than a size.
#[test]
fn rounds_are_counted() {
    let counted = |relation: &str| {
        let body = Graph::new()
            .input(fixed("i", 7, &[]))
            .input(fixed("go_on", 9, &[]))
            .input(fixed("k", 7, &[]))
            .input(fixed("n_in", 7, &[]))
            .constant(scalar_int("step", 2))
            .node(node("Add", &["k", "step"], &["k_out"], vec![]))
            .node(node("Identity", &["n_in"], &["n_out"], vec![]))
            .node(node(relation, &["k_out", "n_out"], &["more"], vec![]))
            .node(node("Identity", &["k"], &["part"], vec![]))
            .output(fixed("more", 9, &[]))
            .output(fixed("k_out", 7, &[]))
            .output(fixed("n_out", 7, &[]))
            .output(fixed("part", 7, &[]));
        let attrs = vec![attr_graph("body", body.graph())];
        let graph = Graph::new()
            .input(value("x", F32, &[D::P("S")]))
            .constant(ints("axis", &[0]))
            .constant(scalar_int("zero", 0))
            .node(node("Size", &["x"], &["n"], vec![]))
            .node(node("Less", &["zero", "n"], &["go"], vec![]))
            .node(node(
                "Loop",
                &["", "go", "zero", "n"],
                &["a", "b", "all"],
                attrs,
            ))
            .output(Msg::new().str(1, "all"));
        type_text(&imported(&graph), 0)
    };
    let dims = |size: &str| format!(r#"tensor<?xsi64, {{dims = ["{size}"]}}>"#);
    assert_eq!(counted("Less"), dims("(S+1)//2"));
    assert_eq!(counted("LessOrEqual"), dims("(S//2)+1"));
    assert_eq!(counted("Greater"), dims("rounds_0"));
}

#[test]
fn unknown_operators_stay_opaque_with_their_attributes() {
    let attrs = || {
        vec![
            attr_int("k", 3),
            attr_float("f", 0.5),
            attr_str("s", "text"),
            attr_ints("list", &[1, 2]),
            attr_tensor("t", ints("", &[7])),
        ]
    };
    let graph = Graph::new()
        .input(fixed("x", F32, &[2]))
        .node(node("Strange", &["x", "", "x"], &["a", "b"], attrs()))
        .node(node("Strange", &["a"], &["c"], attrs()))
        .node(node("Add", &["b", "c"], &["y"], vec![]))
        .info(fixed("a", F32, &[2]))
        .output(fixed("y", F32, &[2]));
    let import = imported(&graph);
    let func = main_of(&import);
    assert_eq!(names(func), ["opaque", "opaque", "opaque"]);
    let props = &ops(func)[0].props;
    assert_eq!(props.str("kind"), Some("Strange"));
    assert_eq!(props.str("domain"), Some(""));
    assert_eq!(props.ints("input_positions"), Some(vec![0, 2]));
    assert_eq!(props.int("onnx.k"), Some(3));
    assert_eq!(props.float("onnx.f"), Some(0.5));
    assert_eq!(props.str("onnx.s"), Some("text"));
    assert_eq!(props.ints("onnx.list"), Some(vec![1, 2]));
    assert!(matches!(props.get("onnx.t"), Some(Attr::Dense(_))));
    let remarks: Vec<&str> = import.diags.iter().map(|d| &*d.message).collect();
    let wanted = [
        "operator Strange stays opaque (2 times)",
        "operator Add stays opaque (once)",
    ];
    assert_eq!(remarks, wanted);
    assert!(
        import
            .diags
            .iter()
            .all(|d| d.code == "opaque-op" && d.severity == Severity::Remark)
    );
}

/// Two branches that read an outer value, with two operators.
fn branches_of(outer: &str) -> Vec<Msg> {
    let branch = |op: &str| {
        Graph::new()
            .node(node(op, &[outer], &["inner"], vec![]))
            .output(fixed("inner", F32, &[2]))
            .graph()
    };
    vec![
        attr_graph("then_branch", branch("Neg")),
        attr_graph("else_branch", branch("Abs")),
    ]
}

#[test]
fn operators_that_stay_whole_keep_their_graphs_and_what_these_capture() {
    let branches = branches_of("outer");
    let graph = Graph::new()
        .input(fixed("x", F32, &[2]))
        .input(fixed("c", 9, &[]))
        .node(node("If", &["c"], &["y"], branches))
        .node(node("Relu", &["x"], &["outer"], vec![]))
        .output(fixed("y", F32, &[2]));
    let options = Options {
        name: Some("m.onnx".into()),
        whole: Whole::All,
        ..Options::default()
    };
    let import = import(&graph.bytes(), &options).expect("a model");
    let func = main_of(&import);
    assert_eq!(names(func), ["relu", "opaque"]);
    let flow = ops(func)[1];
    assert_eq!(flow.operands.len(), 2);
    assert_eq!(flow.props.int("captures"), Some(1));
    let names = Attr::Array(vec![Attr::str("outer")]);
    assert_eq!(flow.props.get("capture_names"), Some(&names));
    assert!(matches!(
        flow.props.get("onnx.then_branch"),
        Some(Attr::External { .. })
    ));
}

/// An input with a default value is not a constant.
#[test]
fn inputs_with_values_are_arguments() {
    let graph = Graph::new()
        .input(fixed("x", F32, &[2]))
        .input(fixed("w", F32, &[2]))
        .input(value("n", F32, &[D::Open]))
        .constant(floats("w", &[2], &[3.0, 5.0]))
        .constant(floats("n", &[3], &[1.0, 2.0, 4.0]))
        .node(node("Add", &["x", "w"], &["y"], vec![]))
        .node(node("Neg", &["n"], &["z"], vec![]))
        .output(fixed("y", F32, &[2]))
        .output(value("z", F32, &[D::Open]));
    let import = imported(&graph);
    let func = main_of(&import);
    assert_eq!(func.args.len(), 3);
    let default = |i: usize| match func.arg_ports[i].attrs.get("hbir.default") {
        Some(Attr::Dense(dense)) => Some(dense.bytes.len()),
        _ => None,
    };
    assert_eq!([0, 1, 2].map(default), [None, Some(8), Some(12)]);
    let shape = |i: usize| func.arg_ports[i].attrs.ints("hbir.default_shape");
    assert_eq!([1, 2].map(shape), [None, Some(vec![3])]);
    refused(
        &graph.constant(floats("w", &[2], &[0.0; 2])),
        "duplicate-name",
    );
}

/// Nodes that are held are kept unchanged, including those that run graphs, and the types of their results are known.
#[test]
fn held_nodes_stay_as_they_are() {
    let branches = branches_of("r");
    let graph = Graph::new()
        .input(fixed("x", F32, &[2]))
        .input(fixed("c", 9, &[]))
        .node(node("Relu", &["x"], &["r"], vec![]).str(3, "first"))
        .node(node("If", &["c"], &["y"], branches))
        .node(node("Tanh", &["y"], &["z"], vec![]))
        .output(value("z", F32, &[D::Open]));
    let held = |names: &[&str]| {
        let options = Options {
            held: names.iter().map(|&name| name.into()).collect(),
            ..Options::default()
        };
        let import = import(&graph.bytes(), &options).expect("a model");
        assert!(import.diags.is_empty(), "{:?}", import.diags);
        let func = &import.module.funcs[0];
        let kinds = ops(func).into_iter().map(|op| match op.props.str("kind") {
            Some(kind) => kind.to_owned(),
            None => op.name.to_string(),
        });
        let typed = func.results.iter().all(|&v| {
            let ty = func.ty(v).as_tensor();
            ty.is_some_and(|ty| ty.shape() == Some(vec![2]))
        });
        assert!(typed);
        (
            kinds.collect::<Vec<_>>().join(" "),
            import.module.funcs.len(),
        )
    };
    assert_eq!(held(&[]), ("hbir.relu If hbir.tanh".to_owned(), 3));
    assert_eq!(held(&["first"]), ("Relu If hbir.tanh".to_owned(), 3));
    assert_eq!(
        held(&["y_node", "z_node"]),
        ("hbir.relu If Tanh".to_owned(), 1)
    );
}

fn function(name: &str, nodes: Vec<Msg>) -> Msg {
    let m = Msg::new()
        .str(1, name)
        .str(4, "in")
        .str(5, "out")
        .str(10, "local");
    let m = m.msg(9, Msg::new().str(1, "").int(2, 17));
    let m = m.msg(9, Msg::new().str(1, "local").int(2, 1));
    nodes.into_iter().fold(m, |m, n| m.msg(7, n))
}

fn call(name: &str, input: &str, output: &str, attrs: Vec<Msg>) -> Msg {
    node(name, &[input], &[output], attrs).str(7, "local")
}

#[test]
fn functions_are_put_in_place_of_their_calls() {
    let refers = Msg::new().str(1, "alpha").str(21, "slope").int(20, 1);
    let body = vec![
        node("LeakyRelu", &["in"], &["mid"], vec![refers]),
        node("Tanh", &["mid"], &["out"], vec![]),
    ];
    let mut graph = Graph::new()
        .input(fixed("x", F32, &[2]))
        .node(call("Act", "x", "a", vec![attr_float("slope", 0.25)]))
        .node(call("Act", "a", "y", vec![attr_float("slope", 0.5)]))
        .output(fixed("y", F32, &[2]));
    graph.functions = vec![function("Act", body)];
    let import = imported(&graph);
    let func = main_of(&import);
    assert_eq!(names(func), ["leaky_relu", "tanh", "leaky_relu", "tanh"]);
    assert_eq!(ops(func)[0].props.float("alpha"), Some(0.25));
    assert_eq!(ops(func)[2].props.float("alpha"), Some(0.5));
}

#[test]
fn functions_that_call_themselves_are_refused() {
    let mut graph = Graph::new()
        .input(fixed("x", F32, &[2]))
        .node(call("Loop", "x", "y", vec![]))
        .output(fixed("y", F32, &[2]));
    graph.functions = vec![function("Loop", vec![call("Loop", "in", "out", vec![])])];
    let diag = refused(&graph, "function-expansion");
    assert_eq!(diag.message, "function `Loop` calls itself, through `Loop`");
    graph.functions = vec![
        function("Loop", vec![call("Back", "in", "out", vec![])]),
        function("Back", vec![call("Loop", "in", "out", vec![])]),
    ];
    let diag = refused(&graph, "function-expansion");
    assert_eq!(
        diag.message,
        "function `Loop` calls itself, through `Loop`, `Back`"
    );
}

#[test]
fn functions_that_nest_too_deep_are_refused() {
    let name = |i: usize| {
        if i == 0 {
            "Loop".to_owned()
        } else {
            format!("F{i}")
        }
    };
    let graph = |depth: usize| {
        let mut graph = Graph::new()
            .input(fixed("x", F32, &[2]))
            .node(call("Loop", "x", "y", vec![]))
            .output(fixed("y", F32, &[2]));
        let inner = (0..depth - 1)
            .map(|i| function(&name(i), vec![call(&name(i + 1), "in", "out", vec![])]));
        let leaf = vec![node("Tanh", &["in"], &["out"], vec![])];
        graph.functions = inner.chain([function(&name(depth - 1), leaf)]).collect();
        graph
    };
    imported(&graph(32));
    let diag = refused(&graph(33), "function-expansion");
    assert_eq!(
        diag.message,
        "function calls are nested more than 32 deep, at `F32`"
    );
}

#[test]
fn wrong_axes_name_the_node() {
    let graph = Graph::new()
        .input(fixed("x", F32, &[2, 3]))
        .node(node("Softmax", &["x"], &["y"], vec![attr_int("axis", 5)]))
        .output(fixed("y", F32, &[2, 3]));
    let diag = refused(&graph, "axis-out-of-range");
    assert_eq!(
        diag.message,
        "node `y_node` (Softmax): axis 5 is out of range for 2 dimensions"
    );
}

#[test]
fn shape_errors_name_the_node() {
    let graph = Graph::new()
        .input(fixed("a", F32, &[2, 3]))
        .input(fixed("b", F32, &[5, 3]))
        .node(node("MatMul", &["a", "b"], &["y"], vec![]))
        .output(fixed("y", F32, &[2, 3]));
    let diags = import(&graph.bytes(), &Options::default()).expect_err("3 is not 5");
    assert!(
        diags[0].message.starts_with("node `y_node` (MatMul): "),
        "{diags:?}"
    );
}

#[test]
fn a_declared_type_that_is_wrong_is_a_warning() {
    let graph = Graph {
        outputs: vec![fixed("y", F32, &[2, 4])],
        ..relu_graph()
    };
    let import = imported(&graph);
    assert_eq!(import.diags[0].code, "declared-type-differs");
    assert_eq!(import.diags[0].severity, Severity::Warning);
}

#[test]
fn every_code_is_listed() {
    let sources = ["graph", "order", "tensor", "functions", "opaque"];
    let rules = [
        "shape",
        "constant",
        "contract",
        "elementwise",
        "index",
        "norm",
        "reduce",
        "quantize",
        "window",
    ];
    let files = sources.iter().map(|s| format!("src/{s}.rs"));
    for file in files.chain(rules.iter().map(|r| format!("src/rules/{r}.rs"))) {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(&file);
        let text = std::fs::read_to_string(path).unwrap();
        for start in ["error(\"", "warning(\"", "remark(\""] {
            for part in text.split(start).skip(1) {
                let code = part.split('"').next().unwrap();
                assert!(
                    optc_onnx::CODES.iter().any(|c| c.name == code),
                    "{file}: {code}"
                );
            }
        }
    }
}

#[test]
fn operators_are_listed_once() {
    let all = optc_onnx::operators();
    assert!(all.windows(2).all(|w| w[0].0 < w[1].0));
    assert!(all.iter().any(|(name, _)| *name == "MatMul"));
}

/// `SAME` padding does not depend on the extent if the stride is 1, or if the extent is a multiple of the stride.
#[test]
fn padding_of_named_sizes_is_known_where_it_hangs_on_none() {
    let pads = |width: &str, kernel: i64, stride: i64| {
        let attrs = vec![
            attr_str("auto_pad", "SAME_UPPER"),
            attr_ints("kernel_shape", &[kernel]),
            attr_ints("strides", &[stride]),
        ];
        let ports = [D::N(1), D::N(2), D::P(width)];
        let graph = Graph::new()
            .input(value("x", F32, &ports))
            .input(value("w", F32, &[D::P("W")]))
            .node(node("MaxPool", &["x"], &["y"], attrs))
            .output(value("y", F32, &[D::N(1), D::N(2), D::Open]));
        let import = imported(&graph);
        let op = ops(main_of(&import))
            .into_iter()
            .next()
            .expect("an operation");
        op.props.get("pads").map(print_attr)
    };
    assert_eq!(pads("W", 2, 1).as_deref(), Some("[0, 1]"));
    assert_eq!(pads("2*W", 3, 2).as_deref(), Some("[0, 1]"));
    assert_eq!(pads("W", 1, 2).as_deref(), Some("[0, 0]"));
    assert_eq!(pads("W", 3, 2), None);
}
