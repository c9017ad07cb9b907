// RUN: mpc-opt %s --pass-pipeline="builtin.module(mpc-attach-target{name=x86-64-v3},func.func(mpc-normalize-reductions))" | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline="builtin.module(mpc-attach-target{name=sm_80},func.func(mpc-normalize-reductions))" | FileCheck %s --check-prefix=GPU

// CHECK-LABEL: func.func @sum_to_size
func.func @sum_to_size(%x: tensor<32x10xf32>) -> tensor<10xf32> {
  // CHECK: %[[S:.*]] = mpc.reduce_sum %{{.*}} {axes = array<i64: 0>, keepdims = true} : (tensor<32x10xf32>) -> tensor<1x10xf32>
  // CHECK: mpc.reshape %[[S]] : (tensor<1x10xf32>) -> tensor<10xf32>
  %0 = mpc.sum_to_size %x : (tensor<32x10xf32>) -> tensor<10xf32>
  return %0 : tensor<10xf32>
}

// Axes that are not adjacent are reduced one after the other.
// CHECK-LABEL: func.func @apart
func.func @apart(%x: tensor<2x3x4x5xbf16>) -> tensor<3x1xbf16> {
  // CHECK: %[[A:.*]] = mpc.reduce_mean %{{.*}} {axes = array<i64: 2, 3>, keepdims = true} : (tensor<2x3x4x5xbf16>) -> tensor<2x3x1x1xf32>
  // CHECK: %[[B:.*]] = mpc.reduce_mean %[[A]] {axes = array<i64: 0>, keepdims = true} : (tensor<2x3x1x1xf32>) -> tensor<1x3x1x1xbf16>
  // CHECK: mpc.reshape %[[B]]
  %0 = mpc.reduce_mean %x {axes = array<i64: 0, 2, 3>} : (tensor<2x3x4x5xbf16>) -> tensor<3xbf16>
  %1 = mpc.reshape %0 : (tensor<3xbf16>) -> tensor<3x1xbf16>
  return %1 : tensor<3x1xbf16>
}

