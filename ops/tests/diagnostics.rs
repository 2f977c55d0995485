//! Every code of the parser and the verifier: a text that is refused with it, and a text that is not.

use optc_ir::diag::{Code, Lines};
use optc_ir::render;
use optc_ir::text::parse;
use optc_ir::verify::{Verified, verify};
use optc_ir::{Attr, AttrDict, CODES, DType, Diagnostic, Func, Loc, Module, Operation, Type};

/// A code, a text that is refused with it at the position given by `at`, and the corrected text.
struct Case {
    code: &'static str,
    refused: &'static str,
    /// The text at the caret.
    at: &'static str,
    accepted: &'static str,
}

const fn case(
    code: &'static str,
    refused: &'static str,
    at: &'static str,
    accepted: &'static str,
) -> Case {
    Case {
        code,
        refused,
        at,
        accepted,
    }
}

const NEG: &str = r#"%0 = "hbir.neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>"#;

/// Codes that no text can cause, only a module built in code.
const BY_CODE_ALONE: [&str; 4] = [
    "not-a-rearrangement",
    "operation-kind",
    "port-count",
    "value-foreign",
];

const CASES: &[Case] = &[
    case(
        "alias-redefined",
        "#a = 1\n#a = 2\n",
        "#a = 2",
        "#a = 1\n#b = 2\n",
    ),
    case(
        "alias-undefined",
        r#""a.b"() <{x = #a}> : () -> ()"#,
        "#a}",
        "#a = 3\n\"a.b\"() <{x = #a}> : () -> ()",
    ),
    case(
        "alias-undefined",
        r#""a.b"(%x) : (!t) -> ()"#,
        "!t)",
        "!t = f32\n\"a.b\"(%x) : (!t) -> ()",
    ),
    case(
        "alias-undefined",
        r#""a.b"() : () -> () loc(#l)"#,
        "#l)",
        "\"a.b\"() : () -> () loc(#l)\n#l = loc(\"x\")",
    ),
    case(
        "attribute-dialect",
        "func.func @main(%x: f32 {a = 1}) {\n  return\n}",
        "func.func",
        "func.func @main(%x: f32 {my.a = 1}) {\n  return\n}",
    ),
    case(
        "attribute-dialect",
        "module attributes {a = 1} {\n}",
        "module",
        "module attributes {my.a = 1} {\n}",
    ),
    case(
        "attribute-duplicate",
        r#""a.b"() <{x = 1, x = 2}> : () -> ()"#,
        "x = 2",
        r#""a.b"() <{x = 1, y = 2}> : () -> ()"#,
    ),
    case(
        "attribute-duplicate",
        r#""a.b"(%x) : (tensor<4xf32, {order = [0], order = [0]}>) -> ()"#,
        "order = [0]}",
        r#""a.b"(%x) : (tensor<4xf32, {order = [0]}>) -> ()"#,
    ),
    case(
        "attribute-kind",
        r#"%0 = "hbir.transpose"(%x) <{perm = "x"}> : (tensor<2x3xf32>) -> tensor<3x2xf32>"#,
        "\"hbir",
        r#"%0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>"#,
    ),
    case(
        "attribute-missing",
        r#"%0 = "hbir.transpose"(%x) {perm = [1, 0]} : (tensor<2x3xf32>) -> tensor<3x2xf32>"#,
        "\"hbir",
        r#"%0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>"#,
    ),
    case(
        "attribute-unknown",
        "%0 = \"hbir.softmax\"(%x) <{axes = 0}> : (tensor<2x3xf32>) -> tensor<2x3xf32>\n",
        "\"hbir.softmax\"",
        "%0 = \"hbir.softmax\"(%x) <{axis = 0}> {axes = 0} : (tensor<2x3xf32>) -> tensor<2x3xf32>\n",
    ),
    case(
        "attribute-value",
        r#""a.b"() <{x = words}> : () -> ()"#,
        "words",
        r#""a.b"() <{x = "words"}> : () -> ()"#,
    ),
    case(
        "block-unsupported",
        "func.func @main() {\n  return\n^bb1:\n  return\n}",
        "^bb1",
        "func.func @main() {\n  return\n}",
    ),
    case(
        "block-unsupported",
        "func.func @main() {\n  \"cf.br\"()[^bb1] : () -> ()\n  return\n}",
        "[",
        "func.func @main() {\n  \"cf.br\"() : () -> ()\n  return\n}",
    ),
    case(
        "call-argument-mismatch",
        "func.func @f(%x: tensor<4xf32>) {\n  return\n}\nfunc.func @main(%x: tensor<5xf32>) {\n  \"hbir.call\"(%x) <{callee = @f}> : (tensor<5xf32>) -> ()\n  return\n}",
        "\"hbir",
        "func.func @f(%x: tensor<4xf32>) {\n  return\n}\nfunc.func @main(%x: tensor<4xf32>) {\n  \"hbir.call\"(%x) <{callee = @f}> : (tensor<4xf32>) -> ()\n  return\n}",
    ),
    case(
        "call-result-mismatch",
        "func.func @f() {\n  return\n}\nfunc.func @main() {\n  %0 = \"hbir.call\"() <{callee = @f}> : () -> tensor<4xf32>\n  return\n}",
        "\"hbir",
        "func.func @f() {\n  return\n}\nfunc.func @main() {\n  \"hbir.call\"() <{callee = @f}> : () -> ()\n  return\n}",
    ),
    case(
        "call-target-missing",
        "func.func @kernel() {\n  return\n}\nfunc.func @main() {\n  \"hbir.call\"() <{callee = @kernal}> : () -> ()\n  return\n}",
        "\"hbir",
        "func.func @kernel() {\n  return\n}\nfunc.func @main() {\n  \"hbir.call\"() <{callee = @kernel}> : () -> ()\n  return\n}",
    ),
    case(
        "call-target-recursive",
        "func.func @f() {\n  \"hbir.call\"() <{callee = @g}> : () -> ()\n  return\n}\nfunc.func @g() {\n  call @f() : () -> ()\n  return\n}",
        "call @f",
        "func.func @f() {\n  \"hbir.call\"() <{callee = @g}> : () -> ()\n  return\n}\nfunc.func @g() {\n  return\n}",
    ),
    case(
        "dense-hex",
        r#""a.b"() <{x = dense<"0x0102"> : tensor<4xi8>}> : () -> ()"#,
        "\"0x",
        r#""a.b"() <{x = dense<"0x01020304"> : tensor<4xi8>}> : () -> ()"#,
    ),
    case(
        "dense-shape",
        r#""a.b"() <{x = dense<[[1, 2], [3]]> : tensor<2x2xi8>}> : () -> ()"#,
        "[3]",
        r#""a.b"() <{x = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>}> : () -> ()"#,
    ),
    case(
        "dims-field",
        r#""a.b"(%x) : (tensor<4x?xf32, {dims = [5, "B"]}>) -> ()"#,
        "[5",
        r#""a.b"(%x) : (tensor<4x?xf32, {dims = [4, "B"]}>) -> ()"#,
    ),
    case(
        "element-type-stored",
        "%0 = \"hbir.cumsum\"(%x) <{axis = 0}> : (tensor<2xf8E5M2>) -> tensor<2xf8E5M2>\n",
        "\"hbir.cumsum\"",
        "%0 = \"hbir.reshape\"(%x) <{shape = [1, 2]}> : (tensor<2xf8E5M2>) -> tensor<1x2xf8E5M2>\n",
    ),
    case(
        "encoding-kind",
        r#""a.b"(%x) : (tensor<4xf32, "packed">) -> ()"#,
        "\"packed",
        r#""a.b"(%x) : (tensor<4xf32, {block = "2W"}>) -> ()"#,
    ),
    case(
        "function-duplicate",
        "func.func @f() {\n  return\n}\nfunc.func @f() {\n  return\n}",
        "func.func @f() {\n  return\n}$",
        "func.func @f() {\n  return\n}\nfunc.func @g() {\n  return\n}",
    ),
    case(
        "function-name",
        r#""func.func"() <{function_type = () -> ()}> ({ "func.return"() : () -> () }) : () -> ()"#,
        "\"func.func",
        r#""func.func"() <{function_type = () -> (), sym_name = "f"}> ({ "func.return"() : () -> () }) : () -> ()"#,
    ),
    case(
        "function-without-body",
        "func.func @f()\n",
        "$",
        "func.func @f() {\n  return\n}",
    ),
    case(
        "hbir-op-unknown",
        r#"%0 = "hbir.tranpose"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>"#,
        "\"hbir.tranpose",
        r#"%0 = "other.tranpose"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>"#,
    ),
    case(
        "layout-field",
        r#""a.b"(%x) : (tensor<4xf32, {order = ["W"]}>) -> ()"#,
        "[\"W\"]",
        r#""a.b"(%x) : (tensor<4xf32, {order = [0]}>) -> ()"#,
    ),
    case(
        "layout-invalid",
        r#""a.b"(%x) : (tensor<4xf32, {block = "2W&H"}>) -> ()"#,
        "&H",
        r#""a.b"(%x) : (tensor<4x4xf32, {block = "2W2H"}>) -> ()"#,
    ),
    case(
        "layout-invalid",
        "func.func @main(%x: tensor<4294967296x4294967296xf32>) {\n  return\n}",
        "func.func",
        "func.func @main(%x: tensor<4294967296xf32>) {\n  return\n}",
    ),
    case(
        "mixed-functions",
        "func.func @f() {\n  return\n}\n\"a.b\"() : () -> ()",
        "\"a.b",
        "func.func @f() {\n  \"a.b\"() : () -> ()\n  return\n}",
    ),
    case(
        "module-duplicate",
        "module {\n}\nmodule {\n}",
        "module {\n}$",
        "module {\n}\n",
    ),
    case(
        "number-out-of-range",
        r#""a.b"() <{x = 300 : si8}> : () -> ()"#,
        "300",
        r#""a.b"() <{x = 100 : si8}> : () -> ()"#,
    ),
    case(
        "number-out-of-range",
        r#""a.b"() <{x = 9223372036854775808}> : () -> ()"#,
        "9223",
        r#""a.b"() <{x = 9223372036854775807}> : () -> ()"#,
    ),
    case(
        "number-out-of-range",
        r#""a.b"(%x) : (tensor<99999999999999999999xf32>) -> ()"#,
        "9999",
        r#""a.b"(%x) : (tensor<9999xf32>) -> ()"#,
    ),
    case(
        "op-custom-syntax",
        "%0 = stablehlo.negate %x : tensor<4xf32>",
        "stablehlo",
        r#"%0 = "stablehlo.negate"(%x) : (tensor<4xf32>) -> tensor<4xf32>"#,
    ),
    case(
        "op-name",
        r#"""() : () -> ()"#,
        "\"\"",
        r#""a"() : () -> ()"#,
    ),
    case(
        "operand-count",
        r#"%0 = "hbir.neg"(%x, %y) : (tensor<4xf32>) -> tensor<4xf32>"#,
        "(tensor",
        NEG,
    ),
    case(
        "operand-count",
        r#"%0 = "hbir.neg"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"#,
        "\"hbir",
        NEG,
    ),
    case(
        "operand-kind",
        r#"%0 = "hbir.neg"(%x) : (f32) -> tensor<4xf32>"#,
        "\"hbir",
        NEG,
    ),
    case(
        "operand-type-mismatch",
        "%0 = \"hbir.neg\"(%x) : (tensor<4xf32>) -> tensor<4xf32>\n\"a.b\"(%0) : (tensor<5xf32>) -> ()",
        "%0) : (tensor<5",
        "%0 = \"hbir.neg\"(%x) : (tensor<4xf32>) -> tensor<4xf32>\n\"a.b\"(%0) : (tensor<4xf32, {block = \"4W\"}>) -> ()",
    ),
    case(
        "operand-type-mismatch",
        r#""a.b"(%x, %x) : (tensor<4xf32>, tensor<4xf16>) -> ()"#,
        "%x) :",
        r#""a.b"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> ()"#,
    ),
    case(
        "part-space",
        r#"%1 = "hbir.subview"(%0) <{limits = [4], starts = [0]}> : (tensor<8xf32, {xla = "0:S(1)"}>) -> tensor<4xf32>"#,
        "\"hbir",
        r#"%1 = "hbir.subview"(%0) <{limits = [4], starts = [0]}> : (tensor<8xf32, {xla = "0:S(1)"}>) -> tensor<4xf32, {xla = "0:S(1)"}>"#,
    ),
    case(
        "port-name-duplicate",
        "func.func @main(%x: f32 {hbir.name = \"a\"}, %y: f32 {hbir.name = \"a\"}) {\n  return\n}",
        "func.func",
        "func.func @main(%x: f32 {hbir.name = \"a\"}, %y: f32 {hbir.name = \"b\"}) {\n  return\n}",
    ),
    case(
        "region-unsupported",
        r#""a.b"() ({ }) : () -> ()"#,
        "({",
        r#""a.b"() : () -> ()"#,
    ),
    case(
        "result-count",
        r#"%a, %b = "a.b"() : () -> f32"#,
        "%a",
        r#"%a, %b = "a.b"() : () -> (f32, f32)"#,
    ),
    case(
        "result-count",
        r#"%0, %1 = "hbir.neg"(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)"#,
        "\"hbir",
        NEG,
    ),
    case(
        "result-kind",
        r#"%0 = "hbir.neg"(%x) : (tensor<4xf32>) -> f32"#,
        "\"hbir",
        NEG,
    ),
    case(
        "result-shape-mismatch",
        r#"%0 = "hbir.neg"(%x) : (tensor<?xf32, {dims = ["A"]}>) -> tensor<?xf32, {dims = ["B"]}>"#,
        "\"hbir",
        r#"%0 = "hbir.neg"(%x) : (tensor<?xf32, {dims = ["A"]}>) -> tensor<?xf32>"#,
    ),
    case(
        "result-shape-mismatch",
        r#"%0 = "hbir.layout_convert"(%x) : (tensor<2x3xf32>) -> tensor<3x2xf32>"#,
        "\"hbir",
        r#"%0 = "hbir.layout_convert"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32, {order = [1, 0]}>"#,
    ),
    case(
        "result-type-mismatch",
        r#"%0 = "hbir.neg"(%x) : (tensor<4xf32>) -> tensor<4xf16>"#,
        "\"hbir",
        NEG,
    ),
    case(
        "return-count",
        "func.func @main(%x: f32) -> f32 {\n  return\n}",
        "return",
        "func.func @main(%x: f32) -> f32 {\n  return %x : f32\n}",
    ),
    case(
        "return-missing",
        "func.func @main() {\n}",
        "func.func",
        "func.func @main() {\n  return\n}",
    ),
    case(
        "return-not-last",
        "func.func @main() {\n  return\n  \"a.b\"() : () -> ()\n}",
        "\"a.b",
        "func.func @main() {\n  \"a.b\"() : () -> ()\n  return\n}",
    ),
    case(
        "return-type-mismatch",
        "func.func @main(%x: f32) -> f16 {\n  return %x : f32\n}",
        "return",
        "func.func @main(%x: f32) -> f32 {\n  return %x : f32\n}",
    ),
    case(
        "shard-axis",
        r#"module attributes {hbir.mesh = ["model:2"]} {
  func.func @main(%x: tensor<5x4xf32> {hbir.shard = ["data@d1/2"]}) {
    return
  }
}"#,
        "func.func",
        r#"module attributes {hbir.mesh = ["model:2"]} {
  func.func @main(%x: tensor<5x4xf32> {hbir.shard = ["model@d1/2"]}) {
    return
  }
}"#,
    ),
    case(
        "shard-mesh",
        r#"module attributes {hbir.mesh = ["model:0"]} {
  func.func @main(%x: tensor<5x4xf32> {hbir.shard = ["model@d1/2"]}) {
    return
  }
}"#,
        "func.func",
        r#"module attributes {hbir.mesh = ["model:2"]} {
  func.func @main(%x: tensor<5x4xf32> {hbir.shard = ["model@d1/2"]}) {
    return
  }
}"#,
    ),
    case(
        "shard-split",
        r#"module attributes {hbir.mesh = ["model:2"]} {
  func.func @main(%x: tensor<5x4xf32> {hbir.shard = ["model@d0/3"]}) {
    return
  }
}"#,
        "func.func",
        r#"module attributes {hbir.mesh = ["model:2"]} {
  func.func @main(%x: tensor<5x4xf32> {hbir.shard = ["model@d0/3 padded"]}) {
    return
  }
}"#,
    ),
    case(
        "shard-syntax",
        r#"module attributes {hbir.mesh = ["model:2"]} {
  func.func @main(%x: tensor<5x4xf32> {hbir.shard = ["model"]}) {
    return
  }
}"#,
        "func.func",
        r#"module attributes {hbir.mesh = ["model:2"]} {
  func.func @main(%x: tensor<5x4xf32> {hbir.shard = ["model@d1/2"]}) {
    return
  }
}"#,
    ),
    case(
        "string-escape",
        r#""a.b"() <{x = "\q"}> : () -> ()"#,
        "\\q",
        r#""a.b"() <{x = "\\q"}> : () -> ()"#,
    ),
    case(
        "string-not-utf8",
        r#""a\FF"() : () -> ()"#,
        "\"a",
        r#""a\C3\9F"() : () -> ()"#,
    ),
    case(
        "string-unterminated",
        "\"a.b\"() <{x = \"y}> : () -> ()\n",
        "\"y",
        "\"a.b\"() <{x = \"y\"}> : () -> ()\n",
    ),
    case(
        "syntax",
        r#"%1 = "hbir.reshape"(%0) <{shape = [4, 32, 128]}> : (tensor<128x128xsi8) -> tensor<4x32x128xsi8>"#,
        ") -> tensor<4x32",
        r#"%1 = "hbir.reshape"(%0) <{shape = [4, 32, 128]}> : (tensor<128x128xsi8>) -> tensor<4x32x128xsi8>"#,
    ),
    case(
        "value-number",
        "%a:2 = \"a.b\"() : () -> (f32, f32)\n\"a.c\"(%a#2) : (f32) -> ()",
        "%a#2",
        "%a:2 = \"a.b\"() : () -> (f32, f32)\n\"a.c\"(%a#1) : (f32) -> ()",
    ),
    case(
        "value-redefined",
        "%a = \"a.b\"() : () -> f32\n%a = \"a.b\"() : () -> f32",
        "%a = \"a.b\"() : () -> f32$",
        "%a = \"a.b\"() : () -> f32\n%b = \"a.b\"() : () -> f32",
    ),
    case(
        "value-undefined",
        "func.func @main(%input: f32) {\n  \"a.b\"(%inptu) : (f32) -> ()\n  return\n}",
        "%inptu",
        "func.func @main(%input: f32) {\n  \"a.b\"(%input) : (f32) -> ()\n  return\n}",
    ),
    case(
        "value-undefined",
        "\"a.b\"(%0) : (f32) -> ()\n%0 = \"a.c\"() : () -> f32",
        "%0 = ",
        "%0 = \"a.c\"() : () -> f32\n\"a.b\"(%0) : (f32) -> ()",
    ),
    case(
        "view-illegal",
        r#"%1 = "hbir.view"(%0) <{}> : (tensor<128x128xsi8, layout = {block = 128W, order = [0, 1]}>) -> tensor<4x32x128xsi8, layout = {block = 128W, order = [0, 1, 2]}>"#,
        "\"hbir",
        r#"%1 = "hbir.view"(%0) <{}> : (tensor<128x128xsi8, layout = {block = 128W, order = [0, 1]}>) -> tensor<4x32x128xsi8, layout = {axes = "NHW", block = 128W, order = [0, 1, 2]}>"#,
    ),
    case(
        "view-illegal",
        r#"%1 = "hbir.view"(%0) <{perm = [1, 0]}> : (tensor<?x8xsi8, {dims = ["B", 8]}>) -> tensor<8x?xsi8, {dims = [8, "B"]}>"#,
        "\"hbir",
        r#"%1 = "hbir.view"(%0) <{perm = [1, 0]}> : (tensor<?x8xsi8, {dims = ["B", 8]}>) -> tensor<8x?xsi8, {dims = [8, "B"], order = [1, 0]}>"#,
    ),
    case(
        "view-shape",
        r#"%1 = "hbir.view"(%0) <{perm = [12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]}> : (tensor<?x?x?x?x?x?x?x?x?x?x?x?x?xsi8>) -> tensor<?x?x?x?x?x?x?x?x?x?x?x?x?xsi8>"#,
        "\"hbir",
        r#"%1 = "hbir.view"(%0) <{perm = [1, 0]}> : (tensor<?x1xsi8>) -> tensor<1x?xsi8>"#,
    ),
    case(
        "tile-axis",
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.relu"(%x) {tile = {group = 0, result = ["16 @ g1 * 16", "32"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
        r#""hbir.relu"#,
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.relu"(%x) {tile = {group = 0, result = ["16 @ g0 * 16", "32"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
    ),
    case(
        "tile-cut",
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.softmax"(%x) {tile = {group = 0, result = ["64", "8 @ g0 * 8"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
        r#""hbir.softmax"#,
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.softmax"(%x) {tile = {group = 0, result = ["16 @ g0 * 16", "32"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
    ),
    case(
        "tile-cycle",
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.relu"(%x) {tile = {group = 0, result = ["16 @ g0 * 16", "32"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %1 = "hbir.softmax"(%0) <{axis = 0}> : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %2 = "hbir.add"(%0, %1) {tile = {group = 0, result = ["16 @ g0 * 16", "32"]}} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  return %2 : tensor<64x32xf32>
}"#,
        r#""hbir.relu"#,
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}, {grid = [4]}]} {
  %0 = "hbir.relu"(%x) {tile = {group = 0, result = ["16 @ g0 * 16", "32"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %1 = "hbir.softmax"(%0) <{axis = 0}> : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %2 = "hbir.add"(%0, %1) {tile = {group = 1, result = ["16 @ g0 * 16", "32"]}} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  return %2 : tensor<64x32xf32>
}"#,
    ),
    case(
        "tile-group",
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.relu"(%x) {tile = {group = 1, result = ["16 @ g0 * 16", "32"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
        r#""hbir.relu"#,
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.relu"(%x) {tile = {group = 0, result = ["16 @ g0 * 16", "32"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
    ),
    case(
        "tile-order",
        r#"func.func @main(%x: tensor<64x64xf32>, %y: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4], order = ["parallel"]}]} {
  %0 = "hbir.matmul"(%x, %y) {tile = {group = 0, reduce = ["16 @ g0 * 16"], result = ["64", "32"]}} : (tensor<64x64xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
        r#""hbir.matmul"#,
        r#"func.func @main(%x: tensor<64x64xf32>, %y: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4], order = ["arbitrary"]}]} {
  %0 = "hbir.matmul"(%x, %y) {tile = {group = 0, reduce = ["16 @ g0 * 16"], result = ["64", "32"]}} : (tensor<64x64xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
    ),
    case(
        "tile-running",
        r#"func.func @main(%x: tensor<8x64xf32>) -> tensor<8x64xf32> attributes {hbir.groups = [{grid = [4], order = ["arbitrary"]}]} {
  %0 = "hbir.softmax"(%x) <{axis = 1}> {tile = {group = 0, reduce = ["16 @ g0 * 16"], result = ["8", "16 @ g0 * 16"]}} : (tensor<8x64xf32>) -> tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}"#,
        r#""hbir.softmax"#,
        r#"func.func @main(%x: tensor<8x64xf32>) -> tensor<8x64xf32> attributes {hbir.groups = [{grid = [4], order = ["arbitrary"]}]} {
  %0 = "hbir.softmax"(%x) <{axis = 1}> {tile = {group = 0, result = ["8", "64"]}} : (tensor<8x64xf32>) -> tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}"#,
    ),
    case(
        "tile-rank",
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.relu"(%x) {tile = {group = 0, result = ["16 @ g0 * 16"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
        r#""hbir.relu"#,
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.relu"(%x) {tile = {group = 0, result = ["16 @ g0 * 16", "32"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
    ),
    case(
        "tile-sum",
        r#"func.func @main(%x: tensor<64x64xf32>, %y: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [3], order = ["arbitrary"]}]} {
  %0 = "hbir.matmul"(%x, %y) {tile = {group = 0, reduce = ["16 @ g0 * 16"], result = ["64", "32"]}} : (tensor<64x64xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
        r#""hbir.matmul"#,
        r#"func.func @main(%x: tensor<64x64xf32>, %y: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4], order = ["arbitrary"]}]} {
  %0 = "hbir.matmul"(%x, %y) {tile = {group = 0, reduce = ["16 @ g0 * 16"], result = ["64", "32"]}} : (tensor<64x64xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
    ),
    case(
        "tile-syntax",
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.relu"(%x) {tile = {group = 0, result = ["16 at g0 * 16", "32"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
        r#""hbir.relu"#,
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.relu"(%x) {tile = {group = 0, result = ["16 @ g0 * 16", "32"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
    ),
    case(
        "tile-uncovered",
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.relu"(%x) {tile = {group = 0, result = ["16 @ g0 * 16", "32"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %1 = "hbir.neg"(%0) {tile = {group = 0, result = ["32 @ g0 * 16", "32"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %1 : tensor<64x32xf32>
}"#,
        r#""hbir.neg"#,
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.relu"(%x) {tile = {group = 0, result = ["16 @ g0 * 16", "32"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %1 = "hbir.neg"(%0) {tile = {group = 0, result = ["16 @ g0 * 16", "32"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %1 : tensor<64x32xf32>
}"#,
    ),
];

fn check(text: &str) -> Vec<Diagnostic> {
    match parse(text) {
        Err(diags) => diags,
        Ok(module) => verify(&module, &optc_ops::registry())
            .err()
            .unwrap_or_default(),
    }
}

fn shown(diags: &[Diagnostic], text: &str) -> String {
    diags.iter().map(|d| render(d, "case.ir", text)).collect()
}

#[test]
fn each_code_is_given_and_its_correction_accepted() {
    for case in CASES {
        let diags = check(case.refused);
        let text = shown(&diags, case.refused);
        let [diag] = diags.as_slice() else {
            panic!(
                "wanted one error of code {}\n{}\n{text}",
                case.code, case.refused
            )
        };
        assert_eq!(diag.code, case.code, "\n{}\n{text}", case.refused);
        let start = diag.labels[0].0.start as usize;
        let rest = &case.refused[start..];
        let found = match case.at.strip_suffix('$') {
            Some(all) => rest.trim_end() == all,
            None => rest.starts_with(case.at),
        };
        assert!(found, "wanted the caret at {:?}\n{text}", case.at);
        let diags = check(case.accepted);
        assert!(
            diags.is_empty(),
            "{}\n{}",
            case.accepted,
            shown(&diags, case.accepted)
        );
    }
}

#[test]
fn nesting_and_expansion_are_limited() {
    let nested = |n: usize| {
        format!(
            "\"a.b\"() <{{x = {}1{}}}> : () -> ()",
            "[".repeat(n),
            "]".repeat(n)
        )
    };
    assert_eq!(check(&nested(5000))[0].code, "nesting-too-deep");
    assert_eq!(check(&nested(50)), []);
    let doubling = |n: usize| {
        let lines = (1..n).map(|i| format!("#a{i} = [#a{0}, #a{0}]\n", i - 1));
        format!(
            "#a0 = \"x\"\n{}\"a.b\"() <{{x = #a{}}}> : () -> ()",
            lines.collect::<String>(),
            n - 1
        )
    };
    assert_eq!(check(&doubling(60))[0].code, "alias-too-large");
    assert_eq!(check(&doubling(8)), []);
    let circle = "#a = [#b]\n#b = [#a]\n\"a.b\"() <{x = #a}> : () -> ()";
    assert_eq!(check(circle)[0].code, "nesting-too-deep");
}

#[test]
fn each_code_has_a_case() {
    let limits = ["nesting-too-deep", "alias-too-large"];
    let codes: Vec<Code> = CODES.iter().chain(optc_tile::CODES).copied().collect();
    for Code {
        name: code, says, ..
    } in &codes
    {
        let covered = CASES.iter().any(|c| c.code == *code)
            || BY_CODE_ALONE.contains(code)
            || limits.contains(code);
        assert!(covered, "{code}: {says}");
    }
    assert!(CODES.is_sorted_by_key(|c| c.name), "codes are sorted");
    for case in CASES {
        assert!(
            codes.iter().any(|c| c.name == case.code),
            "{} is listed",
            case.code
        );
    }
}

fn one_op() -> (Module, Func) {
    let mut func = Func::new("main");
    let ty = Type::tensor(&[4], DType::F32);
    let x = func.add_arg(ty.clone(), Some("x"));
    let op = func.push_op("hbir.neg", vec![x], AttrDict::new(), vec![ty], Loc::Unknown);
    let y = func.ops[op].results[0];
    func.add_result(y, None);
    (Module::default(), func)
}

#[track_caller]
fn code_of(mut module: Module, func: Func) -> &'static str {
    module.funcs.push(func);
    verify(&module, &optc_ops::registry()).map_or_else(|diags| diags[0].code.as_str(), |()| "")
}

