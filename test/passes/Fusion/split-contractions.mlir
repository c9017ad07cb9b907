// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-split-contractions))" | FileCheck %s

// CHECK-LABEL: func.func @bias
func.func @bias(%x: tensor<32x64xbf16>, %w: tensor<10x64xbf16>, %b: tensor<10xf32>) -> tensor<32x10xbf16> {
  // CHECK: %[[P:.*]] = mpc.matmul %{{.*}} {transB = true} : (tensor<32x64xbf16>, tensor<10x64xbf16>) -> tensor<32x10xf32>
  // CHECK: mpc.add %[[P]], %{{.*}} : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xbf16>
  %y = mpc.gemm %x, %w, %b {transB = true} : (tensor<32x64xbf16>, tensor<10x64xbf16>, tensor<10xf32>) -> tensor<32x10xbf16>
  return %y : tensor<32x10xbf16>
}

// CHECK-LABEL: func.func @alpha_beta
func.func @alpha_beta(%x: tensor<4x8xf32>, %w: tensor<8x5xf32>, %c: tensor<4x5xf32>) -> tensor<4x5xf32> {
  // CHECK: %[[BETA:.*]] = mpc.constant dense<2.000000e+00>
  // CHECK: mpc.matmul %{{.*}} {alpha = 5.000000e-01 : f64}
  // CHECK: mpc.mul %{{.*}}, %[[BETA]]
  // CHECK: mpc.add
  %y = mpc.gemm %x, %w, %c {alpha = 0.5 : f64, beta = 2.0 : f64} : (tensor<4x8xf32>, tensor<8x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// CHECK-LABEL: func.func @without_c
func.func @without_c(%x: tensor<4x8xf32>, %w: tensor<8x5xf32>) -> tensor<4x5xf32> {
  // CHECK: %[[Y:.*]] = mpc.matmul
  // CHECK-NEXT: return %[[Y]]
  %y = mpc.gemm %x, %w : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// CHECK-LABEL: func.func @conv
func.func @conv(%x: tensor<2x8x8x3xf32>, %w: tensor<6x3x3x3xf32>, %b: tensor<6xf32>) -> tensor<2x8x8x6xf32> {
  // CHECK: %[[Y:.*]] = mpc.conv %{{.*}}, %{{.*}} {
  // CHECK: mpc.add %[[Y]], %{{.*}} : (tensor<2x8x8x6xf32>, tensor<6xf32>)
  %y = mpc.conv %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>}
      : (tensor<2x8x8x3xf32>, tensor<6x3x3x3xf32>, tensor<6xf32>) -> tensor<2x8x8x6xf32>
  return %y : tensor<2x8x8x6xf32>
}

// CHECK-LABEL: func.func @transposed
func.func @transposed(%x: tensor<3x8x4xf32>, %w: tensor<3x8x5xf32>) -> tensor<3x4x5xf32> {
  // CHECK-NOT: mpc.transpose
  // CHECK: mpc.matmul %{{.*}} {transA = true} : (tensor<3x8x4xf32>, tensor<3x8x5xf32>)
  %t = mpc.transpose %x {perm = array<i64: 0, 2, 1>} : (tensor<3x8x4xf32>) -> tensor<3x4x8xf32>
  %y = mpc.matmul %t, %w : (tensor<3x4x8xf32>, tensor<3x8x5xf32>) -> tensor<3x4x5xf32>
  return %y : tensor<3x4x5xf32>
}

// Batches are also moved, with whole rows, once for all products.
// CHECK-LABEL: func.func @transposed_batches
func.func @transposed_batches(%x: tensor<2x4x3x8xf32>, %w: tensor<2x3x5x8xf32>, %v: tensor<2x3x6x8xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x6x4xf32>) {
  // CHECK: %[[T:.*]] = mpc.transpose %{{.*}} {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x4x3x8xf32>) -> tensor<2x3x4x8xf32>
  // CHECK-NOT: mpc.transpose
  // CHECK: mpc.matmul %{{.*}}, %[[T]] {transB = true}
  // CHECK: mpc.matmul %{{.*}}, %[[T]] {transB = true}
  %t = mpc.transpose %x {perm = array<i64: 0, 2, 3, 1>} : (tensor<2x4x3x8xf32>) -> tensor<2x3x8x4xf32>
  %y = mpc.matmul %w, %t : (tensor<2x3x5x8xf32>, tensor<2x3x8x4xf32>) -> tensor<2x3x5x4xf32>
  %z = mpc.matmul %v, %t : (tensor<2x3x6x8xf32>, tensor<2x3x8x4xf32>) -> tensor<2x3x6x4xf32>
  return %y, %z : tensor<2x3x5x4xf32>, tensor<2x3x6x4xf32>
}

// The transpose of a product is the product of the transposes.
// CHECK-LABEL: func.func @turned_product
func.func @turned_product(%a: tensor<2x3x4x8xf32>, %b: tensor<2x3x5x8xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x5x3x4xf32>) {
  // CHECK: %[[P:.*]] = mpc.matmul %arg1, %arg0 {transB = true} : (tensor<2x3x5x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x5x4xf32>
  // CHECK: %[[Q:.*]] = mpc.matmul %arg1, %arg0 {alpha = 2.000000e+00 : f64, transB = true}
  // CHECK: %[[T:.*]] = mpc.transpose %[[Q]] {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x5x4xf32>) -> tensor<2x5x3x4xf32>
  // CHECK: return %[[P]], %[[T]]
  %p = mpc.matmul %a, %b {transB = true} : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %s = mpc.transpose %p {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x3x4x5xf32>) -> tensor<2x3x5x4xf32>
  %q = mpc.matmul %a, %b {transB = true, alpha = 2.0 : f64} : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %t = mpc.transpose %q {perm = array<i64: 0, 3, 1, 2>} : (tensor<2x3x4x5xf32>) -> tensor<2x5x3x4xf32>
  return %s, %t : tensor<2x3x5x4xf32>, tensor<2x5x3x4xf32>
}

// A scaled product is transposed too, for all users of its transpose. Users of
// the product itself keep it.
//
// CHECK-LABEL: func.func @turned_scaled_product
// CHECK: %[[Y:.*]] = mpc.matmul %arg1, %arg0 {transA = true, transB = true} : {{.*}} -> tensor<3x5x4xf32>
// CHECK: %[[S:.*]] = mpc.mul %[[Y]], %arg2 : (tensor<3x5x4xf32>, tensor<f32>) -> tensor<3x5x4xf32>
// CHECK: %[[T:.*]] = mpc.transpose %[[S]] {perm = array<i64: 1, 0, 2>}
// CHECK: amp.cast %{{.*}} : (tensor<3x5x4xf32>) -> tensor<3x5x4xbf16>
// CHECK: mpc.transpose
// CHECK: mpc.matmul %arg0, %arg1 : {{.*}} -> tensor<3x4x5xf32>
// CHECK: mpc.transpose %{{.*}} {perm = array<i64: 2, 0, 1>}
func.func @turned_scaled_product(%a: tensor<3x4x8xf32>, %b: tensor<3x8x5xf32>, %s: tensor<f32>)
    -> (tensor<5x3x4xf32>, tensor<5x3x4xbf16>, tensor<5x3x4xf32>, tensor<3x4x5xf32>) {
  %0 = mpc.matmul %a, %b : (tensor<3x4x8xf32>, tensor<3x8x5xf32>) -> tensor<3x4x5xf32>
  %1 = mpc.mul %0, %s : (tensor<3x4x5xf32>, tensor<f32>) -> tensor<3x4x5xf32>
  %2 = mpc.transpose %1 {perm = array<i64: 2, 0, 1>} : (tensor<3x4x5xf32>) -> tensor<5x3x4xf32>
  %3 = amp.cast %1 : (tensor<3x4x5xf32>) -> tensor<3x4x5xbf16>
  %4 = mpc.transpose %3 {perm = array<i64: 2, 0, 1>} : (tensor<3x4x5xbf16>) -> tensor<5x3x4xbf16>
  %5 = mpc.matmul %a, %b : (tensor<3x4x8xf32>, tensor<3x8x5xf32>) -> tensor<3x4x5xf32>
  %6 = mpc.mul %5, %s : (tensor<3x4x5xf32>, tensor<f32>) -> tensor<3x4x5xf32>
  %7 = mpc.transpose %6 {perm = array<i64: 2, 0, 1>} : (tensor<3x4x5xf32>) -> tensor<5x3x4xf32>
  return %2, %4, %7, %6 : tensor<5x3x4xf32>, tensor<5x3x4xbf16>, tensor<5x3x4xf32>, tensor<3x4x5xf32>
}

// An operand has one batch stride: it has all batches or one.
// CHECK-LABEL: func.func @batches
func.func @batches(%x: tensor<2x1x4x8xf32>, %w: tensor<3x8x5xf32>, %v: tensor<8x5xf32>) -> (tensor<2x3x4x5xf32>, tensor<2x1x4x5xf32>) {
  // CHECK-DAG: mpc.expand %{{.*}} : (tensor<2x1x4x8xf32>) -> tensor<2x3x4x8xf32>
  // CHECK-DAG: mpc.expand %{{.*}} : (tensor<3x8x5xf32>) -> tensor<2x3x8x5xf32>
  // CHECK: mpc.matmul %{{.*}} : (tensor<2x3x4x8xf32>, tensor<2x3x8x5xf32>)
  // CHECK: mpc.matmul %{{.*}} : (tensor<2x1x4x8xf32>, tensor<8x5xf32>)
  %y = mpc.matmul %x, %w : (tensor<2x1x4x8xf32>, tensor<3x8x5xf32>) -> tensor<2x3x4x5xf32>
  %z = mpc.matmul %x, %v : (tensor<2x1x4x8xf32>, tensor<8x5xf32>) -> tensor<2x1x4x5xf32>
  return %y, %z : tensor<2x3x4x5xf32>, tensor<2x1x4x5xf32>
}
