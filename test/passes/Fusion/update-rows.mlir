// RUN: mpc-opt %s --mpc-update-rows | FileCheck %s

// Only the rows that ids name are updated, in the parameter and in the state.
//
// CHECK-LABEL: func.func @adagrad(
// CHECK-SAME: %[[W:.*]]: tensor<100x4xf32>, %[[H:.*]]: tensor<100x4xf32>, %[[IDS:.*]]: tensor<2x3xi32>, %[[DY:.*]]: tensor<2x3x4xf32>,
// CHECK: %[[FLAT:.*]] = mpc.reshape %[[IDS]] : (tensor<2x3xi32>) -> tensor<6xi32>
// CHECK: %[[I:.*]] = mpc.cast %[[FLAT]] : (tensor<6xi32>) -> tensor<6xi64>
// CHECK-DAG: %[[PLACES:.*]] = mpc.constant dense<[1, 2, 3, 4, 5, 6]>
// CHECK-DAG: %[[NONE:.*]] = mpc.constant dense<7> : tensor<100xi64>
// CHECK: %[[FIRSTS:.*]] = mpc.scatter %[[NONE]], %[[I]], %[[PLACES]] {axis = 0 : i64, reduction = #mpc.scatter<min>}
// CHECK: %[[FOUND:.*]] = mpc.gather %[[FIRSTS]], %[[I]] {axis = 0 : i64}
// CHECK: %[[SLOTS:.*]] = mpc.select
// CHECK: %[[ROWS:.*]] = mpc.reshape %[[DY]] : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
// CHECK: %[[SUMS:.*]] = mpc.scatter %{{.*}}, %[[SLOTS]], %[[ROWS]] {axis = 0 : i64, reduction = #mpc.scatter<add>}
// CHECK: %[[W0:.*]] = mpc.gather %[[W]], %[[I]]
// CHECK: %[[H0:.*]] = mpc.gather %[[H]], %[[I]]
// CHECK: %[[NEW:.*]], %[[NEWH:.*]] = mpc.adagrad %[[W0]], %[[SUMS]], %[[H0]]
// CHECK: %[[NAMES:.*]] = mpc.select
// CHECK: %[[W1:.*]] = mpc.scatter %[[W]], %[[NAMES]], %[[NEW]] {axis = 0 : i64, reduction = #mpc.scatter<none>, unique_indices = true}
// CHECK: %[[H1:.*]] = mpc.scatter %[[H]], %[[NAMES]], %[[NEWH]] {axis = 0 : i64, reduction = #mpc.scatter<none>, unique_indices = true}
// CHECK: return %[[W1]], %[[H1]]
func.func @adagrad(%w: tensor<100x4xf32>, %h: tensor<100x4xf32>, %ids: tensor<2x3xi32>, %dy: tensor<2x3x4xf32>,
                   %lr: tensor<f32>, %step: tensor<i64>) -> (tensor<100x4xf32>, tensor<100x4xf32>) {
  %zeros = mpc.constant dense<0.0> : tensor<100x4xf32>
  %g = mpc.scatter %zeros, %ids, %dy {axis = 0 : i64, reduction = #mpc.scatter<add>}
      : (tensor<100x4xf32>, tensor<2x3xi32>, tensor<2x3x4xf32>) -> tensor<100x4xf32>
  %w1, %h1 = mpc.adagrad %w, %g, %h, %lr, %step {epsilon = 1.0e-10 : f64}
      : (tensor<100x4xf32>, tensor<100x4xf32>, tensor<100x4xf32>, tensor<f32>, tensor<i64>) -> (tensor<100x4xf32>, tensor<100x4xf32>)
  return %w1, %h1 : tensor<100x4xf32>, tensor<100x4xf32>
}

// No row update with weight decay, which changes every row, if the gradient has
// another user, or if ids name more than a quarter of the rows.
//
// CHECK-LABEL: func.func @whole(
// CHECK-COUNT-3: mpc.sgd %{{.*}} -> tensor<{{(100|20)}}x4xf32>
// CHECK-NOT: mpc.gather
func.func @whole(%w: tensor<100x4xf32>, %v: tensor<100x4xf32>, %u: tensor<20x4xf32>, %ids: tensor<6xi64>, %dy: tensor<6x4xf32>,
                 %lr: tensor<f32>) -> (tensor<100x4xf32>, tensor<100x4xf32>, tensor<20x4xf32>, tensor<100x4xf32>) {
  %zeros = mpc.constant dense<0.0> : tensor<100x4xf32>
  %few = mpc.constant dense<0.0> : tensor<20x4xf32>
  %0 = mpc.scatter %zeros, %ids, %dy {axis = 0 : i64, reduction = #mpc.scatter<add>}
      : (tensor<100x4xf32>, tensor<6xi64>, tensor<6x4xf32>) -> tensor<100x4xf32>
  %1 = mpc.scatter %zeros, %ids, %dy {axis = 0 : i64, reduction = #mpc.scatter<add>}
      : (tensor<100x4xf32>, tensor<6xi64>, tensor<6x4xf32>) -> tensor<100x4xf32>
  %2 = mpc.scatter %few, %ids, %dy {axis = 0 : i64, reduction = #mpc.scatter<add>}
      : (tensor<20x4xf32>, tensor<6xi64>, tensor<6x4xf32>) -> tensor<20x4xf32>
  %w1 = mpc.sgd %w, %0, %lr {weight_decay = 0.1 : f64} : (tensor<100x4xf32>, tensor<100x4xf32>, tensor<f32>) -> tensor<100x4xf32>
  %v1 = mpc.sgd %v, %1, %lr : (tensor<100x4xf32>, tensor<100x4xf32>, tensor<f32>) -> tensor<100x4xf32>
  %u1 = mpc.sgd %u, %2, %lr : (tensor<20x4xf32>, tensor<20x4xf32>, tensor<f32>) -> tensor<20x4xf32>
  return %w1, %v1, %u1, %1 : tensor<100x4xf32>, tensor<100x4xf32>, tensor<20x4xf32>, tensor<100x4xf32>
}

// Without any gradient so far, an epsilon that is 0 in f32 makes 0 / 0 of a
// row.
//
// CHECK-LABEL: func.func @no_epsilon(
// CHECK: mpc.adagrad %{{.*}} -> (tensor<100x4xf32>, tensor<100x4xf32>)
func.func @no_epsilon(%w: tensor<100x4xf32>, %h: tensor<100x4xf32>, %ids: tensor<6xi64>, %dy: tensor<6x4xf32>,
                      %lr: tensor<f32>, %step: tensor<i64>) -> (tensor<100x4xf32>, tensor<100x4xf32>) {
  %zeros = mpc.constant dense<0.0> : tensor<100x4xf32>
  %g = mpc.scatter %zeros, %ids, %dy {axis = 0 : i64, reduction = #mpc.scatter<add>}
      : (tensor<100x4xf32>, tensor<6xi64>, tensor<6x4xf32>) -> tensor<100x4xf32>
  %w1, %h1 = mpc.adagrad %w, %g, %h, %lr, %step {epsilon = 1.0e-60 : f64}
      : (tensor<100x4xf32>, tensor<100x4xf32>, tensor<100x4xf32>, tensor<f32>, tensor<i64>) -> (tensor<100x4xf32>, tensor<100x4xf32>)
  return %w1, %h1 : tensor<100x4xf32>, tensor<100x4xf32>
}
