// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// A number out of range becomes the least integer, on every target.
// CHECK-LABEL: func.func @to_integers(
// CHECK-DAG: %[[LEAST:.*]] = arith.constant dense<-9223372036854775808> : vector<8xi64>
// CHECK-DAG: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : vector<8xf32>
// CHECK: %[[X:.*]] = vector.load
// CHECK-NEXT: %[[ABOVE:.*]] = arith.cmpf oge, %[[X]], %{{.*}} : vector<8xf32>
// CHECK-NEXT: %[[BELOW:.*]] = arith.cmpf olt, %[[X]]
// CHECK-NEXT: %[[IN:.*]] = arith.andi %[[ABOVE]], %[[BELOW]]
// CHECK-NEXT: %[[SAFE:.*]] = arith.select %[[IN]], %[[X]], %[[ZERO]]
// CHECK-NEXT: %[[I:.*]] = arith.fptosi %[[SAFE]] : vector<8xf32> to vector<8xi64>
// CHECK-NEXT: arith.select %[[IN]], %[[I]], %[[LEAST]]
func.func private @to_integers(%x: tensor<64xf32>) -> tensor<64xi64>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.cast %x : (tensor<64xf32>) -> tensor<64xi64>
  return %0 : tensor<64xi64>
}

// NaN is true.
// CHECK-LABEL: func.func @to_booleans(
// CHECK: %[[B:.*]] = arith.cmpf une, %{{.*}} : vector<8xf32>
// CHECK-NEXT: arith.extui %[[B]] : vector<8xi1> to vector<8xi8>
func.func private @to_booleans(%x: tensor<64xf32>) -> tensor<64xi1>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.cast %x : (tensor<64xf32>) -> tensor<64xi1>
  return %0 : tensor<64xi1>
}

// Only signed bytes keep their sign.
// CHECK-LABEL: func.func @widen_bytes(
// CHECK: arith.extui {{.*}} : vector<8xi8> to vector<8xi32>
// CHECK-NEXT: arith.extsi {{.*}} : vector<8xi8> to vector<8xi32>
func.func private @widen_bytes(%x: tensor<64xui8>, %y: tensor<64xi8>)
    -> (tensor<64xi32>, tensor<64xi32>)
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.cast %x : (tensor<64xui8>) -> tensor<64xi32>
  %1 = mpc.cast %y : (tensor<64xi8>) -> tensor<64xi32>
  return %0, %1 : tensor<64xi32>, tensor<64xi32>
}

// The bits of a bf16 are the upper half of an f32.
// CHECK-LABEL: func.func @bits(
// CHECK: %[[W:.*]] = arith.bitcast {{.*}} : vector<8xf32> to vector<8xi32>
// CHECK-NEXT: %[[H:.*]] = arith.shrui %[[W]], %cst : vector<8xi32>
// CHECK-NEXT: arith.trunci %[[H]] : vector<8xi32> to vector<8xi16>
func.func private @bits(%x: tensor<64xbf16>) -> tensor<64xi16>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.bit_cast %x : (tensor<64xbf16>) -> tensor<64xi16>
  return %0 : tensor<64xi16>
}
