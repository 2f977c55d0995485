//! The codes of the StableHLO front end.

use optc_ir::codes;

codes! {
    /// Every code of this crate, sorted.
    pub const CODES;

    STABLEHLO_ATTRIBUTE = program(
        "an operation of StableHLO lacks an attribute, or has one with a value that it does not take",
        r#"func.func @main(%arg0: tensor<4x5xf32>) -> tensor<5x4xf32> {
  %0 = "stablehlo.transpose"(%arg0) : (tensor<4x5xf32>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}"#,
        "write the attribute as JAX prints it",
    );
    STABLEHLO_CONSTANT = program(
        "the elements of a constant of StableHLO are not those that its type wants",
        r#"func.func @main() -> tensor<3xf32> {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<3xf32>
  return %0 : tensor<3xf32>
}"#,
        "write as many elements as the type has, or one for all of them",
    );
    STABLEHLO_FUNCTION = program(
        "a module of StableHLO has no function to start with, two of one name, or calls one that is not there or that calls itself",
        r#"func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @missing(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"#,
        "give the module a function `@main` and the functions that it calls",
    );
    STABLEHLO_SYNTAX = program(
        "a text is not in the form in which MLIR prints StableHLO",
        r#"func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %arg0 %arg0 : tensor<4xf32>
  return %0 : tensor<4xf32>
}"#,
        "print the module anew; the generic form of MLIR is read for every operation",
    );
    STABLEHLO_TOO_DEEP = input(
        "brackets or regions of a module of StableHLO nest more deeply than is read",
        "a list of a thousand lists in one another",
        "write the program flatter: 96 levels are read",
    );
    STABLEHLO_TYPE = program(
        "a value of a module of StableHLO has a type that XLA does not have, that is not well formed, or that is not what its function returns",
        r#"func.func @main(%arg0: tensor<4xf33>) -> tensor<4xf33> {
  return %arg0 : tensor<4xf33>
}"#,
        "use the element types that XLA has",
    );
    STABLEHLO_VALUE = program(
        "an operation of StableHLO reads a value that nothing defines before it, or defines one a second time",
        r#"func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %arg0, %1 : tensor<4xf32>
  return %0 : tensor<4xf32>
}"#,
        "define the value first",
    );
}
