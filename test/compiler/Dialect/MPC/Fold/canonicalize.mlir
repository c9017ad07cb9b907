// RUN: mpc-opt %s -canonicalize | FileCheck %s

// CHECK-LABEL: func @merges_reshapes
// CHECK-NEXT: %[[Y:.*]] = mpc.reshape %arg0 : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
// CHECK-NEXT: return %[[Y]]
func.func @merges_reshapes(%x: tensor<2x3x4xf32>) -> tensor<6x4xf32> {
  %0 = mpc.reshape %x : (tensor<2x3x4xf32>) -> tensor<24xf32>
  %1 = mpc.reshape %0 : (tensor<24xf32>) -> tensor<6x4xf32>
  return %1 : tensor<6x4xf32>
}

// CHECK-LABEL: func @drops_opposite_transposes
// CHECK-NEXT: return %arg0
func.func @drops_opposite_transposes(%x: tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32> {
  %0 = mpc.transpose %x {perm = array<i64: 0, 2, 3, 1>} : (tensor<2x3x4x5xf32>) -> tensor<2x4x5x3xf32>
  %1 = mpc.transpose %0 {perm = array<i64: 0, 3, 1, 2>} : (tensor<2x4x5x3xf32>) -> tensor<2x3x4x5xf32>
  return %1 : tensor<2x3x4x5xf32>
}

// CHECK-LABEL: func @composes_transposes
// CHECK-NEXT: mpc.transpose %arg0 {perm = array<i64: 1, 2, 0>}
func.func @composes_transposes(%x: tensor<2x3x4xf32>) -> tensor<3x4x2xf32> {
  %0 = mpc.transpose %x {perm = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %1 = mpc.transpose %0 {perm = array<i64: 2, 0, 1>} : (tensor<4x2x3xf32>) -> tensor<3x4x2xf32>
  return %1 : tensor<3x4x2xf32>
}

// CHECK-LABEL: func @drops_identities
// CHECK-NEXT: return %arg0
func.func @drops_identities(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = mpc.expand %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = mpc.sum_to_size %0 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = mpc.cast %1 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}

// The result has the input's shape, but not its order.
// CHECK-LABEL: func @keeps_what_runs_backwards
// CHECK-NEXT: mpc.slice
// CHECK-NEXT: mpc.pad
func.func @keeps_what_runs_backwards(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mpc.slice %x {offsets = array<i64: 3>, sizes = array<i64: 4>, strides = array<i64: -1>} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = mpc.pad %0 {offsets = array<i64: 3>, shape = array<i64: 4>, strides = array<i64: -1>} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// A rounding is observable: the pair of casts stays.
// CHECK-LABEL: func @keeps_rounding_casts
// CHECK-COUNT-2: amp.cast
func.func @keeps_rounding_casts(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = amp.cast %x : (tensor<2x3xf32>) -> tensor<2x3xbf16>
  %1 = amp.cast %0 : (tensor<2x3xbf16>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}
