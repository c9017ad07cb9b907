// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-lower-math | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=x86-64 --mpc-lower-math | FileCheck %s --check-prefix=BASELINE
// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --mpc-lower-math | FileCheck %s --check-prefix=GPU

// CHECK-LABEL: func.func @polynomial(
// CHECK-NOT: math.exp
// CHECK: math.fma {{.*}} : vector<8xf32>
// CHECK-NOT: call
// BASELINE-LABEL: func.func @polynomial(
// BASELINE-NOT: math.fma
// BASELINE: arith.mulf {{.*}} : vector<8xf32>
// A GPU has an instruction for powers of two.
// GPU-LABEL: func.func @polynomial(
// GPU-NOT: math.exp %
// GPU: math.exp2 {{.*}} : vector<8xf32>
// GPU: math.fma {{.*}} : vector<8xf32>
// GPU-NEXT: arith.mulf
// GPU-NEXT: return
func.func @polynomial(%x: vector<8xf32>) -> vector<8xf32> {
  %0 = math.exp %x : vector<8xf32>
  return %0 : vector<8xf32>
}
