// RUN: hilo convert --to=hlo --no-metadata %s
// What a constant carries: its sharding, at the broadcast where all its elements are equal; no frontend attributes.
// An op without results may have the sharding that says where it runs.
module @constants {
  sdy.mesh @grid = <["rows"=2]>
  sdy.mesh @first = <[], device_ids=[0]>
  func.func public @main(%x: tensor<6xf32>) -> (tensor<6xf32>, tensor<40xf32>, tensor<2xf32>, tensor<6xf32>) {
    stablehlo.custom_call @look(%x) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@first, []>]>} : (tensor<6xf32>) -> ()
    %few = stablehlo.constant {mhlo.frontend_attributes = {note = "few"}, mhlo.sharding = "{devices=[2]<=[2]}"} dense<3.0> : tensor<6xf32>
    %many = stablehlo.constant {mhlo.frontend_attributes = {note = "many"}, mhlo.sharding = "{devices=[2]<=[2]}"} dense<4.0> : tensor<40xf32>
    %two = stablehlo.constant {mhlo.frontend_attributes = {note = "two"}, mhlo.sharding = "{devices=[2]<=[2]}"} dense<[1.0, 2.0]> : tensor<2xf32>
    %all = stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"rows"}]>]>} dense<5.0> : tensor<6xf32>
    return %few, %many, %two, %all : tensor<6xf32>, tensor<40xf32>, tensor<2xf32>, tensor<6xf32>
  }
}
// OUT:
// HloModule constants, entry_computation_layout={(f32[6]{0})->(f32[6]{0}, f32[40]{0}, f32[2]{0}, f32[6]{0})}, frontend_attributes={xla.sdy.meshes={first = #sdy.mesh<[], device_ids=[0]>, grid = #sdy.mesh<["rows"=2]>}}
//
// ENTRY %main.1 (Arg_0.1: f32[6]) -> (f32[6], f32[40], f32[2], f32[6]) {
//   %Arg_0.1 = f32[6]{0} parameter(0)
//   %custom-call.1 = () custom-call(%Arg_0.1), custom_call_target="look", custom_call_has_side_effect=true, sharding={{maximal device=0}}, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@first, []>]>"}
//   %constant.7 = f32[] constant(3)
//   %broadcast.5 = f32[6]{0} broadcast(%constant.7), dimensions={}, sharding={devices=[2]<=[2]}
//   %constant.6 = f32[] constant(4)
//   %broadcast.4 = f32[40]{0} broadcast(%constant.6), dimensions={}, sharding={devices=[2]<=[2]}
//   %constant.5 = f32[2]{0} constant({1, 2}), sharding={devices=[2]<=[2]}
//   %constant.4 = f32[] constant(5)
//   %broadcast.3 = f32[6]{0} broadcast(%constant.4), dimensions={}, sharding={devices=[2]<=[2]}
//   ROOT %tuple.1 = (f32[6]{0}, f32[40]{0}, f32[2]{0}, f32[6]{0}) tuple(%broadcast.5, %broadcast.4, %constant.5, %broadcast.3)
// }
