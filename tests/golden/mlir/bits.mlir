// RUN: hilo run --platform=reference --print %s
// i1 is one bit, lowest first; a complex number becomes true by its real part; a nan without mantissa is an infinity.
func.func @pack() -> tensor<2xui8> {
  %x = stablehlo.constant dense<[[true, false, true, false, false, false, false, false], [false, true, true, true, true, true, true, true]]> : tensor<2x8xi1>
  %r = stablehlo.bitcast_convert %x : (tensor<2x8xi1>) -> tensor<2xui8>
  return %r : tensor<2xui8>
}
func.func @unpack() -> tensor<8xi1> {
  %x = stablehlo.constant dense<-127> : tensor<i8>
  %r = stablehlo.bitcast_convert %x : (tensor<i8>) -> tensor<8xi1>
  return %r : tensor<8xi1>
}
func.func @truth() -> tensor<2xi1> {
  %x = stablehlo.constant dense<[(0.0, 1.0), (2.0, 0.0)]> : tensor<2xcomplex<f32>>
  %r = stablehlo.convert %x : (tensor<2xcomplex<f32>>) -> tensor<2xi1>
  return %r : tensor<2xi1>
}
func.func @precision() -> tensor<3xf32> {
  %x = stablehlo.constant dense<[0x7FC00000, 3.0, 1.0e9]> : tensor<3xf32>
  %r = stablehlo.reduce_precision %x, format = e5m0 : tensor<3xf32>
  return %r : tensor<3xf32>
}
// OUT:
// r0 = u8[2] {5, 254}
// r0 = pred[8] {1, 0, 0, 0, 0, 0, 0, 1}
// r0 = pred[2] {0, 1}
// r0 = f32[3] {inf, 2, inf}
