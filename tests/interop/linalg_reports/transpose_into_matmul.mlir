// The transposed operands of a batched product, as exporters write attention scores.
// moves 0 bytes
func.func @main(%q: tensor<6x4x5x8xf32>, %k: tensor<6x5x4x8xf32>) -> tensor<6x4x5x5xf32> {
  %e0 = tensor.empty() : tensor<6x4x5x8xf32>
  %turned = linalg.transpose ins(%k : tensor<6x5x4x8xf32>) outs(%e0 : tensor<6x4x5x8xf32>) permutation = [0, 2, 1, 3]
  %e1 = tensor.empty() : tensor<6x4x8x5xf32>
  %keys = linalg.transpose ins(%turned : tensor<6x4x5x8xf32>) outs(%e1 : tensor<6x4x8x5xf32>) permutation = [0, 1, 3, 2]
  %a = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<6x4x5x8xf32> into tensor<24x5x8xf32>
  %b = tensor.collapse_shape %keys [[0, 1], [2], [3]] : tensor<6x4x8x5xf32> into tensor<24x8x5xf32>
  %zero = arith.constant 0.0 : f32
  %e2 = tensor.empty() : tensor<24x5x5xf32>
  %begin = linalg.fill ins(%zero : f32) outs(%e2 : tensor<24x5x5xf32>) -> tensor<24x5x5xf32>
  %scores = linalg.batch_matmul ins(%a, %b : tensor<24x5x8xf32>, tensor<24x8x5xf32>) outs(%begin : tensor<24x5x5xf32>) -> tensor<24x5x5xf32>
  %out = tensor.expand_shape %scores [[0, 1], [2], [3]] output_shape [6, 4, 5, 5] : tensor<24x5x5xf32> into tensor<6x4x5x5xf32>
  return %out : tensor<6x4x5x5xf32>
}
