// RUN: mpc-opt %s --mpc-attach-target=name=x86-64 --plan-build-programs --plan-assign-offsets | FileCheck %s

mpc.variable @g : tensor<4xf32> role accumulator

// Kernels write gradients into the bucket, also through a reshape. An argument,
// and a value with other readers, is copied. Each operand starts at a cache
// line. The kernel that reads a reduced gradient never writes over the bucket.
// CHECK-LABEL: plan.program @buckets
// CHECK-DAG: %[[X:.*]] = plan.input "x"
// CHECK-DAG: %[[SUM:.*]] = plan.state @g
// CHECK: %[[BUCKET:.*]] = plan.arena at 0 : memref<52xf32>
// CHECK-DAG: %[[A:.*]] = plan.view %[[BUCKET]] at 0 : memref<52xf32> to memref<2x2xf32>
// CHECK-DAG: %[[A4:.*]] = plan.view %[[BUCKET]] at 0 : memref<52xf32> to memref<4xf32>
// CHECK-DAG: %[[B:.*]] = plan.view %[[BUCKET]] at 64 : memref<52xf32> to memref<4xf32>
// CHECK-DAG: %[[C:.*]] = plan.view %[[BUCKET]] at 128 : memref<52xf32> to memref<4xf32>
// CHECK-DAG: %[[D:.*]] = plan.view %[[BUCKET]] at 192 : memref<52xf32> to memref<4xf32>
// CHECK: plan.launch @relu ins(%[[X]] : memref<4xf32>) outs(%[[A4]] : memref<4xf32>)
// CHECK: plan.launch @relu ins(%[[X]] : memref<4xf32>) outs(%[[B]] : memref<4xf32>)
// CHECK: plan.launch @relu ins(%[[X]] : memref<4xf32>) outs(%[[KEPT:.*]] : memref<4xf32>)
// CHECK: plan.copy %[[KEPT]] to %[[C]]
// CHECK: plan.copy %[[SUM]] to %[[D]]
// CHECK: plan.all_reduce mean %[[BUCKET]] : memref<52xf32>
// CHECK-NOT: plan.copy
// CHECK: plan.launch @relu ins(%[[B]] : memref<4xf32>) outs(%[[Y:.*]] : memref<4xf32>)
// CHECK: plan.output "a" role output %[[A]]
// CHECK: plan.output "b" role output %[[Y]]
// CHECK: plan.output "c" role output %[[C]]
// CHECK: plan.output "d" role output %[[D]]
// CHECK: plan.output "kept" role output %[[KEPT]]
func.func @buckets(%x: tensor<4xf32> {mpc.input = "x"}, %sum: tensor<4xf32> {mpc.state = @g})
    -> (tensor<2x2xf32> {mpc.output = "a"}, tensor<4xf32> {mpc.output = "b"}, tensor<4xf32> {mpc.output = "c"},
        tensor<4xf32> {mpc.output = "d"}, tensor<4xf32> {mpc.output = "kept"}) {
  %0 = call @relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = mpc.reshape %0 : (tensor<4xf32>) -> tensor<2x2xf32>
  %2 = call @relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = call @relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %4:4 = mpc.all_reduce mean %1, %2, %3, %sum
      : (tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %5 = call @relu(%4#1) : (tensor<4xf32>) -> tensor<4xf32>
  return %4#0, %5, %4#2, %4#3, %3 : tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
func.func private @relu(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
