// Next to a constant, a low type has no digits left.
// RUN: mpc-opt %s --mpc-attach-target=name=zen5 -amp-assign-precision="mode=bf16-mixed" -mlir-print-local-scope | FileCheck %s

// Next to a large constant bf16 has no digits left: for x + 10000, and for a sigmoid near 1 if the
// model takes 1 - s, also through a view. 1 + x keeps them.
// CHECK-LABEL: func.func @cancels
// CHECK: mpc.matmul {{.*}}results = [f32]
// CHECK: mpc.add {{.*}}results = [f32], {{.*}}reason = constant_range, {{.*}}sources = [{kind = "constant", name = "large", value = 1.000100e+04 : f64}], evidence = assumed
// CHECK: mpc.sub {{.*}}results = [f32], {{.*}}reason = wide_operand, {{.*}}sources = [{kind = "constant", largest = 1.000000e+04 : f64, name = "large", rms = 1.000000e+04 : f64}], evidence = assumed
// CHECK: mpc.sigmoid {{.*}}results = [f32], {{.*}}reason = constant_range, {{.*}}sources = [{kind = "constant", value = 1.000000e+00 : f64}], evidence = assumed
// CHECK: mpc.reshape {{.*}}results = [f32], {{.*}}reason = constant_range
// CHECK: mpc.sub {{.*}}results = [f32], {{.*}}reason = not_between_low
// CHECK: mpc.add {{.*}}results = [bf16], {{.*}}reason = known_operand
func.func @cancels(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %one = mpc.constant dense<1.0> : tensor<f32>
  %large = mpc.constant dense<1.0e+04> : tensor<f32> loc("large")
  %h = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("k0")
  %up = mpc.add %h, %large : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("k1")
  %down = mpc.sub %up, %large : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("k2")
  %s = mpc.sigmoid %h : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("k3")
  %view = mpc.reshape %s : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("k4")
  %c = mpc.sub %one, %view : (tensor<f32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("k5")
  %m = mpc.mul %down, %c : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("k6")
  %n = mpc.matmul %m, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("k9")
  %p = mpc.add %n, %one : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("k7")
  %y = mpc.matmul %p, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("k8")
  return %y : tensor<4x4xf32>
}

// For 1 - t * t neither the square nor t may be rounded, and neither may
// operands of an absolute value or power. A product of other values may.
// CHECK-LABEL: func.func @cancels_squares
// CHECK: mpc.tanh {{.*}}results = [f32], {{.*}}reason = constant_range
// CHECK: mpc.mul {{.*}}results = [f32], {{.*}}reason = constant_range
// CHECK: mpc.sub {{.*}}results = [f32]
// CHECK: mpc.sigmoid {{.*}}results = [f32], {{.*}}reason = constant_range
// CHECK: mpc.abs {{.*}}results = [f32]
// CHECK: mpc.mul {{.*}}results = [f32], {{.*}}reason = constant_range
// CHECK: mpc.sub {{.*}}results = [f32]
// CHECK: mpc.relu {{.*}}results = [bf16]
// CHECK: mpc.mul {{.*}}results = [f32], {{.*}}reason = constant_range
func.func @cancels_squares(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %one = mpc.constant dense<1.0> : tensor<f32>
  %h = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("k0")
  %t = mpc.tanh %h : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("k1")
  %tt = mpc.mul %t, %t : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("k2")
  %c = mpc.sub %one, %tt : (tensor<f32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("k3")
  %y0 = mpc.matmul %c, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("k4")
  %s = mpc.sigmoid %h : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("k5")
  %a = mpc.abs %s : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("k6")
  %p = mpc.mul %a, %s : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("k7")
  %d = mpc.sub %p, %one : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("k8")
  %y1 = mpc.matmul %d, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("k9")
  %g = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("k10")
  %r = mpc.relu %g : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("k11")
  %q = mpc.mul %r, %g : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("k12")
  %e = mpc.sub %one, %q : (tensor<f32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("k13")
  %y2 = mpc.matmul %e, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("k14")
  %y3 = mpc.matmul %r, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("k15")
  return %y0, %y1, %y2, %y3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// 1 + elu(x), as in linear attention, vanishes in bf16 if the ELU is close to
// -1, also behind a view. A leaky ReLU is close to -1 only by chance.
// CHECK-LABEL: func.func @cancels_below_zero
// CHECK: mpc.elu {{.*}}results = [f32], {{.*}}reason = constant_range
// CHECK: mpc.transpose {{.*}}results = [f32]
// CHECK: mpc.add
// CHECK: mpc.selu {{.*}}results = [f32], {{.*}}reason = constant_range
// CHECK: mpc.add
// CHECK: mpc.leaky_relu {{.*}}results = [bf16]
func.func @cancels_below_zero(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %one = mpc.constant dense<1.0> : tensor<f32>
  %more = mpc.constant dense<1.75> : tensor<f32>
  %h = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("below0")
  %e = mpc.elu %h : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("below1")
  %t = mpc.transpose %e {perm = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("below2")
  %p = mpc.add %t, %one : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("below3")
  %y0 = mpc.matmul %p, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("below4")
  %s = mpc.selu %h : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("below5")
  %q = mpc.add %more, %s : (tensor<f32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("below6")
  %y1 = mpc.matmul %q, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("below7")
  %l = mpc.leaky_relu %h : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("below8")
  %r = mpc.add %l, %one : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("below9")
  %y2 = mpc.matmul %r, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("below10")
  return %y0, %y1, %y2 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
