// RUN: hilo convert --to=hlo --no-metadata %s
// RUN: hilo run %s | tail -1
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
// %region_0 (Arg_0.1: s32[], Arg_1: s32[]) -> s32[] {
//   %Arg_0.1 = s32[] parameter(0)
//   %Arg_1 = s32[] parameter(1)
//   ROOT %add = s32[] add(%Arg_0.1, %Arg_1)
// }
//
// %sum (Arg_0: s32[2]) -> s32[2] {
//   %Arg_0 = s32[2]{0} parameter(0)
//   ROOT %all-reduce = s32[2]{0} all-reduce(%Arg_0), replica_groups={{0,1}}, to_apply=%region_0
// }
//
// ENTRY %main () -> () {
//   %constant = s32[2]{0} constant({1, 2})
//   %constant.1 = s32[2]{0} constant({10, 20})
//   %custom-call = (s32[2]{0}, s32[2]{0}) custom-call(%constant, %constant.1), custom_call_target="interpreter.run_parallel", custom_call_has_side_effect=true, called_computations={%sum, %sum}, backend_config={replicas = 2 : i64, partitions = 1 : i64, infeed = 0 : i64}
//   %get-tuple-element = s32[2]{0} get-tuple-element(%custom-call), index=0
//   %get-tuple-element.1 = s32[2]{0} get-tuple-element(%custom-call), index=1
//   %custom-call.1 = () custom-call(%get-tuple-element, %get-tuple-element.1), custom_call_target="check.expect_eq", custom_call_has_side_effect=true
//   %constant.2 = s32[2]{0} constant({11, 22})
//   %custom-call.2 = () custom-call(%get-tuple-element, %constant.2), custom_call_target="check.expect_eq", custom_call_has_side_effect=true
//   %constant.3 = f32[2]{0} constant({0.1, 0.2})
//   %custom-call.3 = f32[2]{0} custom-call(%constant.3), custom_call_target="interpreter.probe", custom_call_has_side_effect=true, backend_config={probe_id = "c"}
//   %constant.4 = f32[2]{0} constant({0.10001, 0.2})
//   %custom-call.4 = () custom-call(%custom-call.3, %constant.4), custom_call_target="check.expect_almost_eq", custom_call_has_side_effect=true, backend_config={tolerance = 1.000000e-04 : f64}
//   %custom-call.5 = () custom-call(%custom-call.3, %constant.3), custom_call_target="check.expect_close", custom_call_has_side_effect=true, backend_config={max_ulp_difference = 4 : i64, min_ulp_difference = 0 : i64}
//   %custom-call.6 = () custom-call(%custom-call.3, %constant.3), custom_call_target="check.expect_close", custom_call_has_side_effect=true, backend_config={max_ulp_difference = 3 : i64, min_ulp_difference = 0 : i64}
//   %custom-call.7 = () custom-call(%custom-call.3, %constant.3), custom_call_target="check.expect_almost_eq", custom_call_has_side_effect=true, backend_config={tolerance = 1.000000e-03 : f64}
//   ROOT %tuple = () tuple()
// }
//
//   the program's 6 checks hold
