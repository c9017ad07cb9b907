// A GPU kernel whose segments compute alike.
// RUN: mpc-opt %s --mpc-codegen=target=sm_90 | FileCheck %s

// Selecting one of four segments takes two of three comparisons. The two halves
// stay separate although their code is alike: shared code would hold the
// buffers of both in registers.
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
