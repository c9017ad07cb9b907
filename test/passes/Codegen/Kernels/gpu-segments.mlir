// A kernel of a GPU whose segments compute alike.
// RUN: mpc-opt %s --mpc-codegen=target=sm_90 | FileCheck %s

// Which of four segments a block works on takes two of three comparisons. The
// two halves of the choice stay apart, alike as they are: one piece of code for
// both would have the buffers of either half in registers.
// CHECK-LABEL: llvm.func @update(
// CHECK: %[[MIDDLE:.*]] = llvm.icmp "uge" %[[FIRST:.*]], %{{.*}} : i32
// CHECK-NEXT: llvm.cond_br %[[MIDDLE]], ^[[UPPER:bb[0-9]+]], ^[[LOWER:bb[0-9]+]]
// CHECK: ^[[UPPER]]:
// CHECK: %[[LAST:.*]] = llvm.icmp "uge" %[[FIRST]], %{{.*}} : i32
// CHECK: llvm.cond_br %[[LAST]]
// CHECK: ^[[LOWER]]:
// CHECK: %[[SECOND:.*]] = llvm.icmp "uge" %[[FIRST]], %{{.*}} : i32
// CHECK: llvm.cond_br %[[SECOND]]
func.func @update(%a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>, %d: tensor<8xf32>, %g: tensor<8xf32>, %lr: tensor<f32>)
    -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.region pointwise(%a, %g, %lr) : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32> {
  ^bb0(%p: tensor<8xf32>, %h: tensor<8xf32>, %r: tensor<f32>):
    %n = mpc.sgd %p, %h, %r : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    mpc.yield %n : tensor<8xf32>
  }
  %1 = mpc.region pointwise(%b, %g, %lr) : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32> {
  ^bb0(%p: tensor<8xf32>, %h: tensor<8xf32>, %r: tensor<f32>):
    %n = mpc.sgd %p, %h, %r : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    mpc.yield %n : tensor<8xf32>
  }
  %2 = mpc.region pointwise(%c, %g, %lr) : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32> {
  ^bb0(%p: tensor<8xf32>, %h: tensor<8xf32>, %r: tensor<f32>):
    %n = mpc.sgd %p, %h, %r : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    mpc.yield %n : tensor<8xf32>
  }
  %3 = mpc.region pointwise(%d, %g, %lr) : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32> {
  ^bb0(%p: tensor<8xf32>, %h: tensor<8xf32>, %r: tensor<f32>):
    %n = mpc.sgd %p, %h, %r : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    mpc.yield %n : tensor<8xf32>
  }
  return %0, %1, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
