// RUN: hilo run --platform=reference --print %s
// chlo's functions, an einsum, a bounded dimension, complex numbers in order.
module @functions {
  func.func public @main() -> (tensor<3xf32>, tensor<2x3xi32>, tensor<2xi1>, tensor<2x2xf32>, tensor<2xcomplex<f32>>, tensor<i32>) {
    %x = stablehlo.constant dense<[0.5, 1.5, 2.5]> : tensor<3xf32>
    %0 = chlo.lgamma %x : tensor<3xf32> -> tensor<3xf32>
    %row = stablehlo.constant dense<[[1], [2]]> : tensor<2x1xi32>
    %col = stablehlo.constant dense<[10, 20, 30]> : tensor<3xi32>
    %1 = chlo.broadcast_add %row, %col : (tensor<2x1xi32>, tensor<3xi32>) -> tensor<2x3xi32>
    %odd = stablehlo.constant dense<[1.0, 0x7F800000]> : tensor<2xf32>
    %2 = chlo.is_pos_inf %odd : tensor<2xf32> -> tensor<2xi1>
    %m = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
    %3 = stablehlo.einsum %m, %m, config = "ij,kj->ki" : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
    %a = stablehlo.constant dense<[(1.0, 2.0), (3.0, 0.0)]> : tensor<2xcomplex<f32>>
    %b = stablehlo.constant dense<[(1.0, 5.0), (2.0, 9.0)]> : tensor<2xcomplex<f32>>
    %4 = stablehlo.maximum %a, %b : tensor<2xcomplex<f32>>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %5 = stablehlo.set_dimension_size %x, %two, dim = 0 : (tensor<3xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<3>>
    %6 = stablehlo.get_dimension_size %5, dim = 0 : (tensor<?xf32, #stablehlo.bounds<3>>) -> tensor<i32>
    return %0, %1, %2, %3, %4, %6 : tensor<3xf32>, tensor<2x3xi32>, tensor<2xi1>, tensor<2x2xf32>, tensor<2xcomplex<f32>>, tensor<i32>
  }
}
// OUT:
// r0 = f32[3] {0.572365284, -0.120781898, 0.284683228}
// r1 = s32[2,3] { { 11, 21, 31 }, { 12, 22, 32 } }
// r2 = pred[2] {0, 1}
// r3 = f32[2,2] { { 14, 32 }, { 32, 77 } }
// r4 = c64[2] {(1, 5), (3, 0)}
// r5 = s32[] 2
