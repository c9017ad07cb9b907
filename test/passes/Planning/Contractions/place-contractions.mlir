// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --plan-place-contractions | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --plan-place-contractions="contractions=library" | FileCheck %s --check-prefix=LIBRARY
// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --plan-place-contractions="contractions=library" | FileCheck %s --check-prefix=RELU
// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --plan-place-contractions="contractions=generated" | FileCheck %s --check-prefix=GENERATED
// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --plan-place-contractions="contractions=bare" | FileCheck %s --check-prefix=BARE --implicit-check-not=plan.product
// RUN: mpc-opt %s --mpc-attach-target=name=x86-64 --plan-place-contractions | FileCheck %s --check-prefix=CPU

// A layer of a multi-layer perceptron, forward and backward, in f32. The
// library adds the bias, stores the mask of relu, applies the mask to the
// gradient, and sums the gradients of both biases. An optimizer's update of a
// product is a separate kernel. The library's relu loses NaN and must be
// requested, but it always adds the bias.
//
// RELU-LABEL: func.func @training
// RELU: %[[Y:.*]], %[[MASK:.*]] = plan.product relu_aux_bias %{{.*}}, %{{.*}} bias(%{{.*}} : tensor<128xf32>)
// RELU-SAME: {alpha = 5.000000e-01 : f64, transA = false, transB = true}
// RELU-SAME: -> tensor<32x128xf32> aux tensor<32x16xui8>
// RELU: %[[Z:.*]] = plan.product bias %[[Y]], %{{.*}} bias(
// RELU: %[[DY:.*]], %[[DB1:.*]] = plan.product drelu_bgrad %[[DZ:.*]], %{{.*}} aux(%[[MASK]] : tensor<32x16xui8>)
// RELU-SAME: -> tensor<32x128xf32> bias_grad tensor<1x128xf32>
// RELU: %[[DW2:.*]], %[[DB2:.*]] = plan.product bgrad_a %[[DZ]], %[[Y]] {{.*}}transA = true
// RELU-SAME: -> tensor<10x128xf32> bias_grad tensor<1x10xf32> unfused {
// RELU: %[[OWN:.*]] = mpc.region column_reduce(%[[DZ]])
// RELU: mpc.reduce_sum
// RELU: plan.yield %[[OWN]] : tensor<1x10xf32>
// RELU-NEXT: }
// RELU: mpc.region pointwise(%[[DW2]], %{{.*}}) {kernel = "dw2"}
// RELU: mpc.sgd
// RELU-NOT: reduce_sum
// RELU: return {{.*}}%[[DB1]], %[[DB2]]
//
// CHECK-LABEL: func.func @training
// CHECK: %[[SUM:.*]] = plan.product bias %{{.*}} bias(%[[B1:.*]] : tensor<128xf32>) {{.*}} unfused {
// CHECK-NEXT: ^bb0(%[[P:.*]]: tensor<32x128xf32>):
// CHECK-NEXT: %[[OWN:.*]] = mpc.region pointwise(%[[P]], %[[B1]]) {kernel = "fc1_bias"}
// CHECK-NEXT: ^bb0
// CHECK-NEXT: mpc.add
// CHECK-NEXT: mpc.yield
// CHECK-NEXT: }
// CHECK-NEXT: plan.yield %[[OWN]] : tensor<32x128xf32>
// CHECK-NEXT: }
// CHECK-NEXT: mpc.region pointwise(%[[SUM]]) {kernel = "fc1"}
// CHECK-NEXT: ^bb0
// CHECK-NEXT: mpc.relu
// CHECK: plan.product bias
// CHECK-NOT: drelu
// CHECK: mpc.relu_grad
// CHECK: return
//
// BARE-LABEL: func.func @training
// BARE: mpc.matmul
// BARE: mpc.region pointwise
//
// A CPU's library calls the epilogue.
// CPU-LABEL: func.func @training
// CPU-COUNT-3: mpc.region contraction{{.*}} provider = #mpc.provider<library>}
// CPU: mpc.reduce_sum
// CPU: mpc.region contraction{{.*}} provider = #mpc.provider<library>}
// CPU: mpc.reduce_sum
func.func @training(%x: tensor<32x64xf32>, %w1: tensor<128x64xf32>, %b1: tensor<128xf32>, %w2: tensor<10x128xf32>,
                    %b2: tensor<10xf32>, %dz: tensor<32x10xf32>, %lr: tensor<f32>, %n: tensor<i64>)
    -> (tensor<32x10xf32>, tensor<10x128xf32>, tensor<1x128xf32>, tensor<1x10xf32>) {
  %y = mpc.region contraction (%x, %w1, %b1) {kernel = "fc1"} : (tensor<32x64xf32>, tensor<128x64xf32>, tensor<128xf32>) -> tensor<32x128xf32> {
  ^bb0(%0: tensor<32x64xf32>, %1: tensor<128x64xf32>, %2: tensor<128xf32>):
    %3 = mpc.matmul %0, %1 {transB = true, alpha = 0.5 : f64} : (tensor<32x64xf32>, tensor<128x64xf32>) -> tensor<32x128xf32>
    %4 = mpc.add %2, %3 : (tensor<128xf32>, tensor<32x128xf32>) -> tensor<32x128xf32>
    %5 = mpc.relu %4 : (tensor<32x128xf32>) -> tensor<32x128xf32>
    mpc.yield %5 : tensor<32x128xf32>
  }
  %z = mpc.region contraction (%y, %w2, %b2) {kernel = "fc2"} : (tensor<32x128xf32>, tensor<10x128xf32>, tensor<10xf32>) -> tensor<32x10xf32> {
  ^bb0(%0: tensor<32x128xf32>, %1: tensor<10x128xf32>, %2: tensor<10xf32>):
    %3 = mpc.matmul %0, %1 {transB = true} : (tensor<32x128xf32>, tensor<10x128xf32>) -> tensor<32x10xf32>
    %4 = mpc.add %3, %2 : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32>
    mpc.yield %4 : tensor<32x10xf32>
  }
  %dy = mpc.region contraction (%dz, %w2, %y) {kernel = "dx2"} : (tensor<32x10xf32>, tensor<10x128xf32>, tensor<32x128xf32>) -> tensor<32x128xf32> {
  ^bb0(%0: tensor<32x10xf32>, %1: tensor<10x128xf32>, %2: tensor<32x128xf32>):
    %3 = mpc.matmul %0, %1 : (tensor<32x10xf32>, tensor<10x128xf32>) -> tensor<32x128xf32>
    %4 = mpc.relu_grad %3, %2 : (tensor<32x128xf32>, tensor<32x128xf32>) -> tensor<32x128xf32>
    mpc.yield %4 : tensor<32x128xf32>
  }
  %db1 = mpc.region column_reduce (%dy) {kernel = "db1"} : (tensor<32x128xf32>) -> tensor<1x128xf32> {
  ^bb0(%0: tensor<32x128xf32>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<32x128xf32>) -> tensor<1x128xf32>
    mpc.yield %1 : tensor<1x128xf32>
  }
  %dw2 = mpc.region contraction (%dz, %y, %w2, %lr) {kernel = "dw2"} : (tensor<32x10xf32>, tensor<32x128xf32>, tensor<10x128xf32>, tensor<f32>) -> tensor<10x128xf32> {
  ^bb0(%0: tensor<32x10xf32>, %1: tensor<32x128xf32>, %2: tensor<10x128xf32>, %3: tensor<f32>):
    %4 = mpc.matmul %0, %1 {transA = true} : (tensor<32x10xf32>, tensor<32x128xf32>) -> tensor<10x128xf32>
    %5 = mpc.sgd %2, %4, %3 {weight_decay = 0.0 : f64} : (tensor<10x128xf32>, tensor<10x128xf32>, tensor<f32>) -> tensor<10x128xf32>
    mpc.yield %5 : tensor<10x128xf32>
  }
  %db2 = mpc.region column_reduce (%dz) {kernel = "db2"} : (tensor<32x10xf32>) -> tensor<1x10xf32> {
  ^bb0(%0: tensor<32x10xf32>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<32x10xf32>) -> tensor<1x10xf32>
    mpc.yield %1 : tensor<1x10xf32>
  }
  return %z, %dw2, %db1, %db2 : tensor<32x10xf32>, tensor<10x128xf32>, tensor<1x128xf32>, tensor<1x10xf32>
}

