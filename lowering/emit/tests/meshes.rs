//! Shardings in modules of JAX: the axes of its mesh are the parts of axes that values are split over.

use optc_emit::jax;
use optc_ir::text::parse;
use optc_target::Target;

/// The module of a value that is stated to be split over two parts of an axis of 12 devices, or the code of its refusal.
fn written(first: &str, second: &str) -> Result<String, String> {
    let module = parse(&format!(
        r#"module attributes {{hbir.mesh = ["model:12"]}} {{
  func.func @main(%x: tensor<12x12xf32>) -> tensor<12x12xf32> {{
    %0 = "hbir.sharding_constraint"(%x) <{{split = ["{first}", ""]}}> : (tensor<12x12xf32>) -> tensor<12x12xf32>
    %1 = "hbir.sharding_constraint"(%0) <{{split = ["{second}", ""]}}> : (tensor<12x12xf32>) -> tensor<12x12xf32>
    return %1 : tensor<12x12xf32>
  }}
}}"#
    ));
    let target = Target::builtin("xla").expect("a target");
    let text = jax::emit(&module.expect("a program"), &optc_ops::registry(), &target);
    text.map_err(|diag| diag.code.to_string())
}

#[test]
fn parts_of_an_axis_are_axes_if_they_divide_one_another() {
    let text = written("model:(1)2", "model:(1)6").expect("both are parts of one mesh");
    let mesh = r#"MESH = {"model0": 2, "model1": 3, "model2": 2}"#;
    assert!(text.contains(mesh), "{text}");
    let refused = written("model:(1)4", "model:(1)6");
    assert_eq!(refused, Err("jax-mesh".to_owned()));
}

/// The module of a program over two axes of two devices each and one of four.
fn by_parts(arguments: &str, result: &str, body: &str) -> String {
    let text = format!(
        "module attributes {{hbir.mesh = [\"a:2\", \"b:2\", \"c:4\"]}} {{\n  func.func @main({arguments}) -> {result} {{\n{body}  }}\n}}"
    );
    let module = parse(&text).expect("a program");
    let target = Target::builtin("xla").expect("a target");
    jax::emit(&module, &optc_ops::registry(), &target).expect("a module")
}

/// The lines of `part`.
fn lines(text: &str) -> Vec<&str> {
    let (_, part) = text
        .split_once("\ndef part(")
        .unwrap_or_else(|| panic!("no part in\n{text}"));
    part.lines()
        .skip(1)
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect()
}

