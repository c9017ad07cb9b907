// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// Four accumulators are summed in parallel, then across the lanes.
// CHECK-LABEL: func.func @sum(
// CHECK: %[[SUMS:.*]]:4 = scf.for {{.*}} iter_args({{.*}}) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>)
// CHECK-COUNT-4: vector.load
// CHECK: arith.addf %[[SUMS]]#0, %[[SUMS]]#1 : vector<8xf32>
// CHECK: vector.extract_strided_slice
func.func private @sum(%x: tensor<4x256xf32>) -> tensor<4x1xf32>
    attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %0 = mpc.reduce_sum %x {axes = array<i64: 1>, keepdims = true}
      : (tensor<4x256xf32>) -> tensor<4x1xf32>
  return %0 : tensor<4x1xf32>
}

// The exponentials of a row are computed once, with their sum: four vectors of
// 8 at a time, and one of 4. Results read them from scratch memory.
// CHECK-LABEL: func.func @softmax(
// CHECK-SAME: %[[SCRATCH:arg4]]: memref<448xi8>
// CHECK: %[[ROW:.*]] = memref.view %[[SCRATCH]]
// CHECK: arith.max
// CHECK-COUNT-4: math.exp %{{.*}} : vector<8xf32>
// CHECK: vector.store %{{.*}}, %[[ROW]]
// CHECK: math.exp %{{.*}} : vector<4xf32>
// CHECK: vector.store %{{.*}}, %[[ROW]]
// CHECK-NOT: math.exp
// CHECK: vector.load %[[ROW]]{{.*}} vector<8xf32>
// CHECK: arith.divf
// CHECK: vector.load %[[ROW]]{{.*}} vector<4xf32>
// CHECK: arith.divf
// CHECK: return
func.func private @softmax(%x: tensor<4x100xf32>) -> tensor<4x100xf32>
    attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %m = mpc.reduce_max %x {axes = array<i64: 1>, keepdims = true} : (tensor<4x100xf32>) -> tensor<4x1xf32>
  %d = mpc.sub %x, %m : (tensor<4x100xf32>, tensor<4x1xf32>) -> tensor<4x100xf32>
  %e = mpc.exp %d : (tensor<4x100xf32>) -> tensor<4x100xf32>
  %s = mpc.reduce_sum %e {axes = array<i64: 1>, keepdims = true} : (tensor<4x100xf32>) -> tensor<4x1xf32>
  %y = mpc.div %e, %s : (tensor<4x100xf32>, tensor<4x1xf32>) -> tensor<4x100xf32>
  return %y : tensor<4x100xf32>
}
