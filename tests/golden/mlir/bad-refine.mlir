// RUN: hilo convert %s
// RUN: hilo convert %s --arg-shapes='s32[],f32[4]'
// RUN: hilo convert %s --arg-shapes='f32[4]'
// RUN: hilo convert %s --arg-shapes='s32[]=2,f32[5,1]'
// RUN: hilo convert %s --arg-shapes='s32[]=2,f32[3]'
// RUN: hilo convert %s --arg-shapes='s32=2'
// Sizes that are not known, types that do not fit, and an assertion on sizes that does not hold.
func.func @main(%n: tensor<i32>, %x: tensor<?xf32>) -> tensor<?x?xf32> {
  %size = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %least = stablehlo.constant dense<4> : tensor<i32>
  %enough = stablehlo.compare GE, %size, %least, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%enough, %size) {error_message = "at least 4 elements, not {0}", has_side_effect = true, api_version = 2 : i32} : (tensor<i1>, tensor<i32>) -> ()
  %rows = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %columns = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
  %shape = stablehlo.concatenate %rows, %columns, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %y = stablehlo.dynamic_broadcast_in_dim %x, %shape, dims = [1] : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}
// EXIT: 4
// ERR: 16:8: error: the shape of stablehlo.dynamic_broadcast_in_dim is not known: tensor<?x?xf32>
// ERR: 16:8: error: the shape of stablehlo.dynamic_broadcast_in_dim is not known: tensor<?x?xf32>
// ERR: 8:1: error: the function takes 2 arguments, but 1 types are given
// ERR: 8:1: error: argument 1 is tensor<?xf32>, which tensor<5x1xf32> is not
// ERR: 12:3: error: the shapes do not satisfy what the program asserts: at least 4 elements, not 3
// ERR: error: these are no shapes: 's32=2'; expected a list like f32[2,3],s64[]=4
