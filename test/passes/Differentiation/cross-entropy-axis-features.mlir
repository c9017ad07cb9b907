// If no labels tell the axis of classes, the layer that makes the scores does:
// the last axis of a product, axis 1 of a convolution.
//
// RUN: mpc-opt %s -split-input-file -verify-diagnostics -mpc-add-loss=loss=softmax_cross_entropy | FileCheck %s

// CHECK-LABEL: func @step
// CHECK: mpc.softmax_cross_entropy_loss {{.*}}tensor<28x5xf32>, tensor<28xi64>
func.func @forward(%x: tensor<4x7x6xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %w: tensor<6x5xf32> {mpc.state = @w}, %b: tensor<5xf32> {mpc.state = @b})
    -> (tensor<4x7x5xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %m = mpc.matmul %x, %w : (tensor<4x7x6xf32>, tensor<6x5xf32>) -> tensor<4x7x5xf32>
  // expected-remark@+1 {{the class axis is 2 of scores of shape [4,7,5], because the layer has its outputs there; --loss KIND@OUTPUT:AXIS chooses another}}
  %y = mpc.add %b, %m : (tensor<5xf32>, tensor<4x7x5xf32>) -> tensor<4x7x5xf32>
  return %y : tensor<4x7x5xf32>
}
mpc.variable @w : tensor<6x5xf32> role parameter
mpc.variable @b : tensor<5xf32> role parameter

// -----

// PyTorch's cross_entropy has this layout.
// CHECK-LABEL: func @step
// CHECK: mpc.softmax_cross_entropy_loss {{.*}}tensor<4x5x7xf32>, tensor<4x7xi64>
func.func @forward(%x: tensor<4x7x6xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %w: tensor<6x5xf32> {mpc.state = @w})
    -> (tensor<4x5x7xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %m = mpc.matmul %x, %w : (tensor<4x7x6xf32>, tensor<6x5xf32>) -> tensor<4x7x5xf32>
  // expected-remark@+1 {{the class axis is 1 of scores of shape [4,5,7], because the layer has its outputs there; --loss KIND@OUTPUT:AXIS chooses another}}
  %y = mpc.transpose %m {perm = array<i64: 0, 2, 1>} : (tensor<4x7x5xf32>) -> tensor<4x5x7xf32>
  return %y : tensor<4x5x7xf32>
}
mpc.variable @w : tensor<6x5xf32> role parameter

// -----

// Ops that keep the axis may follow: a factor, a cap, a slice of the steps and
// of the outputs.
// CHECK-LABEL: func @step
// CHECK: mpc.softmax_cross_entropy_loss {{.*}}tensor<24x3xf32>, tensor<24xi64>
func.func @forward(%x: tensor<4x7x6xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %w: tensor<6x5xf32> {mpc.state = @w})
    -> (tensor<4x6x3xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %m = mpc.matmul %x, %w : (tensor<4x7x6xf32>, tensor<6x5xf32>) -> tensor<4x7x5xf32>
  %cap = mpc.constant dense<30.0> : tensor<f32>
  %d = mpc.div %m, %cap : (tensor<4x7x5xf32>, tensor<f32>) -> tensor<4x7x5xf32>
  %t = mpc.tanh %d : (tensor<4x7x5xf32>) -> tensor<4x7x5xf32>
  %s = mpc.mul %cap, %t : (tensor<f32>, tensor<4x7x5xf32>) -> tensor<4x7x5xf32>
  // expected-remark@+1 {{the class axis is 2 of scores of shape [4,6,3], because the layer has its outputs there; --loss KIND@OUTPUT:AXIS chooses another}}
  %y = mpc.slice %s {offsets = array<i64: 0, 1, 0>, sizes = array<i64: 4, 6, 3>} : (tensor<4x7x5xf32>) -> tensor<4x6x3xf32>
  return %y : tensor<4x6x3xf32>
}
mpc.variable @w : tensor<6x5xf32> role parameter
