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
// ENTRY %main (Arg_0: f32[4]) -> (f32[4], f32[2]) {
//   %Arg_0 = f32[4]{0} parameter(0)
//   %topk = (f32[2]{0}, s32[2]{0}) topk(%Arg_0), k=2, largest=true
//   %get-tuple-element.1 = s32[2]{0} get-tuple-element(%topk), index=1
//   %erf = f32[4]{0} erf(%Arg_0)
//   %get-tuple-element = f32[2]{0} get-tuple-element(%topk), index=0
//   ROOT %tuple = (f32[4]{0}, f32[2]{0}) tuple(%erf, %get-tuple-element)
// }
