// RUN: hilo convert --to=hlo --no-metadata %s
// RUN: hilo run --platform=reference --print %s
// What a loop uses from outside is carried along behind its own values; what it does not change is taken out of it.
module @loops {
  func.func public @main() -> (tensor<i32>, tensor<2xi32>) {
    %limit = stablehlo.iota dim = 0 : tensor<6xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %start = stablehlo.constant dense<[1, 5]> : tensor<2xi32>
    %step = stablehlo.slice %limit [3:5] : (tensor<6xi32>) -> tensor<2xi32>
    %0:3 = stablehlo.while(%i = %zero, %same = %step, %sum = %start) : tensor<i32>, tensor<2xi32>, tensor<2xi32>
    cond {
      %five = stablehlo.constant dense<5> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %five, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %i, %one : tensor<i32>
      %2 = func.call @more(%sum, %same) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
      stablehlo.return %1, %same, %2 : tensor<i32>, tensor<2xi32>, tensor<2xi32>
    }
    return %0#0, %0#2 : tensor<i32>, tensor<2xi32>
  }
  func.func private @more(%x: tensor<2xi32>, %y: tensor<2xi32>) -> tensor<2xi32> {
    %0 = stablehlo.add %x, %y : tensor<2xi32>
    return %0 : tensor<2xi32>
  }
  func.func private @nobody_calls_this(%x: tensor<2xi32>) -> tensor<2xi32> {
    return %x : tensor<2xi32>
  }
}
// OUT:
// HloModule loops, entry_computation_layout={()->(s32[], s32[2]{0})}
//
// %more.1 (Arg_0.1: s32[2], Arg_1.1: s32[2]) -> s32[2] {
//   %Arg_0.1 = s32[2]{0} parameter(0)
//   %Arg_1.1 = s32[2]{0} parameter(1)
//   ROOT %add.2 = s32[2]{0} add(%Arg_0.1, %Arg_1.1)
// }
//
// %region_0.2 (arg_tuple.1: (s32[], s32[2], s32[2])) -> (s32[], s32[2], s32[2]) {
//   %arg_tuple.1 = (s32[], s32[2]{0}, s32[2]{0}) parameter(0)
//   %get-tuple-element.3 = s32[] get-tuple-element(%arg_tuple.1), index=0
//   %constant.3 = s32[] constant(1)
//   %add.3 = s32[] add(%get-tuple-element.3, %constant.3)
//   %get-tuple-element.4 = s32[2]{0} get-tuple-element(%arg_tuple.1), index=1
//   %get-tuple-element.5 = s32[2]{0} get-tuple-element(%arg_tuple.1), index=2
//   %call.1 = s32[2]{0} call(%get-tuple-element.4, %get-tuple-element.5), to_apply=%more.1
//   ROOT %tuple.1 = (s32[], s32[2]{0}, s32[2]{0}) tuple(%add.3, %call.1, %get-tuple-element.5)
// }
//
// %region_1.3 (arg_tuple.3: (s32[], s32[2], s32[2])) -> pred[] {
//   %arg_tuple.3 = (s32[], s32[2]{0}, s32[2]{0}) parameter(0)
//   %get-tuple-element.10 = s32[2]{0} get-tuple-element(%arg_tuple.3), index=1
//   %get-tuple-element.11 = s32[2]{0} get-tuple-element(%arg_tuple.3), index=2
//   %get-tuple-element.9 = s32[] get-tuple-element(%arg_tuple.3), index=0
//   %constant.5 = s32[] constant(5)
//   ROOT %compare.1 = pred[] compare(%get-tuple-element.9, %constant.5), direction=LT
// }
//
// ENTRY %main.4 () -> (s32[], s32[2]) {
//   %constant.7 = s32[] constant(0)
//   %constant.6 = s32[2]{0} constant({1, 5})
//   %iota.1 = s32[6]{0} iota(), iota_dimension=0
//   %slice.1 = s32[2]{0} slice(%iota.1), slice={[3:5]}
//   %tuple.4 = (s32[], s32[2]{0}, s32[2]{0}) tuple(%constant.7, %constant.6, %slice.1)
//   %while.1 = (s32[], s32[2]{0}, s32[2]{0}) while(%tuple.4), condition=%region_1.3, body=%region_0.2
//   %get-tuple-element.14 = s32[] get-tuple-element(%while.1), index=0
//   %get-tuple-element.15 = s32[2]{0} get-tuple-element(%while.1), index=1
//   ROOT %tuple.5 = (s32[], s32[2]{0}) tuple(%get-tuple-element.14, %get-tuple-element.15)
// }
//
// r0 = s32[] 5
// r1 = s32[2] {16, 25}
