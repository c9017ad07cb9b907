// RUN: mpc-opt %s -mpc-expand-gradients | FileCheck %s

// The gradient of reading rows adds the rows to zeros.
// CHECK-LABEL: func @gather
// CHECK: %[[ZEROS:.*]] = mpc.constant {{.*}}dense<0.000000e+00> : tensor<9x4xf32>
// CHECK: mpc.scatter %[[ZEROS]], %arg1, %{{.*}} {axis = 0 : i64, {{.*}}reduction = #mpc.scatter<add>}
func.func @gather(%x: tensor<9x4xf32>, %i: tensor<3xi64>) -> tensor<9x4xf32> {
  %y = mpc.gather %x, %i {axis = 0 : i64} : (tensor<9x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  %g = mpc.gradient %y wrt %x : tensor<3x4xf32>, (tensor<9x4xf32>) -> (tensor<9x4xf32>)
  return %g : tensor<9x4xf32>
}

// The gradient of adding updates reads their rows; that of the data is whole.
// CHECK-LABEL: func @scatter
// CHECK: %[[DY:.*]] = mpc.gradient_seed
// CHECK: %[[DU:.*]] = mpc.gather %[[DY]], %arg1 {axis = 0 : i64{{.*}} -> tensor<3x4xf32>
// CHECK: return %[[DY]], %[[DU]]
func.func @scatter(%x: tensor<9x4xf32>, %i: tensor<3xi64>, %u: tensor<3x4xf32>) -> (tensor<9x4xf32>, tensor<3x4xf32>) {
  %y = mpc.scatter %x, %i, %u {axis = 0 : i64, reduction = #mpc.scatter<add>} : (tensor<9x4xf32>, tensor<3xi64>, tensor<3x4xf32>) -> tensor<9x4xf32>
  %g:2 = mpc.gradient %y wrt %x, %u : tensor<9x4xf32>, (tensor<9x4xf32>, tensor<3x4xf32>) -> (tensor<9x4xf32>, tensor<3x4xf32>)
  return %g#0, %g#1 : tensor<9x4xf32>, tensor<3x4xf32>
}