// The library adds a bias of the result's type only. Other epilogues are
// kernels, unless the user asks for generated products of 16-bit operands.
//
// CHECK-LABEL: func.func @bias_of_another_type
// CHECK: mpc.matmul %{{.*}} -> tensor<32x128xf32>
// CHECK-NEXT: mpc.region pointwise
//
// GENERATED-LABEL: func.func @bias_of_another_type
// GENERATED: mpc.region contraction{{.*}} provider = #mpc.provider<generated>}
//
// LIBRARY-LABEL: func.func @bias_of_another_type
// LIBRARY: %[[P:.*]] = mpc.matmul %{{.*}} -> tensor<32x128xf32>
// LIBRARY: mpc.region pointwise(%[[P]], %{{.*}}) {kernel = "fc1"}
// LIBRARY-NEXT: ^bb0(%[[T:.*]]: tensor<32x128xf32>, %[[B:.*]]: tensor<128xf32>)
// LIBRARY-NEXT: mpc.add %[[T]], %[[B]]
func.func @bias_of_another_type(%x: tensor<32x64xbf16>, %w: tensor<128x64xbf16>, %b: tensor<128xf32>) -> tensor<32x128xbf16> {
  %y = mpc.region contraction (%x, %w, %b) {kernel = "fc1"} : (tensor<32x64xbf16>, tensor<128x64xbf16>, tensor<128xf32>) -> tensor<32x128xbf16> {
  ^bb0(%0: tensor<32x64xbf16>, %1: tensor<128x64xbf16>, %2: tensor<128xf32>):
    %3 = mpc.matmul %0, %1 {transB = true} : (tensor<32x64xbf16>, tensor<128x64xbf16>) -> tensor<32x128xf32>
    %4 = mpc.add %3, %2 : (tensor<32x128xf32>, tensor<128xf32>) -> tensor<32x128xbf16>
    mpc.yield %4 : tensor<32x128xbf16>
  }
  return %y : tensor<32x128xbf16>
}

