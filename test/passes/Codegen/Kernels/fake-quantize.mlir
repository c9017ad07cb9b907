// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// Quotients are rounded to even, shifted and clamped. NaN is in no order, and stays.
// CHECK-LABEL: func.func @quantize(
// CHECK-DAG: %[[HIGH:.*]] = arith.constant dense<1.270000e+02> : vector<8xf32>
// CHECK-DAG: %[[LOW:.*]] = arith.constant dense<-1.280000e+02> : vector<8xf32>
// CHECK: %[[X:.*]] = vector.load
// CHECK-NEXT: %[[S:.*]] = vector.broadcast
// CHECK-NEXT: %[[Q:.*]] = arith.divf %[[X]], %[[S]]
// CHECK-NEXT: %[[R:.*]] = math.roundeven %[[Q]]
// CHECK-NEXT: %[[Z:.*]] = vector.broadcast
// CHECK-NEXT: %[[P:.*]] = arith.addf %[[R]], %[[Z]]
// CHECK-NEXT: %[[UNDER:.*]] = arith.cmpf olt, %[[P]], %[[LOW]]
// CHECK-NEXT: %[[OVER:.*]] = arith.cmpf ogt, %[[P]], %[[HIGH]]
// CHECK-NEXT: %[[C:.*]] = arith.select %[[OVER]], %[[HIGH]], %[[P]]
// CHECK-NEXT: %[[B:.*]] = arith.select %[[UNDER]], %[[LOW]], %[[C]]
// CHECK-NEXT: %[[D:.*]] = arith.subf %[[B]], %[[Z]]
// CHECK-NEXT: arith.mulf %[[D]], %[[S]]
func.func private @quantize(%x: tensor<64xf32>, %s: tensor<f32>, %z: tensor<f32>) -> tensor<64xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.fake_quantize %x, %s, %z {low = -128 : i64, high = 127 : i64} : (tensor<64xf32>, tensor<f32>, tensor<f32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// The gradient passes if clamping changes nothing. NaN stays NaN.
// CHECK-LABEL: func.func @gradient(
// CHECK: %[[DY:.*]] = vector.load
// CHECK: %[[P:.*]] = arith.addf
// CHECK: %[[IN:.*]] = arith.cmpf oeq, %[[P]], %{{.*}}
// CHECK-NEXT: %[[NAN:.*]] = arith.cmpf uno, %[[P]], %[[P]]
// CHECK-NEXT: %[[OUT:.*]] = arith.select %[[NAN]], %[[P]], %{{.*}}
// CHECK-NEXT: arith.select %[[IN]], %[[DY]], %[[OUT]]
func.func private @gradient(%dy: tensor<64xf32>, %x: tensor<64xf32>, %s: tensor<f32>, %z: tensor<f32>)
    -> tensor<64xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.fake_quantize_grad %dy, %x, %s, %z {low = -128 : i64, high = 127 : i64} : (tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
