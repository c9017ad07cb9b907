// RUN: mpc-opt %s -mpc-add-loss="loss=mse@y,0.5*cross_entropy@z target-array=goal,z=labels ignore-index=2" | FileCheck %s
// RUN: mpc-opt %s -mpc-add-loss="loss=2*mse@y,l1@z" | FileCheck %s --check-prefix=SHARED
// RUN: not mpc-opt %s -mpc-add-loss="loss=mse@y,l1@z target-array=w=goal" 2>&1 | FileCheck %s --check-prefix=NOBODY
// RUN: not mpc-opt %s -mpc-add-loss="loss=mse@y,l1@z target-array=a,b" 2>&1 | FileCheck %s --check-prefix=TWO
// RUN: not mpc-opt %s -mpc-add-loss="loss=cross_entropy@z,mse@y" 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not mpc-opt %s -mpc-add-loss="loss=0*mse@y" 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not mpc-opt %s -mpc-add-loss="loss=nan*mse@y" 2>&1 | FileCheck %s --check-prefix=NAN
// RUN: not mpc-opt %s -mpc-add-loss 2>&1 | FileCheck %s --check-prefix=NONE

// RUN: not mpc-opt %s -mpc-add-loss="loss=mse@y,l1@z target-array=w=target" 2>&1 | FileCheck %s --check-prefix=UNUSED
// RUN: not mpc-opt %s -mpc-add-loss="loss=mse@y,l1@z target-array=z=a,z=b" 2>&1 | FileCheck %s --check-prefix=TWICE

// UNUSED: error: --target-array w=target: no --loss is of @w
// TWICE: error: --target-array z=a: 'z' has two
// NOBODY: error: --target-array w=goal: no --loss is of @w
// TWO: error: expected one --target-array for all losses, found 'a' and 'b'
// OTHER: error: one loss needs labels of i64[4], another of f32[4,3], and 'target' cannot be both; name an array for each with --target-array OUTPUT=ARRAY
// ZERO: error: '0*mse@y': expected a factor above 0, found 0
// NAN: error: 'nan*mse@y': expected a factor above 0, found nan
// NONE: error: expected a loss

// Each loss reads its own labels, and is multiplied by its factor before the sum.
// CHECK-LABEL: func @step
// CHECK-SAME: %[[GOAL:[a-z0-9]+]]: tensor<4x3xf32> {mpc.input = "goal", mpc.role = #mpc.role<label>}
// CHECK-SAME: %[[LABELS:[a-z0-9]+]]: tensor<4xi64> {mpc.input = "labels", mpc.role = #mpc.role<label>}
// CHECK-SAME: {mpc.output = "loss", mpc.role = #mpc.role<loss>}
// CHECK-SAME: {mpc.output = "loss.mse@y", mpc.role = #mpc.role<loss>}
// CHECK-SAME: {mpc.output = "loss.cross_entropy@z", mpc.role = #mpc.role<loss>}
// CHECK: %[[MSE:.*]] = mpc.reduce_mean
// CHECK: %[[CE:loss.*]], %{{.*}} = mpc.softmax_cross_entropy_loss %{{.*}}, %[[LABELS]]
// CHECK: %[[HALF:.*]] = mpc.constant {{.*}}dense<5.000000e-01>
// CHECK: %[[PART:.*]] = mpc.mul %[[CE]], %[[HALF]]
// CHECK: %[[ALL:.*]] = mpc.add %[[MSE]], %[[PART]]
// The step returns each loss without its factor, too.
// CHECK: return %[[ALL]], %[[MSE]], %[[CE]]

// Evaluation adds up the samples of each loss, and multiplies by its factor.
// Each loss has a prediction.
// CHECK-LABEL: func @eval
// CHECK-SAME: {mpc.output = "sample_loss.mse@y", mpc.role = #mpc.role<sample_loss>}
// CHECK-SAME: {mpc.output = "sample_loss.cross_entropy@z", mpc.role = #mpc.role<sample_loss>}
// CHECK-SAME: {mpc.output = "sample_weight.cross_entropy@z", mpc.role = #mpc.role<sample_weight>}
// CHECK-SAME: {mpc.output = "prediction", mpc.role = #mpc.role<prediction>}
// CHECK-SAME: {mpc.output = "prediction.cross_entropy@z", mpc.role = #mpc.role<prediction>}
// CHECK-NOT: "correct"
// CHECK: return

// SHARED-LABEL: func @step
// SHARED-SAME: %[[T:[a-z0-9]+]]: tensor<4x3xf32> {mpc.input = "target", mpc.role = #mpc.role<label>}) ->
// SHARED: mpc.sub %{{.*}}, %[[T]]
// SHARED: mpc.sub %{{.*}}, %[[T]]
// SHARED-LABEL: func @eval
// SHARED-SAME: {mpc.output = "sample_loss.mse@y", mpc.role = #mpc.role<sample_loss>}
// SHARED-SAME: {mpc.output = "sample_loss.l1@z", mpc.role = #mpc.role<sample_loss>}
// SHARED-NOT: sample_weight
mpc.variable @w : tensor<8x3xf32> role parameter
func.func @forward(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                   %w: tensor<8x3xf32> {mpc.state = @w})
    -> (tensor<4x3xf32> {mpc.output = "y", mpc.role = #mpc.role<output>},
        tensor<4x3xf32> {mpc.output = "z", mpc.role = #mpc.role<output>}) {
  %y = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
  %z = mpc.tanh %y : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return %y, %z : tensor<4x3xf32>, tensor<4x3xf32>
}
