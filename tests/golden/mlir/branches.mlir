// RUN: hilo convert --to=hlo --no-metadata %s
// Branches take what they use as an argument: nothing, a value, or a tuple; constants are made inside of them.
module @branches {
  func.func public @main(%which: tensor<i32>, %yes: tensor<i1>, %a: tensor<3xf32>, %b: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
    %k = stablehlo.constant dense<[1.0, 2.0, 4.0]> : tensor<3xf32>
    %0 = "stablehlo.case"(%which) ({
      stablehlo.return %k : tensor<3xf32>
    }, {
      %1 = stablehlo.negate %a : tensor<3xf32>
      stablehlo.return %1 : tensor<3xf32>
    }, {
      %1 = stablehlo.multiply %a, %b : tensor<3xf32>
      %2 = stablehlo.add %1, %k : tensor<3xf32>
      stablehlo.return %2 : tensor<3xf32>
    }) : (tensor<i32>) -> tensor<3xf32>
    %3:2 = "stablehlo.if"(%yes) ({
      stablehlo.return %0, %a : tensor<3xf32>, tensor<3xf32>
    }, {
      stablehlo.return %a, %b : tensor<3xf32>, tensor<3xf32>
    }) : (tensor<i1>) -> (tensor<3xf32>, tensor<3xf32>)
    return %3#0, %3#1 : tensor<3xf32>, tensor<3xf32>
  }
}
// OUT:
// HloModule branches, entry_computation_layout={(s32[], pred[], f32[3]{0}, f32[3]{0})->(f32[3]{0}, f32[3]{0})}
//
// %region_0.1 (arg_empty_tuple.1: ()) -> f32[3] {
//   %arg_empty_tuple.1 = () parameter(0)
//   ROOT %constant.1 = f32[3]{0} constant({1, 2, 4})
// }
//
// %region_1.2 (Arg_.1: f32[3]) -> f32[3] {
//   %Arg_.1 = f32[3]{0} parameter(0)
//   ROOT %negate.1 = f32[3]{0} negate(%Arg_.1)
// }
//
// %region_2.3 (arg_tuple.1: (f32[3], f32[3])) -> f32[3] {
//   %arg_tuple.1 = (f32[3]{0}, f32[3]{0}) parameter(0)
//   %get-tuple-element.2 = f32[3]{0} get-tuple-element(%arg_tuple.1), index=0
//   %get-tuple-element.3 = f32[3]{0} get-tuple-element(%arg_tuple.1), index=1
//   %multiply.1 = f32[3]{0} multiply(%get-tuple-element.2, %get-tuple-element.3)
//   %constant.3 = f32[3]{0} constant({1, 2, 4})
//   ROOT %add.1 = f32[3]{0} add(%multiply.1, %constant.3)
// }
//
// %region_3.4 (arg_tuple.3: (f32[3], f32[3])) -> (f32[3], f32[3]) {
//   %arg_tuple.3 = (f32[3]{0}, f32[3]{0}) parameter(0)
//   %get-tuple-element.6 = f32[3]{0} get-tuple-element(%arg_tuple.3), index=0
//   %get-tuple-element.7 = f32[3]{0} get-tuple-element(%arg_tuple.3), index=1
//   ROOT %tuple.4 = (f32[3]{0}, f32[3]{0}) tuple(%get-tuple-element.6, %get-tuple-element.7)
// }
//
// %region_4.5 (arg_tuple.5: (f32[3], f32[3])) -> (f32[3], f32[3]) {
//   %arg_tuple.5 = (f32[3]{0}, f32[3]{0}) parameter(0)
//   %get-tuple-element.10 = f32[3]{0} get-tuple-element(%arg_tuple.5), index=0
//   %get-tuple-element.11 = f32[3]{0} get-tuple-element(%arg_tuple.5), index=1
//   ROOT %tuple.7 = (f32[3]{0}, f32[3]{0}) tuple(%get-tuple-element.10, %get-tuple-element.11)
// }
//
// ENTRY %main.6 (Arg_0.1: s32[], Arg_1.1: pred[], Arg_2.1: f32[3], Arg_3.1: f32[3]) -> (f32[3], f32[3]) {
//   %Arg_1.1 = pred[] parameter(1)
//   %Arg_0.1 = s32[] parameter(0)
//   %tuple.9 = () tuple()
//   %Arg_2.1 = f32[3]{0} parameter(2)
//   %Arg_3.1 = f32[3]{0} parameter(3)
//   %tuple.10 = (f32[3]{0}, f32[3]{0}) tuple(%Arg_2.1, %Arg_3.1)
//   %conditional.2 = f32[3]{0} conditional(%Arg_0.1, %tuple.9, %Arg_2.1, %tuple.10), branch_computations={%region_0.1, %region_1.2, %region_2.3}
//   %tuple.11 = (f32[3]{0}, f32[3]{0}) tuple(%conditional.2, %Arg_2.1)
//   %tuple.12 = (f32[3]{0}, f32[3]{0}) tuple(%Arg_2.1, %Arg_3.1)
//   %conditional.3 = (f32[3]{0}, f32[3]{0}) conditional(%Arg_1.1, %tuple.11, %tuple.12), true_computation=%region_3.4, false_computation=%region_4.5
//   %get-tuple-element.14 = f32[3]{0} get-tuple-element(%conditional.3), index=0
//   %get-tuple-element.15 = f32[3]{0} get-tuple-element(%conditional.3), index=1
//   ROOT %tuple.13 = (f32[3]{0}, f32[3]{0}) tuple(%get-tuple-element.14, %get-tuple-element.15)
// }
