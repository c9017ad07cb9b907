// Analyses follow the edges of loops and branches: a body's arguments and
// results are values outside.
// RUN: mpc-opt %s --mpc-attach-target=name=zen5 -amp-assign-precision="mode=bf16-mixed" -mlir-print-local-scope | FileCheck %s
// RUN: not mpc-opt %s --mpc-attach-target=name=zen5 -amp-assign-precision="mode=bf16-mixed force-low=^(prob|log_p)$" 2>&1 | FileCheck %s --check-prefix=FIXED
// FIXED: --force-low: expression '^(prob|log_p)$' matches only nodes whose precision is fixed

// A loss that a loop sums begins before the loop, and is carried.
// CHECK-LABEL: func.func @loss
// CHECK: mpc.matmul {{.*}}results = [f32]
// CHECK: mpc.sigmoid {{.*}}results = [f32], {{.*}}reason = loss_region
// CHECK: mpc.log {{.*}}reason = loss_region
// CHECK: mpc.mul {{.*}}reason = loss_region
// CHECK: mpc.sub {{.*}}reason = loss_region
// CHECK: mpc.reduce_mean {{.*}}reason = loss_region
func.func @loss(%x: tensor<3x4x4xf32>, %w: tensor<4x4xf32>, %t: tensor<3x4x4xf32>)
    -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}, tensor<3x4x4xf32>) {
  %zeros = mpc.constant dense<0.0> : tensor<4x4xf32>
  %z = mpc.matmul %x, %w : (tensor<3x4x4xf32>, tensor<4x4xf32>) -> tensor<3x4x4xf32> loc("fc")
  %p = mpc.sigmoid %z : (tensor<3x4x4xf32>) -> tensor<3x4x4xf32> loc("prob")
  %last = mpc.scan 3 carried(%zeros : tensor<4x4xf32>) scanned(%p, %t : tensor<3x4x4xf32>, tensor<3x4x4xf32>) -> (tensor<4x4xf32>) {
  ^bb0(%a: tensor<4x4xf32>, %pt: tensor<4x4xf32>, %tt: tensor<4x4xf32>):
    %0 = mpc.log %pt : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("log_p")
    %1 = mpc.mul %0, %tt : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("pick")
    %2 = mpc.sub %a, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("add")
    mpc.yield %2 : tensor<4x4xf32>
  } {reversed_inputs = array<i1: false, false>, reversed_outputs = array<i1>}
  %loss = mpc.reduce_mean %last {axes = array<i64: 0, 1>} : (tensor<4x4xf32>) -> tensor<f32> loc("mean")
  %dz = mpc.matmul %p, %w {mpc.phase = #mpc.phase<backward>} : (tensor<3x4x4xf32>, tensor<4x4xf32>) -> tensor<3x4x4xf32> loc("fc#da")
  return %loss, %dz : tensor<f32>, tensor<3x4x4xf32>
}

// A loop computes 1 - f of a gate of all steps. In the next loop only the sum
// with 1 is near 2.
// CHECK-LABEL: func.func @gate
// CHECK: mpc.sigmoid {{.*}}results = [f32], {{.*}}reason = constant_range
// CHECK: mpc.tanh {{.*}}results = [f32], {{.*}}reason = constant_range
// CHECK: mpc.sigmoid {{.*}}results = [bf16], {{.*}}reason = between_low
func.func @gate(%x: tensor<3x4x4xf32>, %w: tensor<4x4xf32>, %c: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<3x4x4xf32>) {
  %one = mpc.constant dense<1.0> : tensor<f32>
  %z = mpc.matmul %x, %w : (tensor<3x4x4xf32>, tensor<4x4xf32>) -> tensor<3x4x4xf32> loc("gate0")
  %f = mpc.sigmoid %z : (tensor<3x4x4xf32>) -> tensor<3x4x4xf32> loc("gate1")
  %h = mpc.tanh %z : (tensor<3x4x4xf32>) -> tensor<3x4x4xf32> loc("gate2")
  %i = mpc.sigmoid %z : (tensor<3x4x4xf32>) -> tensor<3x4x4xf32> loc("gate3")
  %last = mpc.scan 3 carried(%c : tensor<4x4xf32>) scanned(%f, %h, %i : tensor<3x4x4xf32>, tensor<3x4x4xf32>, tensor<3x4x4xf32>) invariant(%one : tensor<f32>) -> (tensor<4x4xf32>) {
  ^bb0(%b: tensor<4x4xf32>, %ft: tensor<4x4xf32>, %ht: tensor<4x4xf32>, %it: tensor<4x4xf32>, %k: tensor<f32>):
    %0 = mpc.sub %k, %ft : (tensor<f32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("gate4")
    %1 = mpc.add %k, %ht : (tensor<f32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("gate5")
    %2 = mpc.add %k, %it : (tensor<f32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("gate6")
    %3 = mpc.mul %0, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("gate7")
    %4 = mpc.mul %3, %2 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("gate8")
    %5 = mpc.mul %4, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("gate9")
    mpc.yield %5 : tensor<4x4xf32>
  } {reversed_inputs = array<i1: false, false, false>, reversed_outputs = array<i1>}
  %y = mpc.matmul %last, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("gate10")
  %g = mpc.add %f, %h : (tensor<3x4x4xf32>, tensor<3x4x4xf32>) -> tensor<3x4x4xf32> loc("gate12")
  %j = mpc.add %g, %i : (tensor<3x4x4xf32>, tensor<3x4x4xf32>) -> tensor<3x4x4xf32> loc("gate13")
  %v = mpc.matmul %j, %w : (tensor<3x4x4xf32>, tensor<4x4xf32>) -> tensor<3x4x4xf32> loc("gate14")
  return %y, %v : tensor<4x4xf32>, tensor<3x4x4xf32>
}

// A denial crosses a loop's or branch's edge in both directions. So does a
// constant's range, from before the loop or from the previous iteration.
// CHECK-LABEL: func.func @denied
// CHECK: mpc.cos {{.*}}reason = deny_list
// CHECK: mpc.mul {{.*}}results = [f32], {{.*}}reason = after_denied
// CHECK: mpc.add {{.*}}results = [f32], {{.*}}reason = constant_range
// CHECK: mpc.cos {{.*}}reason = deny_list
// CHECK: mpc.add {{.*}}results = [f32], {{.*}}reason = after_denied
func.func @denied(%x: tensor<3x4x4xf32>, %w: tensor<4x4xf32>, %go: tensor<i1>) -> tensor<4x4xf32> {
  %least = mpc.constant dense<-3.40282347E+38> : tensor<4x4xf32>
  %zeros = mpc.constant dense<0.0> : tensor<4x4xf32>
  %z = mpc.matmul %x, %w : (tensor<3x4x4xf32>, tensor<4x4xf32>) -> tensor<3x4x4xf32> loc("d0")
  %e = mpc.cos %z : (tensor<3x4x4xf32>) -> tensor<3x4x4xf32> loc("d1")
  %last, %most = mpc.scan 3 carried(%zeros, %least : tensor<4x4xf32>, tensor<4x4xf32>) scanned(%e : tensor<3x4x4xf32>) invariant(%w : tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  ^bb0(%a: tensor<4x4xf32>, %m: tensor<4x4xf32>, %et: tensor<4x4xf32>, %u: tensor<4x4xf32>):
    %h = mpc.matmul %a, %u : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("d2")
    %0 = mpc.mul %h, %et : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("d3")
    %1 = mpc.maximum %h, %m : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("d4")
    %2 = mpc.matmul %0, %u : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("d5")
    %3 = mpc.add %2, %m : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("d6")
    %4 = mpc.matmul %3, %u : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("d7")
    mpc.yield %4, %1 : tensor<4x4xf32>, tensor<4x4xf32>
  } {reversed_inputs = array<i1: false>, reversed_outputs = array<i1>}
  %b = mpc.if %go captured(%last, %most : tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  ^bb0(%p: tensor<4x4xf32>, %q: tensor<4x4xf32>):
    %0 = mpc.cos %p : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("d8")
    mpc.yield %0 : tensor<4x4xf32>
  } else {
  ^bb0(%p: tensor<4x4xf32>, %q: tensor<4x4xf32>):
    mpc.yield %q : tensor<4x4xf32>
  }
  %h = mpc.matmul %w, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("d9")
  %s = mpc.add %h, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("d10")
  %y = mpc.matmul %s, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("d11")
  return %y : tensor<4x4xf32>
}

// A value that grows with every iteration has no range: any bound would be a guess.
// CHECK-LABEL: func.func @growing
// CHECK: mpc.add {{.*}}results = [bf16], {{.*}}reason = between_low
func.func @growing(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %start = mpc.constant dense<1.0> : tensor<4x4xf32>
  %last = mpc.scan 200 carried(%start : tensor<4x4xf32>) invariant(%w : tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  ^bb0(%a: tensor<4x4xf32>, %u: tensor<4x4xf32>):
    %h = mpc.matmul %u, %u : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("g0")
    %0 = mpc.add %h, %a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("g1")
    %1 = mpc.matmul %0, %u : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("g2")
    %2 = mpc.mul %0, %a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("g3")
    %3 = mpc.sub %2, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("g4")
    mpc.yield %3 : tensor<4x4xf32>
  } {reversed_inputs = array<i1>, reversed_outputs = array<i1>}
  return %last : tensor<4x4xf32>
}
