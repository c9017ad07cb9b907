// RUN: mpc-opt %s --plan-outline-kernels --verify-diagnostics

func.func @undecided(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{expected a provider of the contraction, run plan-place-contractions first}}
  %y = mpc.region contraction (%x) {kernel = "k"} : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%0: tensor<4x4xf32>):
    %1 = mpc.matmul %0, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    mpc.yield %1 : tensor<4x4xf32>
  }
  return %y : tensor<4x4xf32>
}
