// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-emit-kernels --cse --canonicalize | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v4 --mpc-emit-kernels --cse --canonicalize | FileCheck %s --check-prefix=WIDE

// Vectors have the target's width, and single elements cover the rest. Uniform
// values are loaded once.
// CHECK-LABEL: func.func @scale(
// CHECK-SAME: %[[X:.*]]: memref<1000xf32>, %[[S:.*]]: memref<1xf32>, %[[Y:.*]]: memref<1000xf32>, %[[BEGIN:.*]]: index, %[[END:.*]]: index)
// CHECK: %[[SCALE:.*]] = memref.load %[[S]]
// CHECK: scf.for %[[I:.*]] = %[[BEGIN]]
// CHECK-NEXT: %[[V:.*]] = vector.load %[[X]][%[[I]]] : memref<1000xf32>, vector<8xf32>
// CHECK-NEXT: %[[B:.*]] = vector.broadcast %[[SCALE]]
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[V]], %[[B]] : vector<8xf32>
// CHECK-NEXT: vector.store %[[P]], %[[Y]][%[[I]]]
// CHECK: scf.for {{.*}} to %[[END]]
// CHECK: arith.mulf {{.*}} : f32
// CHECK-NOT: mpc.
// WIDE-LABEL: func.func @scale(
// WIDE: vector<16xf32>
func.func private @scale(%x: tensor<1000xf32>, %s: tensor<f32>)
    -> tensor<1000xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %y = mpc.mul %x, %s : (tensor<1000xf32>, tensor<f32>) -> tensor<1000xf32>
  return %y : tensor<1000xf32>
}

// A cast rounds in place, even between two ops of one kernel.
// CHECK-LABEL: func.func @rounds(
// CHECK: arith.truncf {{.*}} : vector<8xf32> to vector<8xbf16>
// CHECK: arith.extf {{.*}} : vector<8xbf16> to vector<8xf32>
// CHECK: arith.addf
func.func private @rounds(%x: tensor<64xf32>) -> tensor<64xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = amp.cast %x : (tensor<64xf32>) -> tensor<64xbf16>
  %1 = mpc.add %0, %x : (tensor<64xbf16>, tensor<64xf32>) -> tensor<64xf32>
  return %1 : tensor<64xf32>
}

// The tile of an epilogue has its own distance between rows.
// CHECK-LABEL: func.func @bias(
// CHECK-SAME: %[[ROW:arg[0-9]+]]: index, %[[ROWEND:.*]]: index, %[[COL:.*]]: index, %[[COLEND:.*]]: index, %[[LD:.*]]: index)
// CHECK: scf.for %[[R:.*]] = %[[ROW]] to %[[ROWEND]]
// CHECK: %[[INTILE:.*]] = arith.subi %[[R]], %[[ROW]]
// CHECK: arith.muli %[[INTILE]], %[[LD]]
func.func private @bias(%acc: tensor<16x64xf32>, %b: tensor<64xf32>)
    -> tensor<16x64xf32> attributes {mpc.kernel = #mpc.kernel<epilogue>} {
  %0 = mpc.add %acc, %b : (tensor<16x64xf32>, tensor<64xf32>) -> tensor<16x64xf32>
  return %0 : tensor<16x64xf32>
}

// An epilogue prefetches the next row, 64 elements further, of its operands and
// result. The bias is one row, and the accumulators are in a cache.
// CHECK-LABEL: func.func @residual(
// CHECK-SAME: %[[BIAS:arg1]]: memref<64xf32>, %[[RES:arg2]]: memref<1024xf32>, %[[OUT:arg3]]: memref<1024xf32>
// CHECK-NOT: memref.prefetch %[[BIAS]]
// CHECK: %[[NEXT:.*]] = arith.addi %[[AT:.*]], %c64
// CHECK: memref.prefetch %[[RES]][%[[NEXT]]], read, locality<3>, data
// CHECK: vector.load %[[RES]][%[[AT]]]
// CHECK: memref.prefetch %[[OUT]][%{{.*}}], write, locality<3>, data
// CHECK: vector.store %{{.*}}, %[[OUT]]
// CHECK: scf.for
// CHECK-NOT: memref.prefetch
func.func private @residual(%acc: tensor<16x64xf32>, %b: tensor<64xf32>,
                            %x: tensor<16x64xf32>)
    -> tensor<16x64xf32> attributes {mpc.kernel = #mpc.kernel<epilogue>} {
  %0 = mpc.add %acc, %b : (tensor<16x64xf32>, tensor<64xf32>) -> tensor<16x64xf32>
  %1 = mpc.add %0, %x : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<16x64xf32>
  return %1 : tensor<16x64xf32>
}

// Blocks of 8 x 8 are transposed in registers: 8 loads, 24 shuffles, 8 stores.
// CHECK-LABEL: func.func @turn(
// CHECK-COUNT-8: vector.load
// CHECK-COUNT-24: vector.shuffle
// CHECK-COUNT-8: vector.store
func.func private @turn(%x: tensor<64x32xf32>) -> tensor<32x64xf32>
    attributes {mpc.kernel = #mpc.kernel<movement>} {
  %0 = mpc.transpose %x {perm = array<i64: 1, 0>} : (tensor<64x32xf32>) -> tensor<32x64xf32>
  return %0 : tensor<32x64xf32>
}

// Functions that are not kernels stay unchanged.
// CHECK-LABEL: func.func @other(
// CHECK: mpc.relu
func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mpc.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
