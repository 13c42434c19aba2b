// RUN: hilo convert --to=hlo --no-metadata %s
// What goes away on the way to HLO.
module @simplify {
  func.func public @main(%x: tensor<2x3xf32>, %n: tensor<i32>) -> (tensor<2x3xf32>, tensor<3x2xf32>, tensor<i32>, tensor<1x3xf32>, tensor<2x3xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<2x3xf32>
    %one = stablehlo.constant dense<1.0> : tensor<2x3xf32>
    %0 = stablehlo.add %zero, %x : tensor<2x3xf32>
    %1 = stablehlo.multiply %0, %one : tensor<2x3xf32>
    %two = stablehlo.add %one, %one : tensor<2x3xf32>
    %2 = stablehlo.divide %1, %two : tensor<2x3xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x3xf32>) -> tensor<6xf32>
    %4 = stablehlo.reshape %3 : (tensor<6xf32>) -> tensor<3x2xf32>
    %5 = stablehlo.transpose %2, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %6 = stablehlo.transpose %5, dims = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %sure = stablehlo.compare LT, %three, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %second = stablehlo.convert %sure : (tensor<i1>) -> tensor<i32>
    %7 = "stablehlo.case"(%second) ({
      stablehlo.return %n : tensor<i32>
    }, {
      %12 = stablehlo.multiply %three, %n : tensor<i32>
      stablehlo.return %12 : tensor<i32>
    }) : (tensor<i32>) -> tensor<i32>
    %8 = stablehlo.concatenate %2, %6, %x, dim = 0 : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<6x3xf32>
    %9 = stablehlo.slice %8 [5:6, 0:3] : (tensor<6x3xf32>) -> tensor<1x3xf32>
    %10 = stablehlo.cosine %x : tensor<2x3xf32>
    %11 = stablehlo.exponential %zero : tensor<2x3xf32>
    return %6, %4, %7, %9, %11 : tensor<2x3xf32>, tensor<3x2xf32>, tensor<i32>, tensor<1x3xf32>, tensor<2x3xf32>
  }
}
// OUT:
// HloModule simplify, entry_computation_layout={(f32[2,3]{1,0}, s32[])->(f32[2,3]{1,0}, f32[3,2]{1,0}, s32[], f32[1,3]{1,0}, f32[2,3]{1,0})}
//
// ENTRY %main.1 (Arg_0.1: f32[2,3], Arg_1.1: s32[]) -> (f32[2,3], f32[3,2], s32[], f32[1,3], f32[2,3]) {
//   %Arg_0.1 = f32[2,3]{1,0} parameter(0)
//   %constant.5 = f32[] constant(2)
//   %broadcast.3 = f32[2,3]{1,0} broadcast(%constant.5), dimensions={}
//   %divide.1 = f32[2,3]{1,0} divide(%Arg_0.1, %broadcast.3)
//   %reshape.1 = f32[3,2]{1,0} reshape(%divide.1)
//   %Arg_1.1 = s32[] parameter(1)
//   %constant.4 = s32[] constant(3)
//   %multiply.1 = s32[] multiply(%Arg_1.1, %constant.4)
//   %slice.1 = f32[1,3]{1,0} slice(%Arg_0.1), slice={[1:2], [0:3]}
//   %constant.3 = f32[] constant(1)
//   %broadcast.2 = f32[2,3]{1,0} broadcast(%constant.3), dimensions={}
//   ROOT %tuple.1 = (f32[2,3]{1,0}, f32[3,2]{1,0}, s32[], f32[1,3]{1,0}, f32[2,3]{1,0}) tuple(%divide.1, %reshape.1, %multiply.1, %slice.1, %broadcast.2)
// }
