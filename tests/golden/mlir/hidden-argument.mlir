// Of a program exported for several platforms `run` says itself on which it runs.
// RUN: hilo run --platform=reference --print %s
module @m {
  func.func public @main(%arg0: tensor<i32> {jax.global_constant = "_platform_index"}, %arg1: tensor<2xf32>) -> tensor<i32> {
    %c = stablehlo.constant dense<7> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    return %0 : tensor<i32>
  }
}
// OUT:
// r0 = s32[] 7
