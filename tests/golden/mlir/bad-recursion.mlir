// RUN: hilo convert --to=hlo %s
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = call @other(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @other(%x: tensor<f32>) -> tensor<f32> {
  %0 = call @main(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
// EXIT: 3
// ERR: 7:8: error: function @main calls itself, directly or through others, which HLO cannot say
