// RUN: mpc-opt %s --plan-print-partition --verify-diagnostics

// Every kernel that is launched with an extent gets a remark.
// test/compiler/Kernels/kernel-partition.mlir tests the rule.

// expected-remark@+1 {{extent 64, grain}}
func.func private @relu(%x: tensor<64x8xf32>) -> tensor<64x8xf32> attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %m = mpc.reduce_max %x {axes = array<i64: 1>, keepdims = true} : (tensor<64x8xf32>) -> tensor<64x1xf32>
  %y = mpc.sub %x, %m : (tensor<64x8xf32>, tensor<64x1xf32>) -> tensor<64x8xf32>
  return %y : tensor<64x8xf32>
}

// An epilogue runs on the tiles of its contraction.
func.func private @bias(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> attributes {mpc.kernel = #mpc.kernel<epilogue>} {
  %y = mpc.add %x, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// This function is no kernel.
func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
