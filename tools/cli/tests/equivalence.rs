//! Equivalence in `optc verify` and `--check`: every correct program is accepted, and no other.

use crate::support;

use support::{Folder, optc};

/// Rewrites a StableHLO program and checks the result against it.
fn checked(name: &str, target: &str, text: &str) {
    let folder = Folder::new(name);
    let (from, to) = (folder.write("in.mlir", text), folder.path("out.mlir"));
    let target = format!("--target={target}");
    let said = optc(&["--check", &target, &from, "-o", &to]);
    assert_eq!(said.status, 0, "{}", said.errors);
    assert!(said.errors.contains("the same numbers"), "{}", said.errors);
}

/// Checks that `optc verify` finds two programs equivalent.
fn verified(name: &str, a: &str, b: &str) -> Result<(), String> {
    let folder = Folder::new(name);
    let (a, b) = (folder.write("a.ir", a), folder.write("b.ir", b));
    let said = optc(&["verify", &a, &b]);
    match said.status {
        0 => Ok(()),
        _ => Err(said.errors),
    }
}

/// A comparator with one constant for each use equals the one with a shared constant.
#[test]
fn comparators_with_merged_constants_are_the_same() {
    let text = include_str!("cases/sort.mlir");
    for target in ["xla", "cpu"] {
        checked("sort", target, text);
    }
}

/// Opaque convolutions and products are equal in whatever order their dimension numbers are written.
#[test]
fn dimension_numbers_may_be_in_any_order() {
    for target in ["xla", "cpu"] {
        checked(
            "weight_gradient",
            target,
            include_str!("cases/weight_gradient.mlir"),
        );
        checked(
            "complex_product",
            target,
            include_str!("cases/complex_product.mlir"),
        );
    }
}

const CONVOLUTION: &str = r#"func.func @main(%x: tensor<4x2x5xf32>, %w: tensor<2x8x5xf32>) -> tensor<8x4x1xf32> {
  %0 = "hbir.opaque"(%x, %w) <{kind = "convolution", domain = "hlo", effect = "pure", hlo.batch_group_count = "1", hlo.dim_labels = "LABELS", hlo.window = "{size=5}"}> : (tensor<4x2x5xf32>, tensor<2x8x5xf32>) -> tensor<8x4x1xf32>
  return %0 : tensor<8x4x1xf32>
}
"#;

/// The meaning of each dimension still matters.
#[test]
fn other_dimension_numbers_are_another_convolution() {
    let of = |labels: &str| CONVOLUTION.replace("LABELS", labels);
    let (first, second) = (of("bf0_io0->fb0"), of("fb0_io0->fb0"));
    verified("same_labels", &first, &first).unwrap();
    let errors = verified("other_labels", &first, &second).unwrap_err();
    assert!(errors.contains("not-equivalent"), "{errors}");
}

/// Computing something twice, unused, or in another order gives the same function; computing it from other values does
/// not.
#[test]
fn named_functions_are_the_same_by_what_they_compute() {
    let text = |body: &str| {
        format!(
            r#"func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
  %0 = "hbir.opaque"(%x) <{{kind = "sort", effect = "pure", "hlo.to_apply" = @f}}> : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}}
func.func private @f(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {{
{body}  return %r : tensor<f32>
}}
"#
        )
    };
    let line = |name: &str, op: &str, x: &str| {
        format!("  %{name} = \"hbir.{op}\"(%{x}) : (tensor<f32>) -> tensor<f32>\n")
    };
    let sum = "  %r = \"hbir.sub\"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n";
    let plain = line("a", "exp", "x") + &line("b", "exp", "y") + sum;
    let turned =
        line("unread", "tanh", "x") + &line("b", "exp", "y") + &line("a", "exp", "x") + sum;
    let other = line("a", "exp", "y") + &line("b", "exp", "x") + sum;
    verified("same_function", &text(&plain), &text(&turned)).unwrap();
    let errors = verified("other_function", &text(&plain), &text(&other)).unwrap_err();
    assert!(
        errors.contains("which is not the same in both programs"),
        "{errors}"
    );
}

