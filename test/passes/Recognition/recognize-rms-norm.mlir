// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-recognize-layer-norm,mpc-recognize-rms-norm))" | FileCheck %s

// CHECK-LABEL: func.func @as_exported
func.func @as_exported(%x: tensor<4x8xf32>, %scale: tensor<8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: %[[Y:.*]], %{{.*}} = mpc.rms_norm %arg0, %arg1 {axes = array<i64: 1>, epsilon = 9.9999999{{.*}}E-7 : f64}
  // CHECK-SAME: -> (tensor<4x8xf32>, tensor<4x1xf32>)
  // CHECK-NEXT: return %[[Y]]
  %two = mpc.constant dense<2.0> : tensor<f32>
  %epsilon = mpc.constant dense<1.0e-6> : tensor<f32>
  %x2 = mpc.pow %x, %two : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %mean = mpc.reduce_mean %x2 {axes = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %sum = mpc.add %mean, %epsilon : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %root = mpc.sqrt %sum : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %inv = mpc.reciprocal %root : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = mpc.mul %x, %inv : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %y = mpc.mul %scale, %n : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// The next op multiplies by another activation, not by a scale, as in a gate.
// CHECK-LABEL: func.func @gated
func.func @gated(%x: tensor<4x8xf32>, %gate: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: %[[ONE:.*]] = mpc.constant dense<1.000000e+00> : tensor<f32>
  // CHECK-NEXT: %[[N:.*]], %{{.*}} = mpc.rms_norm %arg0, %[[ONE]]
  // CHECK-NEXT: mpc.mul %[[N]], %arg1
  %epsilon = mpc.constant dense<1.0e-6> : tensor<f32>
  %x2 = mpc.mul %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %mean = mpc.reduce_mean %x2 {axes = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %sum = mpc.add %mean, %epsilon : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %root = mpc.sqrt %sum : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = mpc.div %x, %root : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %y = mpc.mul %n, %gate : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// A layer norm also contains a mean square.
// CHECK-LABEL: func.func @layer_norm
// CHECK-NOT: mpc.rms_norm
func.func @layer_norm(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %epsilon = mpc.constant dense<1.0e-5> : tensor<f32>
  %mean = mpc.reduce_mean %x {axes = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %d = mpc.sub %x, %mean : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %d2 = mpc.mul %d, %d : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %var = mpc.reduce_mean %d2 {axes = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %sum = mpc.add %var, %epsilon : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %root = mpc.sqrt %sum : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %y = mpc.div %d, %root : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// The mean of x, not of its square; a cube; a negative epsilon.
// CHECK-LABEL: func.func @near_misses
// CHECK-NOT: mpc.rms_norm
func.func @near_misses(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %three = mpc.constant dense<3.0> : tensor<f32>
  %epsilon = mpc.constant dense<1.0e-6> : tensor<f32>
  %negative = mpc.constant dense<-1.0e-6> : tensor<f32>
  %mean = mpc.reduce_mean %x {axes = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %sum = mpc.add %mean, %epsilon : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %root = mpc.sqrt %sum : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %y = mpc.div %x, %root : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %x3 = mpc.pow %x, %three : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %mean3 = mpc.reduce_mean %x3 {axes = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %sum3 = mpc.add %mean3, %epsilon : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %root3 = mpc.sqrt %sum3 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %y3 = mpc.div %x, %root3 : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %x2 = mpc.mul %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %mean2 = mpc.reduce_mean %x2 {axes = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %sum2 = mpc.add %mean2, %negative : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %root2 = mpc.sqrt %sum2 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %y2 = mpc.div %x, %root2 : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  return %y, %y3, %y2 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
