// On request, the step also returns which labels it predicted correctly.
//
// RUN: mpc-opt %s -mpc-add-loss="loss=softmax_cross_entropy train-accuracy" | FileCheck %s --check-prefixes=CHECK,WITH
// RUN: mpc-opt %s -mpc-add-loss="loss=softmax_cross_entropy" | FileCheck %s --check-prefixes=CHECK,WITHOUT
// RUN: not mpc-opt %s -mpc-add-loss="loss=mse train-accuracy" 2>&1 | FileCheck %s --check-prefix=MSE

// MSE: --train-accuracy needs a loss of class labels as the first loss, found mse

// CHECK-LABEL: func @step
// WITH-SAME: tensor<4xf32> {mpc.output = "correct", mpc.role = #mpc.role<correct>}
// CHECK: %[[Y:.*]] = mpc.matmul
// WITH: %[[CORRECT:.*]] = mpc.accuracy %[[Y]], %{{.*}} {mpc.phase = #mpc.phase<loss>}
// WITH: return %{{.*}}, %[[CORRECT]]
// WITHOUT-NOT: mpc.accuracy
// CHECK-LABEL: func @eval
// CHECK: mpc.accuracy
mpc.variable @w : tensor<8x3xf32> role parameter
func.func @forward(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                   %w: tensor<8x3xf32> {mpc.state = @w})
    -> (tensor<4x3xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %y = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}
