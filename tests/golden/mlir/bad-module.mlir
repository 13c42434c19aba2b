// RUN: hilo check %s
// A module is one block.
module {
  "builtin.module"() ({
  }) : () -> ()
  "builtin.module"() ({
  ^a:
    func.func private @f()
  ^b:
    func.func private @g()
  }) : () -> ()
}
// EXIT: 3
// ERR: 4:3: error: 'builtin.module': region 0 is empty, but should have a block
// ERR: 6:3: error: 'builtin.module': region 0 has several blocks, but should have one
// OUT:
// bad-module.mlir: module (unnamed): 2 errors
