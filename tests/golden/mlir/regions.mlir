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
// %region_0 (Arg_0.1: f32[], Arg_1.1: f32[]) -> f32[] {
//   %Arg_0.1 = f32[] parameter(0)
//   %Arg_1.1 = f32[] parameter(1)
//   ROOT %add = f32[] add(%Arg_0.1, %Arg_1.1)
// }
//
// %region_1 (Arg_0.2: f32[], Arg_1.2: s32[], Arg_2.1: f32[], Arg_3.1: s32[]) -> (f32[], s32[]) {
//   %Arg_0.2 = f32[] parameter(0)
//   %Arg_2.1 = f32[] parameter(2)
//   %compare = pred[] compare(%Arg_0.2, %Arg_2.1), direction=GT
//   %select = f32[] select(%compare, %Arg_0.2, %Arg_2.1)
//   %Arg_1.2 = s32[] parameter(1)
//   %Arg_3.1 = s32[] parameter(3)
//   %select.1 = s32[] select(%compare, %Arg_1.2, %Arg_3.1)
//   ROOT %tuple = (f32[], s32[]) tuple(%select, %select.1)
// }
//
// %region_2 (Arg_0.3: f32[], Arg_1.3: f32[]) -> pred[] {
//   %Arg_0.3 = f32[] parameter(0)
//   %Arg_1.3 = f32[] parameter(1)
//   ROOT %compare.1 = pred[] compare(%Arg_0.3, %Arg_1.3), direction=LT, type=TOTALORDER
// }
//
// %region_3 (Arg_0.4: f32[], Arg_1.4: f32[]) -> f32[] {
//   %Arg_0.4 = f32[] parameter(0)
//   %Arg_1.4 = f32[] parameter(1)
//   ROOT %add.1 = f32[] add(%Arg_0.4, %Arg_1.4)
// }
//
// %region_4 (Arg_0.5: f32[], Arg_1.5: f32[]) -> f32[] {
//   %Arg_0.5 = f32[] parameter(0)
//   %Arg_1.5 = f32[] parameter(1)
//   ROOT %maximum = f32[] maximum(%Arg_0.5, %Arg_1.5)
// }
//
// %region_5 (Arg_0.6: f32[], Arg_1.6: f32[]) -> pred[] {
//   %Arg_0.6 = f32[] parameter(0)
//   %Arg_1.6 = f32[] parameter(1)
//   ROOT %compare.2 = pred[] compare(%Arg_0.6, %Arg_1.6), direction=GE
// }
//
// %region_6 (Arg_0.7: f32[], Arg_1.7: f32[]) -> f32[] {
//   %Arg_0.7 = f32[] parameter(0)
//   %Arg_1.7 = f32[] parameter(1)
//   ROOT %add.2 = f32[] add(%Arg_0.7, %Arg_1.7)
// }
//
// %region_7 (Arg_0.8: f32[], Arg_1.8: f32[]) -> f32[] {
//   %Arg_0.8 = f32[] parameter(0)
//   %constant.3 = f32[] constant(3)
//   %multiply = f32[] multiply(%Arg_0.8, %constant.3)
//   %Arg_1.8 = f32[] parameter(1)
//   ROOT %subtract = f32[] subtract(%multiply, %Arg_1.8)
// }
//
// ENTRY %main (Arg_0: f32[4,6], Arg_1: s32[4,6], Arg_2: s32[2,1], Arg_3: f32[2,6], Arg_4: f32[2,3]) -> (f32[4], f32[6], s32[6], f32[4,6], f32[4,6], /*index=5*/f32[2,3], f32[4,6], f32[4,6]) {
//   %Arg_0 = f32[4,6]{1,0} parameter(0)
//   %constant = f32[] constant(0)
//   %reduce = f32[4]{0} reduce(%Arg_0, %constant), dimensions={1}, to_apply=%region_0
//   %Arg_1 = s32[4,6]{1,0} parameter(1)
//   %constant.1 = f32[] constant(-inf)
//   %constant.2 = s32[] constant(-1)
//   %reduce.1 = (f32[6]{0}, s32[6]{0}) reduce(%Arg_0, %Arg_1, %constant.1, %constant.2), dimensions={0}, to_apply=%region_1
//   %get-tuple-element = f32[6]{0} get-tuple-element(%reduce.1), index=0
//   %get-tuple-element.1 = s32[6]{0} get-tuple-element(%reduce.1), index=1
//   %sort = f32[4,6]{1,0} sort(%Arg_0), dimensions={1}, is_stable=true, to_apply=%region_2
//   %Arg_2 = s32[2,1]{1,0} parameter(2)
//   %Arg_3 = f32[2,6]{1,0} parameter(3)
//   %scatter = f32[4,6]{1,0} scatter(%Arg_0, %Arg_2, %Arg_3), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, indices_are_sorted=true, to_apply=%region_3
//   %reduce-window = f32[2,3]{1,0} reduce-window(%Arg_0, %constant.1), window={size=2x2 stride=2x2}, to_apply=%region_4
//   %Arg_4 = f32[2,3]{1,0} parameter(4)
//   %select-and-scatter = f32[4,6]{1,0} select-and-scatter(%Arg_0, %Arg_4, %constant), window={size=2x2 stride=2x2}, select=%region_5, scatter=%region_6
//   %map = f32[4,6]{1,0} map(%Arg_0, %Arg_0), dimensions={0,1}, to_apply=%region_7
//   ROOT %tuple.1 = (f32[4]{0}, f32[6]{0}, s32[6]{0}, f32[4,6]{1,0}, f32[4,6]{1,0}, /*index=5*/f32[2,3]{1,0}, f32[4,6]{1,0}, f32[4,6]{1,0}) tuple(%reduce, %get-tuple-element, %get-tuple-element.1, %sort, %scatter, /*index=5*/%reduce-window, %select-and-scatter, %map)
// }
