// RUN: mpc-opt %s --pass-pipeline="builtin.module(mpc-attach-target{name=sm_80},func.func(mpc-form-regions))" | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline="builtin.module(mpc-attach-target{name=x86-64-v3},func.func(mpc-form-regions))" | FileCheck %s --check-prefix=CPU

// On a GPU, second steps of sums share a launch even with no operand in common.
// One that needs another's result does not.
// CHECK-LABEL: func.func @second_steps
// CHECK: %[[A:.*]] = mpc.region column_reduce(%arg0)
// CHECK: %[[B:.*]] = mpc.region column_reduce(%arg1)
// CHECK: %[[S:.*]]:2 = mpc.region column_reduce(%[[A]], %[[B]])
// CHECK: mpc.reduce_sum
// CHECK-NEXT: mpc.reduce_max
// CHECK: mpc.region column_reduce(%arg2, %[[S]]#0)
// CHECK: mpc.region column_reduce
// CHECK-NOT: mpc.region
// CHECK: return
// CPU-LABEL: func.func @second_steps
// CPU-COUNT-6: mpc.region column_reduce
func.func @second_steps(%x: tensor<512x8xf32>, %y: tensor<512x8xf32>, %z: tensor<512x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>) {
  %0 = mpc.reduce_sum %x {axes = array<i64: 0>, keepdims = true, parts = 4 : i64} : (tensor<512x8xf32>) -> tensor<4x8xf32>
  %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %2 = mpc.reduce_max %y {axes = array<i64: 0>, keepdims = true, parts = 4 : i64} : (tensor<512x8xf32>) -> tensor<4x8xf32>
  %3 = mpc.reduce_max %2 {axes = array<i64: 0>, keepdims = true} : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %4 = mpc.sub %z, %1 : (tensor<512x8xf32>, tensor<1x8xf32>) -> tensor<512x8xf32>
  %5 = mpc.reduce_sum %4 {axes = array<i64: 0>, keepdims = true, parts = 4 : i64} : (tensor<512x8xf32>) -> tensor<4x8xf32>
  %6 = mpc.reduce_sum %5 {axes = array<i64: 0>, keepdims = true} : (tensor<4x8xf32>) -> tensor<1x8xf32>
  return %1, %3, %6 : tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>
}
