// RUN: hilo convert --to=hlo %s
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "elsewhere.op"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// EXIT: 4
// ERR: 3:8: warning: 'elsewhere.op' and whatever else is of the dialect 'elsewhere' is not checked: Hilo has no rules for it
// ERR: 3:8: error: 'elsewhere.op' is not an op that can be carried to HLO
