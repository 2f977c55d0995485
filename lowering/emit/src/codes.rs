//! The codes of what cannot be written.

use optc_ir::codes;

codes! {
    /// Every code of this crate, sorted; `function-missing` is the command's as well.
    pub const CODES;

    FUNCTION_MISSING = command(
        "a program has no function to run",
        &[(
            "in.ir",
            r#"module {
}"#,
        )],
        "optc run in.ir --output out.npz",
        "give a program with a function or operations",
    );
    HLO_CONSTANT_DATA = command(
        "the elements of a constant cannot be written in HLO text: the file that they lie in is not there, or is too short",
        &[(
            "in.ir",
            r#"%0 = "hbir.constant"() <{data = #hbir.external<"weights.bin", 0, 8>}> : () -> tensor<2xf32>
%1 = "hbir.add"(%x, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>"#,
        )],
        "optc --emit=hlo in.ir",
        "put the file where the program looks for it: HLO text holds the numbers themselves",
    );
    HLO_CONSTANT_ELIDED = command(
        "the HLO text of a constant has no elements, and the written text has none either",
        &[(
            "in.hlo",
            r#"HloModule m
ENTRY e {
ROOT c = f32[64] constant({...})
}"#,
        )],
        "optc --emit=hlo in.hlo",
        "print the module with `print_large_constants`, so that its text holds them",
    );
    HLO_LAYOUT_INEXPRESSIBLE = command(
        "a value has a layout that HLO text cannot write",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<4x6xf32, {strides = [13, 2]}>) -> tensor<4x6xf32, {strides = [13, 2]}> {
  return %x : tensor<4x6xf32, {strides = [13, 2]}>
}"#,
        )],
        "optc --emit=hlo in.ir",
        "give the value a layout that XLA's notation has",
    );
    JAX_MESH = input(
        "parts of an axis of the mesh do not divide one another, so that no mesh of JAX has them as axes",
        "two values that are split over `model:(1)4` and over `model:(1)6` of an axis of 12 devices",
        "split values over parts of an axis that divide one another",
    );
    LINALG_CONSTANT_DATA = command(
        "the elements of a constant cannot be written in MLIR text: the file that they lie in is not there, or is too short",
        &[(
            "in.ir",
            r#"%0 = "hbir.constant"() <{data = #hbir.external<"weights.bin", 0, 80>}> : () -> tensor<20xf32>
%1 = "hbir.add"(%x, %0) : (tensor<20xf32>, tensor<20xf32>) -> tensor<20xf32>"#,
        )],
        "optc --emit=linalg in.ir",
        "put the file where the program looks for it: MLIR text holds the numbers themselves",
    );
    LINALG_LAYOUT = command(
        "a program that is to be tensors of MLIR has a value whose elements share offsets, run backwards or interleave, or one \
         whose layout cuts or pads a size that is not known",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<5xf32, {strides = [-1], offset = 4}>) -> tensor<5xf32, {strides = [-1], offset = 4}> {
  return %x : tensor<5xf32, {strides = [-1], offset = 4}>
}"#,
        )],
        "optc --emit=linalg in.ir",
        "convert the value to another layout, or fold for another target",
    );
    LINALG_OP = command(
        "an operation cannot be written in the dialects of MLIR",
        &[(
            "in.ir",
            r#"%0 = "hbir.grid_sample"(%x, %y) : (tensor<1x1x4x4xf32>, tensor<1x2x2x2xf32>) -> tensor<1x1x2x2xf32>"#,
        )],
        "optc --emit=linalg in.ir",
        "write the operation by others; docs/ops.md lists those that have a form",
    );
    LINALG_SIZE = command(
        "`--emit=linalg` of a program with an unknown size that is no dimension of an argument",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = "hbir.relu"(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}"#,
        )],
        "optc --emit=linalg in.ir",
        "name the size, and hand over an argument with a dimension of that name",
    );
    ONNX_CONSTANT_DATA = command(
        "the elements of a constant cannot be written into an ONNX model: the file that they lie in is not there, or is too short",
        &[(
            "in.ir",
            r#"%0 = "hbir.constant"() <{data = #hbir.external<"other.onnx", 0, 8>}> : () -> tensor<2xf32>
%1 = "hbir.add"(%x, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>"#,
        )],
        "optc --emit=onnx in.ir",
        "put the file where the program looks for it, or name its folder with `--data`",
    );
    ONNX_INVALID = input(
        "a model would be written that uses a name before it is defined, or an operator as its version does not have it",
        "a defect of the writer; nothing is written so",
        "report it; the command writes the original in its place",
    );
    ONNX_LAYOUT = input(
        "a program that is to be an ONNX model has a value that is not row-major",
        "`optc::onnx::emit` of a function whose argument is `tensor<4x6xf32, {order = [1, 0]}>`; the command ends its pipeline with \
         `normalize-layouts` itself",
        "end the pipeline with `normalize-layouts`: ONNX has no layouts",
    );
    ONNX_OP = command(
        "an operation cannot be written with ONNX operators of the model's version",
        &[(
            "in.ir",
            r#"%0 = "hbir.atan2"(%x, %y) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>"#,
        )],
        "optc --emit=onnx in.ir",
        "write the operation by others, or raise the module's `hbir.onnx_opset`",
    );
    PALLAS_OP = command(
        "an operation cannot be written in Python",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = "hbir.relu"(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}"#,
        )],
        "optc --pass= --emit=pallas in.ir",
        "docs/pallas.md lists what is written; give the sizes that are not known",
    );
    PALLAS_TARGET = command(
        "`--emit=pallas` for a target whose compiler does not accept the kernels",
        &[(
            "in.ir",
            r#"%0 = "hbir.relu"(%x) : (tensor<2xf32>) -> tensor<2xf32>"#,
        )],
        "optc --target=triton --emit=pallas in.ir",
        "write kernels for `tpu`, or `cpu` for interpret mode: `--emit=triton` writes kernels for graphics processors",
    );
    STABLEHLO_LAYOUT = input(
        "a program that is to be StableHLO text has a value that is not row-major",
        "a module with a tiled value, written by `stablehlo::emit` without `normalize-layouts`; the command runs the pass",
        "end the pipeline with `normalize-layouts`: StableHLO has no layouts",
    );
    STABLEHLO_OP = command(
        "an instruction of HLO cannot be written as an operation of StableHLO",
        &[(
            "in.hlo",
            r#"HloModule m
ENTRY e {
a = f32[4,4] parameter(0)
ROOT r = f32[4,4] cholesky(a), lower=true
}"#,
        )],
        "optc --emit=stablehlo in.hlo",
        "write the program as HLO text: `--emit=hlo`",
    );
    TRITON_OP = command(
        "an operation cannot be written in Python with torch",
        &[(
            "in.ir",
            r#"func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = "hbir.relu"(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}"#,
        )],
        "optc --pass= --emit=triton in.ir",
        "docs/triton.md lists what is written; give the sizes that are not known",
    );
    WRITER_RESULT = input(
        "the operations of a writer do not fit the operation that they stand for: another number of results or other types, or writers \
         that use one another without end",
        "a `WriteOp` that returns a `tensor<4xf32>` for an operation whose result is a `tensor<2xf32>`",
        "return one value a result, of its shape and element type",
    );
}
