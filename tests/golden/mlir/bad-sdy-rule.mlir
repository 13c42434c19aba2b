// RUN: hilo check %s
// A sharding rule fits its op.
func.func @main(%a: tensor<8x4xf32>, %b: tensor<4x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.custom_call @f(%a, %b) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=8, k=4} reduction={k}>} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.custom_call @f(%a, %b) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k])->([i, j]) {i=8, j=8, k=4}>} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %2 = stablehlo.custom_call @f(%a, %b) {sdy.sharding_rule = #sdy.op_sharding_rule<([i], [k, j])->([i, j]) {i=8, j=8, k=4}>} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %3 = stablehlo.custom_call @f(%a, %b) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=8, k=4} reduction={i}>} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %4 = stablehlo.custom_call @f(%a, %b) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=8, k=4, l=2}>} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %5 = stablehlo.custom_call @f(%a, %b) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=8, k=4} need_replication={k} permutation={k}>} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// EXIT: 3
// ERR: 5:8: error: 'stablehlo.custom_call': its sharding rule has 1 operands, but the op has 2
// ERR: 6:8: error: 'stablehlo.custom_call': its sharding rule has 1 dimensions for operand 0 of rank 2
// ERR: 7:8: error: 'stablehlo.custom_call': its sharding rule reduces factor 0, which a result has
// ERR: 8:8: error: 'stablehlo.custom_call': its sharding rule has factor 3, which no dimension uses
// ERR: 9:8: error: 'stablehlo.custom_call': its sharding rule has factor 2 in more than one of reduction, need_replication and permutation
// OUT:
// bad-sdy-rule.mlir: module (unnamed): 5 errors
