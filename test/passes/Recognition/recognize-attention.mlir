// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-recognize-attention))" | FileCheck %s

// The example of Passes.td.
// CHECK-LABEL: func.func @scaled_scores
// CHECK: %[[Y:.*]] = mpc.attention %arg0, %arg1, %arg2 bias %arg3 {scale = 5.000000e-01 : f64}
// CHECK-NEXT: return %[[Y]]
func.func @scaled_scores(%q: tensor<2x8x4xf32>, %k: tensor<2x8x4xf32>, %v: tensor<2x8x4xf32>, %bias: tensor<2x1x8xf32>) -> tensor<2x8x4xf32> {
  %two = mpc.constant dense<2.0> : tensor<f32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x8xf32>
  %scaled = mpc.div %s, %two : (tensor<2x8x8xf32>, tensor<f32>) -> tensor<2x8x8xf32>
  %masked = mpc.add %scaled, %bias : (tensor<2x8x8xf32>, tensor<2x1x8xf32>) -> tensor<2x8x8xf32>
  %p = mpc.softmax %masked {axis = 2 : i64} : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %y = mpc.matmul %p, %v : (tensor<2x8x8xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %y : tensor<2x8x4xf32>
}

// PyTorch's exporter multiplies both factors by the root, and moves the key once.
// CHECK-LABEL: func.func @scaled_factors
// CHECK: %[[K:.*]] = mpc.transpose %arg1 {perm = array<i64: 0, 2, 1, 3>}
// CHECK: mpc.attention %arg0, %[[K]], %arg2 {scale = 2.500000e-01 : f64}
func.func @scaled_factors(%q: tensor<2x3x8x4xf32>, %k: tensor<2x8x3x4xf32>, %v: tensor<2x3x8x4xf32>) -> tensor<2x3x8x4xf32> {
  %root = mpc.constant dense<0.5> : tensor<f32>
  %kt = mpc.transpose %k {perm = array<i64: 0, 2, 3, 1>} : (tensor<2x8x3x4xf32>) -> tensor<2x3x4x8xf32>
  %qs = mpc.mul %q, %root : (tensor<2x3x8x4xf32>, tensor<f32>) -> tensor<2x3x8x4xf32>
  %ks = mpc.mul %root, %kt : (tensor<f32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %s = mpc.matmul %qs, %ks : (tensor<2x3x8x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x8x8xf32>
  %p = mpc.softmax %s {axis = 3 : i64} : (tensor<2x3x8x8xf32>) -> tensor<2x3x8x8xf32>
  %y = mpc.matmul %p, %v : (tensor<2x3x8x8xf32>, tensor<2x3x8x4xf32>) -> tensor<2x3x8x4xf32>
  return %y : tensor<2x3x8x4xf32>
}

// PyTorch's newer exporter transposes a key of three axes: the op reads the original key.
// CHECK-LABEL: func.func @turned_and_back
// CHECK: mpc.attention %arg0, %arg1, %arg2 {
func.func @turned_and_back(%q: tensor<2x3x8x4xf32>, %k: tensor<2x3x8x4xf32>, %v: tensor<2x3x8x4xf32>) -> tensor<2x3x8x4xf32> {
  %0 = mpc.reshape %k : (tensor<2x3x8x4xf32>) -> tensor<6x8x4xf32>
  %1 = mpc.transpose %0 {perm = array<i64: 0, 2, 1>} : (tensor<6x8x4xf32>) -> tensor<6x4x8xf32>
  %kt = mpc.reshape %1 : (tensor<6x4x8xf32>) -> tensor<2x3x4x8xf32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %s = mpc.matmul %q, %kt : (tensor<2x3x8x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x8x8xf32>
  %ss = mpc.mul %s, %half : (tensor<2x3x8x8xf32>, tensor<f32>) -> tensor<2x3x8x8xf32>
  %p = mpc.softmax %ss {axis = 3 : i64} : (tensor<2x3x8x8xf32>) -> tensor<2x3x8x8xf32>
  %y = mpc.matmul %p, %v : (tensor<2x3x8x8xf32>, tensor<2x3x8x4xf32>) -> tensor<2x3x8x4xf32>
  return %y : tensor<2x3x8x4xf32>
}

// A mask selects, and a guard handles rows of NaN.
// CHECK-LABEL: func.func @chosen
// CHECK: mpc.attention %arg0, %arg1, %arg2 mask %arg3 {zero_empty_rows}
func.func @chosen(%q: tensor<2x8x4xf32>, %k: tensor<2x8x4xf32>, %v: tensor<2x8x4xf32>, %mask: tensor<2x8x8xi1>) -> tensor<2x8x4xf32> {
  %hidden = mpc.constant dense<0xFF800000> : tensor<f32>
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x8xf32>
  %m = mpc.select %mask, %s, %hidden : (tensor<2x8x8xi1>, tensor<2x8x8xf32>, tensor<f32>) -> tensor<2x8x8xf32>
  %p = mpc.softmax %m {axis = 2 : i64} : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %nan = mpc.is_nan %p : (tensor<2x8x8xf32>) -> tensor<2x8x8xi1>
  %g = mpc.select %nan, %zero, %p : (tensor<2x8x8xi1>, tensor<f32>, tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %y = mpc.matmul %g, %v : (tensor<2x8x8xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %y : tensor<2x8x4xf32>
}

// A mask of hidden keys uses the model's own number.
// CHECK-LABEL: func.func @hidden_by_a_number
// CHECK: %[[SEEN:.*]] = mpc.not %arg3
// CHECK: mpc.attention %arg0, %arg1, %arg2 mask %[[SEEN]] {hidden = -1.000000e+04 : f64}
func.func @hidden_by_a_number(%q: tensor<2x8x4xf32>, %k: tensor<2x8x4xf32>, %v: tensor<2x8x4xf32>, %mask: tensor<2x1x8xi1>) -> tensor<2x8x4xf32> {
  %hidden = mpc.constant dense<-1.0e4> : tensor<f32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x8xf32>
  %m = mpc.select %mask, %hidden, %s : (tensor<2x1x8xi1>, tensor<f32>, tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %p = mpc.softmax %m {axis = 2 : i64} : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %y = mpc.matmul %p, %v : (tensor<2x8x8xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %y : tensor<2x8x4xf32>
}

// A cap: 5 * tanh(s / 10) is the cap of s / 2.
// CHECK-LABEL: func.func @capped
// CHECK: mpc.attention %arg0, %arg1, %arg2 {scale = 5.000000e-01 : f64, softcap = 5.000000e+00 : f64}
func.func @capped(%q: tensor<2x8x4xf32>, %k: tensor<2x8x4xf32>, %v: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %ten = mpc.constant dense<10.0> : tensor<f32>
  %five = mpc.constant dense<5.0> : tensor<f32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x8xf32>
  %0 = mpc.div %s, %ten : (tensor<2x8x8xf32>, tensor<f32>) -> tensor<2x8x8xf32>
  %1 = mpc.tanh %0 : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %2 = mpc.mul %1, %five : (tensor<2x8x8xf32>, tensor<f32>) -> tensor<2x8x8xf32>
  %p = mpc.softmax %2 {axis = 2 : i64} : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %y = mpc.matmul %p, %v : (tensor<2x8x8xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %y : tensor<2x8x4xf32>
}

// A dropout keeps its id, and so drops the same elements.
// CHECK-LABEL: func.func @dropped
// CHECK: mpc.attention %arg0, %arg1, %arg2 random %arg3, %arg3 {dropout = 1.000000e-01 : f64, dropout_id = 7 : i64}
func.func @dropped(%q: tensor<2x8x4xf32>, %k: tensor<2x8x4xf32>, %v: tensor<2x8x4xf32>, %n: tensor<i64>) -> tensor<2x8x4xf32> {
  %s = mpc.matmul %q, %k {transB = true} : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x8xf32>
  %p = mpc.softmax %s {axis = 2 : i64} : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %d = mpc.dropout %p, %n, %n {ratio = 0.1 : f64, id = 7 : i64} : (tensor<2x8x8xf32>, tensor<i64>, tensor<i64>) -> tensor<2x8x8xf32>
  %y = mpc.matmul %d, %v : (tensor<2x8x8xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %y : tensor<2x8x4xf32>
}

// Llama's models repeat two heads of keys and values for four of queries: they
// are read once. The heads of a mask get an axis too. Others stay unchanged.
// CHECK-LABEL: func.func @repeated
// CHECK-NOT: mpc.expand
// CHECK-DAG: %[[K:.*]] = mpc.reshape %arg1 : (tensor<5x2x8x4xf32>) -> tensor<5x2x1x8x4xf32>
// CHECK-DAG: %[[V:.*]] = mpc.reshape %arg2 : (tensor<5x2x8x4xf32>) -> tensor<5x2x1x8x4xf32>
// CHECK-DAG: %[[Q:.*]] = mpc.reshape %arg0 : (tensor<5x4x8x4xf32>) -> tensor<5x2x2x8x4xf32>
// CHECK-DAG: %[[SLOPES:.*]] = mpc.reshape %arg3 : (tensor<4x1x8xf32>) -> tensor<2x2x1x8xf32>
// CHECK-DAG: %[[SEEN:.*]] = mpc.reshape %arg4 : (tensor<5x1x8x8xi1>) -> tensor<5x1x1x8x8xi1>
// CHECK: %[[Y:.*]] = mpc.attention %[[Q]], %[[K]], %[[V]] bias %[[SLOPES]] mask %[[SEEN]] {scale = 5.000000e-01 : f64}
// CHECK-SAME: -> tensor<5x2x2x8x4xf32>
// CHECK: %[[R:.*]] = mpc.reshape %[[Y]] : (tensor<5x2x2x8x4xf32>) -> tensor<5x4x8x4xf32>
// CHECK: return %[[R]]
func.func @repeated(%q: tensor<5x4x8x4xf32>, %k: tensor<5x2x8x4xf32>, %v: tensor<5x2x8x4xf32>, %slopes: tensor<4x1x8xf32>, %seen: tensor<5x1x8x8xi1>) -> tensor<5x4x8x4xf32> {
  %hidden = mpc.constant dense<0xFF800000> : tensor<f32>
  %half = mpc.constant dense<0.5> : tensor<f32>
  %k0 = mpc.reshape %k : (tensor<5x2x8x4xf32>) -> tensor<5x2x1x8x4xf32>
  %k1 = mpc.expand %k0 : (tensor<5x2x1x8x4xf32>) -> tensor<5x2x2x8x4xf32>
  %k2 = mpc.reshape %k1 : (tensor<5x2x2x8x4xf32>) -> tensor<5x4x8x4xf32>
  %kt = mpc.transpose %k2 {perm = array<i64: 0, 1, 3, 2>} : (tensor<5x4x8x4xf32>) -> tensor<5x4x4x8xf32>
  %v0 = mpc.reshape %v : (tensor<5x2x8x4xf32>) -> tensor<5x2x1x8x4xf32>
  %v1 = mpc.expand %v0 : (tensor<5x2x1x8x4xf32>) -> tensor<5x2x2x8x4xf32>
  %v2 = mpc.reshape %v1 : (tensor<5x2x2x8x4xf32>) -> tensor<5x4x8x4xf32>
  %s = mpc.matmul %q, %kt : (tensor<5x4x8x4xf32>, tensor<5x4x4x8xf32>) -> tensor<5x4x8x8xf32>
  %ss = mpc.mul %s, %half : (tensor<5x4x8x8xf32>, tensor<f32>) -> tensor<5x4x8x8xf32>
  %b = mpc.add %ss, %slopes : (tensor<5x4x8x8xf32>, tensor<4x1x8xf32>) -> tensor<5x4x8x8xf32>
  %m = mpc.select %seen, %b, %hidden : (tensor<5x1x8x8xi1>, tensor<5x4x8x8xf32>, tensor<f32>) -> tensor<5x4x8x8xf32>
  %p = mpc.softmax %m {axis = 3 : i64} : (tensor<5x4x8x8xf32>) -> tensor<5x4x8x8xf32>
  %y = mpc.matmul %p, %v2 : (tensor<5x4x8x8xf32>, tensor<5x4x8x4xf32>) -> tensor<5x4x8x4xf32>
  return %y : tensor<5x4x8x4xf32>
}

// PyTorch's newer exporter transposes and scales keys behind the expand.
// CHECK-LABEL: func.func @repeated_then_scaled
// CHECK-NOT: mpc.expand
// CHECK: %[[T:.*]] = mpc.transpose %{{.*}} {perm = array<i64: 0, 2, 1>} : (tensor<2x8x4xf32>) -> tensor<2x4x8xf32>
// CHECK: %[[S:.*]] = mpc.mul %[[T]], %arg3 : (tensor<2x4x8xf32>, tensor<1xf32>) -> tensor<2x4x8xf32>
// CHECK: %[[U:.*]] = mpc.transpose %[[S]] {perm = array<i64: 0, 2, 1>} : (tensor<2x4x8xf32>) -> tensor<2x8x4xf32>
// CHECK: %[[K:.*]] = mpc.reshape %[[U]] : (tensor<2x8x4xf32>) -> tensor<1x2x1x8x4xf32>
// CHECK: mpc.attention %{{.*}}, %[[K]], %{{.*}} : (tensor<1x2x3x8x4xf32>, tensor<1x2x1x8x4xf32>, tensor<1x2x1x8x4xf32>)
func.func @repeated_then_scaled(%q: tensor<1x6x8x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>, %root: tensor<1xf32>) -> tensor<1x6x8x4xf32> {
  %k0 = mpc.reshape %k : (tensor<1x2x8x4xf32>) -> tensor<1x2x1x8x4xf32>
  %k1 = mpc.expand %k0 : (tensor<1x2x1x8x4xf32>) -> tensor<1x2x3x8x4xf32>
  %k2 = mpc.reshape %k1 : (tensor<1x2x3x8x4xf32>) -> tensor<6x8x4xf32>
  %k3 = mpc.transpose %k2 {perm = array<i64: 0, 2, 1>} : (tensor<6x8x4xf32>) -> tensor<6x4x8xf32>
  %k4 = mpc.reshape %k3 : (tensor<6x4x8xf32>) -> tensor<1x6x4x8xf32>
  %k5 = mpc.mul %k4, %root : (tensor<1x6x4x8xf32>, tensor<1xf32>) -> tensor<1x6x4x8xf32>
  %v0 = mpc.reshape %v : (tensor<1x2x8x4xf32>) -> tensor<1x2x1x8x4xf32>
  %v1 = mpc.expand %v0 : (tensor<1x2x1x8x4xf32>) -> tensor<1x2x3x8x4xf32>
  %v2 = mpc.reshape %v1 : (tensor<1x2x3x8x4xf32>) -> tensor<1x6x8x4xf32>
  %s = mpc.matmul %q, %k5 : (tensor<1x6x8x4xf32>, tensor<1x6x4x8xf32>) -> tensor<1x6x8x8xf32>
  %p = mpc.softmax %s {axis = 3 : i64} : (tensor<1x6x8x8xf32>) -> tensor<1x6x8x8xf32>
  %y = mpc.matmul %p, %v2 : (tensor<1x6x8x8xf32>, tensor<1x6x8x4xf32>) -> tensor<1x6x8x4xf32>
  return %y : tensor<1x6x8x4xf32>
}

// Repeated values with unrepeated keys, or with keys repeated otherwise, stay repeated.
// CHECK-LABEL: func.func @values_alone
// CHECK: mpc.attention {{.*}} : (tensor<4x8x4xf32>, tensor<4x8x4xf32>, tensor<4x8x4xf32>) -> tensor<4x8x4xf32>
func.func @values_alone(%q: tensor<4x8x4xf32>, %k: tensor<4x8x4xf32>, %v: tensor<2x8x4xf32>) -> tensor<4x8x4xf32> {
  %v0 = mpc.reshape %v : (tensor<2x8x4xf32>) -> tensor<2x1x8x4xf32>
  %v1 = mpc.expand %v0 : (tensor<2x1x8x4xf32>) -> tensor<2x2x8x4xf32>
  %v2 = mpc.reshape %v1 : (tensor<2x2x8x4xf32>) -> tensor<4x8x4xf32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<4x8x4xf32>, tensor<4x8x4xf32>) -> tensor<4x8x8xf32>
  %p = mpc.softmax %s {axis = 2 : i64} : (tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
  %y = mpc.matmul %p, %v2 : (tensor<4x8x8xf32>, tensor<4x8x4xf32>) -> tensor<4x8x4xf32>
  return %y : tensor<4x8x4xf32>
}

// Heads that alternate, 0, 1, 0, 1, are not shared by neighbours: the attention
// has four heads of keys.
// CHECK-LABEL: func.func @alternating
// CHECK: mpc.attention {{.*}} : (tensor<4x8x4xf32>, tensor<4x8x4xf32>, tensor<4x8x4xf32>) -> tensor<4x8x4xf32>
func.func @alternating(%q: tensor<4x8x4xf32>, %k: tensor<2x8x4xf32>) -> tensor<4x8x4xf32> {
  %k0 = mpc.reshape %k : (tensor<2x8x4xf32>) -> tensor<1x2x8x4xf32>
  %k1 = mpc.expand %k0 : (tensor<1x2x8x4xf32>) -> tensor<2x2x8x4xf32>
  %k2 = mpc.reshape %k1 : (tensor<2x2x8x4xf32>) -> tensor<4x8x4xf32>
  %s = mpc.matmul %q, %k2 {transB = true} : (tensor<4x8x4xf32>, tensor<4x8x4xf32>) -> tensor<4x8x8xf32>
  %p = mpc.softmax %s {axis = 2 : i64} : (tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
  %y = mpc.matmul %p, %k2 : (tensor<4x8x8xf32>, tensor<4x8x4xf32>) -> tensor<4x8x4xf32>
  return %y : tensor<4x8x4xf32>
}

//===----------------------------------------------------------------------===//
// Near misses
//===----------------------------------------------------------------------===//

// The softmax is over the queries.
// CHECK-LABEL: func.func @over_queries
// CHECK-NOT: mpc.attention
func.func @over_queries(%q: tensor<2x8x4xf32>, %k: tensor<2x8x4xf32>, %v: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %s = mpc.matmul %q, %k {transB = true} : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x8xf32>
  %p = mpc.softmax %s {axis = 1 : i64} : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %y = mpc.matmul %p, %v : (tensor<2x8x8xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %y : tensor<2x8x4xf32>
}

// The weights have another user.
// CHECK-LABEL: func.func @weights_are_read
// CHECK-NOT: mpc.attention
func.func @weights_are_read(%q: tensor<2x8x4xf32>, %k: tensor<2x8x4xf32>, %v: tensor<2x8x4xf32>) -> (tensor<2x8x4xf32>, tensor<2x8x8xf32>) {
  %s = mpc.matmul %q, %k {transB = true} : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x8xf32>
  %p = mpc.softmax %s {axis = 2 : i64} : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %y = mpc.matmul %p, %v : (tensor<2x8x8xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %y, %p : tensor<2x8x4xf32>, tensor<2x8x8xf32>
}

// A model's own rounding of the scores must stay.
// CHECK-LABEL: func.func @rounded_in_between
// CHECK-NOT: mpc.attention
func.func @rounded_in_between(%q: tensor<2x8x4xf32>, %k: tensor<2x8x4xf32>, %v: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %s = mpc.matmul %q, %k {transB = true} : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x8xf32>
  %h = mpc.cast %s : (tensor<2x8x8xf32>) -> tensor<2x8x8xf16>
  %f = mpc.cast %h : (tensor<2x8x8xf16>) -> tensor<2x8x8xf32>
  %p = mpc.softmax %f {axis = 2 : i64} : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %y = mpc.matmul %p, %v : (tensor<2x8x8xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %y : tensor<2x8x4xf32>
}

// The mask's number is finite, so the bias counts behind it. The op would add the bias first.
// CHECK-LABEL: func.func @finite_then_bias
// CHECK-NOT: mpc.attention
func.func @finite_then_bias(%q: tensor<2x8x4xf32>, %k: tensor<2x8x4xf32>, %v: tensor<2x8x4xf32>, %mask: tensor<8xi1>, %bias: tensor<8x8xf32>) -> tensor<2x8x4xf32> {
  %hidden = mpc.constant dense<-1.0e4> : tensor<f32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x8xf32>
  %m = mpc.select %mask, %s, %hidden : (tensor<8xi1>, tensor<2x8x8xf32>, tensor<f32>) -> tensor<2x8x8xf32>
  %b = mpc.add %m, %bias : (tensor<2x8x8xf32>, tensor<8x8xf32>) -> tensor<2x8x8xf32>
  %p = mpc.softmax %b {axis = 2 : i64} : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %y = mpc.matmul %p, %v : (tensor<2x8x8xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %y : tensor<2x8x4xf32>
}

// A single matrix has no batch axis to split along, and is no attention.
// CHECK-LABEL: func.func @matrices
// CHECK-NOT: mpc.attention
func.func @matrices(%q: tensor<8x4xf32>, %k: tensor<8x4xf32>, %v: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = mpc.matmul %q, %k {transB = true} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  %p = mpc.softmax %s {axis = 1 : i64} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = mpc.matmul %p, %v : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// One number per query, for all keys, says nothing of the keys' order.
// CHECK-LABEL: func.func @bias_of_queries
// CHECK: mpc.attention %arg0, %arg1, %arg2 bias %{{.*}} :
func.func @bias_of_queries(%q: tensor<5x2x4xf32>, %k: tensor<5x3x4xf32>, %v: tensor<5x3x4xf32>) -> tensor<5x2x4xf32> {
  %bias = mpc.constant dense<[[0.0], [-0.0]]> : tensor<2x1xf32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x2x4xf32>, tensor<5x3x4xf32>) -> tensor<5x2x3xf32>
  %b = mpc.add %bias, %s : (tensor<2x1xf32>, tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %p = mpc.softmax %b {axis = 2 : i64} : (tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %y = mpc.matmul %p, %v : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}

// A constant tensor broadcasts one query to several: through the scores, the
// capped scores, or the weights.
// CHECK-LABEL: func.func @widened
// CHECK-NOT: mpc.attention
func.func @widened(%q: tensor<2x1x4xf32>, %k: tensor<2x8x4xf32>, %v: tensor<2x8x4xf32>) -> (tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>) {
  %half = mpc.constant dense<0.5> : tensor<8x8xf32>
  %zero = mpc.constant dense<0.0> : tensor<8x8xf32>
  %s0 = mpc.matmul %q, %k {transB = true} : (tensor<2x1x4xf32>, tensor<2x8x4xf32>) -> tensor<2x1x8xf32>
  %m0 = mpc.mul %s0, %half : (tensor<2x1x8xf32>, tensor<8x8xf32>) -> tensor<2x8x8xf32>
  %p0 = mpc.softmax %m0 {axis = 2 : i64} : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %y0 = mpc.matmul %p0, %v : (tensor<2x8x8xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  %s1 = mpc.matmul %q, %k {transB = true} : (tensor<2x1x4xf32>, tensor<2x8x4xf32>) -> tensor<2x1x8xf32>
  %t1 = mpc.tanh %s1 : (tensor<2x1x8xf32>) -> tensor<2x1x8xf32>
  %m1 = mpc.mul %t1, %half : (tensor<2x1x8xf32>, tensor<8x8xf32>) -> tensor<2x8x8xf32>
  %p1 = mpc.softmax %m1 {axis = 2 : i64} : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %y1 = mpc.matmul %p1, %v : (tensor<2x8x8xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  %s2 = mpc.matmul %q, %k {transB = true} : (tensor<2x1x4xf32>, tensor<2x8x4xf32>) -> tensor<2x1x8xf32>
  %p2 = mpc.softmax %s2 {axis = 2 : i64} : (tensor<2x1x8xf32>) -> tensor<2x1x8xf32>
  %n2 = mpc.is_nan %p2 : (tensor<2x1x8xf32>) -> tensor<2x1x8xi1>
  %g2 = mpc.select %n2, %zero, %p2 : (tensor<2x1x8xi1>, tensor<8x8xf32>, tensor<2x1x8xf32>) -> tensor<2x8x8xf32>
  %y2 = mpc.matmul %g2, %v : (tensor<2x8x8xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %y0, %y1, %y2 : tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>
}

// A bias of positions and a mask are summed to a tensor of the scores' shape.
// Separate operands take less memory.
// CHECK-LABEL: func.func @sum_of_biases
// CHECK: mpc.attention %arg0, %arg1, %arg2 bias %arg3, %arg4 :
func.func @sum_of_biases(%q: tensor<5x2x4xf32>, %k: tensor<5x3x4xf32>, %v: tensor<5x3x4xf32>, %positions: tensor<1x2x3xf32>, %mask: tensor<5x1x3xf32>) -> tensor<5x2x4xf32> {
  %bias = mpc.add %positions, %mask : (tensor<1x2x3xf32>, tensor<5x1x3xf32>) -> tensor<5x2x3xf32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x2x4xf32>, tensor<5x3x4xf32>) -> tensor<5x2x3xf32>
  %b = mpc.add %s, %bias : (tensor<5x2x3xf32>, tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %p = mpc.softmax %b {axis = 2 : i64} : (tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %y = mpc.matmul %p, %v : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}

// A sum that is no larger than its parts stays.
// CHECK-LABEL: func.func @small_sum
// CHECK: %[[B:.*]] = mpc.add %arg3, %arg4
// CHECK: mpc.attention %arg0, %arg1, %arg2 bias %[[B]] :
func.func @small_sum(%q: tensor<5x2x4xf32>, %k: tensor<5x3x4xf32>, %v: tensor<5x3x4xf32>, %one: tensor<2x3xf32>, %other: tensor<2x3xf32>) -> tensor<5x2x4xf32> {
  %bias = mpc.add %one, %other : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x2x4xf32>, tensor<5x3x4xf32>) -> tensor<5x2x3xf32>
  %b = mpc.add %s, %bias : (tensor<5x2x3xf32>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
  %p = mpc.softmax %b {axis = 2 : i64} : (tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %y = mpc.matmul %p, %v : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}

// Two biases are added in turn, and one is the order of keys.
// CHECK-LABEL: func.func @biases_in_turn
// CHECK: mpc.attention %arg0, %arg1, %arg2 bias %arg3 {causal_offset = 0 : i64}
func.func @biases_in_turn(%q: tensor<5x2x4xf32>, %k: tensor<5x3x4xf32>, %v: tensor<5x3x4xf32>, %positions: tensor<2x3xf32>) -> tensor<5x2x4xf32> {
  %order = mpc.constant dense<[[0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000]]> : tensor<2x3xf32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x2x4xf32>, tensor<5x3x4xf32>) -> tensor<5x2x3xf32>
  %b = mpc.add %s, %positions : (tensor<5x2x3xf32>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
  %c = mpc.add %order, %b : (tensor<2x3xf32>, tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %p = mpc.softmax %c {axis = 2 : i64} : (tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %y = mpc.matmul %p, %v : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}

// With another bias, a query may see only keys that the order hides by a finite
// number.
// CHECK-LABEL: func.func @low_order_beside_a_bias
// CHECK: mpc.attention %arg0, %arg1, %arg2 bias %{{.*}}, %arg3 :
func.func @low_order_beside_a_bias(%q: tensor<5x2x4xf32>, %k: tensor<5x3x4xf32>, %v: tensor<5x3x4xf32>, %mask: tensor<5x1x3xf32>) -> tensor<5x2x4xf32> {
  %order = mpc.constant dense<[[0.0, -3.4e38, -3.4e38], [0.0, 0.0, -3.4e38]]> : tensor<2x3xf32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x2x4xf32>, tensor<5x3x4xf32>) -> tensor<5x2x3xf32>
  %b = mpc.add %s, %mask : (tensor<5x2x3xf32>, tensor<5x1x3xf32>) -> tensor<5x2x3xf32>
  %c = mpc.add %order, %b : (tensor<2x3xf32>, tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %p = mpc.softmax %c {axis = 2 : i64} : (tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %y = mpc.matmul %p, %v : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}

// A window limits keys from both sides: it is not causal.
// CHECK-LABEL: func.func @window
// CHECK: mpc.attention %arg0, %arg1, %arg2 mask
func.func @window(%q: tensor<5x3x4xf32>, %k: tensor<5x3x4xf32>, %v: tensor<5x3x4xf32>) -> tensor<5x3x4xf32> {
  %rows = mpc.constant dense<[[0], [1], [2]]> : tensor<3x1xi64>
  %columns = mpc.constant dense<[[0, 1, 2]]> : tensor<1x3xi64>
  %one = mpc.constant dense<1> : tensor<i64>
  %first = mpc.sub %rows, %one : (tensor<3x1xi64>, tensor<i64>) -> tensor<3x1xi64>
  %seen = mpc.less_or_equal %columns, %rows : (tensor<1x3xi64>, tensor<3x1xi64>) -> tensor<3x3xi1>
  %near = mpc.less_or_equal %first, %columns : (tensor<3x1xi64>, tensor<1x3xi64>) -> tensor<3x3xi1>
  %both = mpc.xor %seen, %near : (tensor<3x3xi1>, tensor<3x3xi1>) -> tensor<3x3xi1>
  %hidden = mpc.constant dense<0xFF800000> : tensor<f32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x3x4xf32>, tensor<5x3x4xf32>) -> tensor<5x3x3xf32>
  %m = mpc.select %both, %hidden, %s : (tensor<3x3xi1>, tensor<f32>, tensor<5x3x3xf32>) -> tensor<5x3x3xf32>
  %p = mpc.softmax %m {axis = 2 : i64} : (tensor<5x3x3xf32>) -> tensor<5x3x3xf32>
  %y = mpc.matmul %p, %v : (tensor<5x3x3xf32>, tensor<5x3x4xf32>) -> tensor<5x3x4xf32>
  return %y : tensor<5x3x4xf32>
}