#[test]
fn modules_made_by_code_are_checked() {
    let (module, func) = one_op();
    assert_eq!(code_of(module, func), "");

    let (module, mut func) = one_op();
    func.arg_ports.clear();
    assert_eq!(code_of(module, func), "port-count");

    let (module, mut func) = one_op();
    let again = func.body[0];
    func.body.push(again);
    assert_eq!(code_of(module, func), "value-foreign");

    let (module, mut func) = one_op();
    func.args.swap_remove(0);
    func.arg_ports.clear();
    assert_eq!(code_of(module, func), "value-undefined");

    let (module, mut func) = one_op();
    func.body.clear();
    assert_eq!(code_of(module, func), "value-undefined");

    let (module, mut func) = one_op();
    let op = func.body[0];
    func.ops[op].operands[0] = func.results[0];
    assert_eq!(code_of(module, func), "value-undefined");
}

#[test]
fn views_of_unknown_sizes_are_decided() {
    let view = |props: &str, from: &str, to: &str| {
        let diags = check(&format!(
            "%0 = \"hbir.view\"(%x) <{{{props}}}> : ({from}) -> {to}"
        ));
        diags.first().map_or("", |d| d.code.as_str())
    };
    let heads = r#"tensor<?x12x?x64xf32, {dims = ["B", 12, "S", 64]}>"#;
    let tokens = r#"tensor<?x?x768xf32, {dims = ["B", "S", 768]}>"#;
    let swapped = r#"tensor<?x?x12x64xf32, {dims = ["B", "S", 12, 64], order = [0, 2, 1, 3]}>"#;
    let split = r#"tensor<?x12x?x64xf32, {dims = ["B", 12, "S", 64], order = [0, 2, 1, 3]}>"#;
    assert_eq!(view("perm = [0, 2, 1, 3]", heads, swapped), "");
    assert_eq!(view("perm = [0, 2, 1, 3]", heads, tokens), "view-illegal");
    assert_eq!(
        view(
            r#"shape = ["B", "S", 12, 64], perm = [0, 2, 1, 3]"#,
            tokens,
            split
        ),
        ""
    );
    assert_eq!(
        view(
            r#"shape = ["B", "S", 12, 64], perm = [0, 2, 1, 3]"#,
            tokens,
            heads
        ),
        "view-illegal"
    );
    // An unknown size follows from the number of elements, or from its position among the others.
    let column = "tensor<768x?xf32, {order = [1, 0]}>";
    assert_eq!(view("shape = [-1, 768], perm = [1, 0]", tokens, column), "");
    let (x, y) = (
        "tensor<?x?x4xf32>",
        "tensor<?x?x4xf32, {order = [1, 0, 2]}>",
    );
    assert_eq!(view("perm = [1, 0, 2]", x, y), "");
    assert_eq!(view("perm = [1, 0, 2]", x, x), "view-illegal");
    // Nothing moves if at most one size is not 1, or if there are no elements.
    assert_eq!(
        view("perm = [1, 0]", "tensor<?x1xf32>", "tensor<1x?xf32>"),
        ""
    );
    assert_eq!(
        view("perm = [1, 0]", "tensor<0x3xf32>", "tensor<3x0xf32>"),
        ""
    );
}

