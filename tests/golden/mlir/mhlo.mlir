// RUN: hilo convert --to=hlo --no-metadata %s
// Ops that only mhlo has, lists in the spelling of its day.
module @old {
  func.func public @main(%x: tensor<4x8xf32>, %t: !mhlo.token) -> (tensor<4x8xf32>, tensor<4x2xf32>, tensor<8x4xf32>, tensor<4x8xf32>, tensor<2x4x8xf32>) {
    %0 = "mhlo.copy"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %1:2 = "mhlo.topk"(%0) {k = 2 : i64, largest = false} : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
    %2 = "mhlo.bitcast"(%x) {result_layout = dense<[0, 1]> : tensor<2xindex>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %3 = "mhlo.fusion"(%x, %0) ({
    ^bb0(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>):
      %6 = mhlo.add %a, %b : tensor<4x8xf32>
      mhlo.return %6 : tensor<4x8xf32>
    }) {fusion_kind = #mhlo<fusion_kind kLoop>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %4 = "mhlo.add_dependency"(%3, %t) : (tensor<4x8xf32>, !mhlo.token) -> tensor<4x8xf32>
    %5 = "mhlo.broadcast_in_dim"(%4) {broadcast_dimensions = dense<[1, 2]> : tensor<2xi64>} : (tensor<4x8xf32>) -> tensor<2x4x8xf32>
    return %4, %1#0, %2, %3, %5 : tensor<4x8xf32>, tensor<4x2xf32>, tensor<8x4xf32>, tensor<4x8xf32>, tensor<2x4x8xf32>
  }
}
// OUT:
// HloModule old, entry_computation_layout={(f32[4,8]{1,0}, token[])->(f32[4,8]{1,0}, f32[4,2]{1,0}, f32[8,4]{0,1}, f32[4,8]{1,0}, f32[2,4,8]{2,1,0})}
//
// %region_0.1 (Arg_0.2: f32[4,8], Arg_1.2: f32[4,8]) -> f32[4,8] {
//   %Arg_0.2 = f32[4,8]{1,0} parameter(0)
//   %Arg_1.2 = f32[4,8]{1,0} parameter(1)
//   ROOT %add.1 = f32[4,8]{1,0} add(%Arg_0.2, %Arg_1.2)
// }
//
// ENTRY %main.2 (Arg_0.3: f32[4,8], Arg_1.3: token[]) -> (f32[4,8], f32[4,2], f32[8,4], f32[4,8], f32[2,4,8]) {
//   %Arg_0.3 = f32[4,8]{1,0} parameter(0)
//   %copy.1 = f32[4,8]{1,0} copy(%Arg_0.3)
//   %topk.1 = (f32[4,2]{1,0}, s32[4,2]{1,0}) topk(%copy.1), k=2, largest=false, is_stable=true
//   %get-tuple-element.3 = s32[4,2]{1,0} get-tuple-element(%topk.1), index=1
//   %fusion.1 = f32[4,8]{1,0} fusion(%Arg_0.3, %copy.1), kind=kLoop, calls=%region_0.1
//   %Arg_1.3 = token[] parameter(1)
//   %add-dependency.1 = f32[4,8]{1,0} add-dependency(%fusion.1, %Arg_1.3)
//   %get-tuple-element.2 = f32[4,2]{1,0} get-tuple-element(%topk.1), index=0
//   %bitcast.1 = f32[8,4]{0,1} bitcast(%Arg_0.3)
//   %broadcast.1 = f32[2,4,8]{2,1,0} broadcast(%add-dependency.1), dimensions={1,2}
//   ROOT %tuple.1 = (f32[4,8]{1,0}, f32[4,2]{1,0}, f32[8,4]{0,1}, f32[4,8]{1,0}, f32[2,4,8]{2,1,0}) tuple(%add-dependency.1, %get-tuple-element.2, %bitcast.1, %fusion.1, %broadcast.1)
// }
