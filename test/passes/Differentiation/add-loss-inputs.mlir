// RUN: mpc-opt %s -mpc-add-loss="loss=mse target-array=x" | FileCheck %s

// An autoencoder's target is its input. The input stays, and a label input of
// the same array joins it, with the same sample axis.
mpc.variable @w : tensor<8x8xf32> role parameter

// CHECK-LABEL: func @step
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32> {mpc.batch_axis = 0 : i64, mpc.input = "x", mpc.role = #mpc.role<data>}
// CHECK-SAME: %[[T:[a-z0-9]+]]: tensor<4x8xf32> {mpc.batch_axis = 0 : i64, mpc.input = "x.target", mpc.role = #mpc.role<label>}
// CHECK: %[[Y:.*]] = mpc.matmul %[[X]],
// CHECK: mpc.sub %[[Y]], %[[T]]
func.func @forward(%x: tensor<4x8xf32> {mpc.batch_axis = 0 : i64, mpc.input = "x", mpc.role = #mpc.role<data>},
                   %w: tensor<8x8xf32> {mpc.state = @w})
    -> (tensor<4x8xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %y = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