#[test]
fn all_errors_are_reported_in_order() {
    let text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = \"hbir.nge\"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = \"hbir.neg\"(%0) : (tensor<4xf32>) -> tensor<5xf32>
  return %0 : tensor<4xf32>
}";
    let codes: Vec<&str> = check(text).iter().map(|d| d.code.as_str()).collect();
    assert_eq!(codes, ["hbir-op-unknown", "result-shape-mismatch"]);
    let text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = \"hbir.neg\"(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = \"hbir.neg\"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = \"hbir.neg\"(%x) : (tensor<4xf32>) - tensor<4xf32>
  return %2 : tensor<4xf32>
}
func.func @other() {
  %0 = \"a.b\"() <{x = }> : () -> f32
  return
}";
    let diags = check(text);
    let codes: Vec<&str> = diags.iter().map(|d| d.code.as_str()).collect();
    assert_eq!(
        codes,
        ["value-undefined", "syntax", "syntax"],
        "{}",
        shown(&diags, text)
    );
}

#[test]
fn hints_name_what_was_meant() {
    let hint = |text: &str| check(text)[0].notes.join(" ");
    let view = CASES.iter().find(|c| c.code == "view-illegal").unwrap();
    let wanted = r#"hint: W is dimension 1 (size 32) of HWC; did you mean 128C or axes = "NHW"?"#;
    assert_eq!(hint(view.refused), wanted);
    for (code, wanted) in [
        ("hbir-op-unknown", "did you mean hbir.transpose?"),
        ("call-target-missing", "did you mean @kernel?"),
        ("value-undefined", "did you mean %input?"),
        ("attribute-missing", "`perm` stands in {…}"),
        ("syntax", "close the type: `tensor<128x128xsi8>`"),
        ("attribute-value", "write a string as \"words\""),
    ] {
        let case = CASES.iter().find(|c| c.code == code).unwrap();
        assert!(
            hint(case.refused).contains(wanted),
            "{code}: {}",
            hint(case.refused)
        );
    }
}

