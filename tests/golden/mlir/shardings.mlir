// RUN: hilo convert --to=hlo --no-metadata %s
// Shardings of sdy become HLO's, and stay beside them as frontend attributes.
module @shardings attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @grid = <["rows"=4, "cols"=2]>
  func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"rows"}, {}]>}, %b: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"cols"}, {"rows":(1)2}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"rows", "cols"}, {}]>}, tensor<8x16xf32>) {
    %0 = stablehlo.dot %a, %b : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %1 = sdy.sharding_constraint %0 <@grid, [{}, {"cols", ?}]> : tensor<8x8xf32>
    %2 = sdy.manual_computation(%a) in_shardings=[<@grid, [{"rows"}, {}]>] out_shardings=[<@grid, [{"rows"}, {}]>] manual_axes={"rows"} (%local: tensor<2x16xf32>) {
      %3 = "stablehlo.all_reduce"(%local) <{replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> ({
      ^bb0(%l: tensor<f32>, %r: tensor<f32>):
        %4 = stablehlo.add %l, %r : tensor<f32>
        stablehlo.return %4 : tensor<f32>
      }) : (tensor<2x16xf32>) -> tensor<2x16xf32>
      sdy.return %3 : tensor<2x16xf32>
    } : (tensor<8x16xf32>) -> tensor<8x16xf32>
    return %1, %2 : tensor<8x8xf32>, tensor<8x16xf32>
  }
}
// OUT:
// HloModule shardings, entry_computation_layout={(f32[8,16]{1,0}, f32[16,8]{1,0})->(f32[8,8]{1,0}, f32[8,16]{1,0})}, num_partitions=8, frontend_attributes={xla.sdy.meshes={grid = #sdy.mesh<["rows"=4, "cols"=2]>}}
//
// %region_0.1 (Arg_0.3: f32[], Arg_1.2: f32[]) -> f32[] {
//   %Arg_0.3 = f32[] parameter(0)
//   %Arg_1.2 = f32[] parameter(1)
//   ROOT %add.1 = f32[] add(%Arg_0.3, %Arg_1.2)
// }
//
// %xla.sdy.manual_computation_body.2 (Arg_0.4: f32[2,16]) -> f32[2,16] {
//   %Arg_0.4 = f32[2,16]{1,0} parameter(0)
//   ROOT %all-reduce.1 = f32[2,16]{1,0} all-reduce(%Arg_0.4), channel_id=1, replica_groups={{0,2,4,6},{1,3,5,7}}, use_global_device_ids=true, to_apply=%region_0.1
// }
//
// ENTRY %main.3 (Arg_0.5: f32[8,16], Arg_1.3: f32[16,8]) -> (f32[8,8], f32[8,16]) {
//   %Arg_0.5 = f32[8,16]{1,0} parameter(0), sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@grid, [{\"rows\"}, {}]>"}
//   %Arg_1.3 = f32[16,8]{1,0} parameter(1), sharding={devices=[2,2,2]<=[4,2]T(1,0) last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@grid, [{\"cols\"}, {\"rows\":(1)2}]>"}
//   %dot.1 = f32[8,8]{1,0} dot(%Arg_0.5, %Arg_1.3), lhs_contracting_dims={1}, rhs_contracting_dims={0}
//   %custom-call.4 = f32[8,8]{1,0} custom-call(%dot.1), custom_call_target="Sharding", sharding={devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@grid, [{}, {\"cols\", ?}]>]>"}
//   %custom-call.7 = f32[8,8]{1,0} custom-call(%custom-call.4), custom_call_target="xla.sdy.FuncResultSharding", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@grid, [{\"rows\", \"cols\"}, {}]>]>"}
//   %reshape.2 = f32[8,8]{1,0} reshape(%custom-call.7), sharding={devices=[8,1]<=[8]}
//   %custom-call.5 = f32[2,16]{1,0} custom-call(%Arg_0.5), custom_call_target="xla.sdy.GlobalToLocalShape", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.in_shardings="#sdy.sharding_per_value<[<@grid, [{\"rows\"}, {}]>]>",xla.sdy.manual_axes="#sdy<manual_axes{\"rows\"}>"}
//   %call.1 = f32[2,16]{1,0} call(%custom-call.5), to_apply=%xla.sdy.manual_computation_body.2, frontend_attributes={inlineable="false"}
//   %custom-call.6 = f32[8,16]{1,0} custom-call(%call.1), custom_call_target="xla.sdy.LocalToGlobalShape", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.manual_axes="#sdy<manual_axes{\"rows\"}>",xla.sdy.out_shardings="#sdy.sharding_per_value<[<@grid, [{\"rows\"}, {}]>]>"}
//   %reshape.3 = f32[8,16]{1,0} reshape(%custom-call.6)
//   ROOT %tuple.1 = (f32[8,8]{1,0}, f32[8,16]{1,0}) tuple(%custom-call.7, %custom-call.6), sharding={{devices=[8,1]<=[8]}, {replicated}}
// }
