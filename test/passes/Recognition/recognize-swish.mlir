// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-recognize-swish))" | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-recognize-swish))" --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=NAMES

// CHECK-LABEL: func.func @silu
func.func @silu(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: %[[Y:.*]] = mpc.swish %arg0 : (tensor<4x8xf32>)
  // CHECK-NEXT: return %[[Y]]
  %0 = mpc.sigmoid %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = mpc.mul %x, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// A gate multiplies a SiLU, as in SwiGLU.
// CHECK-LABEL: func.func @gated
func.func @gated(%x: tensor<4x8xf32>, %up: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: %[[Y:.*]] = mpc.swish %arg0
  // CHECK-NEXT: mpc.mul %[[Y]], %arg1
  %0 = mpc.sigmoid %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = mpc.mul %0, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = mpc.mul %1, %up : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// GELU's sigmoid approximation, applied to a product.
// CHECK-LABEL: func.func @quick_gelu
func.func @quick_gelu(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: %[[X:.*]] = mpc.mul %arg0, %arg1
  // CHECK-NEXT: mpc.swish %[[X]] {alpha = 1.702{{.*}} : f64
  // CHECK-NEXT: return
  %alpha = mpc.constant dense<1.702> : tensor<f32>
  %x = mpc.mul %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = mpc.mul %alpha, %x : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = mpc.sigmoid %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = mpc.mul %x, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// The new op has the names of all nodes of the formula, also of the products
// that make alpha.
// NAMES-LABEL: func.func @two_factors
// NAMES: mpc.swish {{.*}}alpha = 1.5{{.*}} : f64, mpc.phase = #mpc.phase<forward>{{.*}} loc(fused["gate", "sigmoid", "half", "thrice"])
func.func @two_factors(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %three = mpc.constant dense<3.0> : tensor<f32>
  %two = mpc.constant dense<2.0> : tensor<f32>
  %0 = mpc.mul %x, %three {mpc.phase = #mpc.phase<forward>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32> loc("thrice")
  %1 = mpc.div %0, %two {mpc.phase = #mpc.phase<forward>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32> loc("half")
  %2 = mpc.sigmoid %1 {mpc.phase = #mpc.phase<forward>} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("sigmoid")
  %y = mpc.mul %2, %x {mpc.phase = #mpc.phase<forward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("gate")
  return %y : tensor<4x8xf32>
}

// The sigmoid of another value; one that is broadcast; one that has another user.
// CHECK-LABEL: func.func @near_misses
// CHECK-NOT: mpc.swish
func.func @near_misses(%x: tensor<4x8xf32>, %z: tensor<4x8xf32>, %row: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = mpc.sigmoid %z : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = mpc.mul %x, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = mpc.sigmoid %row : (tensor<8xf32>) -> tensor<8xf32>
  %3 = mpc.mul %x, %2 : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %4 = mpc.sigmoid %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = mpc.mul %x, %4 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1, %3, %4, %5 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// A model's own rounding of the sigmoid to 16 bits must stay.
// CHECK-LABEL: func.func @half
// CHECK-NOT: mpc.swish
func.func @half(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %0 = mpc.sigmoid %x : (tensor<4x8xf16>) -> tensor<4x8xf16>
  %y = mpc.mul %x, %0 : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
  return %y : tensor<4x8xf16>
}
