// RUN: hilo convert %s --arg-shapes='s32[]=3,f32[3]' --to hlo --no-metadata
// RUN: hilo convert %s --arg-shapes='s32[]=2,f32[2]' --to stablehlo
// Sizes are followed through a call, into the types of what is called and back.
func.func private @twice(%n: tensor<i32>) -> tensor<i32> {
  %r = stablehlo.add %n, %n : tensor<i32>
  return %r : tensor<i32>
}
func.func private @spread(%n: tensor<i32>, %x: tensor<?xf32>) -> tensor<?x?xf32> {
  %rows = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %size = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %columns = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
  %shape = stablehlo.concatenate %rows, %columns, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %y = stablehlo.dynamic_broadcast_in_dim %x, %shape, dims = [1] : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}
func.func @main(%n: tensor<i32>, %x: tensor<?xf32>) -> tensor<?x?xf32> {
  %m = call @twice(%n) : (tensor<i32>) -> tensor<i32>
  %y = call @spread(%m, %x) : (tensor<i32>, tensor<?xf32>) -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}
// OUT:
// HloModule main, entry_computation_layout={(s32[], f32[3]{0})->f32[6,3]{1,0}}
//
// %twice_0.1 (Arg_0.2: s32[]) -> s32[] {
//   %Arg_0.2 = s32[] parameter(0)
//   ROOT %add.1 = s32[] add(%Arg_0.2, %Arg_0.2)
// }
//
// %spread_0.2 (Arg_0.4: s32[], Arg_1.2: f32[3]) -> f32[6,3] {
//   %Arg_0.4 = s32[] parameter(0)
//   %Arg_1.2 = f32[3]{0} parameter(1)
//   ROOT %broadcast.1 = f32[6,3]{1,0} broadcast(%Arg_1.2), dimensions={1}
// }
//
// ENTRY %main.3 (Arg_0.5: s32[], Arg_1.3: f32[3]) -> f32[6,3] {
//   %Arg_0.5 = s32[] parameter(0)
//   %constant.1 = s32[] constant(3)
//   %call.2 = s32[] call(%constant.1), to_apply=%twice_0.1
//   %Arg_1.3 = f32[3]{0} parameter(1)
//   ROOT %call.3 = f32[6,3]{1,0} call(%call.2, %Arg_1.3), to_apply=%spread_0.2
// }
//
// module @main attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//   func.func public @main(%arg0: tensor<i32>, %arg1: tensor<2xf32>) -> tensor<4x2xf32> {
//     %c = stablehlo.constant dense<2> : tensor<i32>
//     %0 = call @twice_0.1(%c) : (tensor<i32>) -> tensor<i32>
//     %1 = call @spread_0.2(%0, %arg1) : (tensor<i32>, tensor<2xf32>) -> tensor<4x2xf32>
//     return %1 : tensor<4x2xf32>
//   }
//   func.func private @twice_0.1(%arg0: tensor<i32>) -> tensor<i32> {
//     %0 = stablehlo.add %arg0, %arg0 : tensor<i32>
//     return %0 : tensor<i32>
//   }
//   func.func private @spread_0.2(%arg0: tensor<i32>, %arg1: tensor<2xf32>) -> tensor<4x2xf32> {
//     %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<2xf32>) -> tensor<4x2xf32>
//     return %0 : tensor<4x2xf32>
//   }
// }
