// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-recognize-layer-norm))" | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-recognize-layer-norm))" --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=NAMES

// The new op has the names of all nodes, the last one's first.
// NAMES: mpc.layer_norm {{.*}} loc(fused["shifted", "scaled", "quotient", "root", "sum", "variance", "square", "distance", "mean"])

// Exporters of opsets before 17 write this form, from x to the bias.
// CHECK-LABEL: func.func @as_exported
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[SCALE:.*]]: tensor<8xf32>, %[[BIAS:.*]]: tensor<8xf32>
func.func @as_exported(%x: tensor<4x8xf32>, %scale: tensor<8xf32>, %bias: tensor<8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: %[[Y:.*]], %{{.*}}, %{{.*}} = mpc.layer_norm %[[X]], %[[SCALE]], %[[BIAS]] {axes = array<i64: 1>, epsilon = 9.9999997{{.*}} : f64, mpc.phase = #mpc.phase<forward>}
  // CHECK-SAME: -> (tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
  // CHECK-NEXT: return %[[Y]]
  %two = mpc.constant dense<2.0> : tensor<f32>
  %epsilon = mpc.constant dense<1.0e-5> : tensor<f32>
  %mean = mpc.reduce_mean %x {axes = array<i64: 1>, keepdims = true, mpc.phase = #mpc.phase<forward>} : (tensor<4x8xf32>) -> tensor<4x1xf32> loc("mean")
  %d = mpc.sub %x, %mean {mpc.phase = #mpc.phase<forward>} : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32> loc("distance")
  %d2 = mpc.pow %d, %two {mpc.phase = #mpc.phase<forward>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32> loc("square")
  %var = mpc.reduce_mean %d2 {axes = array<i64: 1>, keepdims = true, mpc.phase = #mpc.phase<forward>} : (tensor<4x8xf32>) -> tensor<4x1xf32> loc("variance")
  %sum = mpc.add %var, %epsilon {mpc.phase = #mpc.phase<forward>} : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32> loc("sum")
  %root = mpc.sqrt %sum {mpc.phase = #mpc.phase<forward>} : (tensor<4x1xf32>) -> tensor<4x1xf32> loc("root")
  %n = mpc.div %d, %root {mpc.phase = #mpc.phase<forward>} : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32> loc("quotient")
  %s = mpc.mul %n, %scale {mpc.phase = #mpc.phase<forward>} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> loc("scaled")
  %y = mpc.add %bias, %s {mpc.phase = #mpc.phase<forward>} : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("shifted")
  return %y : tensor<4x8xf32>
}

// The distance is computed twice, the inverse is a factor, and there is no bias.
// CHECK-LABEL: func.func @without_bias
func.func @without_bias(%x: tensor<2x4x8xf32>, %scale: tensor<2x1x8xf32>) -> tensor<2x4x8xf32> {
  // CHECK-NEXT: mpc.layer_norm %{{[^,]*}}, %{{[^,]*}} {axes = array<i64: 1, 2>
  // CHECK-NEXT: return
  %epsilon = mpc.constant dense<1.0e-5> : tensor<f32>
  %mean = mpc.reduce_mean %x {axes = array<i64: 1, 2>, keepdims = true} : (tensor<2x4x8xf32>) -> tensor<2x1x1xf32>
  %mean2 = mpc.reduce_mean %x {axes = array<i64: 1, 2>, keepdims = true} : (tensor<2x4x8xf32>) -> tensor<2x1x1xf32>
  %d = mpc.sub %x, %mean : (tensor<2x4x8xf32>, tensor<2x1x1xf32>) -> tensor<2x4x8xf32>
  %e = mpc.sub %x, %mean2 : (tensor<2x4x8xf32>, tensor<2x1x1xf32>) -> tensor<2x4x8xf32>
  %d2 = mpc.mul %d, %d : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %var = mpc.reduce_mean %d2 {axes = array<i64: 1, 2>, keepdims = true} : (tensor<2x4x8xf32>) -> tensor<2x1x1xf32>
  %sum = mpc.add %epsilon, %var : (tensor<f32>, tensor<2x1x1xf32>) -> tensor<2x1x1xf32>
  %root = mpc.sqrt %sum : (tensor<2x1x1xf32>) -> tensor<2x1x1xf32>
  %inv = mpc.reciprocal %root : (tensor<2x1x1xf32>) -> tensor<2x1x1xf32>
  %n = mpc.mul %inv, %e : (tensor<2x1x1xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %y = mpc.mul %scale, %n : (tensor<2x1x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  return %y : tensor<2x4x8xf32>
}

// The next op adds another activation, not a bias.
// CHECK-LABEL: func.func @residual
func.func @residual(%x: tensor<4x8xf32>, %r: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: %[[ONE:.*]] = mpc.constant dense<1.000000e+00> : tensor<f32>
  // CHECK-NEXT: %[[N:[^,]*]], {{.*}} = mpc.layer_norm %{{[^,]*}}, %[[ONE]] {
  // CHECK-NEXT: mpc.add %[[N]], %{{.*}}
  %epsilon = mpc.constant dense<1.0e-5> : tensor<f32>
  %mean = mpc.reduce_mean %x {axes = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %d = mpc.sub %x, %mean : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %d2 = mpc.mul %d, %d : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %var = mpc.reduce_mean %d2 {axes = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %sum = mpc.add %var, %epsilon : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %root = mpc.sqrt %sum : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = mpc.div %d, %root : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %y = mpc.add %n, %r : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// Keras: x * factor + (bias - mean * factor).
// CHECK-LABEL: func.func @keras
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[SCALE:.*]]: tensor<8xf32>, %[[BIAS:.*]]: tensor<8xf32>
func.func @keras(%x: tensor<4x8xf32>, %scale: tensor<8xf32>, %bias: tensor<8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: mpc.layer_norm %[[X]], %[[SCALE]], %[[BIAS]] {axes = array<i64: 1>
  // CHECK-NEXT: return
  %epsilon = mpc.constant dense<1.0e-3> : tensor<f32>
  %half = mpc.constant dense<-0.5> : tensor<f32>
  %mean = mpc.reduce_mean %x {axes = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %d = mpc.sub %x, %mean : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %d2 = mpc.mul %d, %d : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %var = mpc.reduce_mean %d2 {axes = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %sum = mpc.add %var, %epsilon : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %inv = mpc.pow %sum, %half : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %factor = mpc.mul %inv, %scale : (tensor<4x1xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %scaled = mpc.mul %x, %factor : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %moved = mpc.mul %mean, %factor : (tensor<4x1xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %shift = mpc.sub %bias, %moved : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = mpc.add %scaled, %shift : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// The variance is over other axes than the mean.
// CHECK-LABEL: func.func @other_axes
// CHECK-NOT: mpc.layer_norm
func.func @other_axes(%x: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %epsilon = mpc.constant dense<1.0e-5> : tensor<f32>
  %mean = mpc.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : (tensor<2x4x8xf32>) -> tensor<2x4x1xf32>
  %d = mpc.sub %x, %mean : (tensor<2x4x8xf32>, tensor<2x4x1xf32>) -> tensor<2x4x8xf32>
  %d2 = mpc.mul %d, %d : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %var = mpc.reduce_mean %d2 {axes = array<i64: 1, 2>, keepdims = true} : (tensor<2x4x8xf32>) -> tensor<2x1x1xf32>
  %sum = mpc.add %var, %epsilon : (tensor<2x1x1xf32>, tensor<f32>) -> tensor<2x1x1xf32>
  %root = mpc.sqrt %sum : (tensor<2x1x1xf32>) -> tensor<2x1x1xf32>
  %y = mpc.div %d, %root : (tensor<2x4x8xf32>, tensor<2x1x1xf32>) -> tensor<2x4x8xf32>
  return %y : tensor<2x4x8xf32>
}

// The variance belongs to another tensor than the divided one.
// CHECK-LABEL: func.func @of_another
// CHECK-NOT: mpc.layer_norm
func.func @of_another(%x: tensor<4x8xf32>, %z: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %epsilon = mpc.constant dense<1.0e-5> : tensor<f32>
  %mean = mpc.reduce_mean %x {axes = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %d = mpc.sub %x, %mean : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %e = mpc.sub %z, %mean : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %d2 = mpc.mul %d, %d : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %var = mpc.reduce_mean %d2 {axes = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %sum = mpc.add %var, %epsilon : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %root = mpc.sqrt %sum : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %y = mpc.div %e, %root : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// The variance is a result of the model.
// CHECK-LABEL: func.func @read_elsewhere
// CHECK-NOT: mpc.layer_norm
func.func @read_elsewhere(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>) {
  %epsilon = mpc.constant dense<1.0e-5> : tensor<f32>
  %mean = mpc.reduce_mean %x {axes = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %d = mpc.sub %x, %mean : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %d2 = mpc.mul %d, %d : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %var = mpc.reduce_mean %d2 {axes = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %sum = mpc.add %var, %epsilon : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %root = mpc.sqrt %sum : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %y = mpc.div %d, %root : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  return %y, %var : tensor<4x8xf32>, tensor<4x1xf32>
}
