// A loss that the model computes is a loss region, back to the first
// contraction on each path, with its gradient: fp32, and no flag changes it.
// RUN: mpc-opt %s --mpc-attach-target=name=zen5 -amp-assign-precision="mode=bf16-mixed" -mlir-print-local-scope | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=zen5 -amp-assign-precision="mode=32-true" -mlir-print-local-scope | FileCheck %s --check-prefix=TRUE
// RUN: not mpc-opt %s --mpc-attach-target=name=zen5 -amp-assign-precision="mode=bf16-mixed force-low=^softmax" 2>&1 | FileCheck %s --check-prefix=FIXED
// FIXED: --force-low: expression '^softmax' matches only nodes whose precision is fixed

// Modes with one type suggest a flag only where another mode would lower the
// op.
// TRUE: mpc.matmul {{.*}}flip = "--precision=bf16-mixed">
// TRUE: mpc.relu {{.*}}flip = "--precision=bf16-mixed">
// TRUE: mpc.softmax {{.*}}evidence = {{[a-z]+}}>

// CHECK-LABEL: func.func @step
func.func @step(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %t: tensor<4x4xf32>)
    -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}, tensor<4x4xf32>) {
  // CHECK: mpc.matmul {{.*}}compute = bf16
  %h = mpc.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("fc1")
  // CHECK: mpc.relu {{.*}}results = [bf16]
  %r = mpc.relu %h : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("relu")
  // CHECK: mpc.matmul {{.*}}results = [f32], compute = bf16
  %y = mpc.matmul %r, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("fc2")
  // CHECK: mpc.softmax {{.*}}operands = [f32], results = [f32], {{.*}}reason = loss_region, {{.*}}evidence = proved>
  %p = mpc.softmax %y {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("softmax")
  // CHECK: mpc.log {{.*}}results = [f32], {{.*}}reason = loss_region
  %l = mpc.log %p : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("log")
  // CHECK: mpc.mul {{.*}}results = [f32], {{.*}}reason = loss_region
  %m = mpc.mul %l, %t : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("pick")
  // CHECK: mpc.reduce_mean {{.*}}results = [f32], {{.*}}reason = loss_region
  %loss = mpc.reduce_mean %m {axes = array<i64: 0, 1>} : (tensor<4x4xf32>) -> tensor<f32> loc("mean")
  %seed = mpc.gradient_seed : tensor<f32>
  // CHECK: mpc.mul {{.*}}results = [f32], {{.*}}reason = loss_region
  %dm = mpc.mul %t, %seed {mpc.phase = #mpc.phase<backward>} : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("pick#da")
  // CHECK: mpc.div {{.*}}results = [f32], {{.*}}reason = loss_region
  %dl = mpc.div %dm, %p {mpc.phase = #mpc.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("log#dx")
  // CHECK: mpc.softmax_grad {{.*}}results = [f32], {{.*}}reason = loss_region
  %dy = mpc.softmax_grad %dl, %p {axis = 1 : i64, mpc.phase = #mpc.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("softmax#dx")
  // CHECK: mpc.matmul {{.*}}compute = bf16
  %dr = mpc.matmul %dy, %w {mpc.phase = #mpc.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("fc2#da")
  return %loss, %dr : tensor<f32>, tensor<4x4xf32>
}