#[test]
fn values_are_converted_between_operations() {
    let x = "tensor<8x16xf32>";
    let relu = |from: &str, to: &str| {
        let body = format!(
            "    %0 = \"hbir.relu\"(%x) {{shard = [{to}], take = [[{to}]]}} : ({x}) -> {x}\n    return %0 : {x}\n"
        );
        let arguments = format!("%x: {x} {{hbir.shard = [{from}]}}");
        let text = by_parts(&arguments, &format!("({x} {{hbir.shard = [{to}]}})"), &body);
        let read = lines(&text)
            .into_iter()
            .find(|line| line.starts_with("x_2 = "));
        read.unwrap_or_default().to_owned()
    };
    for (from, to, wanted) in [
        ("", "\"c@d1/4\"", r#"_take(x, "c", ((1, 4, 4),))"#),
        ("\"c@d1/4\"", "", r#"_gather(x, "c", ((1, 4, 4),))"#),
        (
            "\"c@d1/4\"",
            "\"c@d0/2\"",
            r#"_exchange(x, "c", ((1, 4, 4),), ((0, 2, 4),))"#,
        ),
        ("\"a@d0/4\"", "\"b@d0/4\"", r#"_swap(x, ("a", "b"), 2)"#),
        // An inner digit of 16 elements, of which `b` has split the half below it.
        (
            "\"a@d1/4\", \"b@d1/2\"",
            "\"b@d1/2\"",
            r#"_gather(x, "a", ((1, 2, 2),))"#,
        ),
        // Digits that overlap are gathered first.
        (
            "\"c@d1/4\"",
            "\"c@d1/2\"",
            r#"_take(_gather(x, "c", ((1, 4, 4),)), "c", ((1, 2, 4),))"#,
        ),
        (
            "\"c@d0%2*d1/8%2\"",
            "",
            r#"_gather(x, ("c0", "c1"), ((0, 1, 2), (1, 8, 2)))"#,
        ),
    ] {
        let found = relu(from, to);
        assert!(
            found.ends_with(wanted),
            "from [{from}] to [{to}]: {found}, wanted {wanted}"
        );
    }
}

#[test]
fn partial_sums_are_combined_and_a_bias_is_added_once() {
    let text = by_parts(
        r#"%x: tensor<8x16xf32> {hbir.shard = ["c@d1/4"]}, %w: tensor<6x16xf32> {hbir.shard = ["c@d1/4"]}, %b: tensor<6xf32> {hbir.shard = []}"#,
        r#"(tensor<8x6xf32> {hbir.shard = ["c@d0/2"]})"#,
        r#"    %0 = "hbir.linear"(%x, %w, %b) {shard = ["c@d0/2"], take = [["c@d1/4"], ["c@d1/4"], []]} : (tensor<8x16xf32>, tensor<6x16xf32>, tensor<6xf32>) -> tensor<8x6xf32>
    return %0 : tensor<8x6xf32>
"#,
    );
    let line = lines(&text)[0];
    assert!(
        line.contains(r#"_scatter(lax.dot_general(x, w, "#),
        "{line}"
    );
    assert!(
        line.contains(r#" + _once(b, "c"), "c", ((0, 2, 4),))"#),
        "{line}"
    );
}

#[test]
fn views_slices_and_shapes_are_those_of_parts() {
    let text = by_parts(
        r#"%x: tensor<8x24xf32> {hbir.shard = ["a@d1/2", "c@d0"]}"#,
        r#"(tensor<2x4x12xf32> {hbir.shard = ["a@d2/2", "c@d1"]})"#,
        r#"    %0 = "hbir.slice"(%x) <{starts = [0, 8], limits = [8, 20]}> {shard = ["a@d1/2", "c@d0"]} : (tensor<8x24xf32>) -> tensor<8x12xf32>
    %1 = "hbir.reshape"(%0) <{shape = [2, 4, 12]}> {shard = ["a@d2/2", "c@d1"]} : (tensor<8x12xf32>) -> tensor<2x4x12xf32>
    %2 = "hbir.view"(%0) <{shape = [2, 4, 12], perm = [0, 2, 1]}> {shard = ["a@d1/2", "c@d2"]} : (tensor<8x12xf32>) -> tensor<2x12x4xf32, {order = [0, 2, 1]}>
    return %1 : tensor<2x4x12xf32>
"#,
    );
    let lines = lines(&text);
    // The argument comes in its digits.
    assert_eq!(lines[0], "x = x.reshape(2, 12)");
    assert_eq!(lines[1], "v0 = x[:, 4:10]");
    assert_eq!(lines[2], "v1 = v0.reshape(2, 1, 6)");
    assert_eq!(
        lines[3],
        "v2 = jnp.transpose(v0.reshape(2, 1, 6), (0, 2, 1))"
    );
}

#[test]
fn a_split_cuts_parts_by_their_extents() {
    let text = by_parts(
        r#"%x: tensor<8x24xf32> {hbir.shard = ["a@d1/2"]}"#,
        r#"(tensor<8x8xf32> {hbir.shard = ["a@d1/2"]}, tensor<8x16xf32> {hbir.shard = ["a@d1/2"]})"#,
        r#"    %0:2 = "hbir.split"(%x) <{axis = 1, sizes = [8, 16]}> {shard = [["a@d1/2"], ["a@d1/2"]]} : (tensor<8x24xf32>) -> (tensor<8x8xf32>, tensor<8x16xf32>)
    return %0#0, %0#1 : tensor<8x8xf32>, tensor<8x16xf32>
"#,
    );
    let lines = lines(&text);
    assert_eq!(lines[1], "v0_0 = lax.slice_in_dim(x, 0, 4, axis=1)");
    assert_eq!(lines[2], "v0_1 = lax.slice_in_dim(x, 4, 12, axis=1)");
}

/// Images of a batch, and groups of channels, are on different devices.
#[test]
fn a_convolution_in_groups_has_parts() {
    let conv = |x: &str, w: &str| {
        let body = format!(
            "    %0 = \"hbir.conv\"(%x, %w) <{{dilations = [1, 1], group = 4, pads = [1, 1, 1, 1], strides = [1, 1]}}> {{shard = [\"{x}\"]}} : (tensor<4x4x6x6xf32>, tensor<4x1x3x3xf32>) -> tensor<4x4x6x6xf32>\n    return %0 : tensor<4x4x6x6xf32>\n"
        );
        let args = format!(
            "%x: tensor<4x4x6x6xf32> {{hbir.shard = [\"{x}\"]}}, %w: tensor<4x1x3x3xf32> {{hbir.shard = [{w}]}}"
        );
        let result = format!("(tensor<4x4x6x6xf32> {{hbir.shard = [\"{x}\"]}})");
        by_parts(&args, &result, &body)
    };
    for (x, w, groups) in [("a@d0/2", "", 4), ("a@d1/2", "\"a@d0/2\"", 2)] {
        let wanted = format!("v0 = _conv(x, w, (1, 1), ((1, 1), (1, 1)), (1, 1), {groups},");
        let text = conv(x, w);
        assert!(lines(&text)[0].starts_with(&wanted), "{text}");
    }
}

#[test]
fn a_program_without_a_part_says_why() {
    let x = "tensor<8x16xf32>";
    let args = format!("%x: {x} {{hbir.shard = [\"c@d0/2\"]}}");
    let body = format!("    %0 = \"hbir.relu\"(%x) : ({x}) -> {x}\n    return %0 : {x}\n");
    let text = by_parts(&args, x, &body);
    assert!(!text.contains("def part("), "{text}");
    let why = "# There is no program of one device: `v0` has no sharding without padding.";
    assert!(text.contains(why), "{text}");
}
