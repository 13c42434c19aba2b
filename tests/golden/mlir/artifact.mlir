// RUN: hilo convert %s --to mlirbc=1.0.0 -o %t.mlirbc && hilo convert %t.mlirbc --to stablehlo
// RUN: hilo run --platform=reference %t.mlirbc --print
// RUN: hilo convert %s --to mlirbc=0.9.0 -o %t.old && hilo check %t.old | sed 's/.*: ok/ok/'
// A portable artifact of an old version and back; defaults are written out and erased again.
module @artifact {
  func.func public @main() -> (tensor<2x3xf32>, tensor<3xi32>) {
    %x = stablehlo.constant dense<[[1.0, -2.0, 3.5], [0.0, 5.0, -6.25]]> : tensor<2x3xf32>
    %e = stablehlo.exponential %x : tensor<2x3xf32>
    %k = stablehlo.constant dense<[3, 1, 2]> : tensor<3xi32>
    %s = "stablehlo.sort"(%k) <{dimension = 0 : i64}> ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %c = stablehlo.compare LT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }) : (tensor<3xi32>) -> tensor<3xi32>
    return %e, %s : tensor<2x3xf32>, tensor<3xi32>
  }
}
// OUT:
// module @artifact {
//   func.func public @main() -> (tensor<2x3xf32>, tensor<3xi32>) {
//     %cst = stablehlo.constant dense<[[1.000000e+00, -2.000000e+00, 3.500000e+00], [0.000000e+00, 5.000000e+00, -6.250000e+00]]> : tensor<2x3xf32>
//     %0 = stablehlo.exponential %cst : tensor<2x3xf32>
//     %c = stablehlo.constant dense<[3, 1, 2]> : tensor<3xi32>
//     %1 = "stablehlo.sort"(%c) <{dimension = 0 : i64}> ({
//     ^bb0(%arg0: tensor<i32>, %arg1: tensor<i32>):
//       %2 = stablehlo.compare LT, %arg0, %arg1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
//       stablehlo.return %2 : tensor<i1>
//     }) : (tensor<3xi32>) -> tensor<3xi32>
//     return %0, %1 : tensor<2x3xf32>, tensor<3xi32>
//   }
// }
// r0 = f32[2,3] { { 2.71828175, 0.135335281, 33.1154518 }, { 1, 148.413162, 0.00193045416 } }
// r1 = s32[3] {1, 2, 3}
// ok: module artifact, 8 ops in 1 function
