// RUN: mpc-opt %s --mpc-verify-kernel-types --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s

// Kernels of a ResNet and of a transformer, as Fusion makes them, with the
// limits of their ops. verify-kernel-types-errors.mlir changes one type of each.
// No limits are left.
//
// CHECK-NOT: fused<

#bn = loc(fused<{elements = array<i64: 32768>, loads = [bf16], op = 9 : i64, reason = "between_low", stores = [bf16]}>["bn"])
#relu = loc(fused<{loads = [bf16], op = 10 : i64, stores = [bf16]}>["relu"])
#pool = loc(fused<{loads = [bf16], op = 27 : i64, stores = [bf16]}>["pool"])
#fc = loc(fused<{copies = [@fc.weight.low], loads = [bf16], op = 29 : i64, reason = "allow_list"}>["fc"])
#loss = loc(fused<{reason = "loss_region"}>["loss"])
#cast = loc(fused<{op = 30 : i64, rounds, stores = [bf16]}>["fc#dx"])
#dw = loc(fused<{loads = [bf16], op = 32 : i64, reason = "allow_list"}>["fc#dw"])
#update = loc(fused<{reason = "update"}>["fc.weight#update"])
#copy = loc(fused<{op = 65 : i64, rounds, stores = [bf16]}>["fc.weight#update"])
#attention = loc(fused<{factors = [bf16], loads = [bf16], op = 22 : i64, stores = [bf16]}>["attention"])
#scan = loc(fused<{carries = [bf16], loads = [bf16], op = 70 : i64, stores = [bf16]}>["scan"])
#low = loc(fused<{op = 0 : i64, stores = [bf16]}>["fc.weight.low"])
module attributes {amp.mode = #amp.mode<"bf16-mixed">} {
  mpc.variable @fc.weight : tensor<10x32xf32> role parameter
  mpc.variable @fc.weight.low : tensor<10x32xbf16> role derived loc(#low)

  // CHECK-LABEL: func.func @batch_norm(
  // CHECK: mpc.add {{.*}} loc("bn")
  func.func @batch_norm(%x: tensor<32x8x8x16xbf16>, %inv: tensor<16xf32>, %bias: tensor<16xf32>)
      -> (tensor<1x1x1x16xf32>, tensor<32x8x8x16xbf16>) {
    %0 = mpc.region column_reduce(%x) {kernel = "batch_norm_0"} : (tensor<32x8x8x16xbf16>) -> tensor<1x1x1x16xf32> {
    ^bb0(%a: tensor<32x8x8x16xbf16>):
      %2 = mpc.reduce_mean %a {axes = array<i64: 0, 1, 2>, keepdims = true} : (tensor<32x8x8x16xbf16>) -> tensor<1x1x1x16xf32> loc(#bn)
      mpc.yield %2 : tensor<1x1x1x16xf32>
    }
    %1 = mpc.region pointwise(%x, %0, %inv, %bias) {kernel = "batch_norm_1"} : (tensor<32x8x8x16xbf16>, tensor<1x1x1x16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<32x8x8x16xbf16> {
    ^bb0(%a: tensor<32x8x8x16xbf16>, %m: tensor<1x1x1x16xf32>, %i: tensor<16xf32>, %b: tensor<16xf32>):
      %2 = mpc.sub %a, %m : (tensor<32x8x8x16xbf16>, tensor<1x1x1x16xf32>) -> tensor<32x8x8x16xf32> loc(#bn)
      %3 = mpc.mul %2, %i : (tensor<32x8x8x16xf32>, tensor<16xf32>) -> tensor<32x8x8x16xf32> loc(#bn)
      %4 = mpc.add %3, %b : (tensor<32x8x8x16xf32>, tensor<16xf32>) -> tensor<32x8x8x16xbf16> loc(#bn)
      %5 = mpc.relu %4 : (tensor<32x8x8x16xbf16>) -> tensor<32x8x8x16xbf16> loc(#relu)
      mpc.yield %5 : tensor<32x8x8x16xbf16>
    } loc(fused[#bn, #relu])
    return %0, %1 : tensor<1x1x1x16xf32>, tensor<32x8x8x16xbf16>
  }

  // The product reads the low copy, the optimizer the parameter. A gradient of
  // the loss is stored in both types.
  //
  // CHECK-LABEL: func.func @step(
  // CHECK: loc(fused["fc#dw", "fc.weight#update"])
  func.func @step(%x: tensor<32x4x4x32xbf16>, %bias: tensor<10xf32>, %hot: tensor<32x10xf32>, %lr: tensor<f32>,
                  %w: tensor<10x32xf32> {mpc.state = @fc.weight}, %low: tensor<10x32xbf16> {mpc.state = @fc.weight.low})
      -> (tensor<32x10xf32>, tensor<10x32xf32> {mpc.updates = @fc.weight}, tensor<10x32xbf16> {mpc.updates = @fc.weight.low}) {
    %0 = mpc.region row_reduce(%x) {kernel = "step_0"} : (tensor<32x4x4x32xbf16>) -> tensor<32x1x1x32xf32> {
    ^bb0(%a: tensor<32x4x4x32xbf16>):
      %6 = mpc.reduce_mean %a {axes = array<i64: 1, 2>, keepdims = true} : (tensor<32x4x4x32xbf16>) -> tensor<32x1x1x32xf32> loc(#pool)
      mpc.yield %6 : tensor<32x1x1x32xf32>
    }
    %1 = mpc.region pointwise(%0) {kernel = "step_1"} : (tensor<32x1x1x32xf32>) -> tensor<32x1x1x32xbf16> {
    ^bb0(%a: tensor<32x1x1x32xf32>):
      %6 = amp.cast %a : (tensor<32x1x1x32xf32>) -> tensor<32x1x1x32xbf16> loc(#pool)
      mpc.yield %6 : tensor<32x1x1x32xbf16>
    }
    %2 = mpc.reshape %1 : (tensor<32x1x1x32xbf16>) -> tensor<32x32xbf16>
    %3 = mpc.region contraction(%2, %low, %bias) {kernel = "step_2"} : (tensor<32x32xbf16>, tensor<10x32xbf16>, tensor<10xf32>) -> tensor<32x10xf32> {
    ^bb0(%a: tensor<32x32xbf16>, %b: tensor<10x32xbf16>, %c: tensor<10xf32>):
      %6 = mpc.matmul %a, %b {transB = true} : (tensor<32x32xbf16>, tensor<10x32xbf16>) -> tensor<32x10xf32> loc(#fc)
      %7 = mpc.add %6, %c : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32> loc(#fc)
      mpc.yield %7 : tensor<32x10xf32>
    }
    %4:2 = mpc.region pointwise(%3, %hot) {kernel = "step_3"} : (tensor<32x10xf32>, tensor<32x10xf32>) -> (tensor<32x10xf32>, tensor<32x10xbf16>) {
    ^bb0(%a: tensor<32x10xf32>, %b: tensor<32x10xf32>):
      %6 = mpc.sub %a, %b : (tensor<32x10xf32>, tensor<32x10xf32>) -> tensor<32x10xf32> loc(#loss)
      %7 = amp.cast %6 : (tensor<32x10xf32>) -> tensor<32x10xbf16> loc(#cast)
      mpc.yield %6, %7 : tensor<32x10xf32>, tensor<32x10xbf16>
    }
    %5:2 = mpc.region contraction(%4#1, %2, %w, %lr) {kernel = "step_4"} : (tensor<32x10xbf16>, tensor<32x32xbf16>, tensor<10x32xf32>, tensor<f32>) -> (tensor<10x32xf32>, tensor<10x32xbf16>) {
    ^bb0(%a: tensor<32x10xbf16>, %b: tensor<32x32xbf16>, %c: tensor<10x32xf32>, %d: tensor<f32>):
      %6 = mpc.matmul %a, %b {transA = true} : (tensor<32x10xbf16>, tensor<32x32xbf16>) -> tensor<10x32xf32> loc(#dw)
      %7 = mpc.sgd %c, %6, %d : (tensor<10x32xf32>, tensor<10x32xf32>, tensor<f32>) -> tensor<10x32xf32> loc(#update)
      %8 = amp.cast %7 : (tensor<10x32xf32>) -> tensor<10x32xbf16> loc(#copy)
      mpc.yield %7, %8 : tensor<10x32xf32>, tensor<10x32xbf16>
    } loc(fused[#dw, #update, #copy])
    return %4#0, %5#0, %5#1 : tensor<32x10xf32>, tensor<10x32xf32>, tensor<10x32xbf16>
  }

  // Scores are wide; the product with the values reads a rounded softmax.
  //
  // CHECK-LABEL: func.func @attention(
  func.func @attention(%q: tensor<8x8x8xbf16>, %k: tensor<8x8x8xbf16>, %v: tensor<8x8x8xbf16>) -> tensor<8x8x8xbf16> {
    %0 = mpc.region contraction(%q, %k) {kernel = "attention_0"} : (tensor<8x8x8xbf16>, tensor<8x8x8xbf16>) -> tensor<8x8x8xf32> {
    ^bb0(%a: tensor<8x8x8xbf16>, %b: tensor<8x8x8xbf16>):
      %3 = mpc.matmul %a, %b {transB = true} : (tensor<8x8x8xbf16>, tensor<8x8x8xbf16>) -> tensor<8x8x8xf32> loc(#attention)
      mpc.yield %3 : tensor<8x8x8xf32>
    }
    %1 = mpc.region row_reduce(%0) {kernel = "attention_1"} : (tensor<8x8x8xf32>) -> tensor<8x8x8xbf16> {
    ^bb0(%a: tensor<8x8x8xf32>):
      %3 = mpc.exp %a : (tensor<8x8x8xf32>) -> tensor<8x8x8xf32> loc(#attention)
      %4 = mpc.reduce_sum %3 {axes = array<i64: 2>, keepdims = true} : (tensor<8x8x8xf32>) -> tensor<8x8x1xf32> loc(#attention)
      %5 = mpc.div %3, %4 : (tensor<8x8x8xf32>, tensor<8x8x1xf32>) -> tensor<8x8x8xbf16> loc(#attention)
      mpc.yield %5 : tensor<8x8x8xbf16>
    }
    %2 = mpc.region contraction(%1, %v) {kernel = "attention_2"} : (tensor<8x8x8xbf16>, tensor<8x8x8xbf16>) -> tensor<8x8x8xbf16> {
    ^bb0(%a: tensor<8x8x8xbf16>, %b: tensor<8x8x8xbf16>):
      %3 = mpc.matmul %a, %b : (tensor<8x8x8xbf16>, tensor<8x8x8xbf16>) -> tensor<8x8x8xbf16> loc(#attention)
      mpc.yield %3 : tensor<8x8x8xbf16>
    }
    return %2 : tensor<8x8x8xbf16>
  }

  // A loop of the model may carry 16-bit values.
  //
  // CHECK-LABEL: func.func @loop(
  func.func @loop(%h: tensor<4xbf16>, %x: tensor<8x4xbf16>) -> tensor<4xbf16> {
    %0 = mpc.scan_call @loop_scan 8 carried(%h : tensor<4xbf16>) scanned(%x : tensor<8x4xbf16>)
        {reversed_inputs = array<i1: false>, reversed_outputs = array<i1>} -> (tensor<4xbf16>) loc(#scan)
    return %0 : tensor<4xbf16>
  }
  func.func private @loop_scan(%h: tensor<4xbf16>, %x: tensor<4xbf16>) -> tensor<4xbf16> {
    %0 = mpc.region pointwise(%h, %x) {kernel = "loop_scan_0"} : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16> {
    ^bb0(%a: tensor<4xbf16>, %b: tensor<4xbf16>):
      %1 = mpc.add %a, %b : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16> loc(#relu)
      mpc.yield %1 : tensor<4xbf16>
    }
    return %0 : tensor<4xbf16>
  }
}
