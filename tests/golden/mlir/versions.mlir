// RUN: hilo convert --to=mlirbc %s | grep -ao 'StableHLO_v[0-9.]*' && hilo convert --to=mlirbc=newest %s | grep -ao 'StableHLO_v[0-9.]*' && hilo convert --to=mlirbc=week_4 %s | grep -ao 'StableHLO_v[0-9.]*' && hilo convert --to=mlirbc=1.5 %s | grep -ao 'StableHLO_v[0-9.]*'
// Artifacts are of the version that JAX's window of compatibility reads unless another is named.
func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %a, %a : tensor<2xf32>
  return %0 : tensor<2xf32>
}
// OUT:
// StableHLO_v1.16.2
// StableHLO_v1.20.0
// StableHLO_v1.18.0
// StableHLO_v1.5.0
