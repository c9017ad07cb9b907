// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-verify-fusion))" | FileCheck %s

// CHECK-LABEL: func.func @kernels
func.func @kernels(%x: tensor<4x8xf32>) -> tensor<32xf32> {
  %0 = mpc.region pointwise (%x) {kernel = "k"} : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%1: tensor<4x8xf32>):
    %2 = mpc.relu %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    mpc.yield %2 : tensor<4x8xf32>
  }
  %y = mpc.reshape %0 : (tensor<4x8xf32>) -> tensor<32xf32>
  return %y : tensor<32xf32>
}
