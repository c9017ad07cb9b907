// RUN: mpc-opt %s -split-input-file -amp-optimize-casts | FileCheck %s

// CHECK-LABEL: func @shared
func.func @shared(%x: tensor<8xf32>) -> (tensor<8xbf16>, tensor<8xbf16>) {
  // CHECK: %[[LOW:.*]] = amp.cast %arg0
  // CHECK-NOT: amp.cast
  // CHECK: return %[[LOW]], %[[LOW]]
  %0 = amp.cast %x : (tensor<8xf32>) -> tensor<8xbf16>
  %1 = amp.cast %x : (tensor<8xf32>) -> tensor<8xbf16>
  return %0, %1 : tensor<8xbf16>, tensor<8xbf16>
}

// -----

// Widening loses nothing, so narrowing back gives the value itself.
// CHECK-LABEL: func @widened_and_narrowed
func.func @widened_and_narrowed(%x: tensor<8xbf16>) -> tensor<8xbf16> {
  // CHECK-NEXT: return %arg0
  %0 = amp.cast %x : (tensor<8xbf16>) -> tensor<8xf32>
  %1 = amp.cast %0 : (tensor<8xf32>) -> tensor<8xbf16>
  return %1 : tensor<8xbf16>
}

// -----

// A rounding is observable: it stays.
// CHECK-LABEL: func @rounded_and_widened
func.func @rounded_and_widened(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: %[[LOW:.*]] = amp.cast %arg0 : (tensor<8xf32>) -> tensor<8xbf16>
  // CHECK-NEXT: %[[WIDE:.*]] = amp.cast %[[LOW]] : (tensor<8xbf16>) -> tensor<8xf32>
  // CHECK-NEXT: return %[[WIDE]]
  %0 = amp.cast %x : (tensor<8xf32>) -> tensor<8xbf16>
  %1 = amp.cast %0 : (tensor<8xbf16>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

// Neither 16-bit type contains the other.
// CHECK-LABEL: func @between_low_types
func.func @between_low_types(%x: tensor<8xbf16>) -> tensor<8xbf16> {
  // CHECK-COUNT-2: amp.cast
  %0 = amp.cast %x : (tensor<8xbf16>) -> tensor<8xf16>
  %1 = amp.cast %0 : (tensor<8xf16>) -> tensor<8xbf16>
  return %1 : tensor<8xbf16>
}

// -----

// A parameter is cast before it is moved, and half the bytes move.
// CHECK-LABEL: func @before_movement
func.func @before_movement(%w: tensor<4x8xf32>) -> tensor<8x2x2xbf16> {
  // CHECK-NEXT: %[[LOW:.*]] = amp.cast %arg0 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  // CHECK-NEXT: %[[MOVED:.*]] = mpc.transpose %[[LOW]]
  // CHECK-NEXT: mpc.reshape %[[MOVED]] : (tensor<8x4xbf16>) -> tensor<8x2x2xbf16>
  %0 = mpc.transpose %w {perm = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %1 = mpc.reshape %0 : (tensor<8x4xf32>) -> tensor<8x2x2xf32>
  %2 = amp.cast %1 : (tensor<8x2x2xf32>) -> tensor<8x2x2xbf16>
  return %2 : tensor<8x2x2xbf16>
}

// -----

// If the moved value is also read in fp32, moving it twice would cost more.
// CHECK-LABEL: func @movement_with_two_readers
func.func @movement_with_two_readers(%w: tensor<4x8xf32>) -> (tensor<8x4xbf16>, tensor<8x4xf32>) {
  // CHECK-NEXT: mpc.transpose %arg0
  // CHECK-NEXT: amp.cast
  %0 = mpc.transpose %w {perm = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %1 = amp.cast %0 : (tensor<8x4xf32>) -> tensor<8x4xbf16>
  return %1, %0 : tensor<8x4xbf16>, tensor<8x4xf32>
}

// -----

// A movement that a user kept in fp32 stays there.
// CHECK-LABEL: func @kept_movement
func.func @kept_movement(%w: tensor<4x8xf32>) -> tensor<8x4xbf16> {
  // CHECK-NEXT: mpc.transpose %arg0
  // CHECK-NEXT: amp.cast
  %0 = mpc.transpose %w {perm = array<i64: 1, 0>, amp.decision = #amp.decision<operands = [f32], results = [f32], compute = f32, class = clear, rule = "--keep-fp32=t", why = "", reason = keep_fp32, path = ["t"], evidence = assumed>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %1 = amp.cast %0 : (tensor<8x4xf32>) -> tensor<8x4xbf16>
  return %1 : tensor<8x4xbf16>
}

// -----

// Rounds to nearest, ties to even.
// CHECK-LABEL: func @constants
func.func @constants() -> (tensor<3xf16>, tensor<2xbf16>) {
  // The attribute has the smallest element, the largest and the root mean
  // square before rounding.
  // CHECK-DAG: mpc.constant {amp.rounded = array<f64: 1.000000e+00, 7.000000e+04, 40431.8{{[0-9]*}}>} dense<[1.000000e+00, 2.048000e+03, 0x7C00]> : tensor<3xf16>
  %0 = mpc.constant dense<[1.0, 2049.0, 70000.0]> : tensor<3xf32>
  %1 = amp.cast %0 : (tensor<3xf32>) -> tensor<3xf16>
  // CHECK-DAG: mpc.constant {amp.rounded = array<f64: 2.500000e-01, 2.500000e-01, 2.500000e-01>} dense<2.500000e-01> : tensor<2xbf16>
  %2 = mpc.constant dense<0.25> : tensor<2xf32>
  %3 = amp.cast %2 : (tensor<2xf32>) -> tensor<2xbf16>
  return %1, %3 : tensor<3xf16>, tensor<2xbf16>
}

// -----

// Large constants are cast at compile time, too: 1, 2049 and 70000.
// CHECK-LABEL: func @large_constants
// CHECK-NEXT: %[[LOW:.*]] = mpc.constant {{.*}} dense_resource<[[$LOW:numbers.*]]> : tensor<3xf16>
// CHECK-NEXT: return %[[LOW]]
// CHECK: [[$LOW]]: "{{0x........}}003C0068007C"
func.func @large_constants() -> tensor<3xf16> {
  %0 = mpc.constant dense_resource<numbers> : tensor<3xf32>
  %1 = amp.cast %0 : (tensor<3xf32>) -> tensor<3xf16>
  return %1 : tensor<3xf16>
}

{-#
  dialect_resources: {
    builtin: {
      numbers: "0x040000000000803F0010004500B88847"
    }
  }
#-}
