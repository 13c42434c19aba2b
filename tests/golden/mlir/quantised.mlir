// RUN: hilo run --platform=reference --print %s
// Quantised values are their storage; arithmetic is on what they stand for.
func.func @add() -> tensor<3xi8> {
  %x = stablehlo.constant dense<[1.0, -2.5, 60.0]> : tensor<3xf32>
  %q = stablehlo.uniform_quantize %x : (tensor<3xf32>) -> tensor<3x!quant.uniform<i8:f32, 0.5:3>>
  %s = stablehlo.add %q, %q : (tensor<3x!quant.uniform<i8:f32, 0.5:3>>, tensor<3x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3x!quant.uniform<i8:f32, 1.0>>
  %b = stablehlo.bitcast_convert %s : (tensor<3x!quant.uniform<i8:f32, 1.0>>) -> tensor<3xi8>
  return %b : tensor<3xi8>
}
func.func @channels() -> tensor<2x2xf32> {
  %x = stablehlo.constant dense<[[10, 20], [30, 40]]> : tensor<2x2xi8>
  %q = stablehlo.bitcast_convert %x : (tensor<2x2xi8>) -> tensor<2x2x!quant.uniform<i8:f32:1, {0.5:10, 2.0:-4}>>
  %t = stablehlo.transpose %q, dims = [1, 0] : (tensor<2x2x!quant.uniform<i8:f32:1, {0.5:10, 2.0:-4}>>) -> tensor<2x2x!quant.uniform<i8:f32:0, {0.5:10, 2.0:-4}>>
  %r = stablehlo.uniform_dequantize %t : (tensor<2x2x!quant.uniform<i8:f32:0, {0.5:10, 2.0:-4}>>) -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}
// OUT:
// r0 = s8[3] {2, -5, 120}
// r0 = f32[2,2] { { 0, 10 }, { 48, 88 } }
