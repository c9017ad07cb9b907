// RUN: mpc-opt %s -mpc-add-loss=loss=mse@y | FileCheck %s
// RUN: mpc-opt %s -mpc-add-loss=loss=mse@hidden | FileCheck %s --check-prefix=NODE
// RUN: mpc-opt %s -mpc-add-loss=loss=output:total | FileCheck %s --check-prefix=OUTPUT

// Training keeps dropout and updates the running statistics. Evaluation drops
// dropout and uses the statistics.
mpc.variable @mean : tensor<8xf32> role statistic
mpc.variable @var : tensor<8xf32> role statistic
mpc.variable @mpc.seed : tensor<i64> role counter
mpc.variable @mpc.micro_step : tensor<i64> role counter

// CHECK-LABEL: func @step
// CHECK-SAME: tensor<8xf32> {mpc.updates = @mean}
// CHECK-SAME: tensor<8xf32> {mpc.updates = @var}
// CHECK-SAME: tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}
// CHECK: mpc.batch_norm
// CHECK: mpc.dropout
// CHECK-LABEL: func @eval
// CHECK-NOT: mpc.updates
// CHECK: %[[N:.*]] = mpc.batch_norm_inference %{{.*}} {epsilon = 1.000000e-05 : f64}
// CHECK-NOT: mpc.dropout
// CHECK: %[[Y:.*]] = mpc.relu %[[N]]
// CHECK: mpc.sub %[[Y]]

// A node's name selects a value that is not an output.
// NODE-LABEL: func @step
// NODE: %[[H:[a-z]+]], %{{.*}} = mpc.batch_norm
// NODE: mpc.sub %[[H]],

// A model that computes its loss needs no labels.
// OUTPUT-LABEL: func @step
// OUTPUT-NOT: "label"
// OUTPUT: %[[R:.*]] = mpc.reduce_sum
// OUTPUT: return %{{.*}}, %{{.*}}, %[[R]]
func.func @forward(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                   %scale: tensor<8xf32> {mpc.input = "s", mpc.role = #mpc.role<data>},
                   %mean: tensor<8xf32> {mpc.state = @mean}, %var: tensor<8xf32> {mpc.state = @var},
                   %seed: tensor<i64> {mpc.state = @mpc.seed}, %at: tensor<i64> {mpc.state = @mpc.micro_step})
    -> (tensor<4x8xf32> {mpc.output = "y", mpc.role = #mpc.role<output>},
        tensor<f32> {mpc.output = "total", mpc.role = #mpc.role<output>},
        tensor<8xf32> {mpc.updates = @mean}, tensor<8xf32> {mpc.updates = @var}) {
  %n, %m, %i, %rm, %rv = mpc.batch_norm %x, %scale, %scale, %mean, %var {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64}
      : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
     -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) loc("hidden")
  %d = mpc.dropout %n, %seed, %at {ratio = 0.5 : f64, id = 0 : i64} : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
  %y = mpc.relu %d : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %total = mpc.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  return %y, %total, %rm, %rv : tensor<4x8xf32>, tensor<f32>, tensor<8xf32>, tensor<8xf32>
}