#[test]
fn rendering_shows_file_line_column_caret_and_notes() {
    const SOME_CODE: Code = Code::input("some-code", "a word", "a word", "try");
    let text = "// ä comment\n\t\"ä.b\"() <{x = \"ß\", y = words}> : () -> ()\n";
    let wanted = "dir/case.ir:2:25: error[attribute-value]: found `words`, wanted an attribute
2 |     \"ä.b\"() <{x = \"ß\", y = words}> : () -> ()
  |                            ^^^^^ no attribute starts with this word
  hint: write a string as \"words\"
";
    let diags = check(text);
    assert_eq!(render(&diags[0], "dir/case.ir", text), wanted);
    let lines = Lines::new(text);
    assert_eq!(lines.position(0).line, 1);
    assert_eq!(lines.position(u32::MAX).line, 3);
    let plain = Diagnostic::warning(SOME_CODE, "a message").note("a fact");
    assert_eq!(
        render(&plain, "f", ""),
        "f: warning[some-code]: a message\n  note: a fact\n"
    );
    let long = format!(
        "\"a.b\"() <{{x = \"{}\", y = words}}> : () -> ()",
        "s".repeat(1000)
    );
    let shown = render(&check(&long)[0], "f", &long);
    assert!(shown.lines().all(|l| l.chars().count() < 260), "{shown}");
}

