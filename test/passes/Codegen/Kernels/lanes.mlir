// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// A scalar is broadcast to the lanes. A conversion of f64 to bf16 rounds once: an
// inexact f32 gets its last bit set before it is rounded.
// CHECK-LABEL: func.func @halves(
// CHECK-DAG: %[[ONE:.*]] = arith.constant dense<1> : vector<4xi32>
// CHECK: %[[S:.*]] = vector.broadcast %{{.*}} : f64 to vector<4xf64>
// CHECK-NEXT: %[[X:.*]] = arith.mulf %[[S]], %{{.*}}
// CHECK-NEXT: %[[F:.*]] = arith.truncf %[[X]] : vector<4xf64> to vector<4xf32>
// CHECK-NEXT: %[[BACK:.*]] = arith.extf %[[F]]
// CHECK-NEXT: %[[BITS:.*]] = arith.bitcast %[[F]]
// CHECK-NEXT: %[[LAST:.*]] = arith.andi %[[BITS]], %[[ONE]]
// CHECK-NEXT: %[[EVEN:.*]] = arith.cmpi eq, %[[LAST]]
// CHECK-NEXT: %[[INEXACT:.*]] = arith.cmpf one, %[[BACK]], %[[X]]
// CHECK: %[[MOVED:.*]] = arith.addi %[[BITS]]
// CHECK-NEXT: %[[FIX:.*]] = arith.andi %[[EVEN]], %[[INEXACT]]
// CHECK-NEXT: %[[ODD:.*]] = arith.select %[[FIX]], %[[MOVED]], %[[BITS]]
// CHECK-NEXT: %[[R:.*]] = arith.bitcast %[[ODD]]
// CHECK-NEXT: arith.truncf %[[R]] : vector<4xf32> to vector<4xbf16>
func.func private @halves(%x: tensor<64xf64>, %s: tensor<f64>) -> tensor<64xbf16>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.mul %s, %x : (tensor<f64>, tensor<64xf64>) -> tensor<64xf64>
  %1 = amp.cast %0 : (tensor<64xf64>) -> tensor<64xbf16>
  return %1 : tensor<64xbf16>
}

// A subnormal number is scaled before its logarithm.
// CHECK-LABEL: func.func @log(
// CHECK: %[[X:.*]] = vector.load
// CHECK-NEXT: %[[TINY:.*]] = arith.cmpf olt, %[[X]]
// CHECK-NEXT: %[[UP:.*]] = arith.mulf %[[X]], %{{.*}}
// CHECK-NEXT: %[[SAFE:.*]] = arith.select %[[TINY]], %[[UP]], %[[X]]
// CHECK-NEXT: %[[LOG:.*]] = math.log %[[SAFE]]
// CHECK-NEXT: %[[DOWN:.*]] = arith.subf %[[LOG]]
// CHECK-NEXT: arith.select %[[TINY]], %[[DOWN]], %[[LOG]]
func.func private @log(%x: tensor<64xf32>) -> tensor<64xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.log %x : (tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// Types of 16 bits convert by way of f32.
// CHECK-LABEL: func.func @other_halves(
// CHECK: %[[F:.*]] = arith.extf {{.*}} : vector<8xf16> to vector<8xf32>
// CHECK-NEXT: arith.truncf %[[F]] : vector<8xf32> to vector<8xbf16>
func.func private @other_halves(%x: tensor<64xf16>) -> tensor<64xbf16>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = amp.cast %x : (tensor<64xf16>) -> tensor<64xbf16>
  return %0 : tensor<64xbf16>
}
