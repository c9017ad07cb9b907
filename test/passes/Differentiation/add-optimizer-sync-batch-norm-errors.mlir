// RUN: not mpc-opt %s -split-input-file -mpc-add-optimizer="data-parallel sync-batch-norm" 2>&1 | FileCheck %s
// RUN: mpc-opt %s -split-input-file -mpc-add-optimizer="data-parallel" | FileCheck %s --check-prefix=OWN

// OWN: mpc.batch_norm %
// OWN: func.func @step

// Ranks that take other branches would wait for one another.
// CHECK: [[#@LINE+7]]:{{.*}} error: cannot reduce statistics over the ranks inside a loop or a condition
mpc.variable @w : tensor<4x3xf32> role parameter
func.func @step(%c: tensor<i1> {mpc.input = "c", mpc.role = #mpc.role<data>}, %w: tensor<4x3xf32> {mpc.state = @w},
                %s: tensor<3xf32> {mpc.input = "s", mpc.role = #mpc.role<data>})
    -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}) {
  %y = mpc.if %c captured(%w, %s : tensor<4x3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>) {
  ^bb0(%a: tensor<4x3xf32>, %b: tensor<3xf32>):
    %n, %m, %i, %rm, %rv = mpc.batch_norm %a, %b, %b, %b, %b {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64}
        : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
       -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
    mpc.yield %n : tensor<4x3xf32>
  } else {
  ^bb0(%a: tensor<4x3xf32>, %b: tensor<3xf32>):
    mpc.yield %a : tensor<4x3xf32>
  }
  %loss = mpc.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<4x3xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK: error: --sync-batch-norm has no effect: the model has no BatchNormalization that normalizes by its batch; leave the flag out
mpc.variable @w : tensor<8xf32> role parameter
func.func @step(%x: tensor<8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %w: tensor<8xf32> {mpc.state = @w})
    -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}) {
  %0 = mpc.mul %x, %w : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = mpc.reduce_sum %0 {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}
