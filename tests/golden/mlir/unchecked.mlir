// RUN: hilo check %s
// What Hilo has no rules for is said, once a dialect.
func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "xla_hlo.add"(%a, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<9xi1>
  %1 = "xla_hlo.sub"(%a, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<9xi1>
  %2 = "nonsense.op"(%0) {x = 3} : (tensor<9xi1>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
// ERR: 4:8: warning: 'xla_hlo.add' and whatever else is of the dialect 'xla_hlo' is not checked: Hilo has no rules for it
// ERR: 6:8: warning: 'nonsense.op' and whatever else is of the dialect 'nonsense' is not checked: Hilo has no rules for it
// OUT:
// unchecked.mlir: ok: module (unnamed), 5 ops in 1 function
