// A maximum is stored in fp32, and so are views of it, unless its operand is
// stored low. Its gradient finds the elements equal to the maximum and divides
// by their number, which would be zero.
// RUN: mpc-opt %s --mpc-attach-target=name=zen5 -amp-assign-precision="mode=16-mixed force-low=^view" -mlir-print-local-scope | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=zen5 -amp-assign-precision="mode=16-mixed force-low=^view|^low" -mlir-print-local-scope | FileCheck %s --check-prefix=LOW
// RUN: not mpc-opt %s --mpc-attach-target=name=zen5 -amp-assign-precision="mode=16-mixed force-low=^max" 2>&1 | FileCheck %s --check-prefix=FIXED
// FIXED: --force-low: expression '^max' matches only nodes whose precision is fixed

// CHECK: mpc.reduce_max {{.*}}results = [f32]
// CHECK: mpc.reshape {{.*}}results = [f32], {{.*}}reason = force_low
// LOW: mpc.tanh {{.*}}results = [f16]
// LOW: mpc.reduce_max {{.*}}results = [f32]
// LOW: mpc.reshape {{.*}}results = [f16], {{.*}}reason = force_low
func.func @maximum(%x: tensor<4x8xf32>) -> tensor<4x1xf32> {
  %0 = mpc.tanh %x : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("low")
  %1 = mpc.reduce_max %0 {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32> loc("max")
  %2 = mpc.reshape %1 : (tensor<4xf32>) -> tensor<4x1xf32> loc("view")
  return %2 : tensor<4x1xf32>
}
