// Divides the work of one kernel function of each kind, as Planning outlines
// them.
//
// RUN: mpc-opt %s --plan-print-partition --verify-diagnostics

// Dense operands and scalars: all elements are equivalent.
// expected-remark @below {{extent 131072, grain 16384, inner 1}}
func.func private @dense(%x: tensor<64x2048xf32>, %y: tensor<64x2048xbf16>,
    %s: tensor<f32>) -> (tensor<64x2048xf32>, tensor<64x2048xbf16>)
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.mul %x, %s : (tensor<64x2048xf32>, tensor<f32>) -> tensor<64x2048xf32>
  %1 = mpc.add %0, %y : (tensor<64x2048xf32>, tensor<64x2048xbf16>) -> tensor<64x2048xf32>
  %2 = mpc.relu %1 : (tensor<64x2048xf32>) -> tensor<64x2048xf32>
  %3 = amp.cast %2 : (tensor<64x2048xf32>) -> tensor<64x2048xbf16>
  return %1, %3 : tensor<64x2048xf32>, tensor<64x2048xbf16>
}

// A vector along the last axis: an index is a row.
// expected-remark @below {{extent 256, grain 8, inner 2048}}
func.func private @bias(%x: tensor<256x2048xf32>, %b: tensor<2048xf32>)
    -> tensor<256x2048xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.add %x, %b : (tensor<256x2048xf32>, tensor<2048xf32>) -> tensor<256x2048xf32>
  return %0 : tensor<256x2048xf32>
}

// A value per channel of NCHW: it is constant over the spatial axes.
// expected-remark @below {{extent 512, grain 256, inner 64}}
func.func private @channels(%x: tensor<32x16x8x8xf32>, %b: tensor<16x1x1xf32>)
    -> tensor<32x16x8x8xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.add %x, %b : (tensor<32x16x8x8xf32>, tensor<16x1x1xf32>) -> tensor<32x16x8x8xf32>
  return %0 : tensor<32x16x8x8xf32>
}

// Labels are constant along the axis that one_hot inserts.
// expected-remark @below {{extent 32, grain 1638, inner 10}}
func.func private @labels(%x: tensor<32x10xf32>, %l: tensor<32xi64>)
    -> tensor<32x10xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.one_hot %l {axis = 1 : i64, depth = 10 : i64} : (tensor<32xi64>) -> tensor<32x10xf32>
  %1 = mpc.sub %x, %0 : (tensor<32x10xf32>, tensor<32x10xf32>) -> tensor<32x10xf32>
  return %1 : tensor<32x10xf32>
}

// One optimizer step: three results, two of them in place of their operands.
// expected-remark @below {{extent 1000, grain 16384, inner 1}}
func.func private @momentum(%p: tensor<1000xf32>, %g: tensor<1000xf32>,
    %v: tensor<1000xf32>, %lr: tensor<f32>, %t: tensor<i64>)
    -> (tensor<1000xf32>, tensor<1000xf32>, tensor<1000xbf16>)
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %p1, %v1 = mpc.momentum %p, %g, %v, %lr, %t {momentum = 0.9 : f64}
      : (tensor<1000xf32>, tensor<1000xf32>, tensor<1000xf32>, tensor<f32>, tensor<i64>)
     -> (tensor<1000xf32>, tensor<1000xf32>)
  %low = amp.cast %p1 : (tensor<1000xf32>) -> tensor<1000xbf16>
  return %p1, %v1, %low : tensor<1000xf32>, tensor<1000xf32>, tensor<1000xbf16>
}

// Log-softmax and the loss of every row, before the mean over rows.
// expected-remark @below {{extent 32, grain 1638, inner 10}}
func.func private @log_softmax(%x: tensor<32x10xf32>, %l: tensor<32xi64>)
    -> (tensor<32x10xf32>, tensor<32x1xf32>) attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %max = mpc.reduce_max %x {axes = array<i64: 1>, keepdims = true} : (tensor<32x10xf32>) -> tensor<32x1xf32>
  %sub = mpc.sub %x, %max : (tensor<32x10xf32>, tensor<32x1xf32>) -> tensor<32x10xf32>
  %exp = mpc.exp %sub : (tensor<32x10xf32>) -> tensor<32x10xf32>
  %sum = mpc.reduce_sum %exp {axes = array<i64: 1>, keepdims = true} : (tensor<32x10xf32>) -> tensor<32x1xf32>
  %log = mpc.log %sum : (tensor<32x1xf32>) -> tensor<32x1xf32>
  %y = mpc.sub %sub, %log : (tensor<32x10xf32>, tensor<32x1xf32>) -> tensor<32x10xf32>
  %hot = mpc.one_hot %l {axis = 1 : i64, depth = 10 : i64} : (tensor<32xi64>) -> tensor<32x10xf32>
  %picked = mpc.mul %y, %hot : (tensor<32x10xf32>, tensor<32x10xf32>) -> tensor<32x10xf32>
  %row = mpc.reduce_sum %picked {axes = array<i64: 1>, keepdims = true} : (tensor<32x10xf32>) -> tensor<32x1xf32>
  %loss = mpc.neg %row : (tensor<32x1xf32>) -> tensor<32x1xf32>
  return %y, %loss : tensor<32x10xf32>, tensor<32x1xf32>
}

