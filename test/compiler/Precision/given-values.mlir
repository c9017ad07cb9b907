// If a float32 input, parameter or constant meets low values, the result stays
// float32, unless its values are known and of similar size.
// RUN: mpc-opt %s --mpc-attach-target=name=zen5 -amp-assign-precision="mode=bf16-mixed" -mlir-print-local-scope | FileCheck %s --check-prefixes=CHECK,BF16
// RUN: mpc-opt %s --mpc-attach-target=name=zen5 -amp-assign-precision="mode=16-mixed" -mlir-print-local-scope | FileCheck %s --check-prefixes=CHECK,FP16
// RUN: mpc-opt %s --mpc-attach-target=name=zen5 -amp-assign-precision="mode=bf16-mixed force-low=^sum$" -mlir-print-local-scope | FileCheck %s --check-prefix=FORCED

// An input, and its sum with a low value, up to an op that bounds values to
// order 1.
// CHECK-LABEL: func.func @input
// FORCED-LABEL: func.func @input
// CHECK: mpc.add {{.*}}results = [f32], {{.*}}reason = wide_operand, path = ["sum"], {{.*}}evidence = assumed, {{.*}}flip = "--force-low=^sum$"
// FORCED: mpc.add {{.*}}results = [bf16], {{.*}}reason = force_low
// CHECK: mpc.add {{.*}}results = [f32], {{.*}}reason = wide_operand, path = ["sum", "residual"]
// CHECK: mpc.tanh
// CHECK: mpc.add {{.*}}results = [{{b?}}f16], {{.*}}reason = between_low
func.func @input(%x: tensor<4x4xf32>, %t: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %h = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("i0")
  %0 = mpc.add %h, %t : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("sum")
  %g = mpc.matmul %h, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("i1")
  %1 = mpc.add %0, %g : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("residual")
  %2 = mpc.tanh %1 : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("tanh")
  %3 = mpc.matmul %2, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("i2")
  %4 = mpc.add %2, %3 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("next")
  %5 = mpc.matmul %4, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("i3")
  return %5 : tensor<4x4xf32>
}

// A bias, added embeddings, a token in front of others, offsets of many sizes,
// and scales: bfloat16 has the range for all, float16 does not.
mpc.variable @bias : tensor<4xf32> role parameter init dense<[0.1, -0.2, 0.3, 0.0]> : tensor<4xf32>
mpc.variable @table : tensor<2x4xf32> role parameter init dense<[[1.0, -1.2, 0.5, 2.0], [0.1, 0.4, -1.9, 0.3]]> : tensor<2x4xf32>
mpc.variable @token : tensor<1x4xf32> role parameter
mpc.variable @offset : tensor<4xf32> role parameter init dense<[1.0, 30.0, -30.0, 0.0]> : tensor<4xf32>
mpc.variable @scale : tensor<4xf32> role parameter fill 1.0
mpc.variable @tiny : tensor<4xf32> role parameter fill 1.0e-5
// CHECK-LABEL: func.func @known
// CHECK: mpc.add {{.*}}results = [{{b?}}f16], {{.*}}reason = known_operand, {{.*}}flip = "--keep-fp32=^bias$"
// CHECK: mpc.gather
// CHECK: mpc.add
// CHECK: mpc.add {{.*}}results = [{{b?}}f16], {{.*}}reason = known_operand
// CHECK: mpc.expand
// CHECK: mpc.concat {{.*}}results = [{{b?}}f16], {{.*}}reason = known_operand
// CHECK: mpc.slice
// BF16: mpc.mul {{.*}}results = [bf16], {{.*}}reason = between_low
// FP16: mpc.mul {{.*}}results = [f16], {{.*}}reason = known_operand
// CHECK: mpc.matmul
// CHECK: mpc.add {{.*}}results = [f32], {{.*}}reason = wide_operand
// CHECK: mpc.matmul
// BF16: mpc.mul {{.*}}results = [bf16], {{.*}}reason = between_low
// FP16: mpc.mul {{.*}}results = [f32], {{.*}}reason = wide_operand
func.func @known(%x: tensor<4x4xf32>, %i: tensor<4xi64>, %bias: tensor<4xf32> {mpc.state = @bias}, %table: tensor<2x4xf32> {mpc.state = @table}, %token: tensor<1x4xf32> {mpc.state = @token}, %offset: tensor<4xf32> {mpc.state = @offset}, %scale: tensor<4xf32> {mpc.state = @scale}, %tiny: tensor<4xf32> {mpc.state = @tiny}) -> tensor<4x4xf32> {
  %h0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("k0")
  %0 = mpc.add %h0, %bias : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32> loc("bias")
  %rows = mpc.gather %table, %i {axis = 0 : i64} : (tensor<2x4xf32>, tensor<4xi64>) -> tensor<4x4xf32> loc("rows")
  %both = mpc.add %rows, %rows : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("both")
  %1 = mpc.add %0, %both : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("rows_added")
  %wide = mpc.expand %token : (tensor<1x4xf32>) -> tensor<4x4xf32> loc("tokens")
  %2 = mpc.concat %wide, %1 {axis = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("concat")
  %3 = mpc.slice %2 {offsets = array<i64: 0, 0>, sizes = array<i64: 4, 4>} : (tensor<8x4xf32>) -> tensor<4x4xf32> loc("slice")
  %4 = mpc.mul %3, %scale : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32> loc("scale")
  %h1 = mpc.matmul %4, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("k1")
  %5 = mpc.add %h1, %offset : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32> loc("offset")
  %h2 = mpc.matmul %5, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("k2")
  %6 = mpc.mul %h2, %tiny : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32> loc("tiny")
  %y = mpc.matmul %6, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("k3")
  return %y : tensor<4x4xf32>
}

// Slices of an input in a loop.
// CHECK-LABEL: func.func @loop
// CHECK: mpc.add {{.*}}results = [f32], {{.*}}reason = wide_operand
func.func @loop(%x: tensor<3x4x4xf32>, %w: tensor<4x4xf32>, %c: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %last = mpc.scan 3 carried(%c : tensor<4x4xf32>) scanned(%x : tensor<3x4x4xf32>) invariant(%w : tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  ^bb0(%a: tensor<4x4xf32>, %t: tensor<4x4xf32>, %u: tensor<4x4xf32>):
    %h = mpc.matmul %a, %u : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("l0")
    %0 = mpc.add %h, %t : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("l1")
    %1 = mpc.matmul %0, %u : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("l2")
    mpc.yield %1 : tensor<4x4xf32>
  } {reversed_inputs = array<i1: false>, reversed_outputs = array<i1>}
  return %last : tensor<4x4xf32>
}
