// RUN: mpc-opt %s -split-input-file -mpc-add-loss=loss=output:l | FileCheck %s

// The model has its own loss. Evaluation replaces the mean by sample losses, to
// count a padded batch correctly, and returns the scores as prediction.

// CHECK-LABEL: func @step
// CHECK-SAME: -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>})
// CHECK-LABEL: func @eval
// CHECK-SAME: tensor<4xf32> {mpc.output = "sample_loss", mpc.role = #mpc.role<sample_loss>}
// CHECK-SAME: tensor<4x3xf32> {mpc.output = "prediction", mpc.role = #mpc.role<prediction>}
// CHECK: %[[LOSS:.*]], %{{.*}} = mpc.softmax_cross_entropy_loss %[[X:[a-z0-9]+]], %[[T:[a-z0-9]+]] :
// CHECK: %[[SAMPLES:.*]], %{{.*}} = mpc.softmax_cross_entropy_loss %[[X]], %[[T]] {mpc.phase = #mpc.phase<loss>, reduction = #mpc.reduction<none>}
// CHECK: return %[[LOSS]], %[[SAMPLES]], %[[X]]
func.func @forward(%x: tensor<4x3xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                   %t: tensor<4xi64> {mpc.input = "t", mpc.role = #mpc.role<data>})
    -> (tensor<f32> {mpc.output = "l", mpc.role = #mpc.role<output>}) {
  %l, %p = mpc.softmax_cross_entropy_loss %x, %t {reduction = #mpc.reduction<mean>}
      : (tensor<4x3xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4x3xf32>)
  return %l : tensor<f32>
}

// -----

// Linear ops on the mean are applied to every sample.
// CHECK-LABEL: func @eval
// CHECK-SAME: mpc.role = #mpc.role<sample_loss>
// CHECK: %[[ALL:.*]] = mpc.reduce_mean %[[X:[a-z0-9]+]] {axes = array<i64: 0, 1>
// CHECK: %[[SAMPLES:.*]] = mpc.reduce_mean %[[X]] {axes = array<i64: 1>, mpc.phase = #mpc.phase<loss>} : (tensor<4x3xf32>) -> tensor<4xf32>
// CHECK: %[[NEG:.*]] = mpc.neg %[[SAMPLES]] {{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: %[[SCALED:.*]] = mpc.mul %[[NEG]], %{{.*}} {{.*}} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK: return %{{.*}}, %[[SCALED]]
func.func @forward(%x: tensor<4x3xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<f32> {mpc.output = "l", mpc.role = #mpc.role<output>}) {
  %mean = mpc.reduce_mean %x {axes = array<i64: 0, 1>, keepdims = true}
      : (tensor<4x3xf32>) -> tensor<1x1xf32>
  %neg = mpc.neg %mean : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %c = mpc.constant dense<0.5> : tensor<f32>
  %scaled = mpc.mul %neg, %c : (tensor<1x1xf32>, tensor<f32>) -> tensor<1x1xf32>
  %l = mpc.reshape %scaled : (tensor<1x1xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// An ignored label (PyTorch always exports an index) leaves a sample out.
// CHECK-LABEL: func @eval
// CHECK-SAME: mpc.role = #mpc.role<sample_loss>
func.func @forward(%x: tensor<4x3xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                   %t: tensor<4xi64> {mpc.input = "t", mpc.role = #mpc.role<data>})
    -> (tensor<f32> {mpc.output = "l", mpc.role = #mpc.role<output>}) {
  %l, %p = mpc.softmax_cross_entropy_loss %x, %t
      {reduction = #mpc.reduction<mean>, ignore_index = -1 : i64}
      : (tensor<4x3xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4x3xf32>)
  return %l : tensor<f32>
}

// -----

// With many labels per sample, the mean is not over samples.
// CHECK-LABEL: func @eval
// CHECK-NOT: sample_loss
func.func @forward(%x: tensor<4x3x5xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                   %t: tensor<4x5xi64> {mpc.input = "t", mpc.role = #mpc.role<data>})
    -> (tensor<f32> {mpc.output = "l", mpc.role = #mpc.role<output>}) {
  %l, %p = mpc.softmax_cross_entropy_loss %x, %t
      {reduction = #mpc.reduction<mean>, ignore_index = -1 : i64}
      : (tensor<4x3x5xf32>, tensor<4x5xi64>) -> (tensor<f32>, tensor<4x3x5xf32>)
  return %l : tensor<f32>
}

// -----

// A mean over other axes, or a nonlinear function of it, has no sample losses.
// CHECK-LABEL: func @eval
// CHECK-NOT: sample_loss
func.func @forward(%x: tensor<4x3xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<f32> {mpc.output = "l", mpc.role = #mpc.role<output>}) {
  %mean = mpc.reduce_mean %x {axes = array<i64: 0, 1>, keepdims = false}
      : (tensor<4x3xf32>) -> tensor<f32>
  %l = mpc.sqrt %mean : (tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}