// Softmax computes a row's exponentials once: 1000 of them are in scratch memory.
// expected-remark @below {{inner 1000, scratch 4032}}
func.func private @softmax(%x: tensor<32x1000xf32>) -> tensor<32x1000xf32>
    attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %m = mpc.reduce_max %x {axes = array<i64: 1>, keepdims = true} : (tensor<32x1000xf32>) -> tensor<32x1xf32>
  %d = mpc.sub %x, %m : (tensor<32x1000xf32>, tensor<32x1xf32>) -> tensor<32x1000xf32>
  %e = mpc.exp %d : (tensor<32x1000xf32>) -> tensor<32x1000xf32>
  %s = mpc.reduce_sum %e {axes = array<i64: 1>, keepdims = true} : (tensor<32x1000xf32>) -> tensor<32x1xf32>
  %y = mpc.div %e, %s : (tensor<32x1000xf32>, tensor<32x1xf32>) -> tensor<32x1000xf32>
  return %y : tensor<32x1000xf32>
}

// With the gradient there are four passes. The third needs the exponentials for
// the quotients, and the last needs only these, as bf16.
// expected-remark @below {{inner 128, scratch 768}}
func.func private @softmax_grad(%x: tensor<32x128xf32>, %dy: tensor<32x128xf32>)
    -> (tensor<32x128xbf16>, tensor<32x128xf32>) attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %m = mpc.reduce_max %x {axes = array<i64: 1>, keepdims = true} : (tensor<32x128xf32>) -> tensor<32x1xf32>
  %d = mpc.sub %x, %m : (tensor<32x128xf32>, tensor<32x1xf32>) -> tensor<32x128xf32>
  %e = mpc.exp %d : (tensor<32x128xf32>) -> tensor<32x128xf32>
  %s = mpc.reduce_sum %e {axes = array<i64: 1>, keepdims = true} : (tensor<32x128xf32>) -> tensor<32x1xf32>
  %y = mpc.div %e, %s : (tensor<32x128xf32>, tensor<32x1xf32>) -> tensor<32x128xbf16>
  %p = mpc.mul %dy, %y : (tensor<32x128xf32>, tensor<32x128xbf16>) -> tensor<32x128xf32>
  %t = mpc.reduce_sum %p {axes = array<i64: 1>, keepdims = true} : (tensor<32x128xf32>) -> tensor<32x1xf32>
  %c = mpc.sub %dy, %t : (tensor<32x128xf32>, tensor<32x1xf32>) -> tensor<32x128xf32>
  %dx = mpc.mul %y, %c : (tensor<32x128xbf16>, tensor<32x128xf32>) -> tensor<32x128xf32>
  return %y, %dx : tensor<32x128xbf16>, tensor<32x128xf32>
}

// Values that only one pass needs are not kept, nor a difference that two passes need.
// expected-remark-re @below {{{{inner 128$}}}}
func.func private @log_sum(%x: tensor<32x128xf32>) -> tensor<32x128xf32>
    attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %m = mpc.reduce_max %x {axes = array<i64: 1>, keepdims = true} : (tensor<32x128xf32>) -> tensor<32x1xf32>
  %d = mpc.sub %x, %m : (tensor<32x128xf32>, tensor<32x1xf32>) -> tensor<32x128xf32>
  %e = mpc.exp %d : (tensor<32x128xf32>) -> tensor<32x128xf32>
  %s = mpc.reduce_sum %e {axes = array<i64: 1>, keepdims = true} : (tensor<32x128xf32>) -> tensor<32x1xf32>
  %l = mpc.log %s : (tensor<32x1xf32>) -> tensor<32x1xf32>
  %y = mpc.sub %d, %l : (tensor<32x128xf32>, tensor<32x1xf32>) -> tensor<32x128xf32>
  return %y : tensor<32x128xf32>
}

