// RUN: mpc-opt %s -amp-insert-casts -verify-diagnostics

func.func @undecided(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error@+1 {{'mpc.relu' op expected an amp.decision}}
  %0 = mpc.relu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
