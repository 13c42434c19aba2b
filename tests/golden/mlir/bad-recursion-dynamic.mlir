// RUN: hilo convert --to=hlo %s --arg-shapes=f32[3]
// RUN: hilo convert --to=hlo %s
// A function that calls itself with other sizes each time.
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = call @grow(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
func.func private @grow(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = stablehlo.concatenate %x, %x, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  %1 = call @grow(%0) : (tensor<?xf32>) -> tensor<?xf32>
  return %1 : tensor<?xf32>
}
// EXIT: 3
// ERR: 10:8: error: function @grow calls itself, directly or through others, which HLO cannot say
// ERR: 10:8: error: function @grow calls itself, directly or through others, which HLO cannot say
