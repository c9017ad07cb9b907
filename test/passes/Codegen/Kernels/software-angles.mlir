// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-lower-math | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --mpc-lower-math | FileCheck %s --check-prefix=GPU

// A sine calls libm per element. Without libm, large arguments are reduced by
// more bits of 2 / pi: a product of 53 and 192 bits, in f64.
// CHECK-LABEL: func.func @angles(
// CHECK-COUNT-4: call @sinf(
// CHECK: call @atan(
// CHECK: math.roundeven
// CHECK: math.ceil
// GPU-LABEL: func.func @angles(
// GPU-NOT: call
// GPU-NOT: math.sin
// GPU: arith.extf {{.*}} : vector<4xf32> to vector<4xf64>
// GPU: arith.mului_extended {{.*}} : vector<4xi64>
// GPU: arith.truncf {{.*}} : vector<4xf64> to vector<4xf32>
// GPU-NOT: math.atan
// GPU: math.copysign
// GPU: math.roundeven
// GPU: math.ceil
func.func @angles(%x: vector<4xf32>, %y: f64) -> (vector<4xf32>, f64, f64) {
  %0 = math.sin %x : vector<4xf32>
  %1 = math.atan %y : f64
  %2 = math.roundeven %y : f64
  %3 = math.ceil %2 : f64
  return %0, %1, %3 : vector<4xf32>, f64, f64
}
