// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-lower-math | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=x86-64 --mpc-lower-math | FileCheck %s --check-prefix=BASELINE
// RUN: mpc-opt %s --mpc-attach-target=name=sapphirerapids --mpc-lower-math | FileCheck %s --check-prefix=NATIVE

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
