// RUN: mpc-opt %s -mpc-add-optimizer=optimizer=sgd | FileCheck %s --check-prefixes=CHECK,SGD
// RUN: mpc-opt %s -mpc-add-optimizer=optimizer=nesterov | FileCheck %s --check-prefix=NESTEROV
// RUN: mpc-opt %s -mpc-add-optimizer=optimizer=adam | FileCheck %s --check-prefix=ADAM
// RUN: mpc-opt %s -mpc-add-optimizer="optimizer=adamw clip-norm=0.5" | FileCheck %s --check-prefixes=CHECK,ADAMW
// RUN: mpc-opt %s -mpc-add-optimizer=optimizer=adagrad | FileCheck %s --check-prefix=ADAGRAD
// RUN: mpc-opt %s -mpc-add-optimizer="optimizer=rmsprop momentum=0.9" | FileCheck %s --check-prefix=MOMENTOUS
// RUN: mpc-opt %s -mpc-add-optimizer=optimizer=rmsprop | FileCheck %s --check-prefix=RMSPROP --implicit-check-not=.velocity --implicit-check-not="@w.m :"
// RUN: mpc-opt %s -mpc-add-optimizer="optimizer=rmsprop centered=1" | FileCheck %s --check-prefix=CENTERED
// RUN: mpc-opt %s -mpc-add-optimizer=optimizer=lamb | FileCheck %s --check-prefix=LAMB
// RUN: mpc-opt %s -mpc-add-optimizer=optimizer=lion | FileCheck %s --check-prefix=LION
// RUN: mpc-opt %s -mpc-add-optimizer="train=^w" | FileCheck %s --check-prefix=TRAIN
// RUN: mpc-opt %s -mpc-add-optimizer="freeze=^w" | FileCheck %s --check-prefix=FREEZE

// The optimizer trains the parameters that affect the loss.
// SGD: mpc.variable @w : tensor<8x3xf32> role parameter
// SGD: mpc.variable @b : tensor<3xf32> role parameter
// SGD: mpc.variable @gain : tensor<1xf32> role frozen
// SGD: mpc.variable @unused : tensor<3xf32> role frozen
// TRAIN: mpc.variable @w : tensor<8x3xf32> role parameter
// TRAIN: mpc.variable @b : tensor<3xf32> role frozen
// FREEZE: mpc.variable @w : tensor<8x3xf32> role frozen
// FREEZE: mpc.variable @b : tensor<3xf32> role parameter
mpc.variable @w : tensor<8x3xf32> role parameter
mpc.variable @b : tensor<3xf32> role parameter
mpc.variable @gain : tensor<1xf32> role frozen
mpc.variable @unused : tensor<3xf32> role parameter

// NESTEROV: mpc.variable @w.velocity : tensor<8x3xf32> role optimizer_state
// ADAGRAD: mpc.variable @b.h : tensor<3xf32> role optimizer_state
// ADAMW: mpc.variable @w.m : tensor<8x3xf32> role optimizer_state
// ADAMW: mpc.variable @w.v : tensor<8x3xf32> role optimizer_state
// CHECK: mpc.variable @mpc.step : tensor<i64> role counter
// CHECK: mpc.variable @mpc.micro_step : tensor<i64> role counter

// CHECK-LABEL: func @step
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8x3xf32> {mpc.state = @w}
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<3xf32> {mpc.state = @b}
// CHECK-SAME: %[[STEP:[a-z0-9]+]]: tensor<i64> {mpc.state = @mpc.step}
// CHECK-SAME: %[[LR:[a-z0-9]+]]: tensor<f32> {mpc.input = "learning_rate", mpc.role = #mpc.role<scalar>}
// SGD-SAME: -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}, tensor<8x3xf32> {mpc.updates = @w}, tensor<3xf32> {mpc.updates = @b}, tensor<i64> {mpc.updates = @mpc.step}, tensor<i64> {mpc.updates = @mpc.micro_step})
// ADAMW-SAME: tensor<f32> {mpc.output = "grad_norm", mpc.role = #mpc.role<grad_norm>}
// CHECK: %[[G:.*]]:2 = mpc.gradient %{{.*}} wrt %[[W]], %[[B]]

