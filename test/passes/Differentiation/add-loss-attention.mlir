// RUN: mpc-opt %s -mpc-add-loss=loss=mse | FileCheck %s

// Only training applies an attention's dropout.
mpc.variable @mpc.seed : tensor<i64> role counter
mpc.variable @mpc.micro_step : tensor<i64> role counter

// CHECK-LABEL: func @step
// CHECK: mpc.attention %{{.*}} random %{{.*}} {causal_offset = 0 : i64, dropout = 5.000000e-01 : f64, dropout_id = 0 : i64}
// CHECK-LABEL: func @eval
// CHECK: mpc.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} {causal_offset = 0 : i64}
func.func @forward(%x: tensor<4x2x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                   %seed: tensor<i64> {mpc.state = @mpc.seed}, %at: tensor<i64> {mpc.state = @mpc.micro_step})
    -> (tensor<4x2x8xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %y = mpc.attention %x, %x, %x random %seed, %at {causal_offset = 0 : i64, dropout = 5.0e-1 : f64, dropout_id = 0 : i64}
      : (tensor<4x2x8xf32>, tensor<4x2x8xf32>, tensor<4x2x8xf32>, tensor<i64>, tensor<i64>) -> tensor<4x2x8xf32>
  return %y : tensor<4x2x8xf32>
}
