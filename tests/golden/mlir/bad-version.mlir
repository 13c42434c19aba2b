// RUN: hilo convert --to=mlirbc %s -o %t; hilo convert --to=mlirbc=oldest %s -o %t
// What the version cannot say is an error that names the one that can.
func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.custom_call @f(%a) {operand_layouts = [dense<0> : tensor<1xindex>], result_layouts = [dense<0> : tensor<1xindex>], result_tilings = [[dense<2> : tensor<1xindex>]]} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
// EXIT: 2
// ERR: 4:8: error: stablehlo.custom_call with 'result_tilings' needs version 1.18.0 of VHLO, the target is 1.16.2
