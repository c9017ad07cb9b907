// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-lower-math | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=x86-64 --mpc-lower-math | FileCheck %s --check-prefix=BASELINE
// RUN: mpc-opt %s --mpc-attach-target=name=sapphirerapids --mpc-lower-math | FileCheck %s --check-prefix=NATIVE
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

// CHECK-LABEL: func.func @narrow(
// CHECK-NOT: arith.truncf
// CHECK: arith.shrui
// NATIVE-LABEL: func.func @narrow(
// NATIVE: arith.truncf {{.*}} : vector<8xf32> to vector<8xbf16>
func.func @narrow(%x: vector<8xf32>) -> vector<8xbf16> {
  %0 = arith.truncf %x : vector<8xf32> to vector<8xbf16>
  return %0 : vector<8xbf16>
}

// CHECK-LABEL: func.func @f16(
// CHECK: arith.extf {{.*}} : vector<8xf16> to vector<8xf64>
// CHECK: arith.truncf {{.*}} : vector<8xf32> to vector<8xf16>
// BASELINE-LABEL: func.func @f16(
// BASELINE: arith.subf {{.*}} : vector<8xf32>
// BASELINE: arith.extf {{.*}} : vector<8xf32> to vector<8xf64>
// BASELINE-NOT: arith.truncf
// BASELINE: arith.trunci
// BASELINE: arith.bitcast {{.*}} : vector<8xi16> to vector<8xf16>
func.func @f16(%x: vector<8xf16>, %y: vector<8xf32>) -> (vector<8xf64>, vector<8xf16>) {
  %0 = arith.extf %x : vector<8xf16> to vector<8xf64>
  %1 = arith.truncf %y : vector<8xf32> to vector<8xf16>
  return %0, %1 : vector<8xf64>, vector<8xf16>
}

// CHECK-LABEL: func.func @integers(
// CHECK: arith.sitofp {{.*}} : vector<8xi64> to vector<8xf32>
// CHECK-NOT: bf16
// CHECK: arith.bitcast {{.*}} : vector<8xi16> to vector<8xbf16>
// CHECK: arith.uitofp {{.*}} : i8 to f16
// BASELINE-LABEL: func.func @integers(
// BASELINE: arith.uitofp {{.*}} : i8 to f32
// NATIVE-LABEL: func.func @integers(
// NATIVE: arith.sitofp {{.*}} : vector<8xi64> to vector<8xbf16>
func.func @integers(%x: vector<8xi64>, %y: i8) -> (vector<8xbf16>, f16) {
  %0 = arith.sitofp %x : vector<8xi64> to vector<8xbf16>
  %1 = arith.uitofp %y : i8 to f16
  return %0, %1 : vector<8xbf16>, f16
}
