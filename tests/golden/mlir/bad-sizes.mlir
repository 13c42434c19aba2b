// RUN: hilo convert --to=hlo %s
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = stablehlo.sine %x : tensor<?xf32>
  return %0 : tensor<?xf32>
}
// EXIT: 4
// ERR: 3:8: error: the shape of stablehlo.sine is not known: tensor<?xf32>
