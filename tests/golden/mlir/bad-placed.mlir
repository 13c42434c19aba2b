// RUN: hilo check %s
// One sharding of an op without results is of no dimensions and has no axes.
sdy.mesh @grid = <["rows"=2]>
func.func @main(%x: tensor<6xf32>) {
  stablehlo.custom_call @look(%x) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@grid, [{"rows"}]>]>} : (tensor<6xf32>) -> ()
  return
}
// EXIT: 3
// ERR: 5:3: error: 'stablehlo.custom_call': sdy.sharding has 1 shardings for 0 values
// OUT:
// bad-placed.mlir: module (unnamed): 1 error
