// RUN: mpc-opt %s -mpc-add-loss=loss=mse | FileCheck %s

// The step trains a normalisation and drops elements. Evaluation reads running
// statistics and drops nothing.
mpc.variable @s : tensor<3xf32> role parameter
mpc.variable @m : tensor<3xf32> role statistic

// CHECK-LABEL: func.func @step
// CHECK: mpc.dropout
// CHECK: mpc.batch_norm %
// CHECK-LABEL: func.func @eval
// CHECK-SAME: %[[X:.*]]: tensor<4x3xf32> {mpc.input = "x"
// CHECK-NOT: mpc.dropout
// CHECK: mpc.batch_norm_inference %[[X]], %{{.*}} {epsilon = 1.000000e-05 : f64}
// CHECK-NOT: mpc.batch_norm %
func.func @forward(%x: tensor<4x3xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %s: tensor<3xf32> {mpc.state = @s}, %m: tensor<3xf32> {mpc.state = @m})
    -> (tensor<4x3xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}, tensor<3xf32> {mpc.updates = @m}) {
  %seed = mpc.constant dense<3> : tensor<i64>
  %step = mpc.constant dense<0> : tensor<i64>
  %d = mpc.dropout %x, %seed, %step {id = 0 : i64, ratio = 0.5 : f64} : (tensor<4x3xf32>, tensor<i64>, tensor<i64>) -> tensor<4x3xf32>
  %y, %mean, %inv, %rm, %rv = mpc.batch_norm %d, %s, %s, %m, %m {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64} : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %y, %rm : tensor<4x3xf32>, tensor<3xf32>
}
