// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --plan-assemble-joins | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=sm_90 --plan-assemble-joins | FileCheck %s --check-prefix=GPU

// Gradients of queries, keys and values are joined: an arranged library product, a product whose
// epilogue transposes, and a kernel's result, each behind a view.
// CHECK-LABEL: func.func @heads
// CHECK: %[[Q:.+]] = mpc.region contraction(%arg0, %arg1) {kernel = "q"
// CHECK: %[[QT:.+]] = plan.arrange %[[Q]]
// CHECK: %[[QP:.+]] = plan.place %[[QT]] : tensor<2x8x3x4xf32> to tensor<2x8x9x4xf32>
// CHECK: %[[K:.+]] = mpc.region contraction(%arg0, %arg1) {kernel = "k"{{.*}} -> tensor<2x8x9x4xf32>
// CHECK: %[[T:.+]] = mpc.transpose
// CHECK: %[[KP:.+]] = plan.place %[[T]] {offsets = array<i64: 0, 0, 3, 0>} : tensor<2x8x3x4xf32> to tensor<2x8x9x4xf32>
// CHECK: mpc.yield %[[KP]]
// CHECK: %[[V:.+]] = mpc.region pointwise(%arg2) {kernel = "v"} : (tensor<2x8x12xf32>) -> tensor<2x8x36xf32>
// CHECK: plan.place {{.+}} {offsets = array<i64: 0, 0, 24>} : tensor<2x8x12xf32> to tensor<2x8x36xf32>
// CHECK: %[[J:.+]] = plan.assemble %[[QP]], %[[K]], %[[V]] : (tensor<2x8x9x4xf32>, tensor<2x8x9x4xf32>, tensor<2x8x36xf32>) -> tensor<2x8x36xf32>
// CHECK: mpc.region pointwise(%[[J]])
// GPU-LABEL: func.func @heads
// GPU: plan.assemble
func.func @heads(%a: tensor<2x3x8x5xf32>, %b: tensor<2x3x5x4xf32>, %x: tensor<2x8x12xf32>) -> tensor<2x8x36xf32> {
  %0 = mpc.region contraction (%a, %b) {kernel = "q", provider = #mpc.provider<library>} : (tensor<2x3x8x5xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x8x4xf32> {
  ^bb0(%l: tensor<2x3x8x5xf32>, %r: tensor<2x3x5x4xf32>):
    %y = mpc.matmul %l, %r : (tensor<2x3x8x5xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x8x4xf32>
    mpc.yield %y : tensor<2x3x8x4xf32>
  }
  %1 = plan.arrange %0 {perm = array<i64: 0, 2, 1, 3>} : tensor<2x3x8x4xf32> to tensor<2x8x3x4xf32>
  %q = mpc.reshape %1 : (tensor<2x8x3x4xf32>) -> tensor<2x8x12xf32>
  %2 = mpc.region contraction (%a, %b) {kernel = "k", provider = #mpc.provider<library>} : (tensor<2x3x8x5xf32>, tensor<2x3x5x4xf32>) -> tensor<2x8x3x4xf32> {
  ^bb0(%l: tensor<2x3x8x5xf32>, %r: tensor<2x3x5x4xf32>):
    %y = mpc.matmul %l, %r : (tensor<2x3x8x5xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x8x4xf32>
    %z = mpc.neg %y : (tensor<2x3x8x4xf32>) -> tensor<2x3x8x4xf32>
    %t = mpc.transpose %z {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x8x4xf32>) -> tensor<2x8x3x4xf32>
    mpc.yield %t : tensor<2x8x3x4xf32>
  }
  %k = mpc.reshape %2 : (tensor<2x8x3x4xf32>) -> tensor<2x8x12xf32>
  %v = mpc.region pointwise (%x) {kernel = "v"} : (tensor<2x8x12xf32>) -> tensor<2x8x12xf32> {
  ^bb0(%l: tensor<2x8x12xf32>):
    %y = mpc.relu %l : (tensor<2x8x12xf32>) -> tensor<2x8x12xf32>
    mpc.yield %y : tensor<2x8x12xf32>
  }
  %j = mpc.region movement (%q, %k, %v) {kernel = "join"} : (tensor<2x8x12xf32>, tensor<2x8x12xf32>, tensor<2x8x12xf32>) -> tensor<2x8x36xf32> {
  ^bb0(%l: tensor<2x8x12xf32>, %m: tensor<2x8x12xf32>, %n: tensor<2x8x12xf32>):
    %y = mpc.concat %l, %m, %n {axis = 2 : i64} : (tensor<2x8x12xf32>, tensor<2x8x12xf32>, tensor<2x8x12xf32>) -> tensor<2x8x36xf32>
    mpc.yield %y : tensor<2x8x36xf32>
  }
  %y = mpc.region pointwise (%j) {kernel = "y"} : (tensor<2x8x36xf32>) -> tensor<2x8x36xf32> {
  ^bb0(%l: tensor<2x8x36xf32>):
    %z = mpc.sqrt %l : (tensor<2x8x36xf32>) -> tensor<2x8x36xf32>
    mpc.yield %z : tensor<2x8x36xf32>
  }
  return %y : tensor<2x8x36xf32>
}

// The joined axis may have length one in each part. Rows of 6 columns are not
// whole vectors of a GPU.
// CHECK-LABEL: func.func @samples
// CHECK: plan.place {{.+}} : tensor<8x6xf32> to tensor<8x12xf32>
// CHECK: plan.place {{.+}} {offsets = array<i64: 0, 6>} : tensor<8x6xf32> to tensor<8x12xf32>
// CHECK: plan.assemble {{.+}} -> tensor<8x2x6xf32>
// GPU-LABEL: func.func @samples
// GPU-NOT: plan.
func.func @samples(%x: tensor<8x6xf32>, %y: tensor<8x6xf32>) -> tensor<8x2x6xf32> {
  %0 = mpc.region pointwise (%x) {kernel = "a"} : (tensor<8x6xf32>) -> tensor<8x6xf32> {
  ^bb0(%a: tensor<8x6xf32>):
    %z = mpc.relu %a : (tensor<8x6xf32>) -> tensor<8x6xf32>
    mpc.yield %z : tensor<8x6xf32>
  }
  %1 = mpc.region pointwise (%y) {kernel = "b"} : (tensor<8x6xf32>) -> tensor<8x6xf32> {
  ^bb0(%a: tensor<8x6xf32>):
    %z = mpc.neg %a : (tensor<8x6xf32>) -> tensor<8x6xf32>
    mpc.yield %z : tensor<8x6xf32>
  }
  %a = mpc.reshape %0 : (tensor<8x6xf32>) -> tensor<8x1x6xf32>
  %b = mpc.reshape %1 : (tensor<8x6xf32>) -> tensor<8x1x6xf32>
  %j = mpc.region movement (%a, %b) {kernel = "join"} : (tensor<8x1x6xf32>, tensor<8x1x6xf32>) -> tensor<8x2x6xf32> {
  ^bb0(%l: tensor<8x1x6xf32>, %m: tensor<8x1x6xf32>):
    %z = mpc.concat %l, %m {axis = 1 : i64} : (tensor<8x1x6xf32>, tensor<8x1x6xf32>) -> tensor<8x2x6xf32>
    mpc.yield %z : tensor<8x2x6xf32>
  }
  %z = mpc.region pointwise (%j) {kernel = "y"} : (tensor<8x2x6xf32>) -> tensor<8x2x6xf32> {
  ^bb0(%l: tensor<8x2x6xf32>):
    %w = mpc.sqrt %l : (tensor<8x2x6xf32>) -> tensor<8x2x6xf32>
    mpc.yield %w : tensor<8x2x6xf32>
  }
  return %z : tensor<8x2x6xf32>
}

// Two parts from one kernel would be a single buffer of it.
// CHECK-LABEL: func.func @of_one_kernel
// CHECK-NOT: plan.
func.func @of_one_kernel(%x: tensor<8x12xf32>, %z: tensor<8x4xf32>) -> tensor<8x28xf32> {
  %0:2 = mpc.region pointwise (%x) {kernel = "waves"} : (tensor<8x12xf32>) -> (tensor<8x12xf32>, tensor<8x12xf32>) {
  ^bb0(%l: tensor<8x12xf32>):
    %s = mpc.sin %l : (tensor<8x12xf32>) -> tensor<8x12xf32>
    %c = mpc.cos %l : (tensor<8x12xf32>) -> tensor<8x12xf32>
    mpc.yield %s, %c : tensor<8x12xf32>, tensor<8x12xf32>
  }
  %1 = mpc.region pointwise (%z) {kernel = "relu"} : (tensor<8x4xf32>) -> tensor<8x4xf32> {
  ^bb0(%l: tensor<8x4xf32>):
    %y = mpc.relu %l : (tensor<8x4xf32>) -> tensor<8x4xf32>
    mpc.yield %y : tensor<8x4xf32>
  }
  %j = mpc.region movement (%1, %0#0, %0#1) {kernel = "join"} : (tensor<8x4xf32>, tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x28xf32> {
  ^bb0(%l: tensor<8x4xf32>, %m: tensor<8x12xf32>, %n: tensor<8x12xf32>):
    %y = mpc.concat %l, %m, %n {axis = 1 : i64} : (tensor<8x4xf32>, tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x28xf32>
    mpc.yield %y : tensor<8x28xf32>
  }
  %y = mpc.region pointwise (%j) {kernel = "y"} : (tensor<8x28xf32>) -> tensor<8x28xf32> {
  ^bb0(%l: tensor<8x28xf32>):
    %w = mpc.sqrt %l : (tensor<8x28xf32>) -> tensor<8x28xf32>
    mpc.yield %w : tensor<8x28xf32>
  }
  return %y : tensor<8x28xf32>
}

// Other parts are copied: an argument, a part with other users, a part that
// starts within a head, and all parts of a returned join.
// CHECK-LABEL: func.func @copied
// CHECK-NOT: plan.
func.func @copied(%a: tensor<8x2x8xf32>, %x: tensor<8x12xf32>) -> (tensor<8x28xf32>, tensor<8x24xf32>, tensor<8x28xf32>, tensor<8x28xf32>, tensor<8x12xf32>) {
  %0 = mpc.region pointwise (%a) {kernel = "heads"} : (tensor<8x2x8xf32>) -> tensor<8x2x8xf32> {
  ^bb0(%l: tensor<8x2x8xf32>):
    %y = mpc.relu %l : (tensor<8x2x8xf32>) -> tensor<8x2x8xf32>
    mpc.yield %y : tensor<8x2x8xf32>
  }
  %h = mpc.reshape %0 : (tensor<8x2x8xf32>) -> tensor<8x16xf32>
  %1 = mpc.region pointwise (%x) {kernel = "rows"} : (tensor<8x12xf32>) -> tensor<8x12xf32> {
  ^bb0(%l: tensor<8x12xf32>):
    %y = mpc.relu %l : (tensor<8x12xf32>) -> tensor<8x12xf32>
    mpc.yield %y : tensor<8x12xf32>
  }
  %within = mpc.region movement (%1, %h) {kernel = "within"} : (tensor<8x12xf32>, tensor<8x16xf32>) -> tensor<8x28xf32> {
  ^bb0(%l: tensor<8x12xf32>, %m: tensor<8x16xf32>):
    %y = mpc.concat %l, %m {axis = 1 : i64} : (tensor<8x12xf32>, tensor<8x16xf32>) -> tensor<8x28xf32>
    mpc.yield %y : tensor<8x28xf32>
  }
  %2 = mpc.region pointwise (%within) {kernel = "a"} : (tensor<8x28xf32>) -> tensor<8x28xf32> {
  ^bb0(%l: tensor<8x28xf32>):
    %y = mpc.sqrt %l : (tensor<8x28xf32>) -> tensor<8x28xf32>
    mpc.yield %y : tensor<8x28xf32>
  }
  %3 = mpc.region pointwise (%x) {kernel = "read_twice"} : (tensor<8x12xf32>) -> tensor<8x12xf32> {
  ^bb0(%l: tensor<8x12xf32>):
    %y = mpc.neg %l : (tensor<8x12xf32>) -> tensor<8x12xf32>
    mpc.yield %y : tensor<8x12xf32>
  }
  %argument = mpc.region movement (%x, %3) {kernel = "argument"} : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x24xf32> {
  ^bb0(%l: tensor<8x12xf32>, %m: tensor<8x12xf32>):
    %y = mpc.concat %l, %m {axis = 1 : i64} : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x24xf32>
    mpc.yield %y : tensor<8x24xf32>
  }
  %4 = mpc.region pointwise (%argument) {kernel = "b"} : (tensor<8x24xf32>) -> tensor<8x24xf32> {
  ^bb0(%l: tensor<8x24xf32>):
    %y = mpc.sqrt %l : (tensor<8x24xf32>) -> tensor<8x24xf32>
    mpc.yield %y : tensor<8x24xf32>
  }
  %5 = mpc.region pointwise (%a) {kernel = "heads_again"} : (tensor<8x2x8xf32>) -> tensor<8x2x8xf32> {
  ^bb0(%l: tensor<8x2x8xf32>):
    %y = mpc.sigmoid %l : (tensor<8x2x8xf32>) -> tensor<8x2x8xf32>
    mpc.yield %y : tensor<8x2x8xf32>
  }
  %g = mpc.reshape %5 : (tensor<8x2x8xf32>) -> tensor<8x16xf32>
  %shared = mpc.region movement (%g, %3) {kernel = "shared"} : (tensor<8x16xf32>, tensor<8x12xf32>) -> tensor<8x28xf32> {
  ^bb0(%l: tensor<8x16xf32>, %m: tensor<8x12xf32>):
    %y = mpc.concat %l, %m {axis = 1 : i64} : (tensor<8x16xf32>, tensor<8x12xf32>) -> tensor<8x28xf32>
    mpc.yield %y : tensor<8x28xf32>
  }
  %6 = mpc.region pointwise (%shared) {kernel = "c"} : (tensor<8x28xf32>) -> tensor<8x28xf32> {
  ^bb0(%l: tensor<8x28xf32>):
    %y = mpc.sqrt %l : (tensor<8x28xf32>) -> tensor<8x28xf32>
    mpc.yield %y : tensor<8x28xf32>
  }
  %7 = mpc.region pointwise (%x) {kernel = "columns"} : (tensor<8x12xf32>) -> tensor<8x12xf32> {
  ^bb0(%l: tensor<8x12xf32>):
    %y = mpc.sigmoid %l : (tensor<8x12xf32>) -> tensor<8x12xf32>
    mpc.yield %y : tensor<8x12xf32>
  }
  %8 = mpc.region pointwise (%a) {kernel = "heads_returned"} : (tensor<8x2x8xf32>) -> tensor<8x2x8xf32> {
  ^bb0(%l: tensor<8x2x8xf32>):
    %y = mpc.neg %l : (tensor<8x2x8xf32>) -> tensor<8x2x8xf32>
    mpc.yield %y : tensor<8x2x8xf32>
  }
  %r = mpc.reshape %8 : (tensor<8x2x8xf32>) -> tensor<8x16xf32>
  %returned = mpc.region movement (%r, %7) {kernel = "returned"} : (tensor<8x16xf32>, tensor<8x12xf32>) -> tensor<8x28xf32> {
  ^bb0(%l: tensor<8x16xf32>, %m: tensor<8x12xf32>):
    %y = mpc.concat %l, %m {axis = 1 : i64} : (tensor<8x16xf32>, tensor<8x12xf32>) -> tensor<8x28xf32>
    mpc.yield %y : tensor<8x28xf32>
  }
  return %2, %4, %6, %returned, %3 : tensor<8x28xf32>, tensor<8x24xf32>, tensor<8x28xf32>, tensor<8x28xf32>, tensor<8x12xf32>
}
