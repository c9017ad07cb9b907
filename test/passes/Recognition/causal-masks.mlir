// Masks, biases and factors that hide later keys from earlier queries.
// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-recognize-attention))" | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-recognize-attention{train=mask}))" | FileCheck %s --check-prefix=TRAIN

// With a constant mask, each of two queries sees the keys up to its own and one
// more from a cache. Such a mask or bias needs no tensor.
// CHECK-LABEL: func.func @causal
// CHECK: mpc.attention %arg0, %arg1, %arg2 {causal_offset = 1 : i64}
func.func @causal(%q: tensor<5x2x4xf32>, %k: tensor<5x3x4xf32>, %v: tensor<5x3x4xf32>) -> tensor<5x2x4xf32> {
  %mask = mpc.constant dense<[[true, true, false], [true, true, true]]> : tensor<2x3xi1>
  %hidden = mpc.constant dense<-3.40282347E+38> : tensor<f32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x2x4xf32>, tensor<5x3x4xf32>) -> tensor<5x2x3xf32>
  %m = mpc.select %mask, %s, %hidden : (tensor<2x3xi1>, tensor<5x2x3xf32>, tensor<f32>) -> tensor<5x2x3xf32>
  %p = mpc.softmax %m {axis = 2 : i64} : (tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %y = mpc.matmul %p, %v : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}