// The library adds no bias with one value per row, and no bias to a product
// that is rounded first.
//
// LIBRARY-LABEL: func.func @no_bias
// LIBRARY-NOT: plan.product
// LIBRARY: return
func.func @no_bias(%x: tensor<32x64xbf16>, %w: tensor<32x64xbf16>, %b: tensor<32x1xf32>, %c: tensor<32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>) {
  %y = mpc.region contraction (%x, %w, %b) {kernel = "a"} : (tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<32x1xf32>) -> tensor<32x32xf32> {
  ^bb0(%0: tensor<32x64xbf16>, %1: tensor<32x64xbf16>, %2: tensor<32x1xf32>):
    %3 = mpc.matmul %0, %1 {transB = true} : (tensor<32x64xbf16>, tensor<32x64xbf16>) -> tensor<32x32xf32>
    %4 = mpc.add %3, %2 : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    mpc.yield %4 : tensor<32x32xf32>
  }
  %z = mpc.region contraction (%x, %w, %c) {kernel = "b"} : (tensor<32x64xbf16>, tensor<32x64xbf16>, tensor<32xf32>) -> tensor<32x32xf32> {
  ^bb0(%0: tensor<32x64xbf16>, %1: tensor<32x64xbf16>, %2: tensor<32xf32>):
    %3 = mpc.matmul %0, %1 {transB = true} : (tensor<32x64xbf16>, tensor<32x64xbf16>) -> tensor<32x32xbf16>
    %4 = mpc.add %3, %2 : (tensor<32x32xbf16>, tensor<32xf32>) -> tensor<32x32xf32>
    mpc.yield %4 : tensor<32x32xf32>
  }
  return %y, %z : tensor<32x32xf32>, tensor<32x32xf32>
}

