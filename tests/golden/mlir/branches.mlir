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
// %region_0 (arg_empty_tuple: ()) -> f32[3] {
//   %arg_empty_tuple = () parameter(0)
//   ROOT %constant = f32[3]{0} constant({1, 2, 4})
// }
//
// %region_1 (Arg_: f32[3]) -> f32[3] {
//   %Arg_ = f32[3]{0} parameter(0)
//   ROOT %negate = f32[3]{0} negate(%Arg_)
// }
//
// %region_2 (arg_tuple: (f32[3], f32[3])) -> f32[3] {
//   %arg_tuple = (f32[3]{0}, f32[3]{0}) parameter(0)
//   %get-tuple-element = f32[3]{0} get-tuple-element(%arg_tuple), index=0
//   %get-tuple-element.1 = f32[3]{0} get-tuple-element(%arg_tuple), index=1
//   %multiply = f32[3]{0} multiply(%get-tuple-element, %get-tuple-element.1)
//   %constant.1 = f32[3]{0} constant({1, 2, 4})
//   ROOT %add = f32[3]{0} add(%multiply, %constant.1)
// }
//
// %region_3 (arg_tuple.1: (f32[3], f32[3])) -> (f32[3], f32[3]) {
//   %arg_tuple.1 = (f32[3]{0}, f32[3]{0}) parameter(0)
//   %get-tuple-element.2 = f32[3]{0} get-tuple-element(%arg_tuple.1), index=0
//   %get-tuple-element.3 = f32[3]{0} get-tuple-element(%arg_tuple.1), index=1
//   ROOT %tuple.3 = (f32[3]{0}, f32[3]{0}) tuple(%get-tuple-element.2, %get-tuple-element.3)
// }
//
// %region_4 (arg_tuple.2: (f32[3], f32[3])) -> (f32[3], f32[3]) {
//   %arg_tuple.2 = (f32[3]{0}, f32[3]{0}) parameter(0)
//   %get-tuple-element.4 = f32[3]{0} get-tuple-element(%arg_tuple.2), index=0
//   %get-tuple-element.5 = f32[3]{0} get-tuple-element(%arg_tuple.2), index=1
//   ROOT %tuple.5 = (f32[3]{0}, f32[3]{0}) tuple(%get-tuple-element.4, %get-tuple-element.5)
// }
//
// ENTRY %main (Arg_0: s32[], Arg_1: pred[], Arg_2: f32[3], Arg_3: f32[3]) -> (f32[3], f32[3]) {
//   %Arg_1 = pred[] parameter(1)
//   %Arg_0 = s32[] parameter(0)
//   %tuple = () tuple()
//   %Arg_2 = f32[3]{0} parameter(2)
//   %Arg_3 = f32[3]{0} parameter(3)
//   %tuple.1 = (f32[3]{0}, f32[3]{0}) tuple(%Arg_2, %Arg_3)
//   %conditional = f32[3]{0} conditional(%Arg_0, %tuple, %Arg_2, %tuple.1), branch_computations={%region_0, %region_1, %region_2}
//   %tuple.2 = (f32[3]{0}, f32[3]{0}) tuple(%conditional, %Arg_2)
//   %tuple.4 = (f32[3]{0}, f32[3]{0}) tuple(%Arg_2, %Arg_3)
//   %conditional.1 = (f32[3]{0}, f32[3]{0}) conditional(%Arg_1, %tuple.2, %tuple.4), true_computation=%region_3, false_computation=%region_4
//   %get-tuple-element.6 = f32[3]{0} get-tuple-element(%conditional.1), index=0
//   %get-tuple-element.7 = f32[3]{0} get-tuple-element(%conditional.1), index=1
//   ROOT %tuple.6 = (f32[3]{0}, f32[3]{0}) tuple(%get-tuple-element.6, %get-tuple-element.7)
// }
