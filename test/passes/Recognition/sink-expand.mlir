// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-sink-expand))" | FileCheck %s

// A model repeats a mask for queries and heads and then converts it to numbers:
// the sum repeats the numbers instead.
// CHECK-LABEL: func.func @mask
// CHECK-NOT: mpc.expand
// CHECK: %[[F:.*]] = mpc.cast %arg1 : (tensor<2x1x1x8xi1>) -> tensor<2x1x1x8xf32>
// CHECK: %[[H:.*]] = mpc.sub %{{.*}}, %[[F]] : (tensor<f32>, tensor<2x1x1x8xf32>) -> tensor<2x1x1x8xf32>
// CHECK: %[[B:.*]] = mpc.mul %[[H]], %{{.*}} -> tensor<2x1x1x8xf32>
// CHECK: mpc.add %arg0, %[[B]] : (tensor<2x4x8x8xf32>, tensor<2x1x1x8xf32>) -> tensor<2x4x8x8xf32>
func.func @mask(%scores: tensor<2x4x8x8xf32>, %mask: tensor<2x1x1x8xi1>) -> tensor<2x4x8x8xf32> {
  %one = mpc.constant dense<1.0> : tensor<f32>
  %low = mpc.constant dense<-1.0e9> : tensor<f32>
  %all = mpc.expand %mask : (tensor<2x1x1x8xi1>) -> tensor<2x1x8x8xi1>
  %f = mpc.cast %all : (tensor<2x1x8x8xi1>) -> tensor<2x1x8x8xf32>
  %hidden = mpc.sub %one, %f : (tensor<f32>, tensor<2x1x8x8xf32>) -> tensor<2x1x8x8xf32>
  %bias = mpc.mul %hidden, %low : (tensor<2x1x8x8xf32>, tensor<f32>) -> tensor<2x1x8x8xf32>
  %y = mpc.add %scores, %bias : (tensor<2x4x8x8xf32>, tensor<2x1x8x8xf32>) -> tensor<2x4x8x8xf32>
  return %y : tensor<2x4x8x8xf32>
}

// A returned value keeps its shape.
// CHECK-LABEL: func.func @returned
// CHECK: %[[E:.*]] = mpc.exp %arg0 : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: %[[Y:.*]] = mpc.expand %[[E]] : (tensor<8xf32>) -> tensor<4x8xf32>
// CHECK: return %[[Y]]
func.func @returned(%x: tensor<8xf32>) -> tensor<4x8xf32> {
  %all = mpc.expand %x : (tensor<8xf32>) -> tensor<4x8xf32>
  %y = mpc.exp %all : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// Two values that are repeated along different axes share no smaller tensor.
// CHECK-LABEL: func.func @crossed
// CHECK-NOT: mpc.expand
// CHECK: mpc.add %arg0, %arg1 : (tensor<4x1xf32>, tensor<8xf32>) -> tensor<4x8xf32>
func.func @crossed(%x: tensor<4x1xf32>, %y: tensor<8xf32>) -> tensor<4x8xf32> {
  %a = mpc.expand %x : (tensor<4x1xf32>) -> tensor<4x8xf32>
  %b = mpc.expand %y : (tensor<8xf32>) -> tensor<4x8xf32>
  %sum = mpc.add %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %sum : tensor<4x8xf32>
}

// A dropout draws separately for each element of equal rows.
// CHECK-LABEL: func.func @dropped
// CHECK: %[[A:.*]] = mpc.expand %arg0
// CHECK: mpc.dropout %[[A]]
func.func @dropped(%x: tensor<8xf32>, %n: tensor<i64>) -> tensor<4x8xf32> {
  %all = mpc.expand %x : (tensor<8xf32>) -> tensor<4x8xf32>
  %y = mpc.dropout %all, %n, %n {id = 3 : i64, ratio = 5.0e-01 : f64} : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// An attention repeats biases and masks itself.
// CHECK-LABEL: func.func @attention
// CHECK: mpc.attention %arg0, %arg1, %arg2 bias %arg3 mask %arg4 : (tensor<2x4x8x4xf32>, tensor<2x4x8x4xf32>, tensor<2x4x8x4xf32>, tensor<8x8xf32>, tensor<2x1x1x8xi1>)
func.func @attention(%q: tensor<2x4x8x4xf32>, %k: tensor<2x4x8x4xf32>, %v: tensor<2x4x8x4xf32>, %bias: tensor<8x8xf32>, %mask: tensor<2x1x1x8xi1>) -> tensor<2x4x8x4xf32> {
  %b = mpc.expand %bias : (tensor<8x8xf32>) -> tensor<2x4x8x8xf32>
  %m = mpc.expand %mask : (tensor<2x1x1x8xi1>) -> tensor<2x4x8x8xi1>
  %y = mpc.attention %q, %k, %v bias %b mask %m : (tensor<2x4x8x4xf32>, tensor<2x4x8x4xf32>, tensor<2x4x8x4xf32>, tensor<2x4x8x8xf32>, tensor<2x4x8x8xi1>) -> tensor<2x4x8x4xf32>
  return %y : tensor<2x4x8x4xf32>
}
