// Dimensions of extent 1 are moved, dropped and added around a product: nothing moves in memory.
// moves 0 bytes
func.func @main(%x: tensor<1x5x1x12xf32>, %w: tensor<12x7xf32>) -> tensor<1x7x5x1xf32> {
  %e0 = tensor.empty() : tensor<5x1x1x12xf32>
  %moved = linalg.transpose ins(%x : tensor<1x5x1x12xf32>) outs(%e0 : tensor<5x1x1x12xf32>) permutation = [1, 0, 2, 3]
  %rows = tensor.collapse_shape %moved [[0, 1, 2], [3]] : tensor<5x1x1x12xf32> into tensor<5x12xf32>
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<5x7xf32>
  %begin = linalg.fill ins(%zero : f32) outs(%e1 : tensor<5x7xf32>) -> tensor<5x7xf32>
  %product = linalg.matmul ins(%rows, %w : tensor<5x12xf32>, tensor<12x7xf32>) outs(%begin : tensor<5x7xf32>) -> tensor<5x7xf32>
  %split = tensor.expand_shape %product [[0, 1], [2, 3]] output_shape [1, 5, 7, 1] : tensor<5x7xf32> into tensor<1x5x7x1xf32>
  %e2 = tensor.empty() : tensor<1x7x5x1xf32>
  %turned = linalg.transpose ins(%split : tensor<1x5x7x1xf32>) outs(%e2 : tensor<1x7x5x1xf32>) permutation = [0, 2, 1, 3]
  return %turned : tensor<1x7x5x1xf32>
}
