// A maximum is stored as the values are that it is taken of: its gradient looks
// for those that equal it, and would divide by their number, zero.
// RUN: mpc-opt %s -amp-assign-precision="mode=16-mixed target=zen5 force-low=^max" | FileCheck %s
// RUN: mpc-opt %s -amp-assign-precision="mode=16-mixed target=zen5 force-low=^max|^low" | FileCheck %s --check-prefix=LOW

// CHECK: mpc.reduce_max {{.*}}storage = f32, {{.*}}reason = force_low
// LOW: mpc.tanh {{.*}}storage = f16
// LOW: mpc.reduce_max {{.*}}storage = f16, {{.*}}reason = force_low
func.func @maximum(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %0 = mpc.tanh %x : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("low")
  %1 = mpc.reduce_max %0 {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32> loc("max")
  return %1 : tensor<4xf32>
}
