// RUN: hilo convert --to=hlo --print=short %s; hilo run --platform=reference --elided=zero --print %s; hilo convert --to=mlirbc %s -o %t
// Constants whose data was left out are read, whatever year left it out, and said; an artifact needs the data.
func.func @main() -> (tensor<3xf32>, tensor<2xf32>, tensor<4xi32>) {
  %0 = stablehlo.constant dense_resource<__elided__> : tensor<3xf32>
  %1 = stablehlo.constant opaque<"elided_large_const", "0xDEADBEEF"> : tensor<2xf32>
  %2 = stablehlo.constant dense<__elided__> : tensor<4xi32>
  return %0, %1, %2 : tensor<3xf32>, tensor<2xf32>, tensor<4xi32>
}
// EXIT: 4
// ERR: 4:8: warning: 3 constants are without data, left out when this was printed; this is the first
// ERR: 4:8: warning: 3 constants are without data, left out when this was printed; this is the first
// ERR: 4:8: warning: the value of constant constant.5 was elided from the text and is filled with zeros
// ERR: 5:8: warning: the value of constant constant.4 was elided from the text and is filled with zeros
// ERR: 6:8: warning: the value of constant constant.3 was elided from the text and is filled with zeros
// ERR: 4:8: warning: 3 constants are without data, left out when this was printed; this is the first
// ERR: 4:8: error: a constant is without its data, which an artifact must hold
// OUT:
// HloModule main, entry_computation_layout={()->(f32[3]{0}, f32[2]{0}, s32[4]{0})}
//
// ENTRY main.1 {
//   constant.5 = f32[3]{0} constant({...})
//   constant.4 = f32[2]{0} constant({...})
//   constant.3 = s32[4]{0} constant({...})
//   ROOT tuple.1 = (f32[3]{0}, f32[2]{0}, s32[4]{0}) tuple(constant.5, constant.4, constant.3)
// }
//
// r0 = f32[3] {0, 0, 0}
// r1 = f32[2] {0, 0}
// r2 = s32[4] {0, 0, 0, 0}
