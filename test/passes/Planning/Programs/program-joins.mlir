// RUN: mpc-opt %s --mpc-attach-target=name=x86-64 --plan-build-programs | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --plan-build-programs | FileCheck %s --check-prefix=GPU

mpc.variable @w : tensor<4xf32> role parameter
mpc.variable @v : tensor<4xf32> role parameter

// Parts joined along the outermost axis are written in place. Inputs, and parts
// with other users, are copied there. On a GPU, whose kernels load vectors,
// parts must be at multiples of 16 bytes.
// CHECK-LABEL: plan.program @joins
// CHECK: %[[X:.*]] = plan.input "x"
// CHECK: %[[ALL:.*]] = plan.arena : memref<1x6x2xf32>
// CHECK: %[[FIRST:.*]] = plan.view %[[ALL]] at 0 : memref<1x6x2xf32> to memref<1x2x2xf32>
// CHECK: plan.launch @join_relu ins(%[[X]] {{.*}} outs(%[[FIRST]] :
// CHECK: plan.launch @join_relu ins(%[[X]] {{.*}} outs(%[[KEPT:.*]] :
// CHECK-NOT: plan.launch @join
// CHECK: %[[SECOND:.*]] = plan.view %[[ALL]] at 16 :
// CHECK: plan.copy %[[X]] to %[[SECOND]]
// CHECK: %[[THIRD:.*]] = plan.view %[[ALL]] at 32 :
// CHECK: plan.copy %[[KEPT]] to %[[THIRD]]
// CHECK-NOT: plan.launch @join
// CHECK: plan.output "y" role output %[[ALL]]
// GPU-LABEL: plan.program @joins
// GPU: plan.view %{{.*}} at 0 : memref<1x6x2xf32> to memref<1x2x2xf32>
// GPU: plan.output "y" role output
func.func @joins(%x: tensor<1x2x2xf32> {mpc.input = "x"})
    -> (tensor<1x6x2xf32> {mpc.output = "y"}, tensor<1x2x2xf32> {mpc.output = "z"}) {
  %0 = call @join_relu(%x) : (tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  %1 = call @join_relu(%x) : (tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  %2 = call @join(%0, %x, %1) : (tensor<1x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<1x6x2xf32>
  return %2, %1 : tensor<1x6x2xf32>, tensor<1x2x2xf32>
}
func.func private @join_relu(%x: tensor<1x2x2xf32>) -> tensor<1x2x2xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.relu %x : (tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  return %0 : tensor<1x2x2xf32>
}
func.func private @join(%a: tensor<1x2x2xf32>, %b: tensor<1x2x2xf32>, %c: tensor<1x2x2xf32>) -> tensor<1x6x2xf32> attributes {mpc.kernel = #mpc.kernel<movement>} {
  %0 = mpc.concat %a, %b, %c {axis = 1 : i64} : (tensor<1x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<1x6x2xf32>
  return %0 : tensor<1x6x2xf32>
}

// A value joined with itself needs a copy.
// CHECK-LABEL: plan.program @joined_twice
// CHECK: plan.launch @join_relu
// CHECK: plan.launch @twice
func.func @joined_twice(%x: tensor<1x2x2xf32> {mpc.input = "x"}) -> (tensor<1x4x2xf32> {mpc.output = "y"}) {
  %0 = call @join_relu(%x) : (tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  %1 = call @twice(%0) : (tensor<1x2x2xf32>) -> tensor<1x4x2xf32>
  return %1 : tensor<1x4x2xf32>
}
func.func private @twice(%a: tensor<1x2x2xf32>) -> tensor<1x4x2xf32> attributes {mpc.kernel = #mpc.kernel<movement>} {
  %0 = mpc.concat %a, %a {axis = 1 : i64} : (tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<1x4x2xf32>
  return %0 : tensor<1x4x2xf32>
}