// A row of 400,000 bytes would not stay in a core's cache.
// expected-remark-re @below {{{{inner 100000$}}}}
func.func private @long_rows(%x: tensor<32x100000xf32>) -> tensor<32x100000xf32>
    attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %e = mpc.exp %x : (tensor<32x100000xf32>) -> tensor<32x100000xf32>
  %s = mpc.reduce_sum %e {axes = array<i64: 1>, keepdims = true} : (tensor<32x100000xf32>) -> tensor<32x1xf32>
  %y = mpc.div %e, %s : (tensor<32x100000xf32>, tensor<32x1xf32>) -> tensor<32x100000xf32>
  return %y : tensor<32x100000xf32>
}

// A reduction to one value is a single row.
// expected-remark @below {{extent 1, grain 512, inner 32}}
func.func private @mean(%x: tensor<32x1xf32>) -> tensor<1x1xf32>
    attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %0 = mpc.reduce_mean %x {axes = array<i64: 0, 1>, keepdims = true} : (tensor<32x1xf32>) -> tensor<1x1xf32>
  return %0 : tensor<1x1xf32>
}

// Rows of 768, and sums over each 64 of them. Slices are whole parts, with room
// for the sums of a band of rows and for totals, 8 bytes each.
// expected-remark @below {{extent 512, grain 64, inner 768, scratch 12288}}
func.func private @rows_and_sums(%x: tensor<8x64x768xf32>)
    -> (tensor<8x64x1xf32>, tensor<8x1x768xf32>) attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %max = mpc.reduce_max %x {axes = array<i64: 2>, keepdims = true} : (tensor<8x64x768xf32>) -> tensor<8x64x1xf32>
  %sum = mpc.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : (tensor<8x64x768xf32>) -> tensor<8x1x768xf32>
  return %max, %sum : tensor<8x64x1xf32>, tensor<8x1x768xf32>
}

// Rows of 2048: bands of rows, with a total for each of 256 columns.
// expected-remark @below {{extent 2048, grain 256, inner 1, scratch 2048}}
func.func private @bias_gradient(%dy: tensor<256x2048xbf16>, %y: tensor<256x2048xbf16>)
    -> (tensor<256x2048xbf16>, tensor<1x2048xf32>) attributes {mpc.kernel = #mpc.kernel<column_reduce>} {
  %0 = mpc.relu_grad %dy, %y : (tensor<256x2048xbf16>, tensor<256x2048xbf16>) -> tensor<256x2048xbf16>
  %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<256x2048xbf16>) -> tensor<1x2048xf32>
  return %0, %1 : tensor<256x2048xbf16>, tensor<1x2048xf32>
}

// With enough images, a slice takes all columns of one. Half of the columns
// have totals at once.
// expected-remark @below {{extent 32768, grain 1024, inner 1, scratch 16384}}
func.func private @image_sums(%dy: tensor<16x14x14x2048xbf16>, %x: tensor<16x14x14x2048xbf16>)
    -> (tensor<16x1x1x2048xf32>, tensor<16x1x1x2048xf32>) attributes {mpc.kernel = #mpc.kernel<column_reduce>} {
  %0 = mpc.mul %dy, %x : (tensor<16x14x14x2048xbf16>, tensor<16x14x14x2048xbf16>) -> tensor<16x14x14x2048xf32>
  %1 = mpc.reduce_sum %0 {axes = array<i64: 1, 2>, keepdims = true} : (tensor<16x14x14x2048xf32>) -> tensor<16x1x1x2048xf32>
  %2 = mpc.reduce_sum %dy {axes = array<i64: 1, 2>, keepdims = true} : (tensor<16x14x14x2048xbf16>) -> tensor<16x1x1x2048xf32>
  return %1, %2 : tensor<16x1x1x2048xf32>, tensor<16x1x1x2048xf32>
}

// Users of the sums read the rows again: a slice is a block of columns, which
// stays in a cache.
// expected-remark @below {{extent 16384, grain 256, inner 1}}
func.func private @centred(%x: tensor<16x196x1024xf32>) -> tensor<16x196x1024xf32>
    attributes {mpc.kernel = #mpc.kernel<column_reduce>} {
  %0 = mpc.reduce_mean %x {axes = array<i64: 1>, keepdims = true} : (tensor<16x196x1024xf32>) -> tensor<16x1x1024xf32>
  %1 = mpc.sub %x, %0 : (tensor<16x196x1024xf32>, tensor<16x1x1024xf32>) -> tensor<16x196x1024xf32>
  return %1 : tensor<16x196x1024xf32>
}

// Axes in the middle: (outer, reduced, inner) = (32, 64, 16).
// expected-remark @below {{extent 512, grain 256, inner 1}}
func.func private @image_mean(%x: tensor<32x8x8x16xf32>) -> tensor<32x1x1x16xf32>
    attributes {mpc.kernel = #mpc.kernel<column_reduce>} {
  %0 = mpc.reduce_mean %x {axes = array<i64: 1, 2>, keepdims = true} : (tensor<32x8x8x16xf32>) -> tensor<32x1x1x16xf32>
  return %0 : tensor<32x1x1x16xf32>
}

