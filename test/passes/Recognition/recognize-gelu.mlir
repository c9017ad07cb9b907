// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-recognize-gelu))" | FileCheck %s

// PyTorch's exporter before opset 20.
// CHECK-LABEL: func.func @erf
func.func @erf(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: %[[Y:.*]] = mpc.gelu %arg0
  // CHECK-NEXT: return %[[Y]]
  %sqrt2 = mpc.constant dense<1.41421354> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.div %x, %sqrt2 : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = mpc.erf %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = mpc.add %1, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %3 = mpc.mul %x, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = mpc.mul %3, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// TensorFlow's order: x * (1/2 * (1 + erf(x * 0.7071))).
// CHECK-LABEL: func.func @erf_in_another_order
func.func @erf_in_another_order(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: mpc.gelu %arg0
  // CHECK-NEXT: return
  %root = mpc.constant dense<0.707106769> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.mul %root, %x : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = mpc.erf %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = mpc.add %one, %1 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = mpc.mul %2, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %y = mpc.mul %3, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// The last op divides x * (1 + erf) by 2.
// CHECK-LABEL: func.func @halved
func.func @halved(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: mpc.gelu %arg0
  // CHECK-NEXT: return
  %sqrt2 = mpc.constant dense<1.41421354> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %two = mpc.constant dense<2.0> : tensor<f32>
  %0 = mpc.div %x, %sqrt2 : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = mpc.erf %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = mpc.add %1, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %3 = mpc.mul %x, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = mpc.div %3, %two : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// GPT-2: tanh of x + 0.044715 x^3.
// CHECK-LABEL: func.func @tanh
func.func @tanh(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: mpc.gelu_tanh %arg0
  // CHECK-NEXT: return
  %half = mpc.constant dense<0.5> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %three = mpc.constant dense<3.0> : tensor<f32>
  %cubic = mpc.constant dense<0.044715> : tensor<f32>
  %root = mpc.constant dense<0.797884583> : tensor<f32>
  %0 = mpc.mul %x, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = mpc.pow %x, %three : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %2 = mpc.mul %1, %cubic : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %3 = mpc.add %x, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = mpc.mul %3, %root : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %5 = mpc.tanh %4 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = mpc.add %5, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %y = mpc.mul %0, %6 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// The cube is a product, or a factor x * (1 + 0.044715 x^2).
// CHECK-LABEL: func.func @tanh_of_products
func.func @tanh_of_products(%x: tensor<4x8xf32>, %z: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK-DAG: mpc.gelu_tanh %arg0
  // CHECK-DAG: mpc.gelu_tanh %arg1
  // CHECK-NEXT: return
  %half = mpc.constant dense<0.5> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %cubic = mpc.constant dense<0.044715> : tensor<f32>
  %root = mpc.constant dense<0.797885> : tensor<f32>
  %1 = mpc.mul %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = mpc.mul %1, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = mpc.mul %cubic, %2 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = mpc.add %3, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = mpc.mul %root, %4 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = mpc.tanh %5 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %7 = mpc.add %one, %6 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %8 = mpc.mul %x, %7 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = mpc.mul %half, %8 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %z2 = mpc.mul %z, %z : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %z3 = mpc.mul %z2, %cubic : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %z4 = mpc.add %z3, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %z5 = mpc.mul %z, %root : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %z6 = mpc.mul %z5, %z4 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %z7 = mpc.tanh %z6 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %z8 = mpc.add %one, %z7 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %z9 = mpc.mul %z, %z8 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %w = mpc.mul %half, %z9 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y, %w : tensor<4x8xf32>, tensor<4x8xf32>
}

// Another number, another activation, another argument.
// CHECK-LABEL: func.func @near_misses
// CHECK-NOT: mpc.gelu
func.func @near_misses(%x: tensor<4x8xf32>, %z: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %scale = mpc.constant dense<0.7> : tensor<f32>
  %root = mpc.constant dense<0.707106769> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.mul %scale, %x : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = mpc.erf %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = mpc.add %one, %1 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = mpc.mul %2, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %4 = mpc.mul %3, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = mpc.mul %root, %x : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = mpc.tanh %5 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %7 = mpc.add %one, %6 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %8 = mpc.mul %7, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %9 = mpc.mul %8, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %10 = mpc.mul %root, %z : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %11 = mpc.erf %10 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %12 = mpc.add %one, %11 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %13 = mpc.mul %12, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %14 = mpc.mul %13, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %4, %9, %14 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// A training graph's backward pass also reads the error function.
// CHECK-LABEL: func.func @read_elsewhere
// CHECK-NOT: mpc.gelu
func.func @read_elsewhere(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %root = mpc.constant dense<0.707106769> : tensor<f32>
  %one = mpc.constant dense<1.0> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.mul %root, %x : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = mpc.erf %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = mpc.add %one, %1 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = mpc.mul %2, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %4 = mpc.mul %3, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %4, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}
