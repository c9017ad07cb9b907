// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-form-regions))" --verify-diagnostics

func.func @composite(%x: tensor<32x10xf32>) -> tensor<32x10xf32> {
  // expected-error @below {{'mpc.softmax' op expected a primitive op, run mpc-decompose first}}
  %y = mpc.softmax %x {axis = 1 : i64} : (tensor<32x10xf32>) -> tensor<32x10xf32>
  return %y : tensor<32x10xf32>
}
