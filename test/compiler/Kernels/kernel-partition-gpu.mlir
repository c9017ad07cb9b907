// Divides the work of kernels among blocks of threads.
//
// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --plan-print-partition --verify-diagnostics

// A thread takes one vector.
// expected-remark @below {{extent 100000, grain 1024, inner 1, threads 256, lanes 256, vector 4}}
func.func private @dense(%x: tensor<100000xf32>, %s: tensor<f32>)
    -> tensor<100000xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.mul %x, %s : (tensor<100000xf32>, tensor<f32>) -> tensor<100000xf32>
  return %0 : tensor<100000xf32>
}

// A thread takes more vectors if there would be too many blocks.
// expected-remark @below {{extent 16777216, grain 4096, inner 1, threads 256, lanes 256, vector 4}}
func.func private @large(%x: tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.relu %x : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  return %0 : tensor<4096x4096xf32>
}

// The narrowest type fills 16 bytes. 8 threads share a row of 64.
// expected-remark @below {{extent 1000, grain 32, inner 64, threads 256, lanes 8, vector 8}}
func.func private @bias(%x: tensor<1000x64xbf16>, %b: tensor<64xf32>)
    -> tensor<1000x64xbf16> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.add %x, %b : (tensor<1000x64xbf16>, tensor<64xf32>) -> tensor<1000x64xbf16>
  return %0 : tensor<1000x64xbf16>
}

// Rows of 1003 bf16 that lie 1008 apart start at multiples of eight. A few
// elements at the end of each row remain.
// expected-remark @below {{extent 1000, grain 2, inner 1003, threads 256, lanes 128, vector 8}}
func.func private @padded(%x: tensor<1000x1008xf32>, %b: tensor<1003xf32>)
    -> tensor<1000x1008xbf16> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.slice %x {offsets = array<i64: 0, 0>, sizes = array<i64: 1000, 1003>}
      : (tensor<1000x1008xf32>) -> tensor<1000x1003xf32>
  %1 = mpc.add %0, %b : (tensor<1000x1003xf32>, tensor<1003xf32>) -> tensor<1000x1003xf32>
  %2 = amp.cast %1 : (tensor<1000x1003xf32>) -> tensor<1000x1003xbf16>
  %3 = plan.place %2 : tensor<1000x1003xbf16> to tensor<1000x1008xbf16>
  return %3 : tensor<1000x1008xbf16>
}

// Not if another operand's rows start elsewhere.
// expected-remark @below {{extent 1000, grain 1, inner 1003, threads 256, lanes 256, vector 1}}
func.func private @half_padded(%x: tensor<1000x1008xf32>, %b: tensor<1000x1003xf32>)
    -> tensor<1000x1008xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.slice %x {offsets = array<i64: 0, 0>, sizes = array<i64: 1000, 1003>}
      : (tensor<1000x1008xf32>) -> tensor<1000x1003xf32>
  %1 = mpc.add %0, %b : (tensor<1000x1003xf32>, tensor<1000x1003xf32>) -> tensor<1000x1003xf32>
  %2 = plan.place %1 : tensor<1000x1003xf32> to tensor<1000x1008xf32>
  return %2 : tensor<1000x1008xf32>
}

// Rows of ten elements do not start at multiples of four.
// expected-remark @below {{extent 1000, grain 32, inner 10, threads 256, lanes 8, vector 2}}
func.func private @ten(%x: tensor<1000x10xf32>, %b: tensor<10xf32>)
    -> tensor<1000x10xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.add %x, %b : (tensor<1000x10xf32>, tensor<10xf32>) -> tensor<1000x10xf32>
  return %0 : tensor<1000x10xf32>
}

// expected-remark @below {{extent 4096, grain 32, inner 32, threads 256, lanes 8, vector 4}}
func.func private @short_rows(%x: tensor<4096x32xf32>) -> tensor<4096x1xf32>
    attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %0 = mpc.reduce_sum %x {axes = array<i64: 1>, keepdims = true}
      : (tensor<4096x32xf32>) -> tensor<4096x1xf32>
  return %0 : tensor<4096x1xf32>
}

// With many rows, a warp takes a row of up to eight vectors per thread.
// expected-remark @below {{extent 4096, grain 8, inner 1024, threads 256, lanes 32, vector 4}}
func.func private @many_rows(%x: tensor<4096x1024xf32>) -> tensor<4096x1xf32>
    attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %0 = mpc.reduce_sum %x {axes = array<i64: 1>, keepdims = true}
      : (tensor<4096x1024xf32>) -> tensor<4096x1xf32>
  return %0 : tensor<4096x1xf32>
}

