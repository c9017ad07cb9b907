// RUN: mpc-opt %s -mpc-expand-gradients | FileCheck %s

// Gradients of adjacent slices are joined, in whatever order they are used. The
// gradient of a single slice is padded with zeros. Neither uses a constant.
// CHECK-LABEL: func @split
// CHECK-NOT: mpc.constant
// CHECK: %[[A:.*]] = mpc.mul {{.*}}backward
// CHECK: %[[B:.*]] = mpc.mul {{.*}}backward
// CHECK: %[[C:.*]] = mpc.mul {{.*}}backward
// CHECK: %[[JOINED:.*]] = mpc.concat %[[C]], %[[B]], %[[A]] {axis = 1 : i64, mpc.phase = #mpc.phase<backward>} : {{.*}} -> tensor<4x8xf32>
// CHECK-NOT: mpc.constant
// CHECK: return %[[JOINED]]
func.func @split(%x: tensor<4x8xf32>, %a: tensor<4x3xf32>, %b: tensor<4x2xf32>) -> tensor<4x8xf32> {
  %0 = mpc.slice %x {offsets = array<i64: 0, 0>, sizes = array<i64: 4, 3>} : (tensor<4x8xf32>) -> tensor<4x3xf32>
  %1 = mpc.slice %x {offsets = array<i64: 0, 3>, sizes = array<i64: 4, 3>} : (tensor<4x8xf32>) -> tensor<4x3xf32>
  %2 = mpc.slice %x {offsets = array<i64: 0, 6>, sizes = array<i64: 4, 2>} : (tensor<4x8xf32>) -> tensor<4x2xf32>
  %3 = mpc.mul %0, %a : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %4 = mpc.mul %1, %a : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %5 = mpc.mul %2, %b : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %6 = mpc.concat %3, %4, %5 {axis = 1 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x2xf32>) -> tensor<4x8xf32>
  %7 = mpc.reduce_sum %6 {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  %g = mpc.gradient %7 wrt %x : tensor<f32>, (tensor<4x8xf32>) -> (tensor<4x8xf32>)
  return %g : tensor<4x8xf32>
}

// Overlapping gradients are added: the joined box of two adjacent slices, and the box of a third.
// CHECK-LABEL: func @slices
// CHECK: %[[PAIR:.*]] = mpc.concat %{{.*}}, %{{.*}} {axis = 0 : i64, mpc.phase = #mpc.phase<backward>} : (tensor<2xf32>, tensor<3xf32>) -> tensor<5xf32>
// CHECK: %[[P:.*]] = mpc.pad %[[PAIR]] {mpc.phase = #mpc.phase<backward>, offsets = array<i64: 1>, shape = array<i64: 8>} : (tensor<5xf32>) -> tensor<8xf32>
// CHECK: %[[Q:.*]] = mpc.pad %{{.*}} {mpc.phase = #mpc.phase<backward>, offsets = array<i64: 2>, shape = array<i64: 8>} : (tensor<4xf32>) -> tensor<8xf32>
// CHECK: mpc.add %[[P]], %[[Q]]
func.func @slices(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = mpc.slice %x {offsets = array<i64: 1>, sizes = array<i64: 2>} : (tensor<8xf32>) -> tensor<2xf32>
  %1 = mpc.slice %x {offsets = array<i64: 2>, sizes = array<i64: 4>} : (tensor<8xf32>) -> tensor<4xf32>
  %2 = mpc.slice %x {offsets = array<i64: 3>, sizes = array<i64: 3>} : (tensor<8xf32>) -> tensor<3xf32>
  %3 = mpc.concat %0, %1, %2 {axis = 0 : i64} : (tensor<2xf32>, tensor<4xf32>, tensor<3xf32>) -> tensor<9xf32>
  %g = mpc.gradient %3 wrt %x : tensor<9xf32>, (tensor<8xf32>) -> (tensor<8xf32>)
  return %g : tensor<8xf32>
}

// The slice takes every second element from the end. The gradient is scattered back.
// CHECK-LABEL: func @strided
// CHECK: mpc.pad %{{.*}} {mpc.phase = #mpc.phase<backward>, offsets = array<i64: 6>, shape = array<i64: 8>, strides = array<i64: -2>} : (tensor<3xf32>) -> tensor<8xf32>
func.func @strided(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = mpc.slice %x {offsets = array<i64: 6>, sizes = array<i64: 3>, strides = array<i64: -2>} : (tensor<8xf32>) -> tensor<3xf32>
  %g = mpc.gradient %0 wrt %x : tensor<3xf32>, (tensor<8xf32>) -> (tensor<8xf32>)
  return %g : tensor<8xf32>
}

// CHECK-LABEL: func @strided_pad
// CHECK: mpc.slice %{{.*}} {mpc.phase = #mpc.phase<backward>, offsets = array<i64: 6>, sizes = array<i64: 3>, strides = array<i64: -2>}
func.func @strided_pad(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = mpc.pad %x {offsets = array<i64: 6>, shape = array<i64: 8>, strides = array<i64: -2>} : (tensor<3xf32>) -> tensor<8xf32>
  %g = mpc.gradient %0 wrt %x : tensor<8xf32>, (tensor<3xf32>) -> (tensor<3xf32>)
  return %g : tensor<3xf32>
}
