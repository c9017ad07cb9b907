// RUN: mpc-opt %s --mpc-limit-kernel-types --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s
// RUN: sed 's/bf16-mixed/32-true/' %s | mpc-opt --mpc-limit-kernel-types --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=TRUE

// In 32-true, no op gets limits.
//
// TRUE: mpc.matmul {{.*}} loc("fc")
// TRUE-NOT: fused<

#low = #amp.decision<operands = [bf16, bf16], results = [f32], compute = bf16, class = allow, rule = "test", why = "", reason = allow_list, path = [], evidence = assumed>
module attributes {amp.mode = #amp.mode<"bf16-mixed">} {
  mpc.variable @w : tensor<8x4xf32> role parameter
  // CHECK: mpc.variable @w.low {{.*}} loc(fused<{op = 0 : i64, stores = [bf16]}>["w.low"])
  mpc.variable @w.low : tensor<8x4xbf16> role derived loc("w.low")

  // The copy reaches the product through a scale, which Fusion may fold into
  // the product.
  //
  // CHECK-LABEL: func.func @forward(
  // CHECK: amp.cast {{.*}} loc(fused<{op = 1 : i64, rounds, stores = [bf16]}>["fc"])
  // CHECK: mpc.mul {{.*}} loc(fused<{copies = [@w.low], loads = [bf16], op = 2 : i64, stores = [bf16]}>["scale"])
  // CHECK: mpc.matmul {{.*}} loc(fused<{copies = [@w.low], loads = [bf16], op = 3 : i64, reason = "allow_list"}>["fc"])
  // CHECK: mpc.tanh {{.*}} loc(fused<{}>["tanh"])
  func.func @forward(%x: tensor<2x8xf32>, %w: tensor<8x4xbf16> {mpc.state = @w.low}) -> tensor<2x4xf32> {
    %half = mpc.constant dense<0.5> : tensor<bf16>
    %0 = amp.cast %x : (tensor<2x8xf32>) -> tensor<2x8xbf16> loc("fc")
    %1 = mpc.mul %w, %half : (tensor<8x4xbf16>, tensor<bf16>) -> tensor<8x4xbf16> loc("scale")
    %2 = mpc.matmul %0, %1 {amp.decision = #low} : (tensor<2x8xbf16>, tensor<8x4xbf16>) -> tensor<2x4xf32> loc("fc")
    %3 = mpc.tanh %2 : (tensor<2x4xf32>) -> tensor<2x4xf32> loc("tanh")
    return %3 : tensor<2x4xf32>
  }

  // Statistics stay wide: only results of 64 elements may be low.
  //
  // CHECK-LABEL: func.func @norm(
  // CHECK: mpc.layer_norm {{.*}} loc(fused<{elements = array<i64: 64>, loads = [bf16], op = 4 : i64, stores = [bf16]}>["norm"])
  func.func @norm(%x: tensor<4x16xbf16>, %scale: tensor<16xf32>, %bias: tensor<16xf32>) -> tensor<4x16xbf16> {
    %y, %mean, %inv = mpc.layer_norm %x, %scale, %bias {axes = array<i64: 1>, epsilon = 1.0e-05 : f64}
        : (tensor<4x16xbf16>, tensor<16xf32>, tensor<16xf32>) -> (tensor<4x16xbf16>, tensor<4x1xf32>, tensor<4x1xf32>) loc("norm")
    return %y : tensor<4x16xbf16>
  }

  // A loop tells what it carries; an attention tells what it multiplies. An op
  // in the body reads what a cast outside has rounded.
  //
  // CHECK-LABEL: func.func @bodies(
  // CHECK: mpc.scan 8
  // CHECK: mpc.neg {{.*}} loc(fused<{loads = [bf16], loads_rounded, op = [[#]] : i64, stores = [bf16]}>["neg"])
  // CHECK: loc(fused<{carries = [bf16], loads = [bf16], op = [[#]] : i64, stores = [bf16]}>["scan"])
  // CHECK: mpc.attention {{.*}} loc(fused<{factors = [bf16], loads = [bf16], op = [[#]] : i64}>["attention"])
  func.func @bodies(%h: tensor<4xf32>, %x: tensor<8x4xbf16>, %q: tensor<2x8x4xbf16>) -> (tensor<4xbf16>, tensor<2x8x4xf32>) {
    %0 = amp.cast %h : (tensor<4xf32>) -> tensor<4xbf16> loc("cast")
    %1 = mpc.scan 8 carried(%0 : tensor<4xbf16>) scanned(%x : tensor<8x4xbf16>) -> (tensor<4xbf16>) {
    ^bb0(%a: tensor<4xbf16>, %b: tensor<4xbf16>):
      %3 = mpc.neg %a : (tensor<4xbf16>) -> tensor<4xbf16> loc("neg")
      mpc.yield %3 : tensor<4xbf16>
    } {reversed_inputs = array<i1: false>, reversed_outputs = array<i1>} loc("scan")
    %2 = mpc.attention %q, %q, %q {scale = 0.5 : f64} : (tensor<2x8x4xbf16>, tensor<2x8x4xbf16>, tensor<2x8x4xbf16>) -> tensor<2x8x4xf32> loc("attention")
    return %1, %2 : tensor<4xbf16>, tensor<2x8x4xf32>
  }
}
