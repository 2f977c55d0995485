//! Codes of the verifier's refusals of plans.

use optc_ir::codes;

codes! {
    /// The codes of plans, sorted.
    pub const CODES;

    TILE_AXIS = program(
        "a tile names an axis that the grid of its group does not have, has an empty span, or has far more elements than the values of the function",
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.relu"(%x) {tile = {group = 0, result = ["16 @ g1 * 16", "32"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
        "name the axes `g0`, `g1`, … of the grid, outermost first; an extent is at least 1",
    );
    TILE_CUT = program(
        "an operation cannot make a tile: a dimension that it works along is cut, or two dimensions want different parts of one loop",
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.softmax"(%x) {tile = {group = 0, result = ["64", "8 @ g0 * 8"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
        "leave the dimension whole, write its size alone; `reduce` has one span a loop that the operation sums over",
    );
    TILE_CYCLE = program(
        "a group needs a value that is computed from its own results outside of it",
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.relu"(%x) {tile = {group = 0, result = ["16 @ g0 * 16", "32"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %1 = "hbir.softmax"(%0) <{axis = 0}> : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %2 = "hbir.add"(%0, %1) {tile = {group = 0, result = ["16 @ g0 * 16", "32"]}} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  return %2 : tensor<64x32xf32>
}"#,
        "take the operation between into the group, or split the group in two",
    );
    TILE_GROUP = program(
        "an operation is in a group that its function does not list",
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.relu"(%x) {tile = {group = 1, result = ["16 @ g0 * 16", "32"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
        "add the grid to `hbir.groups` of the function, or name a group that is there",
    );
    TILE_ORDER = program(
        "a reduction is cut along an axis that is parallel or outside of another one, or a tile depends on an axis along which its value is still added up",
        r#"func.func @main(%x: tensor<64x64xf32>, %y: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4], order = ["parallel"]}]} {
  %0 = "hbir.matmul"(%x, %y) {tile = {group = 0, reduce = ["16 @ g0 * 16"], result = ["64", "32"]}} : (tensor<64x64xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
        "write `order = [\"arbitrary\"]` for the axis in `hbir.groups`, and keep it out of the tiles of what is added up",
    );
    TILE_RANK = program(
        "a tile has another number of spans than its value has dimensions",
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.relu"(%x) {tile = {group = 0, result = ["16 @ g0 * 16"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
        "write one span a dimension; `32` alone is all of a dimension of 32",
    );
    TILE_RUNNING = program(
        "a softmax is cut along its axis, and what reads it does not add up over the same part",
        r#"func.func @main(%x: tensor<8x64xf32>) -> tensor<8x64xf32> attributes {hbir.groups = [{grid = [4], order = ["arbitrary"]}]} {
  %0 = "hbir.softmax"(%x) <{axis = 1}> {tile = {group = 0, reduce = ["16 @ g0 * 16"], result = ["8", "16 @ g0 * 16"]}} : (tensor<8x64xf32>) -> tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}"#,
        "keep the axis whole, or cut the sum of the product that reads it into the same parts",
    );
    TILE_SUM = program(
        "the parts of a sum that is cut are not all of it, each element once",
        r#"func.func @main(%x: tensor<64x64xf32>, %y: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [3], order = ["arbitrary"]}]} {
  %0 = "hbir.matmul"(%x, %y) {tile = {group = 0, reduce = ["16 @ g0 * 16"], result = ["64", "32"]}} : (tensor<64x64xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
        "make the steps of the axis and the part of each as many elements as the sum has; each sum of an operation has axes of its own",
    );
    TILE_SYNTAX = program(
        "the attributes of a plan are not of the form that is read",
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.relu"(%x) {tile = {group = 0, result = ["16 at g0 * 16", "32"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}"#,
        "write `{group = 0, result = [\"16 @ g0 * 16\", \"32\"]}` at an operation and `hbir.groups = [{grid = [4]}]` at its function",
    );
    TILE_UNCOVERED = program(
        "an operation needs more of an operand than the group makes of it in the same program",
        r#"func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.relu"(%x) {tile = {group = 0, result = ["16 @ g0 * 16", "32"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %1 = "hbir.neg"(%0) {tile = {group = 0, result = ["32 @ g0 * 16", "32"]}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %1 : tensor<64x32xf32>
}"#,
        "make the tile of the operand at least what the message says, or take the operation out of the group",
    );
}

/// The codes of this list that other crates report, too.
pub mod shared {
    use optc_ir::Code;

    /// A group needs a value that is computed from its own results outside it.
    pub const TILE_CYCLE: Code = super::TILE_CYCLE;
    /// The attributes of a plan do not have the expected form.
    pub const TILE_SYNTAX: Code = super::TILE_SYNTAX;
}
