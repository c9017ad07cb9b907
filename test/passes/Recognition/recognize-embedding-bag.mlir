// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-recognize-embedding-bag))" | FileCheck %s

// PyTorch's TorchScript exporter writes a loop with a gather for each bag.
// CHECK-LABEL: func.func @torchscript
func.func @torchscript(%ids: tensor<6xi64>, %table: tensor<10x4xf32>) -> tensor<2x4xf32> {
  // CHECK-NEXT: %[[BAGS:.*]] = mpc.reshape %arg0 : (tensor<6xi64>) -> tensor<2x3xi64>
  // CHECK-NEXT: %[[ROWS:.*]] = mpc.gather %arg1, %[[BAGS]] {axis = 0 : i64} : (tensor<10x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  // CHECK-NEXT: %[[Y:.*]] = mpc.reduce_sum %[[ROWS]] {axes = array<i64: 1>} : (tensor<2x3x4xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: return %[[Y]]
  %0 = mpc.slice %ids {offsets = array<i64: 0>, sizes = array<i64: 3>} : (tensor<6xi64>) -> tensor<3xi64>
  %1 = mpc.gather %table, %0 {axis = 0 : i64} : (tensor<10x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  %2 = mpc.reduce_sum %1 {axes = array<i64: 0>} : (tensor<3x4xf32>) -> tensor<4xf32>
  %3 = mpc.reshape %2 : (tensor<4xf32>) -> tensor<1x4xf32>
  %4 = mpc.slice %ids {offsets = array<i64: 3>, sizes = array<i64: 3>} : (tensor<6xi64>) -> tensor<3xi64>
  %5 = mpc.gather %table, %4 {axis = 0 : i64} : (tensor<10x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  %6 = mpc.reduce_sum %5 {axes = array<i64: 0>} : (tensor<3x4xf32>) -> tensor<4xf32>
  %7 = mpc.reshape %6 : (tensor<4xf32>) -> tensor<1x4xf32>
  %y = mpc.concat %3, %7 {axis = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// PyTorch's current exporter gathers all rows first, and each bag is a slice.
// CHECK-LABEL: func.func @dynamo
func.func @dynamo(%rows: tensor<9x4xf32>) -> tensor<2x4xf32> {
  // CHECK-NEXT: %[[PART:.*]] = mpc.slice %arg0 {offsets = array<i64: 1, 0>, sizes = array<i64: 6, 4>}
  // CHECK-NEXT: %[[BAGS:.*]] = mpc.reshape %[[PART]] : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  // CHECK-NEXT: mpc.reduce_max %[[BAGS]] {axes = array<i64: 1>} : (tensor<2x3x4xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: return
  %0 = mpc.slice %rows {offsets = array<i64: 1, 0>, sizes = array<i64: 3, 4>} : (tensor<9x4xf32>) -> tensor<3x4xf32>
  %1 = mpc.reduce_max %0 {axes = array<i64: 0>, keepdims = true} : (tensor<3x4xf32>) -> tensor<1x4xf32>
  %2 = mpc.slice %rows {offsets = array<i64: 4, 0>, sizes = array<i64: 3, 4>} : (tensor<9x4xf32>) -> tensor<3x4xf32>
  %3 = mpc.reduce_max %2 {axes = array<i64: 0>, keepdims = true} : (tensor<3x4xf32>) -> tensor<1x4xf32>
  %y = mpc.concat %1, %3 {axis = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// A mean whose last bag is a sum divided by the number of remaining ids.
// CHECK-LABEL: func.func @mean
func.func @mean(%rows: tensor<4x4xf32>) -> tensor<2x4xf32> {
  // CHECK-NEXT: %[[BAGS:.*]] = mpc.reshape %arg0 : (tensor<4x4xf32>) -> tensor<2x2x4xf32>
  // CHECK-NEXT: mpc.reduce_mean %[[BAGS]] {axes = array<i64: 1>}
  // CHECK-NEXT: return
  %two = mpc.constant dense<2.0> : tensor<1xf32>
  %0 = mpc.slice %rows {offsets = array<i64: 0, 0>, sizes = array<i64: 2, 4>} : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = mpc.reduce_mean %0 {axes = array<i64: 0>, keepdims = true} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %2 = mpc.slice %rows {offsets = array<i64: 2, 0>, sizes = array<i64: 2, 4>} : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %3 = mpc.reduce_sum %2 {axes = array<i64: 0>, keepdims = true} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %4 = mpc.div %3, %two : (tensor<1x4xf32>, tensor<1xf32>) -> tensor<1x4xf32>
  %y = mpc.concat %1, %4 {axis = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// The sum's divisor is not the number of rows.
// CHECK-LABEL: func.func @other_divisor
// CHECK: mpc.concat
func.func @other_divisor(%rows: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %three = mpc.constant dense<3.0> : tensor<1xf32>
  %0 = mpc.slice %rows {offsets = array<i64: 0, 0>, sizes = array<i64: 2, 4>} : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = mpc.reduce_mean %0 {axes = array<i64: 0>, keepdims = true} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %2 = mpc.slice %rows {offsets = array<i64: 2, 0>, sizes = array<i64: 2, 4>} : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %3 = mpc.reduce_sum %2 {axes = array<i64: 0>, keepdims = true} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %4 = mpc.div %3, %three : (tensor<1x4xf32>, tensor<1xf32>) -> tensor<1x4xf32>
  %y = mpc.concat %1, %4 {axis = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// Bags of several lengths; bags with a gap between; a mean beside a sum; two
// tables; a sum with another user; a reduction of part of each row.
// CHECK-LABEL: func.func @lengths
// CHECK: mpc.concat
func.func @lengths(%rows: tensor<5x4xf32>) -> tensor<2x4xf32> {
  %0 = mpc.slice %rows {offsets = array<i64: 0, 0>, sizes = array<i64: 3, 4>} : (tensor<5x4xf32>) -> tensor<3x4xf32>
  %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<3x4xf32>) -> tensor<1x4xf32>
  %2 = mpc.slice %rows {offsets = array<i64: 3, 0>, sizes = array<i64: 2, 4>} : (tensor<5x4xf32>) -> tensor<2x4xf32>
  %3 = mpc.reduce_sum %2 {axes = array<i64: 0>, keepdims = true} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %y = mpc.concat %1, %3 {axis = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @gap
// CHECK: mpc.concat
func.func @gap(%rows: tensor<5x4xf32>) -> tensor<2x4xf32> {
  %0 = mpc.slice %rows {offsets = array<i64: 0, 0>, sizes = array<i64: 2, 4>} : (tensor<5x4xf32>) -> tensor<2x4xf32>
  %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %2 = mpc.slice %rows {offsets = array<i64: 3, 0>, sizes = array<i64: 2, 4>} : (tensor<5x4xf32>) -> tensor<2x4xf32>
  %3 = mpc.reduce_sum %2 {axes = array<i64: 0>, keepdims = true} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %y = mpc.concat %1, %3 {axis = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @kinds
// CHECK: mpc.concat
func.func @kinds(%rows: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %0 = mpc.slice %rows {offsets = array<i64: 0, 0>, sizes = array<i64: 2, 4>} : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %2 = mpc.slice %rows {offsets = array<i64: 2, 0>, sizes = array<i64: 2, 4>} : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %3 = mpc.reduce_mean %2 {axes = array<i64: 0>, keepdims = true} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %y = mpc.concat %1, %3 {axis = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @tables
// CHECK: mpc.concat
func.func @tables(%ids: tensor<4xi64>, %a: tensor<10x4xf32>, %b: tensor<10x4xf32>) -> tensor<2x4xf32> {
  %0 = mpc.slice %ids {offsets = array<i64: 0>, sizes = array<i64: 2>} : (tensor<4xi64>) -> tensor<2xi64>
  %1 = mpc.gather %a, %0 {axis = 0 : i64} : (tensor<10x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %2 = mpc.reduce_sum %1 {axes = array<i64: 0>, keepdims = true} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %3 = mpc.slice %ids {offsets = array<i64: 2>, sizes = array<i64: 2>} : (tensor<4xi64>) -> tensor<2xi64>
  %4 = mpc.gather %b, %3 {axis = 0 : i64} : (tensor<10x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %5 = mpc.reduce_sum %4 {axes = array<i64: 0>, keepdims = true} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %y = mpc.concat %2, %5 {axis = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @read_elsewhere
// CHECK: mpc.concat
func.func @read_elsewhere(%rows: tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<1x4xf32>) {
  %0 = mpc.slice %rows {offsets = array<i64: 0, 0>, sizes = array<i64: 2, 4>} : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %2 = mpc.slice %rows {offsets = array<i64: 2, 0>, sizes = array<i64: 2, 4>} : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %3 = mpc.reduce_sum %2 {axes = array<i64: 0>, keepdims = true} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %y = mpc.concat %1, %3 {axis = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %y, %1 : tensor<2x4xf32>, tensor<1x4xf32>
}

// CHECK-LABEL: func.func @columns
// CHECK: mpc.concat
func.func @columns(%rows: tensor<4x6xf32>) -> tensor<2x4xf32> {
  %0 = mpc.slice %rows {offsets = array<i64: 0, 0>, sizes = array<i64: 2, 4>} : (tensor<4x6xf32>) -> tensor<2x4xf32>
  %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %2 = mpc.slice %rows {offsets = array<i64: 2, 0>, sizes = array<i64: 2, 4>} : (tensor<4x6xf32>) -> tensor<2x4xf32>
  %3 = mpc.reduce_sum %2 {axes = array<i64: 0>, keepdims = true} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %y = mpc.concat %1, %3 {axis = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// Rows have an axis of size 1, along which the sums are joined.
// CHECK-LABEL: func.func @joined_along_rows
// CHECK: mpc.concat
func.func @joined_along_rows(%rows: tensor<4x1x4xf32>) -> tensor<2x4xf32> {
  %0 = mpc.slice %rows {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 2, 1, 4>} : (tensor<4x1x4xf32>) -> tensor<2x1x4xf32>
  %1 = mpc.reduce_sum %0 {axes = array<i64: 0>} : (tensor<2x1x4xf32>) -> tensor<1x4xf32>
  %2 = mpc.slice %rows {offsets = array<i64: 2, 0, 0>, sizes = array<i64: 2, 1, 4>} : (tensor<4x1x4xf32>) -> tensor<2x1x4xf32>
  %3 = mpc.reduce_sum %2 {axes = array<i64: 0>} : (tensor<2x1x4xf32>) -> tensor<1x4xf32>
  %y = mpc.concat %1, %3 {axis = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
