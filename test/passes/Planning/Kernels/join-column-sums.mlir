// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --plan-join-column-sums | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --plan-join-column-sums | FileCheck %s --check-prefix=GPU

// A norm's backward pass. The sums read the rows' operands (%dy, %x), and one
// sum reads the rows' results. Values that both need are computed once.
//
// CHECK-LABEL: func.func @norm
// CHECK: %[[R:.*]]:3 = mpc.region row_reduce(%arg0, %arg1) {kernel = "dx", mpc.phase = #mpc.phase<backward>}
// CHECK-SAME: -> (tensor<8x128x768xbf16>, tensor<8x1x768xf32>, tensor<8x1x768xf32>)
// CHECK-NEXT: ^bb0(%[[DY:.*]]: tensor<8x128x768xbf16>, %[[X:.*]]: tensor<8x128x768xbf16>)
// CHECK-NEXT: %[[M:.*]] = mpc.mul %[[DY]], %[[X]]
// CHECK-NEXT: %[[S:.*]] = mpc.reduce_mean %[[M]] {axes = array<i64: 2>
// CHECK-NEXT: %[[DX:.*]] = mpc.sub %[[DY]], %[[S]] {{.*}} -> tensor<8x128x768xbf16>
// CHECK-NEXT: %[[DG:.*]] = mpc.reduce_sum %[[M]] {axes = array<i64: 1>, keepdims = true}
// CHECK-NEXT: %[[DB:.*]] = mpc.reduce_sum %[[DX]] {axes = array<i64: 1>, keepdims = true}
// CHECK-NEXT: mpc.yield %[[DX]], %[[DG]], %[[DB]]
// CHECK: %[[G:.*]] = mpc.region column_reduce(%[[R]]#1) {kernel = "dg_sum", mpc.phase = #mpc.phase<backward>}
// CHECK: %[[B:.*]] = mpc.region column_reduce(%[[R]]#2) {kernel = "db_sum"
// CHECK: return %[[R]]#0, %[[G]], %[[B]]
//
// GPU-LABEL: func.func @norm
// GPU: kernel = "dx"
// GPU: kernel = "dg"
// GPU: kernel = "db"
func.func @norm(%dy: tensor<8x128x768xbf16>, %x: tensor<8x128x768xbf16>) -> (tensor<8x128x768xbf16>, tensor<1x1x768xf32>, tensor<1x1x768xf32>) {
  %dx = mpc.region row_reduce (%dy, %x) {kernel = "dx", mpc.phase = #mpc.phase<backward>} : (tensor<8x128x768xbf16>, tensor<8x128x768xbf16>) -> tensor<8x128x768xbf16> {
  ^bb0(%0: tensor<8x128x768xbf16>, %1: tensor<8x128x768xbf16>):
    %2 = mpc.mul %0, %1 : (tensor<8x128x768xbf16>, tensor<8x128x768xbf16>) -> tensor<8x128x768xf32>
    %3 = mpc.reduce_mean %2 {axes = array<i64: 2>, keepdims = true} : (tensor<8x128x768xf32>) -> tensor<8x128x1xf32>
    %4 = mpc.sub %0, %3 : (tensor<8x128x768xbf16>, tensor<8x128x1xf32>) -> tensor<8x128x768xbf16>
    mpc.yield %4 : tensor<8x128x768xbf16>
  }
  %dg = mpc.region column_reduce (%x, %dy) {kernel = "dg", mpc.phase = #mpc.phase<backward>} : (tensor<8x128x768xbf16>, tensor<8x128x768xbf16>) -> tensor<8x1x768xf32> {
  ^bb0(%0: tensor<8x128x768xbf16>, %1: tensor<8x128x768xbf16>):
    %2 = mpc.mul %1, %0 : (tensor<8x128x768xbf16>, tensor<8x128x768xbf16>) -> tensor<8x128x768xf32>
    %3 = mpc.reduce_sum %2 {axes = array<i64: 1>, keepdims = true} : (tensor<8x128x768xf32>) -> tensor<8x1x768xf32>
    mpc.yield %3 : tensor<8x1x768xf32>
  }
  %g = mpc.region column_reduce (%dg) {kernel = "dg_sum", mpc.phase = #mpc.phase<backward>} : (tensor<8x1x768xf32>) -> tensor<1x1x768xf32> {
  ^bb0(%0: tensor<8x1x768xf32>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<8x1x768xf32>) -> tensor<1x1x768xf32>
    mpc.yield %1 : tensor<1x1x768xf32>
  }
  %db = mpc.region column_reduce (%dx) {kernel = "db", mpc.phase = #mpc.phase<backward>} : (tensor<8x128x768xbf16>) -> tensor<8x1x768xf32> {
  ^bb0(%0: tensor<8x128x768xbf16>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 1>, keepdims = true} : (tensor<8x128x768xbf16>) -> tensor<8x1x768xf32>
    mpc.yield %1 : tensor<8x1x768xf32>
  }
  %b = mpc.region column_reduce (%db) {kernel = "db_sum", mpc.phase = #mpc.phase<backward>} : (tensor<8x1x768xf32>) -> tensor<1x1x768xf32> {
  ^bb0(%0: tensor<8x1x768xf32>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<8x1x768xf32>) -> tensor<1x1x768xf32>
    mpc.yield %1 : tensor<1x1x768xf32>
  }
  return %dx, %g, %b : tensor<8x128x768xbf16>, tensor<1x1x768xf32>, tensor<1x1x768xf32>
}

