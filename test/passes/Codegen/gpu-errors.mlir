// What cannot become a kernel of a GPU.
// RUN: mpc-opt %s --split-input-file --verify-diagnostics --mpc-attach-target=name=sm_80 --mpc-emit-kernels --mpc-lower-math

// expected-error @below {{'func.func' op is called per tile, which nothing on target 'sm_80' does}}
func.func private @epilogue(%acc: tensor<16x64xf32>) -> tensor<16x64xf32>
    attributes {mpc.kernel = #mpc.kernel<epilogue>} {
  %0 = mpc.relu %acc : (tensor<16x64xf32>) -> tensor<16x64xf32>
  return %0 : tensor<16x64xf32>
}

// -----

// There is no libm to call.
func.func @no_code(%x: f64) -> f64 {
  // expected-error @below {{'math.cbrt' op of 'f64' has no code on target 'sm_80'}}
  %0 = math.cbrt %x : f64
  return %0 : f64
}
