// RUN: mpc-opt %s --mpc-sink-movement | FileCheck %s

// Queries are scaled before they are moved.
//
// CHECK-LABEL: func.func @attention
// CHECK: %[[Q:.*]] = mpc.matmul %arg0, %arg1
// CHECK-NEXT: %[[SCALED:.*]] = mpc.mul %[[Q]], %arg3 {mpc.phase = #mpc.phase<forward>} : (tensor<8x6xf32>, tensor<f32>) -> tensor<8x6xf32>
// CHECK-NEXT: %[[HEADS:.*]] = mpc.reshape %[[SCALED]] : (tensor<8x6xf32>) -> tensor<8x2x3xf32>
// CHECK-NEXT: %[[TURNED:.*]] = mpc.transpose %[[HEADS]] {perm = array<i64: 1, 0, 2>}
// CHECK-NEXT: mpc.matmul %[[TURNED]], %arg2
func.func @attention(%x: tensor<8x6xf32>, %w: tensor<6x6xf32>, %k: tensor<2x3x8xf32>, %scale: tensor<f32>) -> tensor<2x8x8xf32> {
  %q = mpc.matmul %x, %w : (tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32>
  %0 = mpc.reshape %q : (tensor<8x6xf32>) -> tensor<8x2x3xf32>
  %1 = mpc.transpose %0 {perm = array<i64: 1, 0, 2>} : (tensor<8x2x3xf32>) -> tensor<2x8x3xf32>
  %2 = mpc.mul %1, %scale {mpc.phase = #mpc.phase<forward>} : (tensor<2x8x3xf32>, tensor<f32>) -> tensor<2x8x3xf32>
  %s = mpc.matmul %2, %k : (tensor<2x8x3xf32>, tensor<2x3x8xf32>) -> tensor<2x8x8xf32>
  return %s : tensor<2x8x8xf32>
}

// Several ops move one after the other. The last one narrows the elements. A
// scalar with more axes than the moved value becomes rank 0.
//
// CHECK-LABEL: func.func @chain
// CHECK: %[[Q:.*]] = mpc.matmul
// CHECK: %[[ONE:.*]] = mpc.reshape %arg3 : (tensor<1x1x1xf32>) -> tensor<f32>
// CHECK: %[[A:.*]] = mpc.add %[[Q]], %[[ONE]] : (tensor<8x6xf32>, tensor<f32>) -> tensor<8x6xf32>
// CHECK: %[[R:.*]] = mpc.relu %[[A]]
// CHECK: %[[C:.*]] = amp.cast %[[R]] : (tensor<8x6xf32>) -> tensor<8x6xbf16>
// CHECK: %[[H:.*]] = mpc.reshape %[[C]] : (tensor<8x6xbf16>) -> tensor<2x8x3xbf16>
// CHECK: mpc.matmul %[[H]]
func.func @chain(%x: tensor<8x6xf32>, %w: tensor<6x6xf32>, %k: tensor<2x3x8xbf16>, %one: tensor<1x1x1xf32>) -> tensor<2x8x8xf32> {
  %q = mpc.matmul %x, %w : (tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32>
  %0 = mpc.reshape %q : (tensor<8x6xf32>) -> tensor<2x8x3xf32>
  %1 = mpc.add %0, %one : (tensor<2x8x3xf32>, tensor<1x1x1xf32>) -> tensor<2x8x3xf32>
  %2 = mpc.relu %1 : (tensor<2x8x3xf32>) -> tensor<2x8x3xf32>
  %3 = amp.cast %2 : (tensor<2x8x3xf32>) -> tensor<2x8x3xbf16>
  %s = mpc.matmul %3, %k : (tensor<2x8x3xbf16>, tensor<2x3x8xbf16>) -> tensor<2x8x8xf32>
  return %s : tensor<2x8x8xf32>
}

// A cast moves before a view even if the value has other users, which share it:
// here the gradient of scores, for two products that read different shapes. A
// scaling that only one user needs stays behind its view.
//
// CHECK-LABEL: func.func @shared
// CHECK: %[[D:.*]] = mpc.relu %arg0
// CHECK-NOT: mpc.reshape %[[D]] : (tensor<8x6xf32>)
// CHECK: amp.cast %[[D]] : (tensor<8x6xf32>) -> tensor<8x6xbf16>
// CHECK: %[[C:.*]] = amp.cast %[[D]] : (tensor<8x6xf32>) -> tensor<8x6xbf16>
// CHECK: %[[H:.*]] = mpc.reshape %[[C]] : (tensor<8x6xbf16>) -> tensor<2x4x6xbf16>
// CHECK: mpc.matmul %[[H]]
// CHECK: %[[R:.*]] = mpc.reshape %[[D]] : (tensor<8x6xf32>) -> tensor<4x2x6xf32>
// CHECK: mpc.mul %[[R]]
func.func @shared(%x: tensor<8x6xf32>, %w: tensor<6x6xbf16>, %s: tensor<f32>, %k: tensor<6x6xf32>)
    -> (tensor<8x6xf32>, tensor<6x6xf32>, tensor<2x4x6xf32>, tensor<4x2x6xf32>) {
  %d = mpc.relu %x : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %0 = amp.cast %d : (tensor<8x6xf32>) -> tensor<8x6xbf16>
  %1 = mpc.matmul %0, %0 {transA = true} : (tensor<8x6xbf16>, tensor<8x6xbf16>) -> tensor<6x6xf32>
  %2 = mpc.reshape %d : (tensor<8x6xf32>) -> tensor<2x4x6xf32>
  %3 = amp.cast %2 : (tensor<2x4x6xf32>) -> tensor<2x4x6xbf16>
  %4 = mpc.matmul %3, %w : (tensor<2x4x6xbf16>, tensor<6x6xbf16>) -> tensor<2x4x6xf32>
  %5 = mpc.reshape %d : (tensor<8x6xf32>) -> tensor<4x2x6xf32>
  %6 = mpc.mul %5, %s : (tensor<4x2x6xf32>, tensor<f32>) -> tensor<4x2x6xf32>
  %7 = mpc.matmul %6, %k : (tensor<4x2x6xf32>, tensor<6x6xf32>) -> tensor<4x2x6xf32>
  return %d, %1, %4, %7 : tensor<8x6xf32>, tensor<6x6xf32>, tensor<2x4x6xf32>, tensor<4x2x6xf32>
}

// Ops that stay: an op that a later kernel fuses, an op whose operand has other
// users, one with two operands, one that widens elements, and one on an input.
//
// CHECK-LABEL: func.func @stay
// CHECK: %[[T0:.*]] = mpc.transpose
// CHECK-NEXT: %[[M0:.*]] = mpc.relu %[[T0]]
// CHECK-NEXT: mpc.reduce_sum %[[M0]]
// CHECK: %[[T1:.*]] = mpc.transpose
// CHECK-NEXT: mpc.relu %[[T1]]
// CHECK: %[[T2:.*]] = mpc.transpose
// CHECK-NEXT: mpc.mul %[[T2]], %arg0
// CHECK: %[[T3:.*]] = mpc.transpose
// CHECK-NEXT: amp.cast %[[T3]]
// CHECK: %[[T4:.*]] = mpc.transpose %arg0
// CHECK-NEXT: mpc.relu %[[T4]]
func.func @stay(%x: tensor<4x4xf32>, %h: tensor<4x4xbf16>)
    -> (tensor<4x1xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %a = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %t0 = mpc.transpose %a {perm = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %m0 = mpc.relu %t0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %r0 = mpc.reduce_sum %m0 {axes = array<i64: 1>, keepdims = true} : (tensor<4x4xf32>) -> tensor<4x1xf32>
  %b = mpc.matmul %x, %m0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %t1 = mpc.transpose %b {perm = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %m1 = mpc.relu %t1 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %r1 = mpc.matmul %m1, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = mpc.matmul %x, %r1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %t2 = mpc.transpose %c {perm = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %m2 = mpc.mul %t2, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %r2 = mpc.matmul %m2, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = mpc.matmul %h, %h : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %t3 = mpc.transpose %d {perm = array<i64: 1, 0>} : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %m3 = amp.cast %t3 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  %r3 = mpc.matmul %m3, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %t4 = mpc.transpose %x {perm = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %m4 = mpc.relu %t4 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %r4 = mpc.matmul %m4, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r0, %r1, %r2, %r3, %r4, %b : tensor<4x1xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
