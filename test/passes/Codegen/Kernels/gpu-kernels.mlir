// Loop nests of GPU kernels: the work of a thread.
// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// A thread takes vectors of 16 bytes. Neighbouring threads take neighbouring vectors.
// CHECK-LABEL: func.func @scale(
// CHECK-SAME: %[[X:.*]]: memref<100000xf32, 1> {llvm.align = 16 : i64},
// CHECK-SAME: %[[S:.*]]: memref<1xf32, 1> {llvm.align = 16 : i64, llvm.noalias, llvm.readonly},
// CHECK-SAME: %[[Y:.*]]: memref<100000xf32, 1> {llvm.align = 16 : i64})
// CHECK-SAME: mpc.threads = 256 : i32
// CHECK-DAG: %[[THREAD:.*]] = nvvm.read.ptx.sreg.tid.x range <i32, 0, 256> : i32
// CHECK-DAG: nvvm.read.ptx.sreg.ctaid.x : i32
// CHECK: scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step %c1024
// CHECK: vector.load %[[X]][%[[I]]] {alignment = 16 : i64} : memref<100000xf32, 1>, vector<4xf32>
// CHECK: vector.store %{{.*}}, %[[Y]][%[[I]]] {alignment = 16 : i64} : memref<100000xf32, 1>, vector<4xf32>
func.func private @scale(%x: tensor<100000xf32>, %s: tensor<f32>)
    -> tensor<100000xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %y = mpc.mul %x, %s : (tensor<100000xf32>, tensor<f32>) -> tensor<100000xf32>
  return %y : tensor<100000xf32>
}

// The narrowest type decides the number of elements in 16 bytes. Each row has a
// team of 8 threads.
// CHECK-LABEL: func.func @bias(
// CHECK: vector.load {{.*}} {alignment = 16 : i64} : memref<64000xbf16, 1>, vector<8xbf16>
// CHECK: arith.extf {{.*}} : vector<8xbf16> to vector<8xf32>
// CHECK: vector.store {{.*}} {alignment = 16 : i64} : memref<64000xbf16, 1>, vector<8xbf16>
func.func private @bias(%x: tensor<1000x64xbf16>, %b: tensor<64xf32>)
    -> tensor<1000x64xbf16> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %y = mpc.add %x, %b : (tensor<1000x64xbf16>, tensor<64xf32>) -> tensor<1000x64xbf16>
  return %y : tensor<1000x64xbf16>
}

// A transpose goes through a tile whose rows are padded by one element.
// CHECK: memref.global "private" @turn_shared : memref<1056xbf16, 3>
// CHECK-LABEL: func.func @turn(
// CHECK: memref.load {{.*}} : memref<6000xbf16, 1>
// CHECK: nvvm.barrier0
// CHECK: memref.load {{.*}} : memref<1056xbf16, 3>
func.func private @turn(%x: tensor<60x100xbf16>) -> tensor<100x60xbf16>
    attributes {mpc.kernel = #mpc.kernel<movement>} {
  %0 = mpc.transpose %x {perm = array<i64: 1, 0>}
      : (tensor<60x100xbf16>) -> tensor<100x60xbf16>
  return %0 : tensor<100x60xbf16>
}

// From channels first to channels last, a tile holds all channels of some rows.
// CHECK: memref.global "private" @channels_last_shared : memref<2115xbf16, 3>
// CHECK-LABEL: func.func @channels_last(
func.func private @channels_last(%x: tensor<64x3x224x224xbf16>) -> tensor<64x224x224x3xbf16>
    attributes {mpc.kernel = #mpc.kernel<movement>} {
  %0 = mpc.transpose %x {perm = array<i64: 0, 2, 3, 1>}
      : (tensor<64x3x224x224xbf16>) -> tensor<64x224x224x3xbf16>
  return %0 : tensor<64x224x224x3xbf16>
}

// Without a library for float64, each thread computes one element of a row.
// CHECK-LABEL: func.func @product(
// CHECK: scf.for
// CHECK: memref.load {{.*}} : memref<600xf64, 1>
func.func private @product(%a: tensor<20x30xf64>, %b: tensor<30x40xf64>)
    -> tensor<20x40xf64> attributes {mpc.kernel = #mpc.kernel<contraction>} {
  %0 = mpc.matmul %a, %b : (tensor<20x30xf64>, tensor<30x40xf64>) -> tensor<20x40xf64>
  return %0 : tensor<20x40xf64>
}