// A large reduction to one value: rows first.
// CHECK-LABEL: func.func @large
func.func @large(%x: tensor<2048x2048xf32>) -> tensor<f32> {
  // CHECK: mpc.reduce_sum %{{.*}} {axes = array<i64: 1>, keepdims = true} : (tensor<2048x2048xf32>) -> tensor<2048x1xf32>
  // CHECK: mpc.reduce_sum %{{.*}} {axes = array<i64: 0>, keepdims = true} : (tensor<2048x1xf32>) -> tensor<1x1xf32>
  %0 = mpc.reduce_sum %x {axes = array<i64: 0, 1>} : (tensor<2048x2048xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// Few channels of many pixels: images first.
// CHECK-LABEL: func.func @few_channels
func.func @few_channels(%x: tensor<32x56x56x64xf32>) -> tensor<64xf32> {
  // CHECK: mpc.reduce_sum %{{.*}} {axes = array<i64: 1, 2>, keepdims = true} : (tensor<32x56x56x64xf32>) -> tensor<32x1x1x64xf32>
  // CHECK: mpc.reduce_sum %{{.*}} {axes = array<i64: 0>, keepdims = true}
  %0 = mpc.reduce_sum %x {axes = array<i64: 0, 1, 2>} : (tensor<32x56x56x64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// On a CPU, a slice takes wide rows whole, so images or parts of a batch make
// the slices. On a GPU, blocks of columns do.
// CHECK-LABEL: func.func @wide_rows
// GPU-LABEL: func.func @wide_rows
func.func @wide_rows(%x: tensor<4x14x14x1024xf32>, %y: tensor<1024x1024xf32>) -> (tensor<1024xf32>, tensor<1024xf32>) {
  // CHECK: mpc.reduce_sum %{{.*}} {axes = array<i64: 1, 2>, keepdims = true} : (tensor<4x14x14x1024xf32>) -> tensor<4x1x1x1024xf32>
  // CHECK: mpc.reduce_sum %{{.*}} {axes = array<i64: 0>, keepdims = true} : (tensor<4x1x1x1024xf32>) -> tensor<1x1x1x1024xf32>
  // GPU: mpc.reduce_sum %{{.*}} {axes = array<i64: 0, 1, 2>, keepdims = true} : (tensor<4x14x14x1024xf32>) -> tensor<1x1x1x1024xf32>
  %0 = mpc.reduce_sum %x {axes = array<i64: 0, 1, 2>} : (tensor<4x14x14x1024xf32>) -> tensor<1024xf32>
  // CHECK: mpc.reduce_sum %{{.*}} {axes = array<i64: 0>, keepdims = true, parts = 16 : i64} : (tensor<1024x1024xf32>) -> tensor<16x1024xf32>
  // CHECK: mpc.reduce_sum %{{.*}} {axes = array<i64: 0>, keepdims = true} : (tensor<16x1024xf32>) -> tensor<1x1024xf32>
  // GPU: mpc.reduce_sum %{{.*}} {axes = array<i64: 0>, keepdims = true} : (tensor<1024x1024xf32>) -> tensor<1x1024xf32>
  %1 = mpc.reduce_sum %y {axes = array<i64: 0>} : (tensor<1024x1024xf32>) -> tensor<1024xf32>
  return %0, %1 : tensor<1024xf32>, tensor<1024xf32>
}

// On a GPU, columns are summed in parts, so that about four blocks of 64
// columns run on each multiprocessor of a large GPU. Parts are images, if there
// are enough, or parts of images or of a batch.
// GPU-LABEL: func.func @channels_on_gpu
func.func @channels_on_gpu(%x: tensor<64x28x28x512xbf16>, %y: tensor<64x14x14x1024xbf16>, %z: tensor<64x56x56x64xbf16>) -> (tensor<512xf32>, tensor<1024xf32>, tensor<64xf32>) {
  // GPU: %[[X:.*]] = mpc.reduce_sum %{{.*}} {axes = array<i64: 1, 2>, keepdims = true} : (tensor<64x28x28x512xbf16>) -> tensor<64x1x1x512xf32>
  // GPU: mpc.reduce_sum %[[X]] {axes = array<i64: 0>, keepdims = true} : (tensor<64x1x1x512xf32>) -> tensor<1x1x1x512xf32>
  %0 = mpc.reduce_sum %x {axes = array<i64: 0, 1, 2>} : (tensor<64x28x28x512xbf16>) -> tensor<512xf32>
  // GPU: %[[Y:.*]] = mpc.reduce_mean %{{.*}} {axes = array<i64: 0, 1, 2>, keepdims = true, parts = 32 : i64} : (tensor<64x14x14x1024xbf16>) -> tensor<32x1x1x1024xf32>
  // GPU: mpc.reduce_mean %[[Y]] {axes = array<i64: 0>, keepdims = true} : (tensor<32x1x1x1024xf32>) -> tensor<1x1x1x1024xf32>
  %1 = mpc.reduce_mean %y {axes = array<i64: 0, 1, 2>} : (tensor<64x14x14x1024xbf16>) -> tensor<1024xf32>
  // GPU: %[[Z:.*]] = mpc.reduce_sum %{{.*}} {axes = array<i64: 1, 2>, keepdims = true, parts = 8 : i64} : (tensor<64x56x56x64xbf16>) -> tensor<64x8x1x64xf32>
  // GPU: mpc.reduce_sum %[[Z]] {axes = array<i64: 0, 1>, keepdims = true} : (tensor<64x8x1x64xf32>) -> tensor<1x1x1x64xf32>
  %2 = mpc.reduce_sum %z {axes = array<i64: 0, 1, 2>} : (tensor<64x56x56x64xbf16>) -> tensor<64xf32>
  return %0, %1, %2 : tensor<512xf32>, tensor<1024xf32>, tensor<64xf32>
}

// GPU-LABEL: func.func @batch_on_gpu
func.func @batch_on_gpu(%x: tensor<16x512x768xbf16>, %y: tensor<16x512x3072xbf16>, %z: tensor<16x512x4096xbf16>, %w: tensor<50261x768xf32>) -> (tensor<768xf32>, tensor<3072xf32>, tensor<4096xf32>, tensor<768xf32>) {
  // GPU: %[[X:.*]] = mpc.reduce_sum %{{.*}} {axes = array<i64: 1>, keepdims = true, parts = 4 : i64} : (tensor<16x512x768xbf16>) -> tensor<16x4x768xf32>
  // GPU: mpc.reduce_sum %[[X]] {axes = array<i64: 0, 1>, keepdims = true} : (tensor<16x4x768xf32>) -> tensor<1x1x768xf32>
  %0 = mpc.reduce_sum %x {axes = array<i64: 0, 1>} : (tensor<16x512x768xbf16>) -> tensor<768xf32>
  // GPU: mpc.reduce_sum %{{.*}} {axes = array<i64: 0, 1>, keepdims = true, parts = 16 : i64} : (tensor<16x512x3072xbf16>) -> tensor<16x1x3072xf32>
  // GPU: mpc.reduce_sum %{{.*}} {axes = array<i64: 0>, keepdims = true} : (tensor<16x1x3072xf32>)
  %1 = mpc.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<16x512x3072xbf16>) -> tensor<3072xf32>
  // Enough columns need no parts. No number of parts divides these rows.
  // GPU: mpc.reduce_sum %{{.*}} {axes = array<i64: 0, 1>, keepdims = true} : (tensor<16x512x4096xbf16>) -> tensor<1x1x4096xf32>
  %2 = mpc.reduce_sum %z {axes = array<i64: 0, 1>} : (tensor<16x512x4096xbf16>) -> tensor<4096xf32>
  // GPU: mpc.reduce_sum %{{.*}} {axes = array<i64: 0>, keepdims = true} : (tensor<50261x768xf32>) -> tensor<1x768xf32>
  %3 = mpc.reduce_sum %w {axes = array<i64: 0>} : (tensor<50261x768xf32>) -> tensor<768xf32>
  return %0, %1, %2, %3 : tensor<768xf32>, tensor<3072xf32>, tensor<4096xf32>, tensor<768xf32>
}

// One long axis is reduced in parts by several threads, and then the parts.
// CHECK-LABEL: func.func @long_columns
func.func @long_columns(%x: tensor<4194304x16xbf16>) -> tensor<16xbf16> {
  // CHECK: %[[P:.*]] = mpc.reduce_mean %{{.*}} {axes = array<i64: 0>, keepdims = true, parts = 64 : i64} : (tensor<4194304x16xbf16>) -> tensor<64x16xf32>
  // CHECK: mpc.reduce_mean %[[P]] {axes = array<i64: 0>, keepdims = true} : (tensor<64x16xf32>) -> tensor<1x16xbf16>
  %0 = mpc.reduce_mean %x {axes = array<i64: 0>} : (tensor<4194304x16xbf16>) -> tensor<16xbf16>
  return %0 : tensor<16xbf16>
}

// CHECK-LABEL: func.func @long_row
func.func @long_row(%x: tensor<2x4194304xf32>) -> tensor<f32> {
  // CHECK: %[[P:.*]] = mpc.reduce_sum %{{.*}} {axes = array<i64: 1>, keepdims = true, parts = 32 : i64} : (tensor<2x4194304xf32>) -> tensor<2x32xf32>
  // CHECK: mpc.reduce_sum %[[P]] {axes = array<i64: 0, 1>, keepdims = true} : (tensor<2x32xf32>) -> tensor<1x1xf32>
  %0 = mpc.reduce_sum %x {axes = array<i64: 0, 1>} : (tensor<2x4194304xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// Parts have equal length. Their number divides the axis and is close to the
// wanted number.
// CHECK-LABEL: func.func @odd_parts
func.func @odd_parts(%x: tensor<1000003x3xf32>, %y: tensor<354503x64xf32>) -> (tensor<3xf32>, tensor<64xf32>) {
  // CHECK: mpc.reduce_sum %{{.*}} {axes = array<i64: 0>, keepdims = true} : (tensor<1000003x3xf32>) -> tensor<1x3xf32>
  // CHECK: mpc.reduce_max %{{.*}} {axes = array<i64: 0>, keepdims = true, parts = 71 : i64}
  %0 = mpc.reduce_sum %x {axes = array<i64: 0>} : (tensor<1000003x3xf32>) -> tensor<3xf32>
  %1 = mpc.reduce_max %y {axes = array<i64: 0>} : (tensor<354503x64xf32>) -> tensor<64xf32>
  return %0, %1 : tensor<3xf32>, tensor<64xf32>
}

// With enough slices, or with little to do, one step suffices.
// CHECK-LABEL: func.func @one_step
func.func @one_step(%x: tensor<1048576x512xf32>, %y: tensor<2048x64xf32>, %z: tensor<6x50257xf32>) -> (tensor<512xf32>, tensor<64xf32>, tensor<6xf32>) {
  // CHECK-NOT: parts
  %0 = mpc.reduce_sum %x {axes = array<i64: 0>} : (tensor<1048576x512xf32>) -> tensor<512xf32>
  %1 = mpc.reduce_sum %y {axes = array<i64: 0>} : (tensor<2048x64xf32>) -> tensor<64xf32>
  %2 = mpc.reduce_sum %z {axes = array<i64: 1>} : (tensor<6x50257xf32>) -> tensor<6xf32>
  return %0, %1, %2 : tensor<512xf32>, tensor<64xf32>, tensor<6xf32>
}

// A reduction of axes of length one only changes shape and type.
// CHECK-LABEL: func.func @nothing
func.func @nothing(%x: tensor<1x10xf32>) -> tensor<10xbf16> {
  // CHECK-NOT: mpc.reduce
  // CHECK: amp.cast
  // CHECK: mpc.reshape
  %0 = mpc.reduce_sum %x {axes = array<i64: 0>} : (tensor<1x10xf32>) -> tensor<10xbf16>
  return %0 : tensor<10xbf16>
}

// A reduction over no elements gives its initial value, without a kernel.
// CHECK-LABEL: func.func @empty
func.func @empty(%x: tensor<3x0xf32>) -> (tensor<3xbf16>, tensor<1x0xf32>, tensor<f32>, tensor<f32>) {
  // CHECK-NOT: mpc.reduce
  // CHECK-DAG: mpc.constant dense<0.000000e+00> : tensor<3xbf16>
  // CHECK-DAG: mpc.constant dense<0.000000e+00> : tensor<1x0xf32>
  // CHECK-DAG: mpc.constant dense<0xFF800000> : tensor<f32>
  // CHECK-DAG: mpc.constant dense<0x7FC00000> : tensor<f32>
  %0 = mpc.reduce_sum %x {axes = array<i64: 1>} : (tensor<3x0xf32>) -> tensor<3xbf16>
  %1 = mpc.reduce_sum %x {axes = array<i64: 0>, keepdims = true} : (tensor<3x0xf32>) -> tensor<1x0xf32>
  %2 = mpc.reduce_max %x {axes = array<i64: 0, 1>} : (tensor<3x0xf32>) -> tensor<f32>
  %3 = mpc.reduce_mean %x {axes = array<i64: 0, 1>} : (tensor<3x0xf32>) -> tensor<f32>
  return %0, %1, %2, %3 : tensor<3xbf16>, tensor<1x0xf32>, tensor<f32>, tensor<f32>
}

// Sums of many updates are kept in f32. Replacing updates round nothing.
// CHECK-LABEL: func.func @scatter
func.func @scatter(%x: tensor<4xf16>, %i: tensor<9xi64>, %u: tensor<9xf16>) -> (tensor<4xf16>, tensor<4xf16>) {
  // CHECK: %[[S:.*]] = mpc.scatter %{{.*}} {axis = 0 : i64, reduction = #mpc.scatter<add>} : (tensor<4xf16>, tensor<9xi64>, tensor<9xf16>) -> tensor<4xf32>
  // CHECK: mpc.cast %[[S]] : (tensor<4xf32>) -> tensor<4xf16>
  // CHECK: mpc.scatter_elements %{{.*}} -> tensor<4xf16>
  %y = mpc.scatter %x, %i, %u {axis = 0 : i64, reduction = #mpc.scatter<add>} : (tensor<4xf16>, tensor<9xi64>, tensor<9xf16>) -> tensor<4xf16>
  %z = mpc.scatter_elements %x, %i, %u {axis = 0 : i64, reduction = #mpc.scatter<none>} : (tensor<4xf16>, tensor<9xi64>, tensor<9xf16>) -> tensor<4xf16>
  return %y, %z : tensor<4xf16>, tensor<4xf16>
}
