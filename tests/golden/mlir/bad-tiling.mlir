// RUN: hilo check %s
// Tiles are tensors of index.
func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.custom_call @f(%a) {operand_layouts = [dense<0> : tensor<1xindex>], result_layouts = [dense<0> : tensor<1xindex>], result_tilings = [[dense<2> : tensor<1xi64>]]} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
// EXIT: 3
// ERR: 4:8: error: 'stablehlo.custom_call': the tiling of result 0 should be a list of tensors of index
// OUT:
// bad-tiling.mlir: module (unnamed): 1 error
