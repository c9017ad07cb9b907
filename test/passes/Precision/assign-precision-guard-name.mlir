// RUN: mpc-opt %s -amp-assign-precision="mode=bf16-mixed" | FileCheck %s

// A product of the model with the name of a guard is no guard.

// CHECK: #amp.decision<operands = [{{.*}}compute = bf16,
// CHECK-SAME: reason = allow_list
// CHECK-SAME: path = ["running_mean#guard"]

func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>) -> tensor<4x2xf32> {
  %0 = mpc.gemm %x, %w : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32> loc("running_mean#guard")
  return %0 : tensor<4x2xf32>
}
