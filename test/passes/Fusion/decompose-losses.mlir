// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-decompose))" | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline="builtin.module(mpc-attach-target{name=sm_80},func.func(mpc-decompose))" | FileCheck %s --check-prefix=GPU

// CHECK-LABEL: func.func @mean
func.func @mean(%x: tensor<32x10xf32>, %l: tensor<32xi64>) -> (tensor<f32>, tensor<32x10xf32>) {
  // CHECK: %[[HOT:.*]] = mpc.one_hot %{{.*}} {axis = 1 : i64, depth = 10 : i64}
  // CHECK: %[[LOG:.*]] = mpc.log
  // CHECK: %[[LOGP:.*]] = mpc.sub %{{.*}}, %[[LOG]]
  // Another class's log-probability may be -inf: select, do not multiply.
  // CHECK: %[[IS:.*]] = mpc.cast %[[HOT]] : (tensor<32x10xf32>) -> tensor<32x10xi1>
  // CHECK: %[[PICKED:.*]] = mpc.select %[[IS]], %[[LOGP]]
  // CHECK: mpc.reduce_sum %[[PICKED]] {axes = array<i64: 1>, keepdims = true}
  // CHECK: mpc.reduce_sum %{{.*}} {axes = array<i64: 0, 1>, keepdims = true}
  // CHECK: %[[N:.*]] = mpc.constant dense<3.200000e+01>
  // CHECK: mpc.div %{{.*}}, %[[N]]
  // GPU-LABEL: func.func @mean
  // GPU: %[[HOT:.*]] = mpc.one_hot %{{.*}} {axis = 1 : i64, depth = 10 : i64}
  // GPU: %[[MAX:.*]] = mpc.reduce_max %arg0
  // GPU: %[[SUB:.*]] = mpc.sub %arg0, %[[MAX]]
  // GPU: %[[LOG:.*]] = mpc.log
  // GPU: %[[LOGP:.*]] = mpc.sub %[[SUB]], %[[LOG]]
  // On a GPU, the label's score is selected while the exponentials are summed,
  // before the logarithm is known.
  // GPU: %[[IS:.*]] = mpc.cast %[[HOT]] : (tensor<32x10xf32>) -> tensor<32x10xi1>
  // GPU: %[[PICKED:.*]] = mpc.select %[[IS]], %[[SUB]]
  // GPU: %[[OWN:.*]] = mpc.reduce_sum %[[PICKED]] {axes = array<i64: 1>, keepdims = true}
  // GPU: %[[OWN_LOGP:.*]] = mpc.sub %[[OWN]], %[[LOG]]
  // GPU: %[[ROW:.*]] = mpc.neg %[[OWN_LOGP]]
  // A label outside the classes has no loss.
  // GPU: %[[COUNT:.*]] = mpc.reduce_sum %[[HOT]] {axes = array<i64: 1>, keepdims = true}
  // GPU: %[[COUNTS:.*]] = mpc.cast %[[COUNT]] : (tensor<32x1xf32>) -> tensor<32x1xi1>
  // GPU: mpc.select %[[COUNTS]], %[[ROW]]
  %loss, %logp = mpc.softmax_cross_entropy_loss %x, %l {reduction = #mpc.reduction<mean>}
      : (tensor<32x10xf32>, tensor<32xi64>) -> (tensor<f32>, tensor<32x10xf32>)
  return %loss, %logp : tensor<f32>, tensor<32x10xf32>
}

// The loss of a sample keeps the labels' shape.
// CHECK-LABEL: func.func @per_sample
func.func @per_sample(%x: tensor<32x10xbf16>, %l: tensor<32xi64>) -> tensor<32xf32> {
  // CHECK-NOT: mpc.div
  // CHECK: mpc.reshape %{{.*}} : (tensor<32x1xf32>) -> tensor<32xf32>
  %loss, %logp = mpc.softmax_cross_entropy_loss %x, %l {reduction = #mpc.reduction<none>}
      : (tensor<32x10xbf16>, tensor<32xi64>) -> (tensor<32xf32>, tensor<32x10xbf16>)
  return %loss : tensor<32xf32>
}

// A mean divides by the weights of the counted labels.
// CHECK-LABEL: func.func @weighted
func.func @weighted(%x: tensor<4x3xf32>, %l: tensor<4xi64>, %w: tensor<3xf32>) -> tensor<f32> {
  // CHECK: %[[HOT:.*]] = mpc.one_hot
  // CHECK: %[[WEIGHTED:.*]] = mpc.mul %[[HOT]], %{{.*}} : (tensor<4x3xf32>, tensor<3xf32>)
  // CHECK: %[[MASK:.*]] = mpc.constant dense<[1.000000e+00, 0.000000e+00, 1.000000e+00]>
  // CHECK: %[[COUNTED:.*]] = mpc.mul %[[WEIGHTED]], %[[MASK]]
  // CHECK: %[[ROWS:.*]] = mpc.reduce_sum %[[COUNTED]] {axes = array<i64: 1>, keepdims = true}
  // CHECK: %[[TOTAL:.*]] = mpc.reduce_sum %{{.*}} {axes = array<i64: 0, 1>, keepdims = true} : (tensor<4x1xf32>)
  // CHECK: mpc.div
  %loss = mpc.nll_loss %x, %l, %w {reduction = #mpc.reduction<mean>, ignore_index = 1 : i64}
      : (tensor<4x3xf32>, tensor<4xi64>, tensor<3xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// Classes of images are on axis 1. The rows of the reduction have them last.
// CHECK-LABEL: func.func @images
func.func @images(%x: tensor<2x3x4x5xf32>, %l: tensor<2x4x5xi64>) -> tensor<f32> {
  // CHECK: mpc.one_hot %{{.*}} {axis = 3 : i64, depth = 3 : i64} : (tensor<2x4x5xi64>) -> tensor<2x4x5x3xf32>
  // CHECK: mpc.transpose %{{.*}} {perm = array<i64: 0, 2, 3, 1>}
  %loss = mpc.nll_loss %x, %l {reduction = #mpc.reduction<sum>}
      : (tensor<2x3x4x5xf32>, tensor<2x4x5xi64>) -> tensor<f32>
  return %loss : tensor<f32>
}

// CHECK-LABEL: func.func @gradient
func.func @gradient(%d: tensor<f32>, %logp: tensor<32x10xf32>, %l: tensor<32xi64>) -> tensor<32x10xbf16> {
  // CHECK: %[[HOT:.*]] = mpc.one_hot
  // CHECK: %[[SHARE:.*]] = mpc.div
  // CHECK: %[[P:.*]] = mpc.exp
  // CHECK: %[[DIFF:.*]] = mpc.sub %[[P]], %[[HOT]]
  // CHECK: mpc.mul %[[DIFF]], %[[SHARE]] : (tensor<32x10xf32>, tensor<f32>) -> tensor<32x10xbf16>
  %dx = mpc.softmax_cross_entropy_loss_grad %d, %logp, %l {reduction = #mpc.reduction<mean>}
      : (tensor<f32>, tensor<32x10xf32>, tensor<32xi64>) -> tensor<32x10xbf16>
  return %dx : tensor<32x10xbf16>
}

// CHECK-LABEL: func.func @nll_gradient
func.func @nll_gradient(%d: tensor<32xf32>, %l: tensor<32xi64>) -> tensor<32x10xf32> {
  // CHECK: %[[HOT:.*]] = mpc.one_hot
  // CHECK: %[[ROW:.*]] = mpc.reshape %{{.*}} : (tensor<32xf32>) -> tensor<32x1xf32>
  // CHECK: %[[NEG:.*]] = mpc.neg %[[ROW]]
  // CHECK: %[[DX:.*]] = mpc.mul %[[HOT]], %[[NEG]]
  // CHECK: %[[COUNTS:.*]] = mpc.cast %[[HOT]] : (tensor<32x10xf32>) -> tensor<32x10xi1>
  // CHECK: mpc.select %[[COUNTS]], %[[DX]]
  %dx = mpc.nll_loss_grad %d, %l {reduction = #mpc.reduction<none>} : (tensor<32xf32>, tensor<32xi64>) -> tensor<32x10xf32>
  return %dx : tensor<32x10xf32>
}

// If all labels are ignored, the mean divides by zero, but the gradient is
// still zero.
// CHECK-LABEL: func.func @ignored_gradient
func.func @ignored_gradient(%d: tensor<f32>, %logp: tensor<4x3xf32>, %l: tensor<4xi64>) -> tensor<4x3xbf16> {
  // CHECK: %[[MEAN:.*]] = mpc.div %{{.*}} : (tensor<f32>, tensor<f32>)
  // CHECK: %[[ROWS:.*]] = mpc.reduce_sum %{{.*}} {axes = array<i64: 1>, keepdims = true} : (tensor<4x3xf32>) -> tensor<4x1xf32>
  // CHECK: %[[SHARE:.*]] = mpc.mul %[[ROWS]], %[[MEAN]] : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  // CHECK: %[[COUNTS:.*]] = mpc.cast %[[ROWS]] : (tensor<4x1xf32>) -> tensor<4x1xi1>
  // CHECK: %[[ROW:.*]] = mpc.select %[[COUNTS]], %[[SHARE]], %{{.*}} : (tensor<4x1xi1>, tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  // CHECK: mpc.mul %{{.*}}, %[[ROW]] : (tensor<4x3xf32>, tensor<4x1xf32>) -> tensor<4x3xbf16>
  %dx = mpc.softmax_cross_entropy_loss_grad %d, %logp, %l {reduction = #mpc.reduction<mean>, ignore_index = -100 : i64}
      : (tensor<f32>, tensor<4x3xf32>, tensor<4xi64>) -> tensor<4x3xbf16>
  return %dx : tensor<4x3xbf16>
}

// The first of the maximal scores has the largest C - position. NaN equals
// nothing, so that no position remains.
// CHECK-LABEL: func.func @accuracy
func.func @accuracy(%x: tensor<4x3xf32>, %l: tensor<4xi64>) -> tensor<4xf32> {
  // CHECK: %[[FROM_END:.*]] = mpc.constant dense<[3.000000e+00, 2.000000e+00, 1.000000e+00]>
  // CHECK: %[[MAX:.*]] = mpc.reduce_max %{{.*}} {axes = array<i64: 1>, keepdims = true}
  // CHECK: %[[IS:.*]] = mpc.equal %{{.*}}, %[[MAX]] : (tensor<4x3xf32>, tensor<4x1xf32>) -> tensor<4x3xi1>
  // CHECK: %[[NONE:.*]] = mpc.constant dense<0xFF800000> : tensor<f32>
  // CHECK: %[[PLACES:.*]] = mpc.select %[[IS]], %[[FROM_END]], %[[NONE]]
  // CHECK: %[[FIRST:.*]] = mpc.reduce_max %[[PLACES]]
  // CHECK: %[[LABEL:.*]] = mpc.cast %{{.*}} : (tensor<4x1xi64>) -> tensor<4x1xf32>
  // CHECK: %[[WANTED:.*]] = mpc.sub %{{.*}}, %[[LABEL]]
  // CHECK: %[[RIGHT:.*]] = mpc.equal %[[FIRST]], %[[WANTED]]
  // CHECK: mpc.cast %[[RIGHT]] : (tensor<4x1xi1>) -> tensor<4x1xf32>
  %c = mpc.accuracy %x, %l : (tensor<4x3xf32>, tensor<4xi64>) -> tensor<4xf32>
  return %c : tensor<4xf32>
}

// Label smoothing counts for every counted label, even one of weight 0. A mean
// over no label is 0.
// CHECK-LABEL: func.func @smoothed
func.func @smoothed(%x: tensor<4x3xf32>, %l: tensor<4xi64>, %w: tensor<3xf32>) -> tensor<f32> {
  // CHECK: %[[HOT:.*]] = mpc.one_hot
  // CHECK: %[[ALL:.*]] = mpc.mul %{{.*}}, %{{.*}} : (tensor<4x3xf32>, tensor<3xf32>)
  // CHECK: %[[SHARE:.*]] = mpc.mul %{{.*}}, %{{.*}} : (tensor<4x1xf32>, tensor<f32>)
  // CHECK: %[[VALID:.*]] = mpc.mul %[[HOT]], %{{.*}} : (tensor<4x3xf32>, tensor<3xf32>)
  // CHECK: %[[COUNT:.*]] = mpc.reduce_sum %[[VALID]]
  // CHECK: %[[COUNTS:.*]] = mpc.cast %[[COUNT]] : (tensor<4x1xf32>) -> tensor<4x1xi1>
  // CHECK: %[[SHARED:.*]] = mpc.select %[[COUNTS]], %[[SHARE]]
  // CHECK: %[[LEFT:.*]] = mpc.constant dense<7.500000e-01>
  // CHECK: %[[OWN:.*]] = mpc.mul %{{.*}}, %[[LEFT]]
  // CHECK: mpc.add %[[OWN]], %[[SHARED]]
  // CHECK: %[[ANY:.*]] = mpc.cast %{{.*}} : (tensor<f32>) -> tensor<i1>
  // CHECK: %[[MEAN:.*]] = mpc.div
  // CHECK: mpc.select %[[ANY]], %[[MEAN]]
  %loss, %logp = mpc.softmax_cross_entropy_loss %x, %l, %w {label_smoothing = 2.5e-01 : f64, ignore_index = 1 : i64, zero_if_empty}
      : (tensor<4x3xf32>, tensor<4xi64>, tensor<3xf32>) -> (tensor<f32>, tensor<4x3xf32>)
  return %loss : tensor<f32>
}
