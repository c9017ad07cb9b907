// Converts GPU kernels to the LLVM dialect.
// RUN: mpc-opt %s --split-input-file --mpc-convert-to-nvvm | FileCheck %s

// Indices are 32-bit, addresses have a memory space, and a vector moves at once.
// CHECK-LABEL: llvm.func @copy(
// CHECK-SAME: %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>)
// CHECK-SAME: nvvm.kernel, nvvm.maxntid = array<i32: 128>, nvvm.minctasm = 1 : i32
// CHECK: llvm.getelementptr %{{.*}}[%{{.*}}] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
// CHECK: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
func.func @copy(%x: memref<64xf32, 1>, %y: memref<64xf32, 1>)
    attributes {mpc.kernel = #mpc.kernel<pointwise>, mpc.threads = 128 : i32} {
  %0 = nvvm.read.ptx.sreg.tid.x : i32
  %1 = arith.index_castui %0 : i32 to index
  %2 = vector.load %x[%1] {alignment = 16 : i64} : memref<64xf32, 1>, vector<4xf32>
  vector.store %2, %y[%1] {alignment = 16 : i64} : memref<64xf32, 1>, vector<4xf32>
  return
}

// -----

// 32-bit indices cannot count these elements.
// CHECK-LABEL: llvm.func @huge(
// CHECK: llvm.getelementptr {{.*}} : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
func.func @huge(%x: memref<3000000000xf32, 1>)
    attributes {mpc.kernel = #mpc.kernel<pointwise>, mpc.threads = 128 : i32} {
  %0 = nvvm.read.ptx.sreg.ctaid.x : i32
  %1 = arith.index_castui %0 : i32 to index
  %2 = memref.load %x[%1] : memref<3000000000xf32, 1>
  memref.store %2, %x[%1] : memref<3000000000xf32, 1>
  return
}

// -----

// Shared memory of a block.
// CHECK: llvm.mlir.global private @tile() {addr_space = 3 : i32, alignment = 16 : i64
// CHECK-LABEL: llvm.func @shares(
// CHECK: llvm.mlir.addressof @tile : !llvm.ptr<3>
memref.global "private" @tile : memref<32xf32, 3> = uninitialized {alignment = 16 : i64}
func.func @shares(%x: memref<32xf32, 1>)
    attributes {mpc.kernel = #mpc.kernel<pointwise>, mpc.threads = 32 : i32} {
  %0 = memref.get_global @tile : memref<32xf32, 3>
  %1 = nvvm.read.ptx.sreg.tid.x : i32
  %2 = arith.index_castui %1 : i32 to index
  %3 = memref.load %x[%2] : memref<32xf32, 1>
  memref.store %3, %0[%2] : memref<32xf32, 3>
  nvvm.barrier0
  %4 = memref.load %0[%2] : memref<32xf32, 3>
  memref.store %4, %x[%2] : memref<32xf32, 1>
  return
}

// -----

// Ops that copy without memref ops take the address unchanged.
// CHECK-LABEL: llvm.func @copies_asynchronously(
// CHECK-SAME: %[[X:.*]]: !llvm.ptr<1>, %{{.*}}: i64)
// CHECK-NOT: builtin.unrealized_conversion_cast
// CHECK: llvm.insertvalue %[[X]], %{{.*}}[1]
// CHECK: %[[ADDRESS:.*]] = llvm.extractvalue %{{.*}}[1]
// CHECK: nvvm.cp.async.shared.global %{{.*}}, %[[ADDRESS]], 16, cache = cg
func.func @copies_asynchronously(%x: memref<32xf32, 1>, %to: i64)
    attributes {mpc.kernel = #mpc.kernel<contraction>, mpc.threads = 32 : i32} {
  %0 = builtin.unrealized_conversion_cast %x : memref<32xf32, 1> to !llvm.ptr<1>
  %1 = llvm.inttoptr %to : i64 to !llvm.ptr<3>
  nvvm.cp.async.shared.global %1, %0, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
  return
}