// SGD: %[[NEXT:.*]] = mpc.increment %[[STEP]] {mpc.phase = #mpc.phase<optimizer>}
// SGD: mpc.sgd %[[W]], %[[G]]#0, %[[LR]] {mpc.phase = #mpc.phase<optimizer>}
// SGD: mpc.sgd %[[B]], %[[G]]#1, %[[LR]]
// NESTEROV: mpc.momentum %{{.*}} {momentum = 9.000000e-01 : f64, mpc.phase = #mpc.phase<optimizer>, nesterov = true}
// ADAM: mpc.adam %{{.*}} {beta1 = 9.000000e-01 : f64, beta2 = {{0.9989[0-9]*}} : f64, epsilon = 1.000000e-08 : f64, mpc.phase = #mpc.phase<optimizer>}
// ADAMW: %[[C:.*]]:2, %{{.*}} = mpc.clip_grad_norm %[[G]]#0, %[[G]]#1 {max_norm = 5.000000e-01 : f64
// ADAMW: %[[NEXT:.*]] = mpc.increment %[[STEP]]
// ADAMW: mpc.adam %[[W]], %[[C]]#0, %{{.*}}, %{{.*}}, %[[LR]], %[[NEXT]] {{{.*}}decay_mode = #mpc.decay<decoupled>{{.*}}weight_decay = 1.000000e-02 : f64}
// ADAGRAD: mpc.adagrad %{{.*}} {epsilon = 1.000000e-10 : f64

// RMSprop keeps the state that its settings need.
// RMSPROP: mpc.variable @w.v : tensor<8x3xf32> role optimizer_state
// RMSPROP: mpc.rmsprop %{{.*}} {alpha = {{0.98[0-9]*}} : f64, epsilon = 1.000000e-08 : f64
// MOMENTOUS: mpc.variable @w.velocity : tensor<8x3xf32> role optimizer_state
// MOMENTOUS: mpc.rmsprop %{{.*}} momentum = 9.000000e-01 : f64
// CENTERED-DAG: mpc.variable @w.m : tensor<8x3xf32> role optimizer_state
// CENTERED-DAG: mpc.variable @w.v : tensor<8x3xf32> role optimizer_state
// CENTERED: mpc.rmsprop %{{.*}} centered = true

// Lion steps along the signs of an average, and has a beta2 of 0.99.
// LION: mpc.variable @w.m : tensor<8x3xf32> role optimizer_state
// LION: %[[BETA1:.*]] = mpc.constant {{.*}}dense<0.899999976> : tensor<f32>
// LION: %[[SIGN:.*]] = mpc.sign
// LION: mpc.sgd %{{.*}}, %[[SIGN]], %{{.*}}
// LION: mpc.constant {{.*}}dense<9.900000e-01> : tensor<f32>
// LION: return

// LAMB scales Adam's step by |p| / |step|.
// LAMB: %[[ONE:.*]] = mpc.constant {{.*}}dense<1.000000e+00> : tensor<f32>
// LAMB: %[[P:.*]], %{{.*}}, %{{.*}} = mpc.adam %[[W:.*]], %{{.*}}, %{{.*}}, %{{.*}}, %[[ONE]],
// LAMB: %[[R:.*]] = mpc.sub %[[W]], %[[P]]
// LAMB: %[[RATIO:.*]] = mpc.div
// LAMB: %[[RATE:.*]] = mpc.mul %{{.*}}, %{{.*}} : (tensor<f32>, tensor<f32>)
// LAMB: %[[SCALED:.*]] = mpc.mul %[[R]], %[[RATE]]
// LAMB: mpc.sub %[[W]], %[[SCALED]]
func.func @step(%x: tensor<4x8xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                %w: tensor<8x3xf32> {mpc.state = @w}, %b: tensor<3xf32> {mpc.state = @b},
                %gain: tensor<1xf32> {mpc.state = @gain}, %unused: tensor<3xf32> {mpc.state = @unused})
    -> (tensor<f32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}) {
  %0 = mpc.gemm %x, %w, %b : (tensor<4x8xf32>, tensor<8x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %1 = mpc.mul %0, %gain : (tensor<4x3xf32>, tensor<1xf32>) -> tensor<4x3xf32>
  %2 = mpc.reduce_mean %1 {axes = array<i64: 0, 1>} : (tensor<4x3xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}
