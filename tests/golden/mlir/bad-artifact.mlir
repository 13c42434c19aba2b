// RUN: hilo convert %s --to mlirbc=1.6.0
// RUN: hilo convert %s --to mlirbc=3.0.0
// RUN: hilo convert %s --to mlirbc=x
// What an old version cannot say is refused with the version that can; so is a version that is none.
func.func @main(%x: tensor<4xf8E4M3>) -> tensor<4xf8E4M3> {
  return %x : tensor<4xf8E4M3>
}
// EXIT: 4
// ERR: 5:1: error: f8E4M3 in func.func needs version 1.7.0 of VHLO, the target is 1.6.0
// ERR: error: there is no version 3.0.0 of VHLO; it is from 0.9.0 to 1.20.0