// A row of 288 vectors has one per thread. Rows of 96 are taken in pairs.
// expected-remark @below {{extent 8192, grain 2, inner 2304, threads 288, lanes 288, vector 8}}
func.func private @wide_bias(%x: tensor<8192x2304xbf16>, %b: tensor<2304xf32>) -> tensor<8192x2304xbf16>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.add %x, %b : (tensor<8192x2304xbf16>, tensor<2304xf32>) -> tensor<8192x2304xbf16>
  return %0 : tensor<8192x2304xbf16>
}

// expected-remark @below {{extent 8192, grain 2, inner 768, threads 192, lanes 96, vector 8}}
func.func private @narrow_bias(%x: tensor<8192x768xbf16>, %b: tensor<768xf32>) -> tensor<8192x768xbf16>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.add %x, %b : (tensor<8192x768xbf16>, tensor<768xf32>) -> tensor<8192x768xbf16>
  return %0 : tensor<8192x768xbf16>
}

// expected-remark @below {{extent 64, grain 1, inner 4096, threads 256, lanes 256, vector 4}}
func.func private @long_rows(%x: tensor<64x4096xf32>) -> tensor<64x1xf32>
    attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %0 = mpc.reduce_sum %x {axes = array<i64: 1>, keepdims = true}
      : (tensor<64x4096xf32>) -> tensor<64x1xf32>
  return %0 : tensor<64x1xf32>
}

// An index is a block of columns, and teams share the rows. Blocks are narrow
// if there would be few.
// expected-remark @below {{extent 32, grain 1, inner 512, threads 256, lanes 2, vector 8}}
func.func private @columns(%x: tensor<1000x512xbf16>) -> tensor<512xf32>
    attributes {mpc.kernel = #mpc.kernel<column_reduce>} {
  %0 = mpc.reduce_sum %x {axes = array<i64: 0>, keepdims = false}
      : (tensor<1000x512xbf16>) -> tensor<512xf32>
  return %0 : tensor<512xf32>
}

// expected-remark @below {{extent 1024, grain 1, inner 512, threads 256, lanes 16, vector 8}}
func.func private @many_columns(%x: tensor<256x1000x512xbf16>) -> tensor<256x512xf32>
    attributes {mpc.kernel = #mpc.kernel<column_reduce>} {
  %0 = mpc.reduce_sum %x {axes = array<i64: 1>, keepdims = false}
      : (tensor<256x1000x512xbf16>) -> tensor<256x512xf32>
  return %0 : tensor<256x512xf32>
}

// An index is a tile.
// expected-remark @below {{extent 8, grain 1, inner 60, threads 256, lanes 256, vector 1}}
func.func private @turn(%x: tensor<60x100xbf16>) -> tensor<100x60xbf16>
    attributes {mpc.kernel = #mpc.kernel<movement>} {
  %0 = mpc.transpose %x {perm = array<i64: 1, 0>}
      : (tensor<60x100xbf16>) -> tensor<100x60xbf16>
  return %0 : tensor<100x60xbf16>
}

// expected-remark @below {{extent 20, grain 4, inner 40, threads 256, lanes 64, vector 1}}
func.func private @product(%a: tensor<20x30xf64>, %b: tensor<30x40xf64>)
    -> tensor<20x40xf64> attributes {mpc.kernel = #mpc.kernel<contraction>} {
  %0 = mpc.matmul %a, %b : (tensor<20x30xf64>, tensor<30x40xf64>) -> tensor<20x40xf64>
  return %0 : tensor<20x40xf64>
}

// Each thread computes Adam's bias corrections once, so fewer threads do more work each.
// expected-remark @below {{extent 4194304, grain 4096, inner 1, threads 256, lanes 256, vector 4}}
func.func private @update(%p: tensor<4194304xf32>, %g: tensor<4194304xf32>, %lr: tensor<f32>)
    -> tensor<4194304xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.sgd %p, %g, %lr {weight_decay = 0.0 : f64}
      : (tensor<4194304xf32>, tensor<4194304xf32>, tensor<f32>) -> tensor<4194304xf32>
  return %0 : tensor<4194304xf32>
}

// Zero rows need zero blocks, but the grain is positive.
// expected-remark @below {{extent 0, grain 128, inner 4, threads 256, lanes 2, vector 2}}
func.func private @empty(%x: tensor<0x4xf32>) -> tensor<0x1xf32>
    attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %0 = mpc.reduce_sum %x {axes = array<i64: 1>, keepdims = true}
      : (tensor<0x4xf32>) -> tensor<0x1xf32>
  return %0 : tensor<0x1xf32>
}

// The rows have no elements.
// expected-remark @below {{extent 0, grain 256, inner 1, threads 256, lanes 1, vector 4}}
func.func private @none(%x: tensor<5x0xf32>, %b: tensor<5x1xf32>)
    -> tensor<5x0xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.add %x, %b : (tensor<5x0xf32>, tensor<5x1xf32>) -> tensor<5x0xf32>
  return %0 : tensor<5x0xf32>
}
