// RUN: hilo convert --to=hlo --print=short --xla=0.11 %s && hilo convert --to=hlo %s | hilo convert - --to=stablehlo && hilo convert --to=hlo %s | hilo convert - --to=mlirbc=newest | hilo convert - --to=stablehlo | grep -c collective
// What StableHLO got by 1.20, to HLO and back: collectives with a root, tilings of a custom call's results.
func.func @main(%a: tensor<4xf32>, %b: tensor<2xf32>, %root: tensor<1xi32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<4xf32>, tensor<2xf32>) {
  %0 = "stablehlo.collective_broadcast"(%a, %root) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, has_dynamic_root}> : (tensor<4xf32>, tensor<1xi32>) -> tensor<4xf32>
  %1:2 = "stablehlo.collective_reduce"(%a, %b) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, use_global_device_ids}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %4 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }) : (tensor<4xf32>, tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>)
  %2 = "stablehlo.collective_reduce"(%a, %root) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, has_dynamic_root}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %4 = stablehlo.maximum %x, %y : tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }) : (tensor<4xf32>, tensor<1xi32>) -> tensor<4xf32>
  %3 = stablehlo.custom_call @f(%b) {operand_layouts = [dense<0> : tensor<1xindex>], result_layouts = [dense<0> : tensor<1xindex>], result_tilings = [[dense<2> : tensor<1xindex>]]} : (tensor<2xf32>) -> tensor<2xf32>
  return %0, %1#0, %1#1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<4xf32>, tensor<2xf32>
}
// OUT:
// HloModule main, entry_computation_layout={(f32[4]{0}, f32[2]{0}, s32[1]{0})->(f32[4]{0}, f32[4]{0}, f32[2]{0}, f32[4]{0}, f32[2]{0:T(2)})}
//
// region_0.1 {
//   Arg_0.2 = f32[] parameter(0)
//   Arg_1.2 = f32[] parameter(1)
//   ROOT add.1 = f32[] add(Arg_0.2, Arg_1.2)
// }
//
// region_1.2 {
//   Arg_0.4 = f32[] parameter(0)
//   Arg_1.4 = f32[] parameter(1)
//   ROOT maximum.1 = f32[] maximum(Arg_0.4, Arg_1.4)
// }
//
// ENTRY main.3 {
//   Arg_0.5 = f32[4]{0} parameter(0)
//   Arg_2.1 = s32[1]{0} parameter(2)
//   collective-broadcast.1 = f32[4]{0} collective-broadcast(Arg_0.5, Arg_2.1), channel_id=1, replica_groups={{0,1}}, has_dynamic_root=true
//   Arg_1.5 = f32[2]{0} parameter(1)
//   collective-reduce.2 = (f32[4]{0}, f32[2]{0}) collective-reduce(Arg_0.5, Arg_1.5), channel_id=2, replica_groups={{0,1}}, use_global_device_ids=true, has_dynamic_root=false, to_apply=region_0.1
//   get-tuple-element.2 = f32[4]{0} get-tuple-element(collective-reduce.2), index=0
//   get-tuple-element.3 = f32[2]{0} get-tuple-element(collective-reduce.2), index=1
//   collective-reduce.3 = f32[4]{0} collective-reduce(Arg_0.5, Arg_2.1), channel_id=3, replica_groups={{0,1}}, has_dynamic_root=true, to_apply=region_1.2
//   custom-call.1 = f32[2]{0:T(2)} custom-call(Arg_1.5), custom_call_target="f", operand_layout_constraints={f32[2]{0}}
//   ROOT tuple.1 = (f32[4]{0}, f32[4]{0}, f32[2]{0}, f32[4]{0}, f32[2]{0:T(2)}) tuple(collective-broadcast.1, get-tuple-element.2, get-tuple-element.3, collective-reduce.3, custom-call.1)
// }
//
// module @main attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32, mhlo.xla_entry_computation_parameter_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>], mhlo.xla_entry_computation_parameter_tiles = [[], [], []], mhlo.xla_entry_computation_result_layout = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>], mhlo.xla_entry_computation_result_tiles = [[], [], [], [], [dense<2> : tensor<1xindex>]]} {
//   func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<2xf32>, %arg2: tensor<1xi32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<4xf32>, tensor<2xf32>) {
//     %0 = "stablehlo.collective_broadcast"(%arg0, %arg2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, has_dynamic_root, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>, tensor<1xi32>) -> tensor<4xf32>
//     %1:2 = "stablehlo.collective_reduce"(%arg0, %arg1) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
//     ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
//       %4 = stablehlo.add %arg3, %arg4 : tensor<f32>
//       stablehlo.return %4 : tensor<f32>
//     }) : (tensor<4xf32>, tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>)
//     %2 = "stablehlo.collective_reduce"(%arg0, %arg2) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, has_dynamic_root, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
//     ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
//       %4 = stablehlo.maximum %arg3, %arg4 : tensor<f32>
//       stablehlo.return %4 : tensor<f32>
//     }) : (tensor<4xf32>, tensor<1xi32>) -> tensor<4xf32>
//     %3 = stablehlo.custom_call @f(%arg1) {operand_layouts = [dense<0> : tensor<1xindex>], result_layouts = [dense<0> : tensor<1xindex>], result_tilings = [[dense<2> : tensor<1xindex>]]} : (tensor<2xf32>) -> tensor<2xf32>
//     return %0, %1#0, %1#1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<4xf32>, tensor<2xf32>
//   }
// }
// 3
