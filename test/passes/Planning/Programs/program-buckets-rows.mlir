// RUN: mpc-opt %s --mpc-attach-target=name=x86-64 --plan-build-programs --plan-assign-offsets | FileCheck %s

// The step knows the length of a row: the elements behind axis 0.
// CHECK-LABEL: plan.program @tables
// CHECK: plan.all_reduce mean %{{.*}} {row_elements = 6 : i64} : memref<24xf32>
// CHECK: plan.all_reduce mean %{{.*}} {row_elements = 1 : i64} : memref<4xf32>
// CHECK: plan.all_reduce mean %{{.*}} : memref<4xf32>
func.func @tables(%x: tensor<4x2x3xf32> {mpc.input = "x"}, %y: tensor<4xf32> {mpc.input = "y"})
    -> (tensor<4x2x3xf32> {mpc.output = "a"}, tensor<4xf32> {mpc.output = "b"}, tensor<4xf32> {mpc.output = "c"}) {
  %0 = mpc.all_reduce mean %x rows : (tensor<4x2x3xf32>) -> tensor<4x2x3xf32>
  %1 = mpc.all_reduce mean %y rows : (tensor<4xf32>) -> tensor<4xf32>
  %2 = mpc.all_reduce mean %y : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1, %2 : tensor<4x2x3xf32>, tensor<4xf32>, tensor<4xf32>
}
