// RUN: mpc-opt %s -mpc-add-optimizer="shard-optimizer optimizer=adamw clip-norm=1" | FileCheck %s
// RUN: mpc-opt %s -mpc-add-optimizer="shard-optimizer accumulate=4" | FileCheck %s --check-prefix=UPDATE

// Each gradient's mean is for the owner of the parameter.
// CHECK-LABEL: func @step
// CHECK: %[[G:.*]]:2 = mpc.gradient
// CHECK: %[[B:.*]] = mpc.all_reduce mean %[[G]]#0 owners [@b] {mpc.phase = #mpc.phase<backward>} : (tensor<f32>) -> tensor<f32>
// CHECK: %[[W:.*]] = mpc.all_reduce mean %[[G]]#1 owners [@w] {mpc.phase = #mpc.phase<backward>} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: mpc.clip_grad_norm %[[B]], %[[W]]

// UPDATE-LABEL: func @accumulate
// UPDATE-NOT: mpc.all_reduce
// UPDATE-LABEL: func @update
// UPDATE: mpc.all_reduce mean %{{.*}} owners [@b]
// UPDATE: mpc.all_reduce mean %{{.*}} owners [@w]
mpc.variable @b : tensor<f32> role parameter
mpc.variable @w : tensor<8xf32> role parameter
func.func @step(%x: tensor<8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %b: tensor<f32> {mpc.state = @b}, %w: tensor<8xf32> {mpc.state = @w})
    -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}) {
  %0 = mpc.mul %x, %w : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = mpc.reduce_sum %0 {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  %2 = mpc.add %1, %b : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}