// The same order of keys as an added bias.
// CHECK-LABEL: func.func @causal_bias
// CHECK: mpc.attention %arg0, %arg1, %arg2 {causal_offset = 0 : i64}
func.func @causal_bias(%q: tensor<5x2x4xf32>, %k: tensor<5x3x4xf32>, %v: tensor<5x3x4xf32>) -> tensor<5x2x4xf32> {
  %bias = mpc.constant dense<[[0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000]]> : tensor<2x3xf32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x2x4xf32>, tensor<5x3x4xf32>) -> tensor<5x2x3xf32>
  %m = mpc.add %bias, %s : (tensor<2x3xf32>, tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %p = mpc.softmax %m {axis = 2 : i64} : (tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %y = mpc.matmul %p, %v : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}

// s * b - 1e10 * (1 - b), as OpenAI wrote it.
// CHECK-LABEL: func.func @causal_blend
// CHECK: mpc.attention %arg0, %arg1, %arg2 {causal_offset = 0 : i64}
func.func @causal_blend(%q: tensor<5x2x4xf32>, %k: tensor<5x3x4xf32>, %v: tensor<5x3x4xf32>) -> tensor<5x2x4xf32> {
  %seen = mpc.constant dense<[[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]> : tensor<2x3xf32>
  %low = mpc.constant dense<[[0.0, 1.0e10, 1.0e10], [0.0, 0.0, 1.0e10]]> : tensor<2x3xf32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x2x4xf32>, tensor<5x3x4xf32>) -> tensor<5x2x3xf32>
  %b = mpc.mul %s, %seen : (tensor<5x2x3xf32>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
  %m = mpc.sub %b, %low : (tensor<5x2x3xf32>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
  %p = mpc.softmax %m {axis = 2 : i64} : (tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %y = mpc.matmul %p, %v : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}

// CHECK-LABEL: func.func @causal_blend_that_is_added
// CHECK: mpc.attention %arg0, %arg1, %arg2 {causal_offset = 0 : i64}
func.func @causal_blend_that_is_added(%q: tensor<5x2x4xf32>, %k: tensor<5x3x4xf32>, %v: tensor<5x3x4xf32>) -> tensor<5x2x4xf32> {
  %seen = mpc.constant dense<[[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]> : tensor<2x3xf32>
  %low = mpc.constant dense<[[0.0, -1.0e10, -1.0e10], [0.0, 0.0, -1.0e10]]> : tensor<2x3xf32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x2x4xf32>, tensor<5x3x4xf32>) -> tensor<5x2x3xf32>
  %b = mpc.mul %s, %seen : (tensor<5x2x3xf32>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
  %m = mpc.add %b, %low : (tensor<5x2x3xf32>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
  %p = mpc.softmax %m {axis = 2 : i64} : (tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %y = mpc.matmul %p, %v : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}

// A score may be below -1e4, and the zeros of the bias must match the seen keys.
// CHECK-LABEL: func.func @blend_of_small_numbers
// CHECK-NOT: causal_offset
// CHECK: return
func.func @blend_of_small_numbers(%q: tensor<5x2x4xf32>, %k: tensor<5x3x4xf32>, %v: tensor<5x3x4xf32>) -> tensor<5x2x4xf32> {
  %seen = mpc.constant dense<[[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]> : tensor<2x3xf32>
  %low = mpc.constant dense<[[0.0, 1.0e4, 1.0e4], [0.0, 0.0, 1.0e4]]> : tensor<2x3xf32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x2x4xf32>, tensor<5x3x4xf32>) -> tensor<5x2x3xf32>
  %b = mpc.mul %s, %seen : (tensor<5x2x3xf32>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
  %m = mpc.sub %b, %low : (tensor<5x2x3xf32>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
  %p = mpc.softmax %m {axis = 2 : i64} : (tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %y = mpc.matmul %p, %v : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}

// CHECK-LABEL: func.func @blend_of_two_masks
// CHECK-NOT: causal_offset
// CHECK: return
func.func @blend_of_two_masks(%q: tensor<5x2x4xf32>, %k: tensor<5x3x4xf32>, %v: tensor<5x3x4xf32>) -> tensor<5x2x4xf32> {
  %seen = mpc.constant dense<[[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]> : tensor<2x3xf32>
  %low = mpc.constant dense<[[0.0, 0.0, 1.0e10], [0.0, 0.0, 0.0]]> : tensor<2x3xf32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x2x4xf32>, tensor<5x3x4xf32>) -> tensor<5x2x3xf32>
  %b = mpc.mul %s, %seen : (tensor<5x2x3xf32>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
  %m = mpc.sub %b, %low : (tensor<5x2x3xf32>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
  %p = mpc.softmax %m {axis = 2 : i64} : (tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %y = mpc.matmul %p, %v : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}

// The second query sees only its own key: the mask stays.
// CHECK-LABEL: func.func @almost_causal
// CHECK: mpc.attention %arg0, %arg1, %arg2 mask %{{.*}} :
func.func @almost_causal(%q: tensor<5x2x4xf32>, %k: tensor<5x2x4xf32>, %v: tensor<5x2x4xf32>) -> tensor<5x2x4xf32> {
  %mask = mpc.constant dense<[[true, false], [false, true]]> : tensor<2x2xi1>
  %hidden = mpc.constant dense<0xFF800000> : tensor<f32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x2x4xf32>, tensor<5x2x4xf32>) -> tensor<5x2x2xf32>
  %m = mpc.select %mask, %s, %hidden : (tensor<2x2xi1>, tensor<5x2x2xf32>, tensor<f32>) -> tensor<5x2x2xf32>
  %p = mpc.softmax %m {axis = 2 : i64} : (tensor<5x2x2xf32>) -> tensor<5x2x2xf32>
  %y = mpc.matmul %p, %v : (tensor<5x2x2xf32>, tensor<5x2x4xf32>) -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}

// A bias may hide all keys that the mask shows. The mask's finite number then
// matters, and the mask stays.
// CHECK-LABEL: func.func @causal_behind_padding
// CHECK: mpc.attention %arg0, %arg1, %arg2 bias %arg3 mask %{{.*}} {hidden = {{.*}}}
func.func @causal_behind_padding(%q: tensor<5x2x4xf32>, %k: tensor<5x3x4xf32>, %v: tensor<5x3x4xf32>, %padding: tensor<5x1x3xf32>) -> tensor<5x2x4xf32> {
  %mask = mpc.constant dense<[[true, true, false], [true, true, true]]> : tensor<2x3xi1>
  %hidden = mpc.constant dense<-3.40282347E+38> : tensor<f32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x2x4xf32>, tensor<5x3x4xf32>) -> tensor<5x2x3xf32>
  %b = mpc.add %s, %padding : (tensor<5x2x3xf32>, tensor<5x1x3xf32>) -> tensor<5x2x3xf32>
  %m = mpc.select %mask, %b, %hidden : (tensor<2x3xi1>, tensor<5x2x3xf32>, tensor<f32>) -> tensor<5x2x3xf32>
  %p = mpc.softmax %m {axis = 2 : i64} : (tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %y = mpc.matmul %p, %v : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}

// The bias hides by -inf, but the mask hides by a finite number: the bias stays.
// CHECK-LABEL: func.func @causal_bias_behind_mask
// CHECK: mpc.attention %arg0, %arg1, %arg2 bias %{{.*}} mask %arg3 {hidden = -1.000000e+00 : f64}
func.func @causal_bias_behind_mask(%q: tensor<5x2x4xf32>, %k: tensor<5x3x4xf32>, %v: tensor<5x3x4xf32>, %mask: tensor<5x1x3xi1>) -> tensor<5x2x4xf32> {
  %bias = mpc.constant dense<[[0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000]]> : tensor<2x3xf32>
  %low = mpc.constant dense<-1.0> : tensor<f32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x2x4xf32>, tensor<5x3x4xf32>) -> tensor<5x2x3xf32>
  %b = mpc.add %bias, %s : (tensor<2x3xf32>, tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %m = mpc.select %mask, %b, %low : (tensor<5x1x3xi1>, tensor<5x2x3xf32>, tensor<f32>) -> tensor<5x2x3xf32>
  %p = mpc.softmax %m {axis = 2 : i64} : (tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %y = mpc.matmul %p, %v : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}

// If both hide by minus infinity, the bias needs no tensor.
// CHECK-LABEL: func.func @causal_bias_and_mask
// CHECK: mpc.attention %arg0, %arg1, %arg2 mask %arg3 {causal_offset = 0 : i64}
func.func @causal_bias_and_mask(%q: tensor<5x2x4xf32>, %k: tensor<5x3x4xf32>, %v: tensor<5x3x4xf32>, %mask: tensor<5x1x3xi1>) -> tensor<5x2x4xf32> {
  %bias = mpc.constant dense<[[0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000]]> : tensor<2x3xf32>
  %low = mpc.constant dense<0xFF800000> : tensor<f32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x2x4xf32>, tensor<5x3x4xf32>) -> tensor<5x2x3xf32>
  %b = mpc.add %bias, %s : (tensor<2x3xf32>, tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %m = mpc.select %mask, %b, %low : (tensor<5x1x3xi1>, tensor<5x2x3xf32>, tensor<f32>) -> tensor<5x2x3xf32>
  %p = mpc.softmax %m {axis = 2 : i64} : (tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %y = mpc.matmul %p, %v : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}

// A token mask and a causal mask are combined. A key that -inf hides by either
// is hidden.
// CHECK-LABEL: func.func @causal_and_mask
// CHECK: mpc.attention %arg0, %arg1, %arg2 mask %arg3 {causal_offset = 0 : i64}
func.func @causal_and_mask(%q: tensor<5x2x4xf32>, %k: tensor<5x2x4xf32>, %v: tensor<5x2x4xf32>, %seen: tensor<5x1x2xi1>) -> tensor<5x2x4xf32> {
  %low = mpc.constant dense<0xFF800000> : tensor<f32>
  %causal = mpc.constant dense<[[true, false], [true, true]]> : tensor<2x2xi1>
  %both = mpc.and %seen, %causal : (tensor<5x1x2xi1>, tensor<2x2xi1>) -> tensor<5x2x2xi1>
  %hidden = mpc.not %both : (tensor<5x2x2xi1>) -> tensor<5x2x2xi1>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x2x4xf32>, tensor<5x2x4xf32>) -> tensor<5x2x2xf32>
  %masked = mpc.select %hidden, %low, %s : (tensor<5x2x2xi1>, tensor<f32>, tensor<5x2x2xf32>) -> tensor<5x2x2xf32>
  %p = mpc.softmax %masked {axis = 2 : i64} : (tensor<5x2x2xf32>) -> tensor<5x2x2xf32>
  %y = mpc.matmul %p, %v : (tensor<5x2x2xf32>, tensor<5x2x4xf32>) -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}

// With a finite number in place of scores, a query may see hidden keys only:
// then it matters which number they have.
// CHECK-LABEL: func.func @causal_and_mask_of_a_number
// CHECK: %[[B:.*]] = mpc.and
// CHECK: mpc.attention %arg0, %arg1, %arg2 mask %[[B]] {hidden = -1.0000000{{[0-9]*}}E+30 : f64}
func.func @causal_and_mask_of_a_number(%q: tensor<5x2x4xf32>, %k: tensor<5x2x4xf32>, %v: tensor<5x2x4xf32>, %seen: tensor<5x1x2xi1>) -> tensor<5x2x4xf32> {
  %low = mpc.constant dense<-1.0e30> : tensor<f32>
  %causal = mpc.constant dense<[[true, false], [true, true]]> : tensor<2x2xi1>
  %both = mpc.and %seen, %causal : (tensor<5x1x2xi1>, tensor<2x2xi1>) -> tensor<5x2x2xi1>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x2x4xf32>, tensor<5x2x4xf32>) -> tensor<5x2x2xf32>
  %masked = mpc.select %both, %s, %low : (tensor<5x2x2xi1>, tensor<5x2x2xf32>, tensor<f32>) -> tensor<5x2x2xf32>
  %p = mpc.softmax %masked {axis = 2 : i64} : (tensor<5x2x2xf32>) -> tensor<5x2x2xf32>
  %y = mpc.matmul %p, %v : (tensor<5x2x2xf32>, tensor<5x2x4xf32>) -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}

// A constant mask selects the bias, as in PyTorch's export of
// scaled_dot_product_attention. All heads share the bias.
// CHECK-LABEL: func.func @causal_choice
// CHECK: mpc.attention %arg0, %arg1, %arg2 {causal_offset = 0 : i64}
func.func @causal_choice(%q: tensor<2x2x4xf32>, %k: tensor<2x2x4xf32>, %v: tensor<2x2x4xf32>) -> tensor<2x2x4xf32> {
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %low = mpc.constant dense<-3.40282347E+38> : tensor<f32>
  %causal = mpc.constant dense<[[[true, false], [true, true]], [[true, false], [true, true]]]> : tensor<2x2x2xi1>
  %bias = mpc.select %causal, %zero, %low : (tensor<2x2x2xi1>, tensor<f32>, tensor<f32>) -> tensor<2x2x2xf32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<2x2x4xf32>, tensor<2x2x4xf32>) -> tensor<2x2x2xf32>
  %masked = mpc.add %s, %bias : (tensor<2x2x2xf32>, tensor<2x2x2xf32>) -> tensor<2x2x2xf32>
  %p = mpc.softmax %masked {axis = 2 : i64} : (tensor<2x2x2xf32>) -> tensor<2x2x2xf32>
  %y = mpc.matmul %p, %v : (tensor<2x2x2xf32>, tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
  return %y : tensor<2x2x4xf32>
}

// The second of two heads sees all keys.
// CHECK-LABEL: func.func @causal_for_one_head
// CHECK: mpc.attention %arg0, %arg1, %arg2 mask %
func.func @causal_for_one_head(%q: tensor<2x2x4xf32>, %k: tensor<2x2x4xf32>, %v: tensor<2x2x4xf32>) -> tensor<2x2x4xf32> {
  %low = mpc.constant dense<0xFF800000> : tensor<f32>
  %seen = mpc.constant dense<[[[true, false], [true, true]], [[true, true], [true, true]]]> : tensor<2x2x2xi1>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<2x2x4xf32>, tensor<2x2x4xf32>) -> tensor<2x2x2xf32>
  %masked = mpc.select %seen, %s, %low : (tensor<2x2x2xi1>, tensor<2x2x2xf32>, tensor<f32>) -> tensor<2x2x2xf32>
  %p = mpc.softmax %masked {axis = 2 : i64} : (tensor<2x2x2xf32>) -> tensor<2x2x2xf32>
  %y = mpc.matmul %p, %v : (tensor<2x2x2xf32>, tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
  return %y : tensor<2x2x4xf32>
}

// A mask of any size is found through the ops that compute it: counted rows and
// columns, compared, and converted to numbers.
// CHECK-LABEL: func.func @causal_of_places
// CHECK: mpc.attention %arg0, %arg1, %arg2 {causal_offset = 1 : i64}
func.func @causal_of_places(%q: tensor<5x2x4xf32>, %k: tensor<5x3x4xf32>, %v: tensor<5x3x4xf32>) -> tensor<5x2x4xf32> {
  %rows = mpc.constant dense<[[7], [8]]> : tensor<2x1xi64>
  %columns = mpc.constant dense<[[5, 6, 7]]> : tensor<1x3xi64>
  %one = mpc.constant dense<1> : tensor<i64>
  %next = mpc.sub %rows, %one : (tensor<2x1xi64>, tensor<i64>) -> tensor<2x1xi64>
  %wide = mpc.expand %next : (tensor<2x1xi64>) -> tensor<2x3xi64>
  %later = mpc.less %wide, %columns : (tensor<2x3xi64>, tensor<1x3xi64>) -> tensor<2x3xi1>
  %yes = mpc.constant dense<1.0> : tensor<f32>
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %hidden = mpc.constant dense<0xFF800000> : tensor<f32>
  %number = mpc.select %later, %zero, %yes : (tensor<2x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x3xf32>
  %none = mpc.equal %number, %zero : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
  %bias = mpc.select %none, %hidden, %zero : (tensor<2x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x3xf32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x2x4xf32>, tensor<5x3x4xf32>) -> tensor<5x2x3xf32>
  %m = mpc.add %bias, %s : (tensor<2x3xf32>, tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %p = mpc.softmax %m {axis = 2 : i64} : (tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %y = mpc.matmul %p, %v : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}

// A part of a larger triangle, which is inverted to hide keys.
// CHECK-LABEL: func.func @causal_part
// CHECK: mpc.attention %arg0, %arg1, %arg2 {causal_offset = 1 : i64}
func.func @causal_part(%q: tensor<5x2x4xf32>, %k: tensor<5x3x4xf32>, %v: tensor<5x3x4xf32>) -> tensor<5x2x4xf32> {
  %all = mpc.constant dense<[[false, false, false, false], [true, false, false, false], [true, true, false, false], [true, true, true, false]]> : tensor<4x4xi1>
  %turned = mpc.transpose %all {perm = array<i64: 1, 0>} : (tensor<4x4xi1>) -> tensor<4x4xi1>
  %part = mpc.slice %turned {offsets = array<i64: 1, 0>, sizes = array<i64: 2, 3>} : (tensor<4x4xi1>) -> tensor<2x3xi1>
  %view = mpc.reshape %part : (tensor<2x3xi1>) -> tensor<1x2x3xi1>
  %seen = mpc.not %view : (tensor<1x2x3xi1>) -> tensor<1x2x3xi1>
  %hidden = mpc.constant dense<0xFF800000> : tensor<f32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x2x4xf32>, tensor<5x3x4xf32>) -> tensor<5x2x3xf32>
  %m = mpc.select %seen, %s, %hidden : (tensor<1x2x3xi1>, tensor<5x2x3xf32>, tensor<f32>) -> tensor<5x2x3xf32>
  %p = mpc.softmax %m {axis = 2 : i64} : (tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %y = mpc.matmul %p, %v : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}

// A model's buffer is constant, unless --train selects it.
// CHECK-LABEL: func.func @causal_buffer
// CHECK: mpc.attention %arg0, %arg1, %arg2 {causal_offset = 0 : i64}
// TRAIN-LABEL: func.func @causal_buffer
// TRAIN: mpc.attention %arg0, %arg1, %arg2 bias
mpc.variable @mask : tensor<2x3xf32> role frozen init dense<[[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]> : tensor<2x3xf32>
func.func @causal_buffer(%q: tensor<5x2x4xf32>, %k: tensor<5x3x4xf32>, %v: tensor<5x3x4xf32>, %mask: tensor<2x3xf32> {mpc.state = @mask}) -> tensor<5x2x4xf32> {
  %one = mpc.constant dense<1.0> : tensor<f32>
  %low = mpc.constant dense<-3.40282347E+38> : tensor<f32>
  %rest = mpc.sub %one, %mask : (tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %bias = mpc.mul %rest, %low : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %s = mpc.matmul %q, %k {transB = true} : (tensor<5x2x4xf32>, tensor<5x3x4xf32>) -> tensor<5x2x3xf32>
  %m = mpc.add %s, %bias : (tensor<5x2x3xf32>, tensor<2x3xf32>) -> tensor<5x2x3xf32>
  %p = mpc.softmax %m {axis = 2 : i64} : (tensor<5x2x3xf32>) -> tensor<5x2x3xf32>
  %y = mpc.matmul %p, %v : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
  return %y : tensor<5x2x4xf32>
}
