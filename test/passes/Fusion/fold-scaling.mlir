// RUN: mpc-opt %s --mpc-fold-scaling | FileCheck %s

// Both operands of a product are scaled, by a factor and by a divisor.
//
// CHECK-LABEL: func.func @attention
// CHECK: %[[S:.*]] = mpc.matmul %arg0, %arg1 {alpha = 2.500000e-01 : f64}
// CHECK: return %[[S]]
func.func @attention(%q: tensor<8x6xf32>, %k: tensor<6x8xf32>) -> tensor<8x8xf32> {
  %half = mpc.constant dense<5.000000e-01> : tensor<f32>
  %two = mpc.constant dense<2.000000e+00> : tensor<1x1xf32>
  %0 = mpc.mul %half, %q : (tensor<f32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  %1 = mpc.div %k, %two : (tensor<6x8xf32>, tensor<1x1xf32>) -> tensor<6x8xf32>
  %s = mpc.matmul %0, %1 : (tensor<8x6xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>
  return %s : tensor<8x8xf32>
}

// Every product that reads a scaled value multiplies its own alpha.
//
// CHECK-LABEL: func.func @two_products
// CHECK-NOT: mpc.mul
// CHECK: mpc.matmul %arg0, %arg1 {alpha = 1.500000e+00 : f64}
// CHECK: mpc.matmul %arg2, %arg0 {alpha = 5.000000e-01 : f64, transA = true}
func.func @two_products(%q: tensor<8x8xbf16>, %k: tensor<8x8xbf16>, %ds: tensor<8x8xbf16>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %half = mpc.constant dense<5.000000e-01> : tensor<bf16>
  %0 = mpc.mul %q, %half : (tensor<8x8xbf16>, tensor<bf16>) -> tensor<8x8xbf16>
  %s = mpc.matmul %0, %k {alpha = 3.000000e+00 : f64} : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xf32>
  %dk = mpc.matmul %ds, %0 {transA = true} : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xf32>
  return %s, %dk : tensor<8x8xf32>, tensor<8x8xf32>
}

// The product's result is scaled, and nothing else reads it.
//
// CHECK-LABEL: func.func @results
// CHECK: %[[D:.*]] = mpc.matmul %arg0, %arg1 {alpha = 5.000000e-01 : f64, transA = true}
// CHECK: %[[E:.*]] = mpc.matmul
// CHECK-NOT: alpha
// CHECK: %[[F:.*]] = mpc.mul %[[E]]
// CHECK: return %[[D]], %[[E]], %[[F]]
func.func @results(%ds: tensor<8x8xf32>, %q: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %half = mpc.constant dense<5.000000e-01> : tensor<f32>
  %0 = mpc.matmul %ds, %q {transA = true} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %d = mpc.mul %0, %half : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  %e = mpc.matmul %q, %q : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %f = mpc.mul %e, %half : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  return %d, %e, %f : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// No folding if another op reads the scaled value too, if the factor is not
// constant, if alpha would become infinite, or for a constant divided by data.
//
// CHECK-LABEL: func.func @stays
// CHECK-COUNT-3: mpc.mul
// CHECK: mpc.div
// CHECK-NOT: alpha
func.func @stays(%q: tensor<8x8xf32>, %k: tensor<8x8xf32>, %scale: tensor<f32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %half = mpc.constant dense<5.000000e-01> : tensor<f32>
  %infinite = mpc.constant dense<0x7F800000> : tensor<f32>
  %0 = mpc.mul %q, %half : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  %1 = mpc.mul %q, %scale : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  %2 = mpc.mul %q, %infinite : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  %3 = mpc.div %half, %q : (tensor<f32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %a = mpc.matmul %0, %k : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = mpc.matmul %1, %k : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = mpc.matmul %2, %k : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %d = mpc.matmul %3, %k : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %a, %b, %c, %d, %0 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
