// RUN: hilo convert --to=hlo --no-metadata %s
// RUN: hilo run --print %s
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
// %more (Arg_0: s32[2], Arg_1: s32[2]) -> s32[2] {
//   %Arg_0 = s32[2]{0} parameter(0)
//   %Arg_1 = s32[2]{0} parameter(1)
//   ROOT %add.1 = s32[2]{0} add(%Arg_0, %Arg_1)
// }
//
// %region_0 (arg_tuple: (s32[], s32[2], s32[2])) -> (s32[], s32[2], s32[2]) {
//   %arg_tuple = (s32[], s32[2]{0}, s32[2]{0}) parameter(0)
//   %get-tuple-element = s32[] get-tuple-element(%arg_tuple), index=0
//   %constant.2 = s32[] constant(1)
//   %add = s32[] add(%get-tuple-element, %constant.2)
//   %get-tuple-element.1 = s32[2]{0} get-tuple-element(%arg_tuple), index=1
//   %get-tuple-element.2 = s32[2]{0} get-tuple-element(%arg_tuple), index=2
//   %call = s32[2]{0} call(%get-tuple-element.1, %get-tuple-element.2), to_apply=%more
//   ROOT %tuple = (s32[], s32[2]{0}, s32[2]{0}) tuple(%add, %call, %get-tuple-element.2)
// }
//
// %region_1 (arg_tuple.1: (s32[], s32[2], s32[2])) -> pred[] {
//   %arg_tuple.1 = (s32[], s32[2]{0}, s32[2]{0}) parameter(0)
//   %get-tuple-element.4 = s32[2]{0} get-tuple-element(%arg_tuple.1), index=1
//   %get-tuple-element.5 = s32[2]{0} get-tuple-element(%arg_tuple.1), index=2
//   %get-tuple-element.3 = s32[] get-tuple-element(%arg_tuple.1), index=0
//   %constant.3 = s32[] constant(5)
//   ROOT %compare = pred[] compare(%get-tuple-element.3, %constant.3), direction=LT
// }
//
// ENTRY %main () -> (s32[], s32[2]) {
//   %constant = s32[] constant(0)
//   %constant.1 = s32[2]{0} constant({1, 5})
//   %iota = s32[6]{0} iota(), iota_dimension=0
//   %slice = s32[2]{0} slice(%iota), slice={[3:5]}
//   %tuple.1 = (s32[], s32[2]{0}, s32[2]{0}) tuple(%constant, %constant.1, %slice)
//   %while = (s32[], s32[2]{0}, s32[2]{0}) while(%tuple.1), condition=%region_1, body=%region_0
//   %get-tuple-element.6 = s32[] get-tuple-element(%while), index=0
//   %get-tuple-element.7 = s32[2]{0} get-tuple-element(%while), index=1
//   ROOT %tuple.2 = (s32[], s32[2]{0}) tuple(%get-tuple-element.6, %get-tuple-element.7)
// }
//
// r0 = s32[] 5
// r1 = s32[2] {16, 25}
