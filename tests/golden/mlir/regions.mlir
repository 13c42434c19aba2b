// RUN: hilo convert --to=hlo --no-metadata %s
// Ops with regions.
module @regions {
  func.func public @main(%x: tensor<4x6xf32>, %y: tensor<4x6xi32>, %i: tensor<2x1xi32>, %u: tensor<2x6xf32>, %p: tensor<2x3xf32>) -> (tensor<4xf32>, tensor<6xf32>, tensor<6xi32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<2x3xf32>, tensor<4x6xf32>, tensor<4x6xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %none = stablehlo.constant dense<-1> : tensor<i32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
    %1:2 = stablehlo.reduce(%x init: %low), (%y init: %none) across dimensions = [0] : (tensor<4x6xf32>, tensor<4x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<6xf32>, tensor<6xi32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%k: tensor<i32>, %l: tensor<i32>) {
      %8 = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %9 = stablehlo.select %8, %a, %b : tensor<i1>, tensor<f32>
      %10 = stablehlo.select %8, %k, %l : tensor<i1>, tensor<i32>
      stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
    }
    %2:2 = "stablehlo.sort"(%x, %y) <{dimension = -1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %k: tensor<i32>, %l: tensor<i32>):
      %8 = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %8 : tensor<i1>
    }) : (tensor<4x6xf32>, tensor<4x6xi32>) -> (tensor<4x6xf32>, tensor<4x6xi32>)
    %3 = "stablehlo.scatter"(%x, %i, %u) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %8 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %8 : tensor<f32>
    }) : (tensor<4x6xf32>, tensor<2x1xi32>, tensor<2x6xf32>) -> tensor<4x6xf32>
    %4 = "stablehlo.reduce_window"(%x, %low) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>, padding = dense<0> : tensor<2x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %8 = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %8 : tensor<f32>
    }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<2x3xf32>
    %5 = "stablehlo.select_and_scatter"(%x, %p, %zero) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %8 = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %8 : tensor<i1>
    }, {
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %8 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %8 : tensor<f32>
    }) : (tensor<4x6xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<4x6xf32>
    %6 = "stablehlo.map"(%x, %x) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %8 = stablehlo.constant dense<3.0> : tensor<f32>
      %9 = stablehlo.multiply %a, %8 : tensor<f32>
      %10 = stablehlo.subtract %9, %b : tensor<f32>
      stablehlo.return %10 : tensor<f32>
    }) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    return %0, %1#0, %1#1, %2#0, %3, %4, %5, %6 : tensor<4xf32>, tensor<6xf32>, tensor<6xi32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<2x3xf32>, tensor<4x6xf32>, tensor<4x6xf32>
  }
}
// OUT:
// HloModule regions, entry_computation_layout={(f32[4,6]{1,0}, s32[4,6]{1,0}, s32[2,1]{1,0}, f32[2,6]{1,0}, f32[2,3]{1,0})->(f32[4]{0}, f32[6]{0}, s32[6]{0}, f32[4,6]{1,0}, f32[4,6]{1,0}, /*index=5*/f32[2,3]{1,0}, f32[4,6]{1,0}, f32[4,6]{1,0})}
//
// %region_0.1 (Arg_0.2: f32[], Arg_1.2: f32[]) -> f32[] {
//   %Arg_0.2 = f32[] parameter(0)
//   %Arg_1.2 = f32[] parameter(1)
//   ROOT %add.1 = f32[] add(%Arg_0.2, %Arg_1.2)
// }
//
// %region_1.2 (Arg_0.4: f32[], Arg_1.4: s32[], Arg_2.2: f32[], Arg_3.2: s32[]) -> (f32[], s32[]) {
//   %Arg_0.4 = f32[] parameter(0)
//   %Arg_2.2 = f32[] parameter(2)
//   %compare.1 = pred[] compare(%Arg_0.4, %Arg_2.2), direction=GT
//   %select.2 = f32[] select(%compare.1, %Arg_0.4, %Arg_2.2)
//   %Arg_1.4 = s32[] parameter(1)
//   %Arg_3.2 = s32[] parameter(3)
//   %select.3 = s32[] select(%compare.1, %Arg_1.4, %Arg_3.2)
//   ROOT %tuple.1 = (f32[], s32[]) tuple(%select.2, %select.3)
// }
//
// %region_2.3 (Arg_0.6: f32[], Arg_1.6: f32[]) -> pred[] {
//   %Arg_0.6 = f32[] parameter(0)
//   %Arg_1.6 = f32[] parameter(1)
//   ROOT %compare.3 = pred[] compare(%Arg_0.6, %Arg_1.6), direction=LT, order=TOTAL
// }
//
// %region_3.4 (Arg_0.8: f32[], Arg_1.8: f32[]) -> f32[] {
//   %Arg_0.8 = f32[] parameter(0)
//   %Arg_1.8 = f32[] parameter(1)
//   ROOT %add.3 = f32[] add(%Arg_0.8, %Arg_1.8)
// }
//
// %region_4.5 (Arg_0.10: f32[], Arg_1.10: f32[]) -> f32[] {
//   %Arg_0.10 = f32[] parameter(0)
//   %Arg_1.10 = f32[] parameter(1)
//   ROOT %maximum.1 = f32[] maximum(%Arg_0.10, %Arg_1.10)
// }
//
// %region_5.6 (Arg_0.12: f32[], Arg_1.12: f32[]) -> pred[] {
//   %Arg_0.12 = f32[] parameter(0)
//   %Arg_1.12 = f32[] parameter(1)
//   ROOT %compare.5 = pred[] compare(%Arg_0.12, %Arg_1.12), direction=GE
// }
//
// %region_6.7 (Arg_0.14: f32[], Arg_1.14: f32[]) -> f32[] {
//   %Arg_0.14 = f32[] parameter(0)
//   %Arg_1.14 = f32[] parameter(1)
//   ROOT %add.5 = f32[] add(%Arg_0.14, %Arg_1.14)
// }
//
// %region_7.8 (Arg_0.16: f32[], Arg_1.16: f32[]) -> f32[] {
//   %Arg_0.16 = f32[] parameter(0)
//   %constant.4 = f32[] constant(3)
//   %multiply.1 = f32[] multiply(%Arg_0.16, %constant.4)
//   %Arg_1.16 = f32[] parameter(1)
//   ROOT %subtract.1 = f32[] subtract(%multiply.1, %Arg_1.16)
// }
//
// ENTRY %main.9 (Arg_0.17: f32[4,6], Arg_1.17: s32[4,6], Arg_2.3: s32[2,1], Arg_3.3: f32[2,6], Arg_4.1: f32[2,3]) -> (f32[4], f32[6], s32[6], f32[4,6], f32[4,6], /*index=5*/f32[2,3], f32[4,6], f32[4,6]) {
//   %Arg_0.17 = f32[4,6]{1,0} parameter(0)
//   %constant.7 = f32[] constant(0)
//   %reduce.2 = f32[4]{0} reduce(%Arg_0.17, %constant.7), dimensions={1}, to_apply=%region_0.1
//   %Arg_1.17 = s32[4,6]{1,0} parameter(1)
//   %constant.6 = f32[] constant(-inf)
//   %constant.5 = s32[] constant(-1)
//   %reduce.3 = (f32[6]{0}, s32[6]{0}) reduce(%Arg_0.17, %Arg_1.17, %constant.6, %constant.5), dimensions={0}, to_apply=%region_1.2
//   %get-tuple-element.2 = f32[6]{0} get-tuple-element(%reduce.3), index=0
//   %get-tuple-element.3 = s32[6]{0} get-tuple-element(%reduce.3), index=1
//   %sort.1 = f32[4,6]{1,0} sort(%Arg_0.17), dimensions={1}, is_stable=true, to_apply=%region_2.3
//   %Arg_2.3 = s32[2,1]{1,0} parameter(2)
//   %Arg_3.3 = f32[2,6]{1,0} parameter(3)
//   %scatter.1 = f32[4,6]{1,0} scatter(%Arg_0.17, %Arg_2.3, %Arg_3.3), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, indices_are_sorted=true, to_apply=%region_3.4
//   %reduce-window.1 = f32[2,3]{1,0} reduce-window(%Arg_0.17, %constant.6), window={size=2x2 stride=2x2}, to_apply=%region_4.5
//   %Arg_4.1 = f32[2,3]{1,0} parameter(4)
//   %select-and-scatter.1 = f32[4,6]{1,0} select-and-scatter(%Arg_0.17, %Arg_4.1, %constant.7), window={size=2x2 stride=2x2}, select=%region_5.6, scatter=%region_6.7
//   %map.1 = f32[4,6]{1,0} map(%Arg_0.17, %Arg_0.17), dimensions={0,1}, to_apply=%region_7.8
//   ROOT %tuple.3 = (f32[4]{0}, f32[6]{0}, s32[6]{0}, f32[4,6]{1,0}, f32[4,6]{1,0}, /*index=5*/f32[2,3]{1,0}, f32[4,6]{1,0}, f32[4,6]{1,0}) tuple(%reduce.2, %get-tuple-element.2, %get-tuple-element.3, %sort.1, %scatter.1, /*index=5*/%reduce-window.1, %select-and-scatter.1, %map.1)
// }
