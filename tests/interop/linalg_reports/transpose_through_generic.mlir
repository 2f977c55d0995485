// A transpose as a generic, an element-wise operation that broadcasts along a permuted dimension, and the transpose back.
// moves 0 bytes
func.func @main(%x: tensor<2x3x5x7xf32>, %bias: tensor<7xf32>) -> tensor<2x3x5x7xf32> {
  %e0 = tensor.empty() : tensor<2x7x3x5xf32>
  %first = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, h, w, c)>, affine_map<(n, c, h, w) -> (n, c, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x3x5x7xf32>) outs(%e0 : tensor<2x7x3x5xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x7x3x5xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (c)>, affine_map<(n, c, h, w) -> (n, c, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%first, %bias : tensor<2x7x3x5xf32>, tensor<7xf32>) outs(%e0 : tensor<2x7x3x5xf32>) {
  ^bb0(%in: f32, %b: f32, %out: f32):
    %s = arith.addf %in, %b : f32
    linalg.yield %s : f32
  } -> tensor<2x7x3x5xf32>
  %e1 = tensor.empty() : tensor<2x3x5x7xf32>
  %back = linalg.transpose ins(%sum : tensor<2x7x3x5xf32>) outs(%e1 : tensor<2x3x5x7xf32>) permutation = [0, 2, 3, 1]
  return %back : tensor<2x3x5x7xf32>
}
