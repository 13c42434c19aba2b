// RUN: hilo run --platform=reference %s | sed 's/ *time.*//'
// Collectives with a root, on grids of their own: the last operand may name it.
module @reduce {
  func.func @sum(%x: tensor<2xi32>, %root: tensor<1xi32>) -> tensor<2xi32> {
    %r = "stablehlo.collective_reduce"(%x, %root) ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %s = stablehlo.add %a, %b : tensor<i32>
      stablehlo.return %s : tensor<i32>
    }) {replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>, has_dynamic_root} : (tensor<2xi32>, tensor<1xi32>) -> tensor<2xi32>
    return %r : tensor<2xi32>
  }
  func.func @main() {
    %a = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
    %b = stablehlo.constant dense<[10, 20]> : tensor<2xi32>
    %root = stablehlo.constant dense<2> : tensor<1xi32>
    %r:3 = "interpreter.run_parallel"(%a, %root, %a, %root, %b, %root) {programs = [[@sum], [@sum], [@sum]]}
        : (tensor<2xi32>, tensor<1xi32>, tensor<2xi32>, tensor<1xi32>, tensor<2xi32>, tensor<1xi32>) -> (tensor<2xi32>, tensor<2xi32>, tensor<2xi32>)
    check.expect_eq_const %r#0, dense<0> : tensor<2xi32>
    check.expect_eq_const %r#2, dense<[12, 24]> : tensor<2xi32>
    return
  }
}

// -----

module @broadcast {
  func.func @send(%x: tensor<f32>) -> tensor<f32> {
    %root = stablehlo.constant dense<1> : tensor<1xi32>
    %r = "stablehlo.collective_broadcast"(%x, %root) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, has_dynamic_root} : (tensor<f32>, tensor<1xi32>) -> tensor<f32>
    return %r : tensor<f32>
  }
  func.func @main() {
    %a = stablehlo.constant dense<1.0> : tensor<f32>
    %b = stablehlo.constant dense<-0.0> : tensor<f32>
    %r:2 = "interpreter.run_parallel"(%a, %b) {programs = [[@send, @send]]} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
    check.expect_eq_const %r#0, dense<-0.0> : tensor<f32>
    return
  }
}
// OUT:
// roots.mlir: module reduce on the reference interpreter, 1 device, made-up arguments
//
//   the program's 2 checks hold
// roots.mlir: module broadcast on the reference interpreter, 1 device, made-up arguments
//
//   the program's 1 check holds
