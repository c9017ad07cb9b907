// Products become steps: the pass chooses the rows to multiply together, and
// the shape of tiles.
//
// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v4 --plan-build-programs --split-input-file | FileCheck %s

// A hundred matrices of two rows each become two products of a hundred rows.
// The epilogue gets the rows in the order of its operands.
//
// CHECK-LABEL: plan.program @few_rows
// CHECK: plan.matmul {{.*}} epilogue @tail
// CHECK-SAME: shape <m = 100, n = 8, k = 16, lda = 16, ldb = 8, ldc = 16, tile_m
// CHECK-SAME: axes <batch = 2, stride_a = 1600, stride_c = 8>
func.func @few_rows(%x: tensor<2x100x16xf32> {mpc.input = "x"}, %w: tensor<16x8xf32> {mpc.input = "w"})
    -> (tensor<100x2x8xf32> {mpc.output = "y"}) {
  %0 = plan.access %x {offset = 0 : i64, strides = array<i64: 16, 1600, 1>} : tensor<2x100x16xf32> to tensor<100x2x16xf32>
  %1 = mpc.matmul %0, %w : (tensor<100x2x16xf32>, tensor<16x8xf32>) -> tensor<100x2x8xf32>
  %2 = call @tail(%1) : (tensor<100x2x8xf32>) -> tensor<100x2x8xf32>
  return %2 : tensor<100x2x8xf32>
}
func.func private @tail(%t: tensor<100x2x8xf32>) -> tensor<100x2x8xf32> attributes {mpc.kernel = #mpc.kernel<epilogue>} {
  %0 = mpc.relu %t : (tensor<100x2x8xf32>) -> tensor<100x2x8xf32>
  return %0 : tensor<100x2x8xf32>
}

// -----

// Matrices of more rows are multiplied one by one.
//
// CHECK-LABEL: plan.program @many_rows
// CHECK: plan.matmul
// CHECK-SAME: m = 64,
// CHECK-SAME: batch = 100,
func.func @many_rows(%x: tensor<64x100x16xf32> {mpc.input = "x"}, %w: tensor<16x8xf32> {mpc.input = "w"})
    -> (tensor<100x64x8xf32> {mpc.output = "y"}) {
  %0 = plan.access %x {offset = 0 : i64, strides = array<i64: 16, 1600, 1>} : tensor<64x100x16xf32> to tensor<100x64x16xf32>
  %1 = mpc.matmul %0, %w : (tensor<100x64x16xf32>, tensor<16x8xf32>) -> tensor<100x64x8xf32>
  return %1 : tensor<100x64x8xf32>
}

// -----

// Each matrix has its own right operand: nothing can be shared.
//
// CHECK-LABEL: plan.program @own_operands
// CHECK: plan.matmul
// CHECK-SAME: m = 2,
// CHECK-SAME: batch = 100,
func.func @own_operands(%x: tensor<2x100x16xf32> {mpc.input = "x"}, %w: tensor<100x16x8xf32> {mpc.input = "w"})
    -> (tensor<100x2x8xf32> {mpc.output = "y"}) {
  %0 = plan.access %x {offset = 0 : i64, strides = array<i64: 16, 1600, 1>} : tensor<2x100x16xf32> to tensor<100x2x16xf32>
  %1 = mpc.matmul %0, %w : (tensor<100x2x16xf32>, tensor<100x16x8xf32>) -> tensor<100x2x8xf32>
  return %1 : tensor<100x2x8xf32>
}

// -----

// An update of a parameter and a moment takes whole rows. Other epilogues take
// tiles that are about square.
//
// CHECK-LABEL: plan.program @update
// CHECK: plan.matmul {{.*}} epilogue @momentum
// CHECK-SAME: tile_m = 64, tile_n = 2048>
// CHECK: plan.matmul {{.*}} epilogue @scale
// CHECK-SAME: tile_m = 512, tile_n = 256>
mpc.variable @w : tensor<1024x2048xf32> role parameter
mpc.variable @v : tensor<1024x2048xf32> role parameter
func.func @update(%x: tensor<64x1024xf32> {mpc.input = "x"}, %g: tensor<64x2048xf32> {mpc.input = "g"},
                  %w: tensor<1024x2048xf32> {mpc.state = @w}, %v: tensor<1024x2048xf32> {mpc.state = @v})
    -> (tensor<1024x2048xf32> {mpc.updates = @w}, tensor<1024x2048xf32> {mpc.updates = @v}, tensor<1024x2048xf32> {mpc.output = "y"}) {
  %0 = mpc.matmul %x, %g {transA = true} : (tensor<64x1024xf32>, tensor<64x2048xf32>) -> tensor<1024x2048xf32>
  %1:2 = call @momentum(%0, %w, %v) : (tensor<1024x2048xf32>, tensor<1024x2048xf32>, tensor<1024x2048xf32>) -> (tensor<1024x2048xf32>, tensor<1024x2048xf32>)
  %2 = mpc.matmul %x, %g {transA = true} : (tensor<64x1024xf32>, tensor<64x2048xf32>) -> tensor<1024x2048xf32>
  %3 = call @scale(%2) : (tensor<1024x2048xf32>) -> tensor<1024x2048xf32>
  return %1#0, %1#1, %3 : tensor<1024x2048xf32>, tensor<1024x2048xf32>, tensor<1024x2048xf32>
}
func.func private @momentum(%t: tensor<1024x2048xf32>, %w: tensor<1024x2048xf32>, %v: tensor<1024x2048xf32>) -> (tensor<1024x2048xf32>, tensor<1024x2048xf32>) attributes {mpc.kernel = #mpc.kernel<epilogue>} {
  %0 = mpc.add %v, %t : (tensor<1024x2048xf32>, tensor<1024x2048xf32>) -> tensor<1024x2048xf32>
  %1 = mpc.sub %w, %0 : (tensor<1024x2048xf32>, tensor<1024x2048xf32>) -> tensor<1024x2048xf32>
  return %1, %0 : tensor<1024x2048xf32>, tensor<1024x2048xf32>
}
func.func private @scale(%t: tensor<1024x2048xf32>) -> tensor<1024x2048xf32> attributes {mpc.kernel = #mpc.kernel<epilogue>} {
  %0 = mpc.relu %t : (tensor<1024x2048xf32>) -> tensor<1024x2048xf32>
  return %0 : tensor<1024x2048xf32>
}
