// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-lower-math | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --mpc-lower-math | FileCheck %s --check-prefix=GPU

// CHECK-LABEL: func.func @libm(
// CHECK: call @exp(
// CHECK: call @pow(
// CHECK: math.sqrt
// GPU-LABEL: func.func @libm(
// GPU-NOT: call
// GPU-NOT: math.exp
// GPU-NOT: math.powf
// GPU: math.fma {{.*}} : f64
// GPU: math.sqrt
func.func @libm(%x: f64) -> f64 {
  %0 = math.exp %x : f64
  %1 = math.powf %0, %x : f64
  %2 = math.sqrt %1 : f64
  return %2 : f64
}
