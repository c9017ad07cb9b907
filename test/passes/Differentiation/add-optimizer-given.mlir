// RUN: mpc-opt %s -split-input-file -mpc-add-optimizer="given-gradients optimizer=sgd" | FileCheck %s
// RUN: mpc-opt %s -split-input-file -mpc-add-optimizer="given-gradients accumulate=2" | FileCheck %s --check-prefix=SUM

// Gradients in the model replace mpc.gradient. A parameter without one is not
// trained.
// CHECK: mpc.variable @w : tensor<3xf32> role parameter
// CHECK: mpc.variable @b : tensor<3xf32> role frozen
mpc.variable @w : tensor<3xf32> role parameter
mpc.variable @b : tensor<3xf32> role parameter

// CHECK: func.func @step
// CHECK-NOT: "gradient"
// CHECK-SAME: {mpc.updates = @w}
// CHECK-NOT: {mpc.updates = @b}
// CHECK: %[[G:.*]] = mpc.mul
// CHECK-NOT: mpc.gradient
// CHECK: mpc.sgd %{{.*}}, %[[G]], %{{.*}}
// SUM: func.func @accumulate
// SUM: %[[G:.*]] = mpc.mul
// SUM: mpc.add %{{.*}}, %[[G]]
// SUM: func.func @update
func.func @step(%x: tensor<3xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
    %w: tensor<3xf32> {mpc.state = @w}, %b: tensor<3xf32> {mpc.state = @b})
    -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>},
        tensor<3xf32> {mpc.output = "w", mpc.role = #mpc.role<gradient>}) {
  %0 = mpc.add %w, %b : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %1 = mpc.sub %0, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %2 = mpc.mul %1, %1 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %3 = mpc.reduce_sum %2 {axes = array<i64: 0>, keepdims = false} : (tensor<3xf32>) -> tensor<f32>
  return %3, %2 : tensor<f32>, tensor<3xf32>
}

// -----

// A model without gradients stays unchanged.
// CHECK: func.func @step(%{{.*}}: tensor<3xf32> {mpc.state = @w}) -> (tensor<3xf32> {mpc.updates = @w})
mpc.variable @w : tensor<3xf32> role parameter
func.func @step(%w: tensor<3xf32> {mpc.state = @w}) -> (tensor<3xf32> {mpc.updates = @w}) {
  %0 = mpc.neg %w : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
