// Products of half-precision matrices on a GPU: asynchronous copies to a ring
// of stages, fragments by ldmatrix, mma, and an epilogue on rows of 16 bytes.
// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// CHECK: llvm.mlir.global external @mpc_shared_memory() {addr_space = 3 : i32, alignment = 128 : i64} : !llvm.array<0 x i8>

// The result may overwrite the residual, which has its type. The kernel
// therefore gives LLVM no alias attributes for these two.
// CHECK-LABEL: func.func @product(
// CHECK-SAME: %{{[a-z0-9]+}}: memref<4194304xbf16, 1> {llvm.align = 16 : i64, llvm.noalias, llvm.readonly},
// CHECK-SAME: %{{[a-z0-9]+}}: memref<4194304xbf16, 1> {llvm.align = 16 : i64, llvm.noalias, llvm.readonly},
// CHECK-SAME: %{{[a-z0-9]+}}: memref<4096xf32, 1> {llvm.align = 16 : i64, llvm.noalias, llvm.readonly},
// CHECK-SAME: %{{[a-z0-9]+}}: memref<16777216xbf16, 1> {llvm.align = 16 : i64},
// CHECK-SAME: %{{[a-z0-9]+}}: memref<16777216xbf16, 1> {llvm.align = 16 : i64})

// Four stages of 128 x 32 and 32 x 128 elements. Three are filled before the
// loop, by 8 copies of 16 bytes each, and one in each of its 29 iterations.
// CHECK: %[[TILES:.*]] = arith.constant 29 : index
// CHECK-COUNT-8: nvvm.cp.async.shared.global {{.*}}, 16, cache = cg :
// CHECK: nvvm.cp.async.commit.group
// CHECK-COUNT-8: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK-COUNT-8: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK: nvvm.cp.async.wait.group 2
// CHECK-NEXT: nvvm.barrier0

// The first operand is read along the depth, the second is transposed when
// loaded: 64 x 16 and 16 x 64 elements of fragments for a warp.
// CHECK-COUNT-4: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>, num = 4
// CHECK-COUNT-4: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<col>, num = 4

// The next step's fragments, and the tile after the next two, load before a
// step's 4 x 8 products. The second step waits for the next tile.
// CHECK: scf.for {{.*}} to %[[TILES]]
// CHECK-COUNT-8: nvvm.ldmatrix
// CHECK-COUNT-8: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK-COUNT-32: nvvm.mma.sync A[{{.*}}multiplicandAPtxType = #nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
// CHECK: nvvm.cp.async.wait.group 2
// CHECK-NEXT: nvvm.barrier0
// CHECK-COUNT-8: nvvm.ldmatrix
// CHECK-COUNT-32: nvvm.mma.sync
// CHECK: scf.yield

// A warp's sums are rearranged in shared memory.
// CHECK: nvvm.barrier0
// CHECK-COUNT-64: llvm.store {{.*}} : vector<2xf32>, !llvm.ptr<3>
// CHECK: nvvm.bar.warp.sync

// A thread handles four rows at once: it loads everything before it stores anything.
// CHECK: %[[BIAS:.*]] = vector.load {{.*}} vector<8xf32>
// CHECK: scf.for
// CHECK-COUNT-4: vector.load {{.*}} {alignment = 16 : i64} : memref<16777216xbf16, 1>, vector<8xbf16>
// CHECK-NOT: vector.store
// CHECK: arith.addf %{{.*}}, %[[BIAS]] : vector<8xf32>
// CHECK: arith.addf
// CHECK-COUNT-4: vector.store {{.*}} {alignment = 16 : i64} : memref<16777216xbf16, 1>, vector<8xbf16>
func.func private @product(%a: tensor<4096x1024xbf16>,
    %b: tensor<1024x4096xbf16>, %bias: tensor<4096xf32>,
    %residual: tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
    attributes {mpc.kernel = #mpc.kernel<contraction>} {
  %0 = mpc.matmul %a, %b
      : (tensor<4096x1024xbf16>, tensor<1024x4096xbf16>) -> tensor<4096x4096xf32>
  %1 = mpc.add %0, %bias
      : (tensor<4096x4096xf32>, tensor<4096xf32>) -> tensor<4096x4096xf32>
  %2 = mpc.add %1, %residual
      : (tensor<4096x4096xf32>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  return %2 : tensor<4096x4096xbf16>
}

// Sizes are not multiples of a tile. Elements outside are copied as zeros, read
// as the last row or column, and not stored. Rows of 20 bytes are copied 4
// bytes at a time, through the first-level cache. No operand has the result's
// type: each has separate memory.
// CHECK-LABEL: func.func @edges(
// CHECK-SAME: %{{[a-z0-9]+}}: memref<330xi8, 1> {llvm.align = 16 : i64, llvm.noalias, llvm.readonly},
// CHECK-SAME: %{{[a-z0-9]+}}: memref<330xf32, 1> {llvm.align = 16 : i64, llvm.noalias})
// CHECK: nvvm.cp.async.shared.global {{.*}}, 16, cache = cg, %{{.*}} : !llvm.ptr<3>, !llvm.ptr<1>, i32
// CHECK: nvvm.cp.async.shared.global {{.*}}, 4, cache = ca, %{{.*}} : !llvm.ptr<3>, !llvm.ptr<1>, i32
// CHECK: nvvm.mma.sync A[{{.*}} : (vector<2xf16>, vector<2xf16>, f32)
// CHECK: nvvm.bar.warp.sync
// CHECK: arith.minui
// CHECK: scf.if
// CHECK: vector.store {{.*}} vector<2xf32>
func.func private @edges(%a: tensor<33x40xf16>, %b: tensor<40x10xf16>,
    %mask: tensor<33x10xi1>) -> tensor<33x10xf32>
    attributes {mpc.kernel = #mpc.kernel<contraction>} {
  %0 = mpc.matmul %a, %b
      : (tensor<33x40xf16>, tensor<40x10xf16>) -> tensor<33x10xf32>
  %1 = mpc.relu %0 : (tensor<33x10xf32>) -> tensor<33x10xf32>
  return %1 : tensor<33x10xf32>
}

// Elements that do not fill whole words cannot be copied asynchronously: each
// thread sums an element by itself.
// CHECK-LABEL: func.func @odd(
// CHECK-NOT: nvvm.mma.sync
// CHECK: return
func.func private @odd(%a: tensor<33x5xf16>, %b: tensor<5x10xf16>)
    -> tensor<33x10xf32> attributes {mpc.kernel = #mpc.kernel<contraction>} {
  %0 = mpc.matmul %a, %b
      : (tensor<33x5xf16>, tensor<5x10xf16>) -> tensor<33x10xf32>
  return %0 : tensor<33x10xf32>
}
