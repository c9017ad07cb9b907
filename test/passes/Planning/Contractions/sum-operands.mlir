// RUN: mpc-opt %s --mpc-attach-target=name=sapphirerapids --plan-sum-operands | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v4 --plan-sum-operands | FileCheck %s --check-prefix=APART

// The product reads a gradient as a view, and kernels sum the gradient in two steps. The product
// gives this sum, in the shape that it reads, and no kernel is left.
//
// CHECK-LABEL: func.func @in_steps
// CHECK-NEXT: %[[DY:.*]] = mpc.reshape %arg1
// CHECK-NEXT: %[[R:.*]]:2 = mpc.region contraction(%[[DY]], %arg0) {kernel = "dw", provider = #mpc.provider<library>}
// CHECK-SAME: -> (tensor<32x64xf32>, tensor<1x32xf32>)
// CHECK-NEXT: ^bb0(%[[L:.*]]: tensor<512x32xbf16>, %[[X:.*]]: tensor<512x64xbf16>)
// CHECK-NEXT: %[[P:.*]] = mpc.matmul %[[L]], %[[X]] {transA = true}
// CHECK-NEXT: %[[S:.*]] = mpc.reduce_sum %[[L]] {axes = array<i64: 0>, keepdims = true} : (tensor<512x32xbf16>) -> tensor<1x32xf32>
// CHECK-NEXT: mpc.yield %[[P]], %[[S]]
// CHECK-NEXT: }
// CHECK-NEXT: %[[DB:.*]] = mpc.reshape %[[R]]#1 : (tensor<1x32xf32>) -> tensor<1x1x32xf32>
// CHECK-NEXT: return %[[R]]#0, %[[DB]]
//
// APART-LABEL: func.func @in_steps
// APART: kernel = "db"
func.func @in_steps(%x: tensor<512x64xbf16>, %dy: tensor<8x64x32xbf16>) -> (tensor<32x64xf32>, tensor<1x1x32xf32>) {
  %0 = mpc.reshape %dy : (tensor<8x64x32xbf16>) -> tensor<512x32xbf16>
  %dw = mpc.region contraction (%0, %x) {kernel = "dw", provider = #mpc.provider<library>} : (tensor<512x32xbf16>, tensor<512x64xbf16>) -> tensor<32x64xf32> {
  ^bb0(%1: tensor<512x32xbf16>, %2: tensor<512x64xbf16>):
    %3 = mpc.matmul %1, %2 {transA = true} : (tensor<512x32xbf16>, tensor<512x64xbf16>) -> tensor<32x64xf32>
    mpc.yield %3 : tensor<32x64xf32>
  }
  %parts = mpc.region column_reduce (%dy) {kernel = "db"} : (tensor<8x64x32xbf16>) -> tensor<8x1x32xf32> {
  ^bb0(%1: tensor<8x64x32xbf16>):
    %2 = mpc.reduce_sum %1 {axes = array<i64: 1>, keepdims = true} : (tensor<8x64x32xbf16>) -> tensor<8x1x32xf32>
    mpc.yield %2 : tensor<8x1x32xf32>
  }
  %db = mpc.region column_reduce (%parts) {kernel = "db_sum"} : (tensor<8x1x32xf32>) -> tensor<1x1x32xf32> {
  ^bb0(%1: tensor<8x1x32xf32>):
    %2 = mpc.reduce_sum %1 {axes = array<i64: 0>, keepdims = true} : (tensor<8x1x32xf32>) -> tensor<1x1x32xf32>
    mpc.yield %2 : tensor<1x1x32xf32>
  }
  return %dw, %db : tensor<32x64xf32>, tensor<1x1x32xf32>
}

// A sum that the product's own epilogue needs cannot be the product's result.
//
// CHECK-LABEL: func.func @waits
// CHECK: kernel = "db"
// CHECK: kernel = "dw"
func.func @waits(%x: tensor<512x64xbf16>, %dy: tensor<512x32xbf16>) -> tensor<64x32xf32> {
  %db = mpc.region column_reduce (%dy) {kernel = "db"} : (tensor<512x32xbf16>) -> tensor<1x32xf32> {
  ^bb0(%0: tensor<512x32xbf16>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<512x32xbf16>) -> tensor<1x32xf32>
    mpc.yield %1 : tensor<1x32xf32>
  }
  %norm = mpc.region pointwise (%db) {kernel = "norm"} : (tensor<1x32xf32>) -> tensor<1x32xf32> {
  ^bb0(%0: tensor<1x32xf32>):
    %1 = mpc.relu %0 : (tensor<1x32xf32>) -> tensor<1x32xf32>
    mpc.yield %1 : tensor<1x32xf32>
  }
  %dw = mpc.region contraction (%x, %dy, %norm) {kernel = "dw", provider = #mpc.provider<library>} : (tensor<512x64xbf16>, tensor<512x32xbf16>, tensor<1x32xf32>) -> tensor<64x32xf32> {
  ^bb0(%0: tensor<512x64xbf16>, %1: tensor<512x32xbf16>, %2: tensor<1x32xf32>):
    %3 = mpc.matmul %0, %1 {transA = true} : (tensor<512x64xbf16>, tensor<512x32xbf16>) -> tensor<64x32xf32>
    %4 = mpc.add %3, %2 : (tensor<64x32xf32>, tensor<1x32xf32>) -> tensor<64x32xf32>
    mpc.yield %4 : tensor<64x32xf32>
  }
  return %dw : tensor<64x32xf32>
}