// Rows that only the sum reads are no longer stored.
//
// CHECK-LABEL: func.func @only_sum
// CHECK: %[[R:.*]] = mpc.region row_reduce(%arg0) {kernel = "y"} : (tensor<8x128x768xf32>) -> tensor<8x1x768xf32>
// CHECK: mpc.reduce_sum %{{.*}} {axes = array<i64: 1>, keepdims = true} : (tensor<8x128x768xf32>) -> tensor<8x1x768xf32>
// CHECK: return %[[R]]
func.func @only_sum(%x: tensor<8x128x768xf32>) -> tensor<8x1x768xf32> {
  %y = mpc.region row_reduce (%x) {kernel = "y"} : (tensor<8x128x768xf32>) -> tensor<8x128x768xf32> {
  ^bb0(%0: tensor<8x128x768xf32>):
    %1 = mpc.reduce_max %0 {axes = array<i64: 2>, keepdims = true} : (tensor<8x128x768xf32>) -> tensor<8x128x1xf32>
    %2 = mpc.sub %0, %1 : (tensor<8x128x768xf32>, tensor<8x128x1xf32>) -> tensor<8x128x768xf32>
    mpc.yield %2 : tensor<8x128x768xf32>
  }
  %s = mpc.region column_reduce (%y) {kernel = "s"} : (tensor<8x128x768xf32>) -> tensor<8x1x768xf32> {
  ^bb0(%0: tensor<8x128x768xf32>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 1>, keepdims = true} : (tensor<8x128x768xf32>) -> tensor<8x1x768xf32>
    mpc.yield %1 : tensor<8x1x768xf32>
  }
  return %s : tensor<8x1x768xf32>
}

// Two sums over parts of an axis join.
//
// CHECK-LABEL: func.func @parts
// CHECK: mpc.region row_reduce(%arg0) {kernel = "m"} : (tensor<1024x768xf32>) -> (tensor<1024x1xf32>, tensor<16x768xf32>)
// CHECK: parts = 16 : i64
// CHECK: mpc.region column_reduce(%{{.*}}) {kernel = "sum"} : (tensor<16x768xf32>) -> tensor<1x768xf32>
func.func @parts(%x: tensor<1024x768xf32>) -> (tensor<1024x1xf32>, tensor<1x768xf32>) {
  %m = mpc.region row_reduce (%x) {kernel = "m"} : (tensor<1024x768xf32>) -> tensor<1024x1xf32> {
  ^bb0(%0: tensor<1024x768xf32>):
    %1 = mpc.reduce_max %0 {axes = array<i64: 1>, keepdims = true} : (tensor<1024x768xf32>) -> tensor<1024x1xf32>
    mpc.yield %1 : tensor<1024x1xf32>
  }
  %s = mpc.region column_reduce (%x) {kernel = "s"} : (tensor<1024x768xf32>) -> tensor<16x768xf32> {
  ^bb0(%0: tensor<1024x768xf32>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true, parts = 16 : i64} : (tensor<1024x768xf32>) -> tensor<16x768xf32>
    mpc.yield %1 : tensor<16x768xf32>
  }
  %sum = mpc.region column_reduce (%s) {kernel = "sum"} : (tensor<16x768xf32>) -> tensor<1x768xf32> {
  ^bb0(%0: tensor<16x768xf32>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<16x768xf32>) -> tensor<1x768xf32>
    mpc.yield %1 : tensor<1x768xf32>
  }
  return %m, %sum : tensor<1024x1xf32>, tensor<1x768xf32>
}

