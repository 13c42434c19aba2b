// RUN: hilo check %s
// Functions that take nothing and give nothing, one of them without a body, where shardings are looked for.
module @nothing {
  sdy.mesh @grid = <["rows"=2]>
  func.func private @declared()
  func.func @nothing() attributes {sdy.sharding = #sdy.sharding_per_value<[]>} {
    func.call @nothing() : () -> ()
    return
  }
}
// OUT:
// no-types.mlir: ok: module nothing, 5 ops in 2 functions
