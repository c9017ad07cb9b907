// RUN: mpc-opt %s -mpc-add-optimizer="freeze=^bn" | FileCheck %s --check-prefixes=CHECK,KEEP
// RUN: mpc-opt %s -mpc-add-optimizer="train=^w" | FileCheck %s --check-prefixes=CHECK,KEEP
// RUN: mpc-opt %s -mpc-add-optimizer="freeze=^bn.scale" | FileCheck %s --check-prefixes=CHECK,UPDATE
// RUN: mpc-opt %s -mpc-add-optimizer="freeze=^plain" | FileCheck %s --check-prefixes=CHECK,PLAIN

// If patterns freeze both scale and bias, a normalization uses and keeps its
// running statistics. Without parameters, the statistics' names are matched.
mpc.variable @w : tensor<8x3xf32> role parameter
mpc.variable @bn.scale : tensor<3xf32> role parameter
mpc.variable @bn.bias : tensor<3xf32> role parameter
mpc.variable @bn.mean : tensor<3xf32> role statistic
mpc.variable @bn.var : tensor<3xf32> role statistic
mpc.variable @plain.mean : tensor<3xf32> role statistic
mpc.variable @plain.var : tensor<3xf32> role statistic

// CHECK-LABEL: func @step
// KEEP-NOT: mpc.updates = @bn
// UPDATE-SAME: mpc.updates = @bn.mean}
// UPDATE-SAME: mpc.updates = @bn.var}
// PLAIN-SAME: mpc.updates = @bn.mean}
// PLAIN-NOT: mpc.updates = @plain
// KEEP: mpc.batch_norm_inference %{{.*}}, %[[SCALE:.*]], %{{.*}}, %{{.*}}, %{{.*}} {epsilon = 1.000000e-05 : f64}
// UPDATE: mpc.batch_norm %
// UPDATE-NOT: mpc.batch_norm_inference
// PLAIN: mpc.batch_norm %
// PLAIN: mpc.batch_norm_inference
func.func @step(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                %w: tensor<8x3xf32> {mpc.state = @w},
                %scale: tensor<3xf32> {mpc.state = @bn.scale}, %bias: tensor<3xf32> {mpc.state = @bn.bias},
                %mean: tensor<3xf32> {mpc.state = @bn.mean}, %var: tensor<3xf32> {mpc.state = @bn.var},
                %mean2: tensor<3xf32> {mpc.state = @plain.mean}, %var2: tensor<3xf32> {mpc.state = @plain.var})
    -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>},
        tensor<3xf32> {mpc.updates = @bn.mean}, tensor<3xf32> {mpc.updates = @bn.var},
        tensor<3xf32> {mpc.updates = @plain.mean}, tensor<3xf32> {mpc.updates = @plain.var}) {
  %one = mpc.constant dense<1.0> : tensor<3xf32>
  %zero = mpc.constant dense<0.0> : tensor<3xf32>
  %h = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
  %n, %m, %i, %rm, %rv = mpc.batch_norm %h, %scale, %bias, %mean, %var {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64}
      : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
     -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  %n2, %m2, %i2, %rm2, %rv2 = mpc.batch_norm %n, %one, %zero, %mean2, %var2 {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64}
      : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
     -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  %loss = mpc.reduce_mean %n2 {axes = array<i64: 0, 1>, keepdims = false} : (tensor<4x3xf32>) -> tensor<f32>
  return %loss, %rm, %rv, %rm2, %rv2 : tensor<f32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}