// One part of many elements would leave the rows to one thread.
//
// CHECK-LABEL: func.func @few_parts
// CHECK: kernel = "m"
// CHECK: kernel = "s"
func.func @few_parts(%x: tensor<1024x768xf32>) -> (tensor<1024x1xf32>, tensor<1x768xf32>) {
  %m = mpc.region row_reduce (%x) {kernel = "m"} : (tensor<1024x768xf32>) -> tensor<1024x1xf32> {
  ^bb0(%0: tensor<1024x768xf32>):
    %1 = mpc.reduce_max %0 {axes = array<i64: 1>, keepdims = true} : (tensor<1024x768xf32>) -> tensor<1024x1xf32>
    mpc.yield %1 : tensor<1024x1xf32>
  }
  %s = mpc.region column_reduce (%x) {kernel = "s"} : (tensor<1024x768xf32>) -> tensor<1x768xf32> {
  ^bb0(%0: tensor<1024x768xf32>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<1024x768xf32>) -> tensor<1x768xf32>
    mpc.yield %1 : tensor<1x768xf32>
  }
  return %m, %s : tensor<1024x1xf32>, tensor<1x768xf32>
}

// For narrow rows, the separate kernel sums groups of four in another order.
//
// CHECK-LABEL: func.func @narrow
// CHECK: kernel = "m"
// CHECK: kernel = "s"
func.func @narrow(%x: tensor<8x64x512xf32>) -> (tensor<8x64x1xf32>, tensor<8x1x512xf32>) {
  %m = mpc.region row_reduce (%x) {kernel = "m"} : (tensor<8x64x512xf32>) -> tensor<8x64x1xf32> {
  ^bb0(%0: tensor<8x64x512xf32>):
    %1 = mpc.reduce_max %0 {axes = array<i64: 2>, keepdims = true} : (tensor<8x64x512xf32>) -> tensor<8x64x1xf32>
    mpc.yield %1 : tensor<8x64x1xf32>
  }
  %s = mpc.region column_reduce (%x) {kernel = "s"} : (tensor<8x64x512xf32>) -> tensor<8x1x512xf32> {
  ^bb0(%0: tensor<8x64x512xf32>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 1>, keepdims = true} : (tensor<8x64x512xf32>) -> tensor<8x1x512xf32>
    mpc.yield %1 : tensor<8x1x512xf32>
  }
  return %m, %s : tensor<8x64x1xf32>, tensor<8x1x512xf32>
}

// Caches have no room for sums of 8192 columns.
//
// CHECK-LABEL: func.func @wide
// CHECK: kernel = "m"
// CHECK: kernel = "s"
func.func @wide(%x: tensor<8x64x8192xf32>) -> (tensor<8x64x1xf32>, tensor<8x1x8192xf32>) {
  %m = mpc.region row_reduce (%x) {kernel = "m"} : (tensor<8x64x8192xf32>) -> tensor<8x64x1xf32> {
  ^bb0(%0: tensor<8x64x8192xf32>):
    %1 = mpc.reduce_max %0 {axes = array<i64: 2>, keepdims = true} : (tensor<8x64x8192xf32>) -> tensor<8x64x1xf32>
    mpc.yield %1 : tensor<8x64x1xf32>
  }
  %s = mpc.region column_reduce (%x) {kernel = "s"} : (tensor<8x64x8192xf32>) -> tensor<8x1x8192xf32> {
  ^bb0(%0: tensor<8x64x8192xf32>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 1>, keepdims = true} : (tensor<8x64x8192xf32>) -> tensor<8x1x8192xf32>
    mpc.yield %1 : tensor<8x1x8192xf32>
  }
  return %m, %s : tensor<8x64x1xf32>, tensor<8x1x8192xf32>
}