#[test]
fn a_verified_module_says_so_in_its_type() {
    let (mut module, func) = one_op();
    module.funcs.push(func);
    module.attrs.set("hbir.target", Attr::str("cpu"));
    let verified = Verified::new(&module, &optc_ops::registry()).unwrap();
    assert_eq!(verified.module().funcs.len(), 1);
}

#[test]
fn attributes_are_those_of_the_operation_asked_for() {
    let module = parse(NEG).unwrap();
    let func = &module.funcs[0];
    let op = func.op_ref(func.body[0]);
    let error = optc_ops::Transpose::of(&op).unwrap_err();
    assert_eq!(error.code, "operation-kind");
    assert_eq!(error.message, "found hbir.neg, wanted hbir.transpose");
    let error = optc_ops::registry().rearrangement(&op).unwrap_err();
    assert_eq!(error.code, "not-a-rearrangement");
    assert_eq!(optc_ops::Neg::of(&op), Ok(optc_ops::Neg {}));
}

/// The error for a misspelled attribute suggests the correct name.
#[test]
fn unknown_attributes_come_with_a_suggestion() {
    let program = "%0 = \"hbir.matmul\"(%x, %y) <{transpose_b = true}> : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>\n";
    let diags = check(program);
    assert_eq!(diags[0].code, "attribute-unknown");
    let program = "%0 = \"hbir.softmax\"(%x) <{axes = 0}> : (tensor<2x3xf32>) -> tensor<2x3xf32>\n";
    assert_eq!(check(program)[0].notes, ["hint: did you mean `axis`?"]);
}
