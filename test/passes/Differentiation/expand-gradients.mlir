// RUN: mpc-opt %s -mpc-expand-gradients -canonicalize | FileCheck %s
// RUN: mpc-opt %s -mpc-expand-gradients -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s --check-prefix=NAMES

// Backward ops have the name of their forward node. The first layer's input
// gets no gradient.
// CHECK-LABEL: func @perceptron
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[W1:.*]]: tensor<16x8xf32>, %[[B1:.*]]: tensor<16xf32>, %[[W2:.*]]: tensor<16x10xf32>
// CHECK: %[[H:.*]] = mpc.relu
// CHECK: %[[SEED:.*]] = mpc.gradient_seed {mpc.phase = #mpc.phase<backward>} : tensor<f32>
// CHECK: %[[DY:.*]] = mpc.softmax_cross_entropy_loss_grad %[[SEED]]
// CHECK: %[[DH:.*]] = mpc.matmul %[[DY]], %[[W2]] {mpc.phase = #mpc.phase<backward>, transB = true}
// CHECK: %[[DW2:.*]] = mpc.matmul %[[H]], %[[DY]] {mpc.phase = #mpc.phase<backward>, transA = true}
// CHECK: %[[DR:.*]] = mpc.relu_grad %[[DH]], %[[H]]
// CHECK: %[[DW1:.*]] = mpc.gemm %[[DR]], %[[X]] {mpc.phase = #mpc.phase<backward>, transA = true}
// CHECK: %[[DB1:.*]] = mpc.sum_to_size %[[DR]]
// CHECK: return %[[DW1]], %[[DB1]], %[[DW2]]
// NAMES-LABEL: func @perceptron
// NAMES: mpc.softmax_cross_entropy_loss_grad {{.*}} loc("loss#dx")
// NAMES: mpc.matmul {{.*}} loc("fc2#dx")
// NAMES: mpc.matmul {{.*}} loc("fc2#dw")
// NAMES: mpc.gemm {{.*}} loc("fc1#dw")
// NAMES: mpc.sum_to_size {{.*}} loc("fc1#db")
func.func @perceptron(%x: tensor<4x8xf32>, %w1: tensor<16x8xf32>, %b1: tensor<16xf32>, %w2: tensor<16x10xf32>, %t: tensor<4xi64>)
    -> (tensor<16x8xf32>, tensor<16xf32>, tensor<16x10xf32>) {
  %0 = mpc.gemm %x, %w1, %b1 {transB = true} : (tensor<4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<4x16xf32> loc("fc1")
  %1 = mpc.relu %0 : (tensor<4x16xf32>) -> tensor<4x16xf32> loc("relu1")
  %2 = mpc.matmul %1, %w2 : (tensor<4x16xf32>, tensor<16x10xf32>) -> tensor<4x10xf32> loc("fc2")
  %loss, %lp = mpc.softmax_cross_entropy_loss %2, %t : (tensor<4x10xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4x10xf32>) loc("loss")
  %g:3 = mpc.gradient %loss wrt %w1, %b1, %w2 : tensor<f32>, (tensor<16x8xf32>, tensor<16xf32>, tensor<16x10xf32>) -> (tensor<16x8xf32>, tensor<16xf32>, tensor<16x10xf32>)
  return %g#0, %g#1, %g#2 : tensor<16x8xf32>, tensor<16xf32>, tensor<16x10xf32>
}

// Gradients of several uses are added. Gradients of broadcast operands are summed.
// CHECK-LABEL: func @uses
// CHECK-SAME: %[[A:.*]]: tensor<4x8xf32>, %[[B:.*]]: tensor<8xf32>
// CHECK: %[[SEED:.*]] = mpc.gradient_seed
// CHECK: %[[DA1:.*]] = mpc.mul %[[SEED]], %[[A]]
// CHECK: %[[DA2:.*]] = mpc.mul %[[SEED]], %[[A]]
// CHECK: mpc.add
// CHECK: %[[DB:.*]] = mpc.sum_to_size
func.func @uses(%a: tensor<4x8xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>) {
  %0 = mpc.add %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %1 = mpc.mul %a, %a : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = mpc.add %0, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %g:2 = mpc.gradient %2 wrt %a, %b : tensor<4x8xf32>, (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)
  return %g#0, %g#1 : tensor<4x8xf32>, tensor<8xf32>
}

// The gradient ignores running statistics and includes the batch's own.
// CHECK-LABEL: func @batch_norm
// CHECK: %{{[a-z]+}}, %[[MEAN:[a-z]+]], %[[INV:[a-z_]+]], %{{.*}} = mpc.batch_norm
// CHECK: %{{[a-z_]+}}, %[[DS:[a-z_]+]], %[[DB:[a-z_]+]] = mpc.batch_norm_grad %{{.*}}, %{{.*}}, %{{.*}}, %[[MEAN]], %[[INV]]
// CHECK: mpc.add %[[DS]], %[[DB]]
func.func @batch_norm(%x: tensor<4x8x2x2xf32>, %s: tensor<8xf32>, %m: tensor<8xf32>) -> tensor<8xf32> {
  %y, %mean, %inv, %rm, %rv = mpc.batch_norm %x, %s, %s, %m, %m {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64}
      : (tensor<4x8x2x2xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
     -> (tensor<4x8x2x2xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  %1 = mpc.neg %x : (tensor<4x8x2x2xf32>) -> tensor<4x8x2x2xf32>
  %2 = mpc.batch_norm_inference %1, %m, %m, %m, %m {epsilon = 1.0e-5 : f64} : (tensor<4x8x2x2xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x8x2x2xf32>
  %3 = mpc.mul %y, %2 : (tensor<4x8x2x2xf32>, tensor<4x8x2x2xf32>) -> tensor<4x8x2x2xf32>
  %g = mpc.gradient %3 wrt %s : tensor<4x8x2x2xf32>, (tensor<8xf32>) -> (tensor<8xf32>)
  return %g : tensor<8xf32>
}

// The gradient of f16 is f32, as is every sum of gradients.
// CHECK-LABEL: func @half
// CHECK: mpc.gradient_seed {{.*}} : tensor<8xf32>
// CHECK: %[[D:.*]] = mpc.add %{{.*}} -> tensor<8xf32>
// CHECK: return %[[D]] : tensor<8xf32>
func.func @half(%a: tensor<8xf16>) -> tensor<8xf32> {
  %0 = mpc.mul %a, %a : (tensor<8xf16>, tensor<8xf16>) -> tensor<8xf16>
  %g = mpc.gradient %0 wrt %a : tensor<8xf16>, (tensor<8xf16>) -> (tensor<8xf32>)
  return %g : tensor<8xf32>
}

// A batch times one shared matrix: its gradient is one product over all rows.
// CHECK-LABEL: func @batched
// CHECK-SAME: %[[X:.*]]: tensor<2x4x8xf32>
// CHECK-DAG: %[[ROWS:.*]] = mpc.reshape %[[X]] {{.*}} -> tensor<8x8xf32>
// CHECK-DAG: %[[DY:.*]] = mpc.reshape %{{.*}} : (tensor<2x4x3xf32>) -> tensor<8x3xf32>
// CHECK: mpc.matmul %[[ROWS]], %[[DY]] {{{.*}}transA = true} : {{.*}} -> tensor<8x3xf32>
func.func @batched(%x: tensor<2x4x8xf32>, %w: tensor<8x3xf32>) -> tensor<8x3xf32> {
  %0 = mpc.matmul %x, %w : (tensor<2x4x8xf32>, tensor<8x3xf32>) -> tensor<2x4x3xf32>
  %g = mpc.gradient %0 wrt %w : tensor<2x4x3xf32>, (tensor<8x3xf32>) -> (tensor<8x3xf32>)
  return %g : tensor<8x3xf32>
}
