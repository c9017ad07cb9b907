// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-recognize-embedding))" | FileCheck %s

// CHECK-LABEL: func.func @compared
func.func @compared(%ids: tensor<2x4x1xi32>, %table: tensor<16x4xf32>) -> tensor<2x4x4xf32> {
  // CHECK-NEXT: %[[IDS:.*]] = mpc.reshape %arg0 : (tensor<2x4x1xi32>) -> tensor<2x4xi32>
  // CHECK-NEXT: %[[WIDE:.*]] = mpc.cast %[[IDS]] : (tensor<2x4xi32>) -> tensor<2x4xi64>
  // CHECK-NEXT: %[[ZERO:.*]] = mpc.constant dense<0> : tensor<i64>
  // CHECK-NEXT: %[[BELOW:.*]] = mpc.less %[[WIDE]], %[[ZERO]]
  // CHECK-NEXT: %[[NONE:.*]] = mpc.constant dense<16> : tensor<i64>
  // CHECK-NEXT: %[[ROWS:.*]] = mpc.select %[[BELOW]], %[[NONE]], %[[WIDE]]
  // CHECK-NEXT: %[[Y:.*]] = mpc.gather %arg1, %[[ROWS]] {axis = 0 : i64} : (tensor<16x4xf32>, tensor<2x4xi64>) -> tensor<2x4x4xf32>
  // CHECK-NEXT: return %[[Y]]
  %count = mpc.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : tensor<16xi32>
  %0 = mpc.equal %count, %ids : (tensor<16xi32>, tensor<2x4x1xi32>) -> tensor<2x4x16xi1>
  %1 = mpc.cast %0 : (tensor<2x4x16xi1>) -> tensor<2x4x16xf32>
  %y = mpc.matmul %1, %table : (tensor<2x4x16xf32>, tensor<16x4xf32>) -> tensor<2x4x4xf32>
  return %y : tensor<2x4x4xf32>
}

// A layer's weights are [outputs, inputs].
// CHECK-LABEL: func.func @layer
func.func @layer(%ids: tensor<8x1xi64>, %w: tensor<4x16xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
  // CHECK-NOT: mpc.gemm
  // CHECK: %[[TABLE:.*]] = mpc.transpose %arg1 {perm = array<i64: 1, 0>}
  // CHECK: %[[ROWS:.*]] = mpc.gather %[[TABLE]],
  // CHECK-NEXT: %[[Y:.*]] = mpc.add %[[ROWS]], %arg2
  // CHECK-NEXT: return %[[Y]]
  %count = mpc.constant dense<[[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]]> : tensor<1x16xi64>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %0 = mpc.expand %ids : (tensor<8x1xi64>) -> tensor<8x16xi64>
  %1 = mpc.equal %0, %count : (tensor<8x16xi64>, tensor<1x16xi64>) -> tensor<8x16xi1>
  %2 = mpc.select %1, %one, %zero : (tensor<8x16xi1>, tensor<f32>, tensor<f32>) -> tensor<8x16xf32>
  %y = mpc.gemm %2, %w, %b {transB = true} : (tensor<8x16xf32>, tensor<4x16xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// The compared numbers do not count from 0.
// CHECK-LABEL: func.func @other_numbers
// CHECK: mpc.matmul
func.func @other_numbers(%ids: tensor<8x1xi64>, %table: tensor<16x4xf32>) -> tensor<8x4xf32> {
  %count = mpc.constant dense<[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]> : tensor<16xi64>
  %0 = mpc.equal %ids, %count : (tensor<8x1xi64>, tensor<16xi64>) -> tensor<8x16xi1>
  %1 = mpc.cast %0 : (tensor<8x16xi1>) -> tensor<8x16xf32>
  %y = mpc.matmul %1, %table : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// There are several ids for one row.
// CHECK-LABEL: func.func @other_places
// CHECK: mpc.matmul
func.func @other_places(%ids: tensor<8x16xi64>, %table: tensor<16x4xf32>) -> tensor<8x4xf32> {
  %count = mpc.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : tensor<16xi64>
  %0 = mpc.equal %ids, %count : (tensor<8x16xi64>, tensor<16xi64>) -> tensor<8x16xi1>
  %1 = mpc.cast %0 : (tensor<8x16xi1>) -> tensor<8x16xf32>
  %y = mpc.matmul %1, %table : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// The ones are twos, or the table has few rows.
// CHECK-LABEL: func.func @twos
// CHECK: mpc.matmul
// CHECK: mpc.matmul
func.func @twos(%ids: tensor<8x1xi64>, %table: tensor<16x4xf32>, %few: tensor<3x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %count = mpc.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : tensor<16xi64>
  %two = mpc.constant dense<2.0> : tensor<f32>
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %0 = mpc.equal %ids, %count : (tensor<8x1xi64>, tensor<16xi64>) -> tensor<8x16xi1>
  %1 = mpc.select %0, %two, %zero : (tensor<8x16xi1>, tensor<f32>, tensor<f32>) -> tensor<8x16xf32>
  %y = mpc.matmul %1, %table : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %three = mpc.constant dense<[0, 1, 2]> : tensor<3xi64>
  %2 = mpc.equal %ids, %three : (tensor<8x1xi64>, tensor<3xi64>) -> tensor<8x3xi1>
  %3 = mpc.cast %2 : (tensor<8x3xi1>) -> tensor<8x3xf32>
  %z = mpc.matmul %3, %few : (tensor<8x3xf32>, tensor<3x4xf32>) -> tensor<8x4xf32>
  return %y, %z : tensor<8x4xf32>, tensor<8x4xf32>
}