/// Positions and indices are drawn from the range of the dimension that they index, also behind gathers, selects and
/// calls.
#[test]
fn indices_stay_in_range() {
    let programs = [
        r#"func.func @main(%x: tensor<2x4x5x8xf32>, %c: tensor<6x4xf32>, %s: tensor<6x4xf32>, %p: tensor<2x5xsi64>) -> tensor<2x4x5x8xf32> {
  %0 = "hbir.rotary_embedding"(%x, %c, %s, %p) : (tensor<2x4x5x8xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<2x5xsi64>) -> tensor<2x4x5x8xf32>
  return %0 : tensor<2x4x5x8xf32>
}
"#,
        r#"func.func @main(%x: tensor<3x4xf32>, %e: tensor<2x9xsi64>, %m: tensor<9xi1>) -> tensor<9x4xf32> {
  %0 = "hbir.constant"() <{value = dense<0> : tensor<si64>}> : () -> tensor<si64>
  %1 = "hbir.gather"(%e, %0) <{axis = 0}> : (tensor<2x9xsi64>, tensor<si64>) -> tensor<9xsi64>
  %2 = "hbir.constant"() <{value = dense<1> : tensor<si64>}> : () -> tensor<si64>
  %3 = "hbir.gather"(%e, %2) <{axis = 0}> : (tensor<2x9xsi64>, tensor<si64>) -> tensor<9xsi64>
  %4 = "hbir.select"(%m, %1, %3) : (tensor<9xi1>, tensor<9xsi64>, tensor<9xsi64>) -> tensor<9xsi64>
  %5 = "hbir.call"(%x, %4) <{callee = @take}> : (tensor<3x4xf32>, tensor<9xsi64>) -> tensor<9x4xf32>
  return %5 : tensor<9x4xf32>
}
func.func private @take(%x: tensor<3x4xf32>, %i: tensor<9xsi64>) -> tensor<9x4xf32> {
  %0 = "hbir.gather"(%x, %i) <{axis = 0}> : (tensor<3x4xf32>, tensor<9xsi64>) -> tensor<9x4xf32>
  return %0 : tensor<9x4xf32>
}
"#,
    ];
    for (number, program) in programs.iter().enumerate() {
        verified(&format!("indices_{number}"), program, program).unwrap();
    }
}

const SEQUENCE: &str = r#"func.func @main(%x: tensor<3x4xf32>, %s: !onnx.seq) -> (tensor<?x4xf32>, !onnx.seq) {
  %0 = "hbir.opaque"(%x, %s) <{kind = "SequenceInsert", effect = "pure"}> : (tensor<3x4xf32>, !onnx.seq) -> !onnx.seq
  %1 = "hbir.opaque"(%0) <{kind = "ConcatFromSequence", effect = "pure", onnx.axis = 0}> : (!onnx.seq) -> tensor<?x4xf32>
  %2 = "hbir.relu"(%1) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  return %2, %0 : tensor<?x4xf32>, !onnx.seq
}
"#;

/// A sequence, and a result whose size is known only at run time, are uninterpreted, like all opaque values.
#[test]
fn sequences_and_open_sizes_are_followed() {
    verified("sequence", SEQUENCE, SEQUENCE).unwrap();
    for (from, to) in [
        ("onnx.axis = 0", "onnx.axis = 1"),
        ("SequenceInsert", "SequenceAt"),
    ] {
        let other = SEQUENCE.replace(from, to);
        assert!(
            verified("sequence_other", SEQUENCE, &other).is_err(),
            "{to}"
        );
    }
}

/// A read of outside state is a function of its operands as long as nothing is written.
#[test]
fn reading_is_a_function_where_nothing_is_written() {
    let text = |write: &str| {
        format!(
            r#"func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
{write}  %0 = "hbir.opaque"(%x) <{{kind = "lookup", effect = "read"}}> : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}}
"#
        )
    };
    let reads = text("");
    verified("reads", &reads, &reads).unwrap();
    let writes = text(
        "  \"hbir.opaque\"(%x) <{kind = \"log\", effect = \"write\"}> : (tensor<2xf32>) -> ()\n",
    );
    let errors = verified("writes", &writes, &writes).unwrap_err();
    assert!(errors.contains("no function of its operands"), "{errors}");
}

/// A program that runs only if one size is twice another one gets such sizes.
#[test]
fn sizes_are_found_that_a_program_runs_with() {
    let text = r#"func.func @main(%x: tensor<1x1x?x?xf32, {dims = [1, 1, "w", "h"]}>) -> tensor<1x1x?x?xf32> {
  %0 = "hbir.max_pool"(%x) <{kernel = [1, 2], strides = [1, 2]}> : (tensor<1x1x?x?xf32, {dims = [1, 1, "w", "h"]}>) -> tensor<1x1x?x?xf32>
  %1 = "hbir.transpose"(%0) <{perm = [0, 1, 3, 2]}> : (tensor<1x1x?x?xf32>) -> tensor<1x1x?x?xf32>
  %2 = "hbir.add"(%0, %1) : (tensor<1x1x?x?xf32>, tensor<1x1x?x?xf32>) -> tensor<1x1x?x?xf32>
  return %2 : tensor<1x1x?x?xf32>
}
"#;
    verified("halved", text, text).unwrap();
}