// The epilogue reads the sum directly: the product does not compute it.
//
// CHECK-LABEL: func.func @reads_its_sum
// CHECK: %[[DB:.*]] = mpc.region column_reduce(%arg1) {kernel = "db"}
// CHECK: mpc.region contraction(%arg0, %arg1, %[[DB]]) {kernel = "dw"
func.func @reads_its_sum(%x: tensor<512x64xbf16>, %dy: tensor<512x32xbf16>) -> tensor<64x32xf32> {
  %db = mpc.region column_reduce (%dy) {kernel = "db"} : (tensor<512x32xbf16>) -> tensor<1x32xf32> {
  ^bb0(%0: tensor<512x32xbf16>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<512x32xbf16>) -> tensor<1x32xf32>
    mpc.yield %1 : tensor<1x32xf32>
  }
  %dw = mpc.region contraction (%x, %dy, %db) {kernel = "dw", provider = #mpc.provider<library>} : (tensor<512x64xbf16>, tensor<512x32xbf16>, tensor<1x32xf32>) -> tensor<64x32xf32> {
  ^bb0(%0: tensor<512x64xbf16>, %1: tensor<512x32xbf16>, %2: tensor<1x32xf32>):
    %3 = mpc.matmul %0, %1 {transA = true} : (tensor<512x64xbf16>, tensor<512x32xbf16>) -> tensor<64x32xf32>
    %4 = mpc.add %3, %2 : (tensor<64x32xf32>, tensor<1x32xf32>) -> tensor<64x32xf32>
    mpc.yield %4 : tensor<64x32xf32>
  }
  return %dw : tensor<64x32xf32>
}

// The product sums over columns of %x, but the kernel sums rows. A generated
// product computes no sums.
//
// CHECK-LABEL: func.func @other_axis
// CHECK: kernel = "y"
// CHECK: kernel = "s"
// CHECK: kernel = "dw"
// CHECK: kernel = "db"
func.func @other_axis(%x: tensor<512x64xbf16>, %w: tensor<64x32xbf16>, %dy: tensor<512x32xbf16>) -> (tensor<512x32xf32>, tensor<1x64xf32>, tensor<64x32xf32>, tensor<1x32xf32>) {
  %y = mpc.region contraction (%x, %w) {kernel = "y", provider = #mpc.provider<library>} : (tensor<512x64xbf16>, tensor<64x32xbf16>) -> tensor<512x32xf32> {
  ^bb0(%0: tensor<512x64xbf16>, %1: tensor<64x32xbf16>):
    %2 = mpc.matmul %0, %1 : (tensor<512x64xbf16>, tensor<64x32xbf16>) -> tensor<512x32xf32>
    mpc.yield %2 : tensor<512x32xf32>
  }
  %s = mpc.region column_reduce (%x) {kernel = "s"} : (tensor<512x64xbf16>) -> tensor<1x64xf32> {
  ^bb0(%0: tensor<512x64xbf16>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<512x64xbf16>) -> tensor<1x64xf32>
    mpc.yield %1 : tensor<1x64xf32>
  }
  %dw = mpc.region contraction (%x, %dy) {kernel = "dw", provider = #mpc.provider<generated>} : (tensor<512x64xbf16>, tensor<512x32xbf16>) -> tensor<64x32xf32> {
  ^bb0(%0: tensor<512x64xbf16>, %1: tensor<512x32xbf16>):
    %2 = mpc.matmul %0, %1 {transA = true} : (tensor<512x64xbf16>, tensor<512x32xbf16>) -> tensor<64x32xf32>
    mpc.yield %2 : tensor<64x32xf32>
  }
  %db = mpc.region column_reduce (%dy) {kernel = "db"} : (tensor<512x32xbf16>) -> tensor<1x32xf32> {
  ^bb0(%0: tensor<512x32xbf16>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<512x32xbf16>) -> tensor<1x32xf32>
    mpc.yield %1 : tensor<1x32xf32>
  }
  return %y, %s, %dw, %db : tensor<512x32xf32>, tensor<1x64xf32>, tensor<64x32xf32>, tensor<1x32xf32>
}
