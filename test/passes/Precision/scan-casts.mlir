// RUN: mpc-opt %s --amp-optimize-casts | FileCheck %s

// A weight is cast once, and all parts of a scanned operand are cast together.
// Stacked values keep the type in which they were computed.
// CHECK-LABEL: func.func @edges
// CHECK-SAME: (%[[H0:.*]]: tensor<4x4xf32>, %[[X:.*]]: tensor<8x4x4xf32>, %[[W:.*]]: tensor<4x4xf32>)
// CHECK-DAG: %[[XL:.*]] = amp.cast %[[X]] : (tensor<8x4x4xf32>) -> tensor<8x4x4xbf16>
// CHECK-DAG: %[[WL:.*]] = amp.cast %[[W]] : (tensor<4x4xf32>) -> tensor<4x4xbf16>
// CHECK: %[[R:.*]]:2 = mpc.scan 8 carried(%[[H0]] : tensor<4x4xf32>) scanned(%[[XL]] : tensor<8x4x4xbf16>) invariant(%[[WL]] : tensor<4x4xbf16>) -> (tensor<4x4xf32>, tensor<8x4x4xbf16>)
// CHECK: ^bb0(%[[H:.*]]: tensor<4x4xf32>, %[[XT:.*]]: tensor<4x4xbf16>, %[[U:.*]]: tensor<4x4xbf16>):
// CHECK-NEXT: %[[HL:.*]] = amp.cast %[[H]] : (tensor<4x4xf32>) -> tensor<4x4xbf16>
// CHECK-NEXT: %[[A:.*]] = mpc.matmul %[[HL]], %[[U]]
// CHECK-NEXT: %[[B:.*]] = mpc.matmul %[[XT]], %[[U]]
// CHECK-NEXT: mpc.yield %[[A]], %[[B]] : tensor<4x4xf32>, tensor<4x4xbf16>
// CHECK: reversed_outputs = array<i1: true>
// CHECK: %[[ALL:.*]] = amp.cast %[[R]]#1 : (tensor<8x4x4xbf16>) -> tensor<8x4x4xf32>
// CHECK: return %[[R]]#0, %[[ALL]]
func.func @edges(%h0: tensor<4x4xf32>, %x: tensor<8x4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<8x4x4xf32>) {
  %last, %all = mpc.scan 8 carried(%h0 : tensor<4x4xf32>) scanned(%x : tensor<8x4x4xf32>)
      invariant(%w : tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<8x4x4xf32>) {
  ^bb0(%h: tensor<4x4xf32>, %x_t: tensor<4x4xf32>, %u: tensor<4x4xf32>):
    %0 = amp.cast %h : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %1 = amp.cast %u : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %2 = mpc.matmul %0, %1 : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xf32>
    %3 = amp.cast %x_t : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %4 = mpc.matmul %3, %1 : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %5 = amp.cast %4 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
    mpc.yield %2, %5 : tensor<4x4xf32>, tensor<4x4xf32>
  } {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: true>}
  return %last, %all : tensor<4x4xf32>, tensor<8x4x4xf32>
}