// A contraction that no library supports, with its epilogue.
// expected-remark @below {{extent 32, grain 1640, inner 10}}
func.func private @linear(%x: tensor<32x64xf64>, %w: tensor<10x64xf64>, %b: tensor<10xf64>)
    -> tensor<32x10xf64> attributes {mpc.kernel = #mpc.kernel<contraction>} {
  %0 = mpc.matmul %x, %w {transB = true} : (tensor<32x64xf64>, tensor<10x64xf64>) -> tensor<32x10xf64>
  %1 = mpc.add %0, %b : (tensor<32x10xf64>, tensor<10xf64>) -> tensor<32x10xf64>
  return %1 : tensor<32x10xf64>
}

// A weight gradient's rows are lanes of vectors, in whole vectors.
// expected-remark @below {{extent 24, grain 8, inner 72}}
func.func private @conv_dw(%x: tensor<32x16x16x8xf64>, %dy: tensor<32x16x16x24xf64>)
    -> tensor<24x8x3x3xf64> attributes {mpc.kernel = #mpc.kernel<contraction>} {
  %0 = mpc.conv_weight_grad %x, %dy {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>}
      : (tensor<32x16x16x8xf64>, tensor<32x16x16x24xf64>) -> tensor<24x8x3x3xf64>
  return %0 : tensor<24x8x3x3xf64>
}

// A large contraction has 6 by 3 tiles of 180 x 256 elements. Scratch memory
// holds 256 of the depth of both operands, and the sums: 4 * (180 * 256 + 256 *
// 256 + 180 * 256) bytes.
// expected-remark @below {{extent 18, grain 1, inner 46080, scratch 630784}}
func.func private @blocks(%x: tensor<8x128x3072xbf16>, %w: tensor<768x3072xbf16>)
    -> tensor<8x128x768xf32> attributes {mpc.kernel = #mpc.kernel<contraction>} {
  %0 = mpc.matmul %x, %w {transB = true} : (tensor<8x128x3072xbf16>, tensor<768x3072xbf16>) -> tensor<8x128x768xf32>
  return %0 : tensor<8x128x768xf32>
}

// The epilogue of a library's contraction runs tile by tile: argument 0 is the
// tile's part of the whole result.
func.func private @linear_epilogue(%tile: tensor<32x10xf32>, %b: tensor<10xf32>)
    -> (tensor<32x10xf32>, tensor<32x10xbf16>) attributes {mpc.kernel = #mpc.kernel<epilogue>} {
  %0 = mpc.add %tile, %b : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32>
  %1 = mpc.relu %0 : (tensor<32x10xf32>) -> tensor<32x10xf32>
  %2 = amp.cast %1 : (tensor<32x10xf32>) -> tensor<32x10xbf16>
  return %0, %2 : tensor<32x10xf32>, tensor<32x10xbf16>
}

// A weight gradient's epilogue updates the weight.
func.func private @weight_epilogue(%tile: tensor<10x64xf32>, %w: tensor<10x64xf32>, %lr: tensor<f32>)
    -> tensor<10x64xf32> attributes {mpc.kernel = #mpc.kernel<epilogue>} {
  %0 = mpc.sgd %w, %tile, %lr : (tensor<10x64xf32>, tensor<10x64xf32>, tensor<f32>) -> tensor<10x64xf32>
  return %0 : tensor<10x64xf32>
}

// expected-remark @below {{extent 512, grain 1024, inner 16}}
func.func private @pool(%x: tensor<32x8x8x16xf32>)
    -> (tensor<32x4x4x16xf32>, tensor<32x4x4x16xi32>) attributes {mpc.kernel = #mpc.kernel<window>} {
  %y, %i = mpc.max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
      pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>}
      : (tensor<32x8x8x16xf32>) -> (tensor<32x4x4x16xf32>, tensor<32x4x4x16xi32>)
  return %y, %i : tensor<32x4x4x16xf32>, tensor<32x4x4x16xi32>
}

// expected-remark @below {{extent 2048, grain 1024, inner 16}}
func.func private @to_nhwc(%x: tensor<32x16x8x8xf32>) -> tensor<32x8x8x16xf32>
    attributes {mpc.kernel = #mpc.kernel<movement>} {
  %0 = mpc.transpose %x {perm = array<i64: 0, 2, 3, 1>} : (tensor<32x16x8x8xf32>) -> tensor<32x8x8x16xf32>
  return %0 : tensor<32x8x8x16xf32>
}
