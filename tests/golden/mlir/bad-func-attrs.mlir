// RUN: hilo check %s
// Attributes of results are a dictionary each.
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<f32>) -> (tensor<f32>, tensor<f32>), res_attrs = [{}, f32], sym_name = "main"}> ({
  ^bb0(%x: tensor<f32>):
    "func.return"(%x, %x) : (tensor<f32>, tensor<f32>) -> ()
  }) : () -> ()
}) : () -> ()
// EXIT: 3
// ERR: 4:3: error: 'func.func': entry 1 of res_attrs should be a dictionary
// OUT:
// bad-func-attrs.mlir: module (unnamed): 1 error