// One value per row can be summed too.
//
// CHECK-LABEL: func.func @value_of_rows
// CHECK: mpc.region row_reduce(%arg0) {kernel = "m"} : (tensor<8x64x768xf32>) -> tensor<8x1x768xf32>
// CHECK: %[[M:.*]] = mpc.reduce_max
// CHECK-NEXT: %[[D:.*]] = mpc.sub %{{.*}}, %[[M]]
// CHECK-NEXT: mpc.reduce_sum %[[D]]
func.func @value_of_rows(%x: tensor<8x64x768xf32>) -> tensor<8x1x768xf32> {
  %m = mpc.region row_reduce (%x) {kernel = "m"} : (tensor<8x64x768xf32>) -> tensor<8x64x1xf32> {
  ^bb0(%0: tensor<8x64x768xf32>):
    %1 = mpc.reduce_max %0 {axes = array<i64: 2>, keepdims = true} : (tensor<8x64x768xf32>) -> tensor<8x64x1xf32>
    mpc.yield %1 : tensor<8x64x1xf32>
  }
  %s = mpc.region column_reduce (%x, %m) {kernel = "s"} : (tensor<8x64x768xf32>, tensor<8x64x1xf32>) -> tensor<8x1x768xf32> {
  ^bb0(%0: tensor<8x64x768xf32>, %1: tensor<8x64x1xf32>):
    %2 = mpc.sub %0, %1 : (tensor<8x64x768xf32>, tensor<8x64x1xf32>) -> tensor<8x64x768xf32>
    %3 = mpc.reduce_sum %2 {axes = array<i64: 1>, keepdims = true} : (tensor<8x64x768xf32>) -> tensor<8x1x768xf32>
    mpc.yield %3 : tensor<8x1x768xf32>
  }
  return %s : tensor<8x1x768xf32>
}

// The sum reads a third kernel's result.
//
// CHECK-LABEL: func.func @third
// CHECK: kernel = "m"
// CHECK: kernel = "third"
// CHECK: kernel = "s"
func.func @third(%x: tensor<8x64x768xf32>) -> tensor<8x1x768xf32> {
  %m = mpc.region row_reduce (%x) {kernel = "m"} : (tensor<8x64x768xf32>) -> tensor<8x64x1xf32> {
  ^bb0(%0: tensor<8x64x768xf32>):
    %1 = mpc.reduce_max %0 {axes = array<i64: 2>, keepdims = true} : (tensor<8x64x768xf32>) -> tensor<8x64x1xf32>
    mpc.yield %1 : tensor<8x64x1xf32>
  }
  %t = mpc.region pointwise (%m) {kernel = "third"} : (tensor<8x64x1xf32>) -> tensor<8x64x1xf32> {
  ^bb0(%0: tensor<8x64x1xf32>):
    %1 = mpc.relu %0 : (tensor<8x64x1xf32>) -> tensor<8x64x1xf32>
    mpc.yield %1 : tensor<8x64x1xf32>
  }
  %s = mpc.region column_reduce (%x, %t) {kernel = "s"} : (tensor<8x64x768xf32>, tensor<8x64x1xf32>) -> tensor<8x1x768xf32> {
  ^bb0(%0: tensor<8x64x768xf32>, %1: tensor<8x64x1xf32>):
    %2 = mpc.sub %0, %1 : (tensor<8x64x768xf32>, tensor<8x64x1xf32>) -> tensor<8x64x768xf32>
    %3 = mpc.reduce_sum %2 {axes = array<i64: 1>, keepdims = true} : (tensor<8x64x768xf32>) -> tensor<8x1x768xf32>
    mpc.yield %3 : tensor<8x1x768xf32>
  }
  return %s : tensor<8x1x768xf32>
}

// Rows that are stored in another order cannot be summed.
//
// CHECK-LABEL: func.func @arranged
// CHECK: kernel = "y"
// CHECK: kernel = "s"
func.func @arranged(%x: tensor<16x16x768xf32>) -> (tensor<16x16x768xf32>, tensor<16x1x768xf32>) {
  %y = mpc.region row_reduce (%x) {kernel = "y"} : (tensor<16x16x768xf32>) -> tensor<16x16x768xf32> {
  ^bb0(%0: tensor<16x16x768xf32>):
    %1 = mpc.reduce_max %0 {axes = array<i64: 2>, keepdims = true} : (tensor<16x16x768xf32>) -> tensor<16x16x1xf32>
    %2 = mpc.sub %0, %1 : (tensor<16x16x768xf32>, tensor<16x16x1xf32>) -> tensor<16x16x768xf32>
    %3 = mpc.transpose %2 {perm = array<i64: 1, 0, 2>} : (tensor<16x16x768xf32>) -> tensor<16x16x768xf32>
    mpc.yield %3 : tensor<16x16x768xf32>
  }
  %s = mpc.region column_reduce (%y) {kernel = "s"} : (tensor<16x16x768xf32>) -> tensor<16x1x768xf32> {
  ^bb0(%0: tensor<16x16x768xf32>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 1>, keepdims = true} : (tensor<16x16x768xf32>) -> tensor<16x1x768xf32>
    mpc.yield %1 : tensor<16x1x768xf32>
  }
  return %y, %s : tensor<16x16x768xf32>, tensor<16x1x768xf32>
}

