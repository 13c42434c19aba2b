sdy.mesh @grid = <["rows"=2]>
func.func private @declared()
func.func @main() attributes {sdy.sharding = #sdy.sharding_per_value<[]>} {
  call @declared() : () -> ()
  return
}