// Products of one row, one column or one term have no library epilogue.
//
// LIBRARY-LABEL: func.func @unit_extents
// LIBRARY-NOT: plan.product
// LIBRARY: return
func.func @unit_extents(%x: tensor<1x64xf32>, %w: tensor<128x64xf32>, %b: tensor<128xf32>, %u: tensor<32x64xf32>, %v: tensor<1x64xf32>, %c: tensor<1xf32>,
                        %p: tensor<32x1xf32>, %q: tensor<1x16xf32>, %d: tensor<16xf32>, %g: tensor<1x10xf32>)
    -> (tensor<1x128xf32>, tensor<32x1xf32>, tensor<32x16xf32>, tensor<10x64xf32>, tensor<1x10xf32>) {
  %row = mpc.region contraction (%x, %w, %b) {kernel = "row"} : (tensor<1x64xf32>, tensor<128x64xf32>, tensor<128xf32>) -> tensor<1x128xf32> {
  ^bb0(%0: tensor<1x64xf32>, %1: tensor<128x64xf32>, %2: tensor<128xf32>):
    %3 = mpc.matmul %0, %1 {transB = true} : (tensor<1x64xf32>, tensor<128x64xf32>) -> tensor<1x128xf32>
    %4 = mpc.add %3, %2 : (tensor<1x128xf32>, tensor<128xf32>) -> tensor<1x128xf32>
    mpc.yield %4 : tensor<1x128xf32>
  }
  %column = mpc.region contraction (%u, %v, %c) {kernel = "column"} : (tensor<32x64xf32>, tensor<1x64xf32>, tensor<1xf32>) -> tensor<32x1xf32> {
  ^bb0(%0: tensor<32x64xf32>, %1: tensor<1x64xf32>, %2: tensor<1xf32>):
    %3 = mpc.matmul %0, %1 {transB = true} : (tensor<32x64xf32>, tensor<1x64xf32>) -> tensor<32x1xf32>
    %4 = mpc.add %3, %2 : (tensor<32x1xf32>, tensor<1xf32>) -> tensor<32x1xf32>
    mpc.yield %4 : tensor<32x1xf32>
  }
  %term = mpc.region contraction (%p, %q, %d) {kernel = "term"} : (tensor<32x1xf32>, tensor<1x16xf32>, tensor<16xf32>) -> tensor<32x16xf32> {
  ^bb0(%0: tensor<32x1xf32>, %1: tensor<1x16xf32>, %2: tensor<16xf32>):
    %3 = mpc.matmul %0, %1 : (tensor<32x1xf32>, tensor<1x16xf32>) -> tensor<32x16xf32>
    %4 = mpc.add %3, %2 : (tensor<32x16xf32>, tensor<16xf32>) -> tensor<32x16xf32>
    mpc.yield %4 : tensor<32x16xf32>
  }
  %dw = mpc.region contraction (%g, %x) {kernel = "dw"} : (tensor<1x10xf32>, tensor<1x64xf32>) -> tensor<10x64xf32> {
  ^bb0(%0: tensor<1x10xf32>, %1: tensor<1x64xf32>):
    %2 = mpc.matmul %0, %1 {transA = true} : (tensor<1x10xf32>, tensor<1x64xf32>) -> tensor<10x64xf32>
    mpc.yield %2 : tensor<10x64xf32>
  }
  %db = mpc.region column_reduce (%g) {kernel = "db"} : (tensor<1x10xf32>) -> tensor<1x10xf32> {
  ^bb0(%0: tensor<1x10xf32>):
    %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<1x10xf32>) -> tensor<1x10xf32>
    mpc.yield %1 : tensor<1x10xf32>
  }
  return %row, %column, %term, %dw, %db : tensor<1x128xf32>, tensor<32x1xf32>, tensor<32x16xf32>, tensor<10x64xf32>, tensor<1x10xf32>
}

