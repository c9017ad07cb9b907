// RUN: mpc-opt %s --pass-pipeline="builtin.module(func.func(mpc-decompose))" | FileCheck %s
// RUN: mpc-opt %s --pass-pipeline="builtin.module(mpc-attach-target{name=sm_90},func.func(mpc-decompose))" | FileCheck %s

// The means of the ranks first. The variance is the mean of the ranks'
// variances plus the variance of their means.
// CHECK-LABEL: func.func @batch_norm
// CHECK: %[[ALL:.*]] = mpc.all_reduce mean %[[OWN:.*]] {mpc.phase = #mpc.phase<forward>} : (tensor<3xf32>) -> tensor<3xf32>
// CHECK: %[[APART:.*]] = mpc.sub %[[OWN]], %[[ALL]]
// CHECK: %[[SQUARE:.*]] = mpc.mul %[[APART]], %[[APART]]
// CHECK: %[[TERMS:.*]] = mpc.add %{{.*}}, %[[SQUARE]]
// CHECK: %[[VAR:.*]] = mpc.all_reduce mean %[[TERMS]]
// CHECK-NOT: mpc.all_reduce
// CHECK: mpc.add %[[VAR]], %{{.*}} : (tensor<3xf32>, tensor<f32>)
// CHECK: return
func.func @batch_norm(%x: tensor<2x4x4x3xf32>, %s: tensor<3xf32>, %b: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>)
    -> (tensor<2x4x4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %y, %mean, %inv, %rm, %rv = mpc.batch_norm %x, %s, %b, %m, %v {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64, layout = #mpc.layout<NHWC>, mpc.over_ranks, mpc.phase = #mpc.phase<forward>}
      : (tensor<2x4x4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
     -> (tensor<2x4x4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %y, %mean, %inv, %rm, %rv : tensor<2x4x4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// The unbiased variance counts the elements of all ranks: n / (n - 1) for n = 32
// elements a rank times the number of ranks.
// CHECK-LABEL: func.func @unbiased
// CHECK: %[[VAR:.*]] = mpc.all_reduce mean %{{.*}} : (tensor<3xf32>) -> tensor<3xf32>
// CHECK: %[[VAR:.*]] = mpc.all_reduce mean %{{.*}} : (tensor<3xf32>) -> tensor<3xf32>
// CHECK: %[[RANKS:.*]] = mpc.all_reduce sum %{{.*}} : (tensor<f32>) -> tensor<f32>
// CHECK: %[[OWN:.*]] = mpc.constant dense<3.200000e+01> : tensor<f32>
// CHECK: %[[N:.*]] = mpc.mul %[[RANKS]], %[[OWN]]
// CHECK: %[[OTHERS:.*]] = mpc.maximum
// CHECK: %[[FACTOR:.*]] = mpc.div %[[N]], %[[OTHERS]]
// CHECK: mpc.mul %[[VAR]], %[[FACTOR]]
func.func @unbiased(%x: tensor<2x4x4x3xf32>, %s: tensor<3xf32>, %b: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>)
    -> (tensor<2x4x4x3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %y, %mean, %inv, %rm, %rv = mpc.batch_norm %x, %s, %b, %m, %v {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64, layout = #mpc.layout<NHWC>, mpc.over_ranks, mpc.unbiased_running_var}
      : (tensor<2x4x4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
     -> (tensor<2x4x4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %y, %rm, %rv : tensor<2x4x4x3xf32>, tensor<3xf32>, tensor<3xf32>
}

// One message has both means. The gradients of scale and bias stay sums of the
// rank.
// CHECK-LABEL: func.func @gradient
// CHECK: %[[DB:.*]] = mpc.reshape %{{.*}} : (tensor<1x1x1x3xf32>) -> tensor<3xf32>
// CHECK: %[[DS:.*]] = mpc.reshape %{{.*}} : (tensor<1x1x1x3xf32>) -> tensor<3xf32>
// CHECK: %[[A:.*]] = mpc.mul %[[DB]], %
// CHECK: %[[B:.*]] = mpc.mul %[[DS]], %
// CHECK: mpc.all_reduce mean %[[A]], %[[B]] : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
// CHECK: return %{{.*}}, %[[DS]], %[[DB]]
func.func @gradient(%dy: tensor<2x4x4x3xf32>, %x: tensor<2x4x4x3xf32>, %s: tensor<3xf32>, %m: tensor<3xf32>, %i: tensor<3xf32>)
    -> (tensor<2x4x4x3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %dx, %ds, %db = mpc.batch_norm_grad %dy, %x, %s, %m, %i {layout = #mpc.layout<NHWC>, mpc.over_ranks}
      : (tensor<2x4x4x3xf32>, tensor<2x4x4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
     -> (tensor<2x4x4x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %dx, %ds, %db : tensor<2x4x4x3xf32>, tensor<3xf32>, tensor<3xf32>
}
