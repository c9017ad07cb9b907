// Ops that cannot become a GPU kernel.
// RUN: mpc-opt %s --split-input-file --verify-diagnostics --mpc-attach-target=name=sm_80 --mpc-emit-kernels --mpc-lower-math

// expected-error @below {{'func.func' op is called per tile, but no library on target 'sm_80' calls kernels}}
func.func private @epilogue(%acc: tensor<16x64xf32>) -> tensor<16x64xf32>
    attributes {mpc.kernel = #mpc.kernel<epilogue>} {
  %0 = mpc.relu %acc : (tensor<16x64xf32>) -> tensor<16x64xf32>
  return %0 : tensor<16x64xf32>
}

// -----

// A GPU has no libm.
func.func @no_code(%x: f64) -> f64 {
  // expected-error @below {{'math.cbrt' op of 'f64' has no code on target 'sm_80'}}
  %0 = math.cbrt %x : f64
  return %0 : f64
}

// -----

// A block's threads share rows, so no thread can sum a column.
func.func private @column_sum(%x: tensor<4x8x16xf32>) -> (tensor<4x8x1xf32>, tensor<4x1x16xf32>)
    attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %0 = mpc.reduce_max %x {axes = array<i64: 2>, keepdims = true} : (tensor<4x8x16xf32>) -> tensor<4x8x1xf32>
  // expected-error @below {{'mpc.reduce_sum' op reduces columns in a row kernel, which target 'sm_80' does not support}}
  %1 = mpc.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : (tensor<4x8x16xf32>) -> tensor<4x1x16xf32>
  return %0, %1 : tensor<4x8x1xf32>, tensor<4x1x16xf32>
}
