// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --mpc-emit-kernels --cse --canonicalize | FileCheck %s

// A vector of classes is compared with the label of the row.
// CHECK-LABEL: func.func @one_hot(
// CHECK-DAG: %[[CLASSES:.*]] = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7]> : vector<8xi64>
// CHECK: %[[LABEL:.*]] = memref.load
// CHECK-NEXT: %[[ROW:.*]] = vector.broadcast %[[LABEL]]
// CHECK-NEXT: %[[HOT:.*]] = arith.cmpi eq, %[[ROW]], %[[CLASSES]]
// CHECK-NEXT: arith.select %[[HOT]]
func.func private @one_hot(%x: tensor<16xi64>) -> tensor<16x8xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.one_hot %x {axis = 1 : i64, depth = 8 : i64} : (tensor<16xi64>) -> tensor<16x8xf32>
  return %0 : tensor<16x8xf32>
}

// Philox draws four numbers per group: a vector of eight elements has two groups.
// The id of the op is in the counter, and the seed and the micro-step are loaded
// once.
// CHECK-LABEL: func.func @drop(
// CHECK: %[[SEED:.*]] = memref.load %arg1
// CHECK-NEXT: %[[STEP:.*]] = memref.load %arg2
// CHECK: scf.for
// CHECK: arith.shrui %{{.*}}, %c2_i64 : i64
// CHECK: vector.broadcast %[[SEED]] : i64 to vector<2xi64>
// CHECK: vector.broadcast %[[STEP]] : i64 to vector<2xi64>
// CHECK: arith.select %{{.*}} : vector<8xi1>, vector<8xf32>
func.func private @drop(%x: tensor<64xf32>, %seed: tensor<i64>, %step: tensor<i64>)
    -> tensor<64xf32>
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.dropout %x, %seed, %step {id = 7 : i64, ratio = 0.5 : f64} : (tensor<64xf32>, tensor<i64>, tensor<i64>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
