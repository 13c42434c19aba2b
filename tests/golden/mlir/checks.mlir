// RUN: hilo convert --to=hlo --no-metadata %s
// RUN: hilo run --platform=reference %s | tail -1
// Checks in both forms, programs side by side, probes.
module @checks {
  func.func @sum(%x: tensor<2xi32>) -> tensor<2xi32> {
    %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %1 = stablehlo.add %a, %b : tensor<i32>
      stablehlo.return %1 : tensor<i32>
    }) : (tensor<2xi32>) -> tensor<2xi32>
    return %0 : tensor<2xi32>
  }
  func.func public @main() {
    %a = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
    %b = stablehlo.constant dense<[10, 20]> : tensor<2xi32>
    %0:2 = "interpreter.run_parallel"(%a, %b) {programs = [[@sum], [@sum]]} : (tensor<2xi32>, tensor<2xi32>) -> (tensor<2xi32>, tensor<2xi32>)
    check.expect_eq %0#0, %0#1 : tensor<2xi32>
    check.expect_eq_const %0#0, dense<[11, 22]> : tensor<2xi32>
    %c = stablehlo.constant dense<[0.1, 0.2]> : tensor<2xf32>
    %1 = interpreter.probe %c, probe_id = "c" : tensor<2xf32>
    check.expect_almost_eq_const %1, dense<[0.10001, 0.2]> : tensor<2xf32>
    check.expect_close %1, %c, max_ulp_difference = 4 : tensor<2xf32>, tensor<2xf32>
    stablehlo.custom_call @check.expect_close(%1, %c) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
    stablehlo.custom_call @check.expect_almost_eq(%1, %c) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
    return
  }
}
// OUT:
// HloModule checks, entry_computation_layout={()->()}
//
// %region_0.1 (Arg_0.2: s32[], Arg_1.1: s32[]) -> s32[] {
//   %Arg_0.2 = s32[] parameter(0)
//   %Arg_1.1 = s32[] parameter(1)
//   ROOT %add.1 = s32[] add(%Arg_0.2, %Arg_1.1)
// }
//
// %sum.2 (Arg_0.3: s32[2]) -> s32[2] {
//   %Arg_0.3 = s32[2]{0} parameter(0)
//   ROOT %all-reduce.1 = s32[2]{0} all-reduce(%Arg_0.3), replica_groups={{0,1}}, to_apply=%region_0.1
// }
//
// ENTRY %main.3 () -> () {
//   %constant.9 = s32[2]{0} constant({1, 2})
//   %constant.8 = s32[2]{0} constant({10, 20})
//   %custom-call.8 = (s32[2]{0}, s32[2]{0}) custom-call(%constant.9, %constant.8), custom_call_target="interpreter.run_parallel", custom_call_has_side_effect=true, called_computations={%sum.2, %sum.2}, backend_config={replicas = 2 : i64, partitions = 1 : i64, infeed = 0 : i64}
//   %get-tuple-element.2 = s32[2]{0} get-tuple-element(%custom-call.8), index=0
//   %get-tuple-element.3 = s32[2]{0} get-tuple-element(%custom-call.8), index=1
//   %custom-call.9 = () custom-call(%get-tuple-element.2, %get-tuple-element.3), custom_call_target="check.expect_eq", custom_call_has_side_effect=true
//   %constant.7 = s32[2]{0} constant({11, 22})
//   %custom-call.10 = () custom-call(%get-tuple-element.2, %constant.7), custom_call_target="check.expect_eq", custom_call_has_side_effect=true
//   %constant.6 = f32[2]{0} constant({0.1, 0.2})
//   %custom-call.11 = f32[2]{0} custom-call(%constant.6), custom_call_target="interpreter.probe", custom_call_has_side_effect=true, backend_config={probe_id = "c"}
//   %constant.5 = f32[2]{0} constant({0.10001, 0.2})
//   %custom-call.12 = () custom-call(%custom-call.11, %constant.5), custom_call_target="check.expect_almost_eq", custom_call_has_side_effect=true, backend_config={tolerance = 1.000000e-04 : f64}
//   %custom-call.13 = () custom-call(%custom-call.11, %constant.6), custom_call_target="check.expect_close", custom_call_has_side_effect=true, backend_config={max_ulp_difference = 4 : i64, min_ulp_difference = 0 : i64}
//   %custom-call.14 = () custom-call(%custom-call.11, %constant.6), custom_call_target="check.expect_close", custom_call_has_side_effect=true, backend_config={max_ulp_difference = 3 : i64, min_ulp_difference = 0 : i64}
//   %custom-call.15 = () custom-call(%custom-call.11, %constant.6), custom_call_target="check.expect_almost_eq", custom_call_has_side_effect=true, backend_config={tolerance = 1.000000e-03 : f64}
//   ROOT %tuple.1 = () tuple()
// }
//
//   the program's 6 checks hold
