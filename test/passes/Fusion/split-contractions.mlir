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

// One stride per operand: an operand has all batches or one.
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
