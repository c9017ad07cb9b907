// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(plan-form-buckets))" | FileCheck %s

// A bucket keeps the owner of each member. Reductions for all ranks have a
// bucket of their own.
// CHECK-LABEL: func.func @owners
// CHECK: mpc.all_reduce mean %arg1 : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: mpc.all_reduce mean %arg0, %arg2 owners [@v, @w] : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
mpc.variable @v : tensor<4xf32> role parameter
mpc.variable @w : tensor<4xf32> role parameter
func.func @owners(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = mpc.all_reduce mean %a owners [@v] : (tensor<4xf32>) -> tensor<4xf32>
  %1 = mpc.all_reduce mean %b : (tensor<4xf32>) -> tensor<4xf32>
  %2 = mpc.all_reduce mean %c owners [@w] : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
