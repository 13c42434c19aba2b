// RUN: hilo convert %s --to mlirbc -o %t.mlirbc && hilo convert %t.mlirbc --to hlo --no-metadata
// Functions that HLO has a word for travel as calls of that name.
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  %e = chlo.erf %x : tensor<4xf32> -> tensor<4xf32>
  %v, %i = chlo.top_k(%x, k = 2) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)
  return %e, %v : tensor<4xf32>, tensor<2xf32>
}
// OUT:
// HloModule main, entry_computation_layout={(f32[4]{0})->(f32[4]{0}, f32[2]{0})}
//
// ENTRY %main.1 (Arg_0.1: f32[4]) -> (f32[4], f32[2]) {
//   %Arg_0.1 = f32[4]{0} parameter(0)
//   %topk.1 = (f32[2]{0}, s32[2]{0}) topk(%Arg_0.1), k=2, largest=true, is_stable=true
//   %get-tuple-element.3 = s32[2]{0} get-tuple-element(%topk.1), index=1
//   %erf.1 = f32[4]{0} erf(%Arg_0.1)
//   %get-tuple-element.2 = f32[2]{0} get-tuple-element(%topk.1), index=0
//   ROOT %tuple.1 = (f32[4]{0}, f32[2]{0}) tuple(%erf.1, %get-tuple-element.2)
// }
