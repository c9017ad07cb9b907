// RUN: mpc-opt %s -mpc-add-optimizer=optimizer=muon | FileCheck %s
// RUN: mpc-opt %s -mpc-add-optimizer="optimizer=muon muon-filters=1" | FileCheck %s --check-prefix=FILTERS
// RUN: mpc-opt %s -mpc-add-optimizer="optimizer=muon muon=^head" | FileCheck %s --check-prefix=NAMED
// RUN: mpc-opt %s -mpc-add-optimizer="optimizer=muon adamw-lr-scale=0.5 weight-decay=0.3" | FileCheck %s --check-prefix=SCALE
// RUN: not mpc-opt %s -mpc-add-optimizer="optimizer=muon muon=bias" 2>&1 | FileCheck %s --check-prefix=VECTOR
// RUN: not mpc-opt %s -mpc-add-optimizer="optimizer=muon muon=^none" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not mpc-opt %s -mpc-add-optimizer="optimizer=muon freeze=^fc1" 2>&1 | FileCheck %s --check-prefix=NOTHING

// Muon trains the matrix of the hidden layer. AdamW trains the filter, the bias,
// and the last layer.
// CHECK-DAG: mpc.variable @fc1.velocity : tensor<16x4xf32> role optimizer_state
// CHECK-DAG: mpc.variable @filter.m
// CHECK-DAG: mpc.variable @bias.v
// CHECK-DAG: mpc.variable @head.m
// CHECK: mpc.adam %{{.*}}weight_decay = 1.000000e-02
// FILTERS-DAG: mpc.variable @filter.velocity : tensor<4x2x1x1xf32>
// FILTERS-DAG: mpc.variable @head.m
// FILTERS: mpc.reshape {{.*}} -> tensor<4x2xf32>
// NAMED-DAG: mpc.variable @head.velocity
// NAMED-DAG: mpc.variable @fc1.m
// VECTOR: error: --muon: 'bias' is a 'tensor<4xf32>'; Muon trains matrices, so leave it to AdamW
// NONE: error: --muon: no parameter's name matches '^none'; there are
// NOTHING: error: --optimizer muon trains matrices of hidden layers, and none is trained; name parameters with --muon REGEX, add --muon-filters for filters of convolutions, or use --optimizer adamw
mpc.variable @filter : tensor<4x2x1x1xf32> role parameter
mpc.variable @fc1 : tensor<16x4xf32> role parameter
mpc.variable @bias : tensor<4xf32> role parameter
mpc.variable @head : tensor<3x4xf32> role parameter

// The weight is [16 inputs, 4 outputs]: tall, so the small product is X^T X, and
// the factor is sqrt(max(1, 4 / 16)) = 1.
// CHECK: %[[NORM:.*]] = mpc.clip %{{.*}} {min = 9.9999999999999995E-8 : f64
// CHECK: %[[X:.*]] = mpc.div %{{.*}}, %[[NORM]]
// CHECK: %[[GRAM:.*]] = mpc.matmul %[[X]], %[[X]] {mpc.low_update, mpc.phase = #mpc.phase<optimizer>, transA = true} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
// CHECK: mpc.matmul %[[GRAM]], %[[GRAM]] {alpha = 2.031500e+00 : f64, mpc.low_update
// CHECK-COUNT-13: mpc.matmul {{.*}}mpc.low_update
// CHECK-NOT: mpc.matmul {{.*}}mpc.low_update
// CHECK: mpc.sgd {{.*}}weight_decay = 1.000000e-01

// SCALE: mpc.constant {{.*}}dense<5.000000e-01>
// SCALE: %[[RATE:.*]] = mpc.mul
// SCALE: mpc.adam %{{.*}}, %[[RATE]], %{{.*}}weight_decay = 3.000000e-01
// SCALE: mpc.sgd {{.*}}weight_decay = 3.000000e-01
func.func @step(%x: tensor<8x2x2x2xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                %filter: tensor<4x2x1x1xf32> {mpc.state = @filter}, %fc1: tensor<16x4xf32> {mpc.state = @fc1},
                %bias: tensor<4xf32> {mpc.state = @bias}, %head: tensor<3x4xf32> {mpc.state = @head})
    -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}) {
  %0 = mpc.conv %x, %filter {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<8x2x2x2xf32>, tensor<4x2x1x1xf32>) -> tensor<8x4x2x2xf32>
  %1 = mpc.reshape %0 : (tensor<8x4x2x2xf32>) -> tensor<8x16xf32>
  %2 = mpc.gemm %1, %fc1, %bias : (tensor<8x16xf32>, tensor<16x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %3 = mpc.relu %2 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %4 = mpc.matmul %3, %head {transB = true} : (tensor<8x4xf32>, tensor<3x4xf32>) -> tensor<8x3xf32>
  %5 = mpc.reduce_mean %4 {axes = array<i64: 0, 1>} : (tensor<8x3xf32>) -> tensor<f32>
  return %5 : tensor<f32>
}
