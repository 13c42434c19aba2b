// RUN: hilo convert --to=stablehlo %s && hilo convert --to=hlo --print=short %s && hilo convert --to=mlirbc %s | hilo convert - --to=stablehlo | grep -c reduce
// What Shardy's text has: rules without factors, how partial values are reduced, named computations.
sdy.mesh @m = <["a"=2, "b"=2]>
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}, {}]>}, %partial: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}, {}], unreduced=sum{"b"}>}) -> tensor<8x8xf32> {
  %0 = stablehlo.constant dense<1.0> : tensor<f32>
  %1 = stablehlo.negate %0 {sdy.sharding_rule = #sdy.op_sharding_rule<([]) -> ([]) {} reduction={}, custom>} : tensor<f32>
  %2 = sdy.all_reduce sum {"b"} %partial out_sharding=<@m, [{"a"}, {}]> : tensor<8x8xf32>
  %3 = sdy.all_reduce max {"b"} %x out_sharding=<@m, [{"a"}, {}]> : tensor<8x8xf32>
  %4 = "sdy.reduce_scatter"(%x) <{out_sharding = #sdy.sharding<@m, [{"a", "b"}, {}]>, reduce_scatter_axes = #sdy<list_of_axis_ref_lists[{"b"}, {}]>, reduction_op = 2 : i32}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = sdy.named_computation<"twice">(%x, %2) in_shardings=[<@m, [{"a"}, {}]>, <@m, [{"a"}, {?}]>] (%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) {
    %6 = stablehlo.add %a, %b : tensor<8x8xf32>
    sdy.return %6 : tensor<8x8xf32>
  } : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %5 : tensor<8x8xf32>
}
// OUT:
// module {
//   sdy.mesh @m = <["a"=2, "b"=2]>
//   func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}, {}]>}, %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}, {}], unreduced={"b"}>}) -> tensor<8x8xf32> {
//     %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
//     %0 = stablehlo.negate %cst {sdy.sharding_rule = #sdy.op_sharding_rule<([])->([]), custom>} : tensor<f32>
//     %1 = sdy.all_reduce {"b"} %arg1 out_sharding=<@m, [{"a"}, {}]> : tensor<8x8xf32>
//     %2 = sdy.all_reduce max {"b"} %arg0 out_sharding=<@m, [{"a"}, {}]> : tensor<8x8xf32>
//     %3 = sdy.reduce_scatter min [{"b"}, {}] %arg0 out_sharding=<@m, [{"a", "b"}, {}]> : tensor<8x8xf32>
//     %4 = sdy.named_computation<"twice">(%arg0, %1) in_shardings=[<@m, [{"a"}, {}]>, <@m, [{"a"}, {?}]>] (%arg2: tensor<8x8xf32>, %arg3: tensor<8x8xf32>) {
//       %5 = stablehlo.add %arg2, %arg3 : tensor<8x8xf32>
//       sdy.return %5 : tensor<8x8xf32>
//     } : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
//     return %4 : tensor<8x8xf32>
//   }
// }
// HloModule main, entry_computation_layout={(f32[8,8]{1,0}, f32[8,8]{1,0})->f32[8,8]{1,0}}, frontend_attributes={xla.sdy.meshes={m = #sdy.mesh<["a"=2, "b"=2]>}}
//
// twice.1 {
//   Arg_0.2 = f32[8,8]{1,0} parameter(0)
//   Arg_1.2 = f32[8,8]{1,0} parameter(1)
//   ROOT add.1 = f32[8,8]{1,0} add(Arg_0.2, Arg_1.2)
// }
//
// ENTRY main.2 {
//   Arg_0.3 = f32[8,8]{1,0} parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@m, [{\"a\"}, {}]>"}
//   custom-call.4 = f32[8,8]{1,0} custom-call(Arg_0.3), custom_call_target="Sharding", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@m, [{\"a\"}, {}]>]>"}
//   custom-call.5 = f32[8,8]{1,0} custom-call(Arg_0.3), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@m, [{\"a\", \"b\"}, {}]>]>"}
//   Arg_1.3 = f32[8,8]{1,0} parameter(1), sharding={devices=[2,1,2]<=[4] last_tile_dims={unreduced}}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@m, [{\"a\"}, {}], unreduced={\"b\"}>"}
//   custom-call.3 = f32[8,8]{1,0} custom-call(Arg_1.3), custom_call_target="Sharding", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@m, [{\"a\"}, {}]>]>"}
//   ROOT call.1 = f32[8,8]{1,0} call(Arg_0.3, custom-call.3), to_apply=twice.1
// }
//
// 4
