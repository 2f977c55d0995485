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

/// The module of a program over two axes of two devices each and one of four, with the program of one device.
fn by_parts(text: &str) -> String {
    let text = format!("module attributes {{hbir.mesh = [\"a:2\", \"b:2\", \"c:4\"]}} {{{text}}}");
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

/// The lines of a program of one device that converts its argument from one sharding to another.
fn converted([from, to]: [&str; 2], [given, made]: [&str; 2]) -> Vec<String> {
    let x = "tensor<8x16xf32>";
    let reshard = format!(
        "<{{domain = \"mesh\", effect = \"pure\", from = [{from}], kind = \"reshard\", to = [{to}]}}>"
    );
    let text = by_parts(&format!(
        r#"
  func.func @main(%x: {x} {{hbir.shard = [{from}]}}) -> ({x} {{hbir.shard = [{to}]}}) {{
    %0 = "hbir.relu"(%x) {{shard = [{to}]}} : ({x}) -> {x}
    return %0 : {x}
  }}
  func.func @main_part(%x: tensor<{given}xf32>) -> tensor<{made}xf32> attributes {{hbir.part_of = "main"}} {{
    %0 = "hbir.opaque"(%x) {reshard} : (tensor<{given}xf32>) -> tensor<{made}xf32>
    %1 = "hbir.relu"(%0) : (tensor<{made}xf32>) -> tensor<{made}xf32>
    return %1 : tensor<{made}xf32>
  }}
"#
    ));
    lines(&text).into_iter().map(str::to_owned).collect()
}

#[test]
fn values_are_converted_between_operations() {
    for (ends, types, wanted) in [
        (
            ["", "\"c@d1/4\""],
            ["8x16", "8x4"],
            r#"_take(x, "c", ((1, 4, 4),))"#,
        ),
        (
            ["\"c@d1/4\"", ""],
            ["8x4", "8x16"],
            r#"_gather(x, "c", ((1, 4, 4),))"#,
        ),
        (
            ["\"c@d1/4\"", "\"c@d0/2\""],
            ["8x4", "2x16"],
            r#"_exchange(x, "c", ((1, 4, 4),), ((0, 2, 4),))"#,
        ),
        (
            ["\"a@d0/4\"", "\"b@d0/4\""],
            ["4x16", "4x16"],
            r#"_swap(x, ("a", "b"), 2)"#,
        ),
        // An inner digit of 16 elements, of which `b` has split the half below it.
        (
            ["\"a@d1/4\", \"b@d1/2\"", "\"b@d1/2\""],
            ["8x4", "8x8"],
            r#"_gather(x, "a", ((1, 2, 2),))"#,
        ),
        // Digits that overlap are gathered first.
        (
            ["\"c@d1/4\"", "\"c@d1/2\""],
            ["8x4", "8x4"],
            r#"_take(_gather(x, "c", ((1, 4, 4),)), "c", ((1, 2, 4),))"#,
        ),
        (
            ["\"c@d0%2*d1/8%2\"", ""],
            ["4x8", "8x16"],
            r#"_gather(x, ("c0", "c1"), ((0, 1, 2), (1, 8, 2)))"#,
        ),
    ] {
        let lines = converted(ends, types);
        let found = lines.iter().find(|line| line.starts_with("v0 = "));
        let found = found.expect("a conversion");
        assert_eq!(found, &format!("v0 = {wanted}"), "{ends:?}");
    }
}

#[test]
fn the_first_device_has_all_of_a_partial_sum() {
    let lines = converted(["", "\"c@sum\""], ["8x16", "8x16"]);
    assert_eq!(lines[0], r#"v0 = _once(x, "c")"#);
    let lines = converted(["\"c@sum\"", "\"c@d0/2\""], ["8x16", "2x16"]);
    assert_eq!(lines[0], r#"v0 = _scatter(x, "c", ((0, 2, 4),))"#);
}

#[test]
fn a_program_without_a_part_says_why() {
    let text = by_parts(
        r#"
  func.func @main(%x: tensor<8x16xf32> {hbir.shard = ["c@d0/2"]}) -> tensor<8x16xf32> attributes {hbir.no_part = "a reason"} {
    %0 = "hbir.relu"(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
"#,
    );
    assert!(!text.contains("def part("), "{text}");
    let why = "# There is no program of one device: a reason.";
    assert!(text.contains(why), "{text}");
}

/// A weight comes as the part in which it is stored. Parts of it that an operation reads are taken of that.
#[test]
fn weights_come_in_the_sharding_in_which_they_are_stored() {
    let written = |stored: &str| {
        let text = format!(
            r#"
  func.func @main(%x: tensor<8x16xf32> {{hbir.shard = []}}) -> tensor<8x16xf32> {{
    return %x : tensor<8x16xf32>
  }}
  func.func @main_part(%x: tensor<8x16xf32>) -> tensor<2x16xf32> attributes {{hbir.part_of = "main"}} {{
    %0 = "hbir.constant"() <{{data = #hbir.external<"w.bin", 0, 512>}}> {{shard = [{stored}]}} : () -> tensor<8x16xf32>
    %1 = "hbir.opaque"(%0) <{{domain = "mesh", effect = "pure", from = [], kind = "reshard", to = ["c@d0/2"]}}> : (tensor<8x16xf32>) -> tensor<2x16xf32>
    return %1 : tensor<2x16xf32>
  }}
"#
        );
        lines(&by_parts(&text))[1].to_owned()
    };
    assert_eq!(written(""), r#"v1 = _take(v0, "c", ((0, 2, 4),))"#);
    assert_eq!(written(r#""c@d0/2""#), "v1 = v0");
}