// The variance of columns reads their sums, which are complete only after all
// rows: it stays a separate kernel.
//
// CHECK-LABEL: func.func @sum_of_a_sum
// CHECK: %[[R:.*]]:2 = mpc.region row_reduce(%arg0) {kernel = "m"} : (tensor<8x128x768xf32>) -> (tensor<8x128x1xf32>, tensor<8x1x768xf32>)
// CHECK: %[[V:.*]] = mpc.region column_reduce(%arg0, %[[R]]#1) {kernel = "v"}
// CHECK: return %[[R]]#0, %[[V]]
func.func @sum_of_a_sum(%x: tensor<8x128x768xf32>) -> (tensor<8x128x1xf32>, tensor<8x1x768xf32>) {
  %m = mpc.region row_reduce (%x) {kernel = "m"} : (tensor<8x128x768xf32>) -> tensor<8x128x1xf32> {
  ^bb0(%0: tensor<8x128x768xf32>):
    %1 = mpc.reduce_max %0 {axes = array<i64: 2>, keepdims = true} : (tensor<8x128x768xf32>) -> tensor<8x128x1xf32>
    mpc.yield %1 : tensor<8x128x1xf32>
  }
  %a = mpc.region column_reduce (%x) {kernel = "a"} : (tensor<8x128x768xf32>) -> tensor<8x1x768xf32> {
  ^bb0(%0: tensor<8x128x768xf32>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 1>, keepdims = true} : (tensor<8x128x768xf32>) -> tensor<8x1x768xf32>
    mpc.yield %1 : tensor<8x1x768xf32>
  }
  %v = mpc.region column_reduce (%x, %a) {kernel = "v"} : (tensor<8x128x768xf32>, tensor<8x1x768xf32>) -> tensor<8x1x768xf32> {
  ^bb0(%0: tensor<8x128x768xf32>, %1: tensor<8x1x768xf32>):
    %2 = mpc.sub %0, %1 : (tensor<8x128x768xf32>, tensor<8x1x768xf32>) -> tensor<8x128x768xf32>
    %3 = mpc.reduce_sum %2 {axes = array<i64: 1>, keepdims = true} : (tensor<8x128x768xf32>) -> tensor<8x1x768xf32>
    mpc.yield %3 : tensor<8x1x768xf32>
  }
  return %m, %v : tensor<8x128x1xf32>, tensor<8x1x768xf32>
}

// Rows minus the mean of the columns: a kernel cannot read its own sums.
//
// CHECK-LABEL: func.func @rows_of_a_sum
// CHECK: %[[A:.*]] = mpc.region column_reduce(%arg0) {kernel = "a"}
// CHECK: %[[M:.*]] = mpc.region row_reduce(%arg0, %[[A]]) {kernel = "m"}
// CHECK: return %[[M]]
func.func @rows_of_a_sum(%x: tensor<8x128x768xf32>) -> tensor<8x128x1xf32> {
  %a = mpc.region column_reduce (%x) {kernel = "a"} : (tensor<8x128x768xf32>) -> tensor<8x1x768xf32> {
  ^bb0(%0: tensor<8x128x768xf32>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 1>, keepdims = true} : (tensor<8x128x768xf32>) -> tensor<8x1x768xf32>
    mpc.yield %1 : tensor<8x1x768xf32>
  }
  %m = mpc.region row_reduce (%x, %a) {kernel = "m"} : (tensor<8x128x768xf32>, tensor<8x1x768xf32>) -> tensor<8x128x1xf32> {
  ^bb0(%0: tensor<8x128x768xf32>, %1: tensor<8x1x768xf32>):
    %2 = mpc.sub %0, %1 : (tensor<8x128x768xf32>, tensor<8x1x768xf32>) -> tensor<8x128x768xf32>
    %3 = mpc.reduce_max %2 {axes = array<i64: 2>, keepdims = true} : (tensor<8x128x768xf32>) -> tensor<8x128x1xf32>
    mpc.yield %3 : tensor<8x128x1xf32>
  }
  return %m : tensor<8x128x1xf32>
}
