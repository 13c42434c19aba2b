// RUN: hilo convert %s --print=short
// A constant of equal elements, more than there is memory for, is one element and a broadcast.
func.func public @main(%x: tensor<1048576x1048576xf32>) -> tensor<1048576x1048576xf32> {
  %c = stablehlo.constant dense<1.5> : tensor<1048576x1048576xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<1048576x1048576xf32>
  %is = stablehlo.compare GT, %x, %zeros : (tensor<1048576x1048576xf32>, tensor<1048576x1048576xf32>) -> tensor<1048576x1048576xi1>
  %r = stablehlo.select %is, %x, %c : tensor<1048576x1048576xi1>, tensor<1048576x1048576xf32>
  return %r : tensor<1048576x1048576xf32>
}
// OUT:
// HloModule main, entry_computation_layout={(f32[1048576,1048576]{1,0})->f32[1048576,1048576]{1,0}}
//
// ENTRY main.1 {
//   Arg_0.1 = f32[1048576,1048576]{1,0} parameter(0)
//   constant.3 = f32[] constant(0)
//   broadcast.3 = f32[1048576,1048576]{1,0} broadcast(constant.3), dimensions={}
//   compare.1 = pred[1048576,1048576]{1,0} compare(Arg_0.1, broadcast.3), direction=GT
//   constant.2 = f32[] constant(1.5)
//   broadcast.2 = f32[1048576,1048576]{1,0} broadcast(constant.2), dimensions={}
//   ROOT select.1 = f32[1048576,1048576]{1,0} select(compare.1, Arg_0.1, broadcast.2)
// }