// A 16-bit relu may round values to 0 that the library's mask keeps.
//
// LIBRARY-LABEL: func.func @rounded_mask
// LIBRARY: plan.product relu_bias
// LIBRARY: mpc.matmul
// LIBRARY: mpc.relu_grad
func.func @rounded_mask(%x: tensor<32x64xf16>, %w: tensor<64x64xf16>, %b: tensor<64xf16>, %dz: tensor<32x64xf16>) -> tensor<32x64xf16> {
  %y = mpc.region contraction (%x, %w, %b) {kernel = "a"} : (tensor<32x64xf16>, tensor<64x64xf16>, tensor<64xf16>) -> tensor<32x64xf16> {
  ^bb0(%0: tensor<32x64xf16>, %1: tensor<64x64xf16>, %2: tensor<64xf16>):
    %3 = mpc.matmul %0, %1 : (tensor<32x64xf16>, tensor<64x64xf16>) -> tensor<32x64xf32>
    %4 = mpc.add %3, %2 : (tensor<32x64xf32>, tensor<64xf16>) -> tensor<32x64xf16>
    %5 = mpc.relu %4 : (tensor<32x64xf16>) -> tensor<32x64xf16>
    mpc.yield %5 : tensor<32x64xf16>
  }
  %dy = mpc.region contraction (%dz, %w, %y) {kernel = "b"} : (tensor<32x64xf16>, tensor<64x64xf16>, tensor<32x64xf16>) -> tensor<32x64xf16> {
  ^bb0(%0: tensor<32x64xf16>, %1: tensor<64x64xf16>, %2: tensor<32x64xf16>):
    %3 = mpc.matmul %0, %1 {transB = true} : (tensor<32x64xf16>, tensor<64x64xf16>) -> tensor<32x64xf16>
    %4 = mpc.relu_grad %3, %2 : (tensor<32x64xf16>, tensor<32x64xf16>) -> tensor<32x64xf16>
    mpc.yield %4 : tensor<32x64xf16>
  }
  return %dy : tensor<32x64xf16>
}

// A product that is only cast is written in the cast's type. The library also
// multiplies f64. Operands of two types are cast to one.
//
// CHECK-LABEL: func.func @types
// CHECK: mpc.matmul %{{.*}} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
// CHECK-NEXT: mpc.matmul %{{.*}} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
// CHECK-NEXT: %[[WIDE:.*]] = mpc.region pointwise(%{{.*}}) {kernel = "c_rhs"} : (tensor<4x4xbf16>) -> tensor<4x4xf32>
// CHECK: mpc.matmul %{{.*}}, %[[WIDE]] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CPU-LABEL: func.func @types
// CPU: kernel = "b", provider = #mpc.provider<generated>
func.func @types(%x: tensor<4x4xbf16>, %d: tensor<4x4xf64>, %f: tensor<4x4xf32>) -> (tensor<4x4xbf16>, tensor<4x4xf64>, tensor<4x4xf32>) {
  %a = mpc.region contraction (%x) {kernel = "a"} : (tensor<4x4xbf16>) -> tensor<4x4xbf16> {
  ^bb0(%0: tensor<4x4xbf16>):
    %1 = mpc.matmul %0, %0 : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xf32>
    %2 = amp.cast %1 : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    mpc.yield %2 : tensor<4x4xbf16>
  }
  %b = mpc.region contraction (%d) {kernel = "b"} : (tensor<4x4xf64>) -> tensor<4x4xf64> {
  ^bb0(%0: tensor<4x4xf64>):
    %1 = mpc.matmul %0, %0 : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
    mpc.yield %1 : tensor<4x4xf64>
  }
  %c = mpc.region contraction (%f, %x) {kernel = "c"} : (tensor<4x4xf32>, tensor<4x4xbf16>) -> tensor<4x4xf32> {
  ^bb0(%0: tensor<4x4xf32>, %1: tensor<4x4xbf16>):
    %2 = mpc.matmul %0, %1 : (tensor<4x4xf32>, tensor<4x4xbf16>) -> tensor<4x4xf32>
    mpc.yield %2 : tensor<4x4xf32>
  }
  return %a, %b, %c : tensor<4x4xbf16>, tensor<4x4xf64>, tensor<4x4xf32>
}
