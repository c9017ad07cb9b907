// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// p - lr (g + decay p).
// CHECK-LABEL: func.func @sgd(
// CHECK-DAG: %[[DECAY:.*]] = arith.constant dense<5.000000e-01> : vector<8xf32>
// CHECK: %[[P:.*]] = vector.load %arg0
// CHECK-NEXT: %[[G:.*]] = vector.load %arg1
// CHECK-NEXT: %[[L2:.*]] = arith.mulf %[[P]], %[[DECAY]]
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[G]], %[[L2]]
// CHECK-NEXT: %[[LR:.*]] = vector.broadcast
// CHECK-NEXT: %[[STEP:.*]] = arith.mulf %[[LR]], %[[SUM]]
// CHECK-NEXT: arith.subf %[[P]], %[[STEP]]
func.func private @sgd(%p: tensor<64xf32>, %g: tensor<64xf32>, %lr: tensor<f32>) -> tensor<64xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.sgd %p, %g, %lr {weight_decay = 0.5 : f64} : (tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// A decoupled decay scales the parameter. Numbers that depend on scalars alone are
// computed in f64, and rounded once.
// CHECK-LABEL: func.func @adamw(
// CHECK: %[[LR:.*]] = memref.load %arg4
// CHECK-NEXT: %[[T:.*]] = memref.load %arg5
// CHECK: %[[P:.*]] = vector.load %arg0
// CHECK-NEXT: %[[G:.*]] = vector.load %arg1
// CHECK: %[[WIDE:.*]] = arith.extf %[[LR]] : f32 to f64
// CHECK: %[[KEEP:.*]] = arith.truncf %{{.*}} : f64 to f32
// CHECK-NEXT: %[[K:.*]] = vector.broadcast %[[KEEP]]
// CHECK-NEXT: %[[DECAYED:.*]] = arith.mulf %[[P]], %[[K]]
// CHECK: arith.mulf %[[G]], %[[G]]
// CHECK: %[[STEP:.*]] = arith.sitofp %[[T]] : i64 to f64
// CHECK-NEXT: math.powf %{{.*}}, %[[STEP]] fastmath<afn> : f64
// CHECK: arith.divf %[[WIDE]], %{{.*}} : f64
// CHECK: arith.subf %[[DECAYED]], %{{.*}} : vector<8xf32>
func.func private @adamw(%p: tensor<64xf32>, %g: tensor<64xf32>, %m: tensor<64xf32>, %v: tensor<64xf32>, %lr: tensor<f32>, %t: tensor<i64>)
    -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0, %1, %2 = mpc.adam %p, %g, %m, %v, %lr, %t {beta1 = 0.75 : f64, beta2 = 0.5 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.25 : f64, decay_mode = #mpc.decay<decoupled>} : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<i64>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
  return %0, %1, %2 : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}
