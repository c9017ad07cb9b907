// RUN: mpc-opt %s --mpc-simplify-movement | FileCheck %s

// Heads of queries, as multi_head_attention_forward splits and transposes them.
// CHECK-LABEL: func.func @heads
// CHECK-NEXT: %[[H:.+]] = mpc.reshape %arg0 : (tensor<8x4x16xf32>) -> tensor<8x4x2x8xf32>
// CHECK-NEXT: %[[T:.+]] = mpc.transpose %[[H]] {perm = array<i64: 1, 2, 0, 3>} : (tensor<8x4x2x8xf32>) -> tensor<4x2x8x8xf32>
// CHECK-NEXT: return %[[T]]
func.func @heads(%x: tensor<8x4x16xf32>) -> tensor<4x2x8x8xf32> {
  %0 = mpc.reshape %x : (tensor<8x4x16xf32>) -> tensor<8x8x8xf32>
  %1 = mpc.transpose %0 {perm = array<i64: 1, 0, 2>} : (tensor<8x8x8xf32>) -> tensor<8x8x8xf32>
  %2 = mpc.reshape %1 : (tensor<8x8x8xf32>) -> tensor<4x2x8x8xf32>
  return %2 : tensor<4x2x8x8xf32>
}

// The gradient of the same movement.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT: %[[T:.+]] = mpc.transpose %arg0 {perm = array<i64: 2, 0, 1, 3>} : (tensor<4x2x8x8xf32>) -> tensor<8x4x2x8xf32>
// CHECK-NEXT: %[[H:.+]] = mpc.reshape %[[T]] : (tensor<8x4x2x8xf32>) -> tensor<32x16xf32>
// CHECK-NEXT: return %[[H]]
func.func @gradient(%x: tensor<4x2x8x8xf32>) -> tensor<32x16xf32> {
  %0 = mpc.reshape %x : (tensor<4x2x8x8xf32>) -> tensor<8x8x8xf32>
  %1 = mpc.transpose %0 {perm = array<i64: 1, 0, 2>} : (tensor<8x8x8xf32>) -> tensor<8x8x8xf32>
  %2 = mpc.reshape %1 : (tensor<8x8x8xf32>) -> tensor<32x16xf32>
  return %2 : tensor<32x16xf32>
}

// A transpose stays if a product can read it as `transB`, or if its view only
// splits axes or merges parts of several.
// CHECK-LABEL: func.func @kept
// CHECK: mpc.transpose %{{.+}} {perm = array<i64: 0, 2, 1>} : (tensor<4x6x8xf32>) -> tensor<4x8x6xf32>
// CHECK: mpc.transpose %{{.+}} {perm = array<i64: 1, 0, 2>} : (tensor<4x2x24xf32>) -> tensor<2x4x24xf32>
// CHECK: mpc.transpose %{{.+}} {perm = array<i64: 1, 0>} : (tensor<12x16xf32>) -> tensor<16x12xf32>
func.func @kept(%x: tensor<4x2x3x8xf32>, %y: tensor<8x24xf32>, %z: tensor<8x24xf32>, %w: tensor<4x5x8xf32>)
    -> (tensor<4x5x6xf32>, tensor<192xf32>, tensor<192xf32>) {
  %0 = mpc.reshape %x : (tensor<4x2x3x8xf32>) -> tensor<4x6x8xf32>
  %1 = mpc.transpose %0 {perm = array<i64: 0, 2, 1>} : (tensor<4x6x8xf32>) -> tensor<4x8x6xf32>
  %2 = mpc.matmul %w, %1 : (tensor<4x5x8xf32>, tensor<4x8x6xf32>) -> tensor<4x5x6xf32>
  %3 = mpc.reshape %y : (tensor<8x24xf32>) -> tensor<4x2x24xf32>
  %4 = mpc.transpose %3 {perm = array<i64: 1, 0, 2>} : (tensor<4x2x24xf32>) -> tensor<2x4x24xf32>
  %5 = mpc.reshape %4 : (tensor<2x4x24xf32>) -> tensor<192xf32>
  %6 = mpc.reshape %z : (tensor<8x24xf32>) -> tensor<12x16xf32>
  %7 = mpc.transpose %6 {perm = array<i64: 1, 0>} : (tensor<12x16xf32>) -> tensor<16x12xf32>
  %8 = mpc.reshape %7 : (tensor<16x12xf32>) -> tensor<192xf32>
  return %2, %5, %8 : tensor<4x5x6xf32>, tensor<192xf32>, tensor<192xf32>
}

// A join in front of all tokens, moved behind them, becomes a join behind the tokens.
// CHECK-LABEL: func.func @join
// CHECK-DAG: %[[A:.+]] = mpc.reshape %arg0 : (tensor<1x8x4x16xf32>) -> tensor<1x8x4x1x16xf32>
// CHECK-DAG: %[[B:.+]] = mpc.reshape %arg1 : (tensor<1x8x4x16xf32>) -> tensor<1x8x4x1x16xf32>
// CHECK: %[[J:.+]] = mpc.concat %[[A]], %[[B]] {axis = 3 : i64}
// CHECK-NEXT: return %[[J]] : tensor<1x8x4x2x16xf32>
func.func @join(%a: tensor<1x8x4x16xf32>, %b: tensor<1x8x4x16xf32>) -> tensor<1x8x4x2x16xf32> {
  %0 = mpc.concat %a, %b {axis = 0 : i64} : (tensor<1x8x4x16xf32>, tensor<1x8x4x16xf32>) -> tensor<2x8x4x16xf32>
  %1 = mpc.reshape %0 : (tensor<2x8x4x16xf32>) -> tensor<2x8x4x1x16xf32>
  %2 = mpc.transpose %1 {perm = array<i64: 3, 1, 2, 0, 4>} : (tensor<2x8x4x1x16xf32>) -> tensor<1x8x4x2x16xf32>
  return %2 : tensor<1x8x4x2x16xf32>
}

// The transpose would also move parts of two rows, or rows and columns have the
// same length, or the join has other users: it stays.
// CHECK-LABEL: func.func @moved_parts
// CHECK: mpc.concat {{.+}} {axis = 0 : i64}
// CHECK: mpc.transpose
// CHECK: mpc.concat {{.+}} {axis = 0 : i64}
// CHECK: mpc.transpose
// CHECK: mpc.concat {{.+}} {axis = 1 : i64}
// CHECK: mpc.transpose
func.func @moved_parts(%a: tensor<2x4xf32>, %b: tensor<1x4xf32>, %c: tensor<3x3xf32>)
    -> (tensor<4x4xf32>, tensor<4x2xf32>, tensor<2x4xf32>, tensor<6x3xf32>) {
  %0 = mpc.concat %a, %a {axis = 0 : i64} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.transpose %0 {perm = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = mpc.concat %b, %b {axis = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  %3 = mpc.transpose %2 {perm = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %4 = mpc.concat %c, %c {axis = 1 : i64} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x6xf32>
  %5 = mpc.transpose %4 {perm = array<i64: 1, 0>} : (tensor<3x6xf32>) -> tensor<6x3xf32>
  return %1, %3, %2, %5 : tensor<4x4xf32>, tensor<4x2xf32>, tensor<2x4xf32>, tensor<6x3xf32>
}
