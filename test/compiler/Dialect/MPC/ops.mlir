// RUN: mpc-opt %s | mpc-opt | FileCheck %s

// CHECK: mpc.variable @fc.weight : tensor<10x64xf32> role parameter init dense<1.0
mpc.variable @fc.weight : tensor<10x64xf32> role parameter init dense<1.0> : tensor<10x64xf32>
// CHECK: mpc.variable @mpc.loss_scale : tensor<f32> role loss_scale fill 6.5536{{0*}}e+04
mpc.variable @mpc.loss_scale : tensor<f32> role loss_scale fill 65536.0

// CHECK-LABEL: func @step
// CHECK-SAME: {mpc.state = @fc.weight}
func.func @step(%x: tensor<32x64xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                %t: tensor<32xi64> {mpc.input = "target", mpc.role = #mpc.role<label>},
                %w: tensor<10x64xf32> {mpc.state = @fc.weight},
                %lr: tensor<f32> {mpc.input = "learning_rate", mpc.role = #mpc.role<scalar>})
    -> (tensor<10x64xf32> {mpc.updates = @fc.weight}, tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}) {
  // CHECK: mpc.gemm %{{.*}}, %{{.*}} {transB = true} : (tensor<32x64xf32>, tensor<10x64xf32>) -> tensor<32x10xf32>
  %y = mpc.gemm %x, %w {transB = true} : (tensor<32x64xf32>, tensor<10x64xf32>) -> tensor<32x10xf32>
  %loss, %lp = mpc.softmax_cross_entropy_loss %y, %t : (tensor<32x10xf32>, tensor<32xi64>) -> (tensor<f32>, tensor<32x10xf32>)
  %one = mpc.constant dense<1.0> : tensor<f32>
  %dy = mpc.softmax_cross_entropy_loss_grad %one, %lp, %t : (tensor<f32>, tensor<32x10xf32>, tensor<32xi64>) -> tensor<32x10xf32>
  %dw = mpc.gemm %dy, %x {transA = true} : (tensor<32x10xf32>, tensor<32x64xf32>) -> tensor<10x64xf32>
  // CHECK: mpc.sgd
  %w1 = mpc.sgd %w, %dw, %lr : (tensor<10x64xf32>, tensor<10x64xf32>, tensor<f32>) -> tensor<10x64xf32>
  return %w1, %loss : tensor<10x64xf32>, tensor<f32>
}

// CHECK-LABEL: func @region
func.func @region(%x: tensor<4x8xf32>, %b: tensor<8xbf16>) -> tensor<4x8xbf16> {
  // CHECK: mpc.region pointwise(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<8xbf16>) -> tensor<4x8xbf16>
  %y = mpc.region pointwise (%x, %b) : (tensor<4x8xf32>, tensor<8xbf16>) -> tensor<4x8xbf16> {
  ^bb0(%0: tensor<4x8xf32>, %1: tensor<8xbf16>):
    %2 = mpc.add %0, %1 : (tensor<4x8xf32>, tensor<8xbf16>) -> tensor<4x8xf32>
    %3 = amp.cast %2 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    mpc.yield %3 : tensor<4x8xbf16>
  }
  return %y : tensor<4x8xbf16>
}

// CHECK-LABEL: func @scan
func.func @scan(%h0: tensor<4xf32>, %x: tensor<8x4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>) {
  // CHECK: mpc.scan 8 carried(%{{.*}} : tensor<4xf32>) scanned(%{{.*}} : tensor<8x4xf32>) invariant(%{{.*}} : tensor<4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>) {
  // CHECK: ^bb0(%{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>):
  // CHECK: } {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: true>}
  %last, %all = mpc.scan 8 carried(%h0 : tensor<4xf32>) scanned(%x : tensor<8x4xf32>)
      invariant(%w : tensor<4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>) {
  ^bb0(%h: tensor<4xf32>, %x_t: tensor<4xf32>, %u: tensor<4xf32>):
    %0 = mpc.mul %h, %u : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = mpc.add %0, %x_t : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %1, %0 : tensor<4xf32>, tensor<4xf32>
  } {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: true>}
  return %last, %all : tensor<4xf32>, tensor<8x4xf32>
}

// CHECK-LABEL: func @scan_call
func.func @scan_call(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // CHECK: mpc.scan_call @body 8 scanned(%{{.*}} : tensor<8x4xf32>) {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: false>} -> (tensor<8x4xf32>)
  %0 = mpc.scan_call @body 8 scanned(%x : tensor<8x4xf32>)
      {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: false>} -> (tensor<8x4xf32>)
  return %0 : tensor<8x4xf32>
}
func.func private @body(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// CHECK-LABEL: func @if
func.func @if(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: mpc.if %{{.*}} captured(%{{.*}} : tensor<4xf32>) -> (tensor<4xf32>) {
  // CHECK: } else {
  // CHECK: } {mpc.phase = #mpc.phase<loss>}
  %0 = mpc.if %c captured(%x : tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    %1 = mpc.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %1 : tensor<4xf32>
  } else {
  ^bb0(%a: tensor<4xf32>):
    mpc.yield %a : tensor<4xf32>
  } {mpc.phase = #mpc.phase<loss>}
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func @if_call
func.func @if_call(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: mpc.if_call %{{.*}} @body else @body(%{{.*}}) : (tensor<4xf32>) -> tensor<4xf32>
  %0 = mpc.if_call %c @body else @body(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @losses
func.func @losses(%p: tensor<4x3xf32>, %t: tensor<4x3xf32>, %l: tensor<4xi64>) -> (tensor<4x3xf32>, tensor<f32>) {
  // CHECK: mpc.bce %{{.*}}, %{{.*}} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %each = mpc.bce %p, %t : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  // CHECK: mpc.bce_grad
  %dp = mpc.bce_grad %each, %p, %t : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  // CHECK: mpc.softmax_cross_entropy_loss %{{.*}}, %{{.*}} {ignore_index = -1 : i64, label_smoothing = 1.000000e-01 : f64, zero_if_empty}
  %loss, %lp = mpc.softmax_cross_entropy_loss %p, %l {ignore_index = -1 : i64, label_smoothing = 0.1 : f64, zero_if_empty}
      : (tensor<4x3xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4x3xf32>)
  return %dp, %loss : tensor<4x3xf32>, tensor<f32>
}

// CHECK-LABEL: func.func @checks_indices(
func.func @checks_indices(%ids: tensor<4xi64>) {
  // CHECK: mpc.check_indices %{{.*}} [{begin = array<i64: 0>, end = array<i64: 4>, size = 9 : i64}] : tensor<4xi64>
  mpc.check_indices %ids [{begin = array<i64: 0>, end = array<i64: 4>, size = 9 : i64}] : tensor<4xi64>
  return
}

// CHECK-LABEL: func.func @reduces_over_ranks(
func.func @reduces_over_ranks(%a: tensor<4xf16>, %b: tensor<2x3xf16>, %n: tensor<i64>) -> (tensor<4xf16>, tensor<2x3xf16>, tensor<i64>) {
  // CHECK: mpc.all_reduce mean %{{.*}}, %{{.*}} : (tensor<4xf16>, tensor<2x3xf16>) -> (tensor<4xf16>, tensor<2x3xf16>)
  %0, %1 = mpc.all_reduce mean %a, %b : (tensor<4xf16>, tensor<2x3xf16>) -> (tensor<4xf16>, tensor<2x3xf16>)
  // CHECK: mpc.all_reduce mean %{{.*}} rows : (tensor<2x3xf16>) -> tensor<2x3xf16>
  %3 = mpc.all_reduce mean %b rows : (tensor<2x3xf16>) -> tensor<2x3xf16>
  // CHECK: mpc.all_reduce sum %{{.*}} : (tensor<i64>) -> tensor<i64>
  %2 = mpc.all_reduce sum %n : (tensor<i64>) -> tensor<i64>
  return %0, %1, %2 : tensor<4xf16>, tensor<2x3xf16>, tensor<i64>
}
