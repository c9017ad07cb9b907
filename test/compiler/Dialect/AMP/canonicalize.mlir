// RUN: mpc-opt %s -canonicalize | FileCheck %s

// CHECK-LABEL: func @cast_to_its_own_type
func.func @cast_to_its_own_type(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NOT: amp.cast
  // CHECK: return %arg0
  %0 = amp.cast %x : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// The inner cast rounds observably.
// CHECK-LABEL: func @rounding_pair_stays
func.func @rounding_pair_stays(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: %[[LOW:.*]] = amp.cast %arg0
  // CHECK: %[[WIDE:.*]] = amp.cast %[[LOW]]
  // CHECK: return %[[WIDE]]
  %0 = amp.cast %x : (tensor<8xf32>) -> tensor<8xbf16>
  %1 = amp.cast %0 : (tensor<8xbf16>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
