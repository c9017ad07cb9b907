// RUN: mpc-opt %s --mpc-lower-math=target=x86-64-v3 | FileCheck %s
// RUN: mpc-opt %s --mpc-lower-math=target=sapphirerapids | FileCheck %s --check-prefix=NATIVE

// CHECK-LABEL: func.func @polynomial(
// CHECK-NOT: math.exp
// CHECK: math.fma {{.*}} : vector<8xf32>
// CHECK-NOT: call
func.func @polynomial(%x: vector<8xf32>) -> vector<8xf32> {
  %0 = math.exp %x : vector<8xf32>
  return %0 : vector<8xf32>
}

// CHECK-LABEL: func.func @libm(
// CHECK: call @exp(
// CHECK: call @pow(
// CHECK: math.sqrt
func.func @libm(%x: f64) -> f64 {
  %0 = math.exp %x : f64
  %1 = math.powf %0, %x : f64
  %2 = math.sqrt %1 : f64
  return %2 : f64
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
