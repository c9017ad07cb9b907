// RUN: mpc-opt %s -split-input-file -amp-insert-loss-scaling="loss-scale=dynamic init-scale=1024 growth-interval=5 hysteresis=2" | FileCheck %s --check-prefixes=CHECK,SCALED,DYNAMIC
// RUN: mpc-opt %s -split-input-file -amp-insert-loss-scaling="loss-scale=128" | FileCheck %s --check-prefixes=CHECK,SCALED,STATIC
// RUN: mpc-opt %s -split-input-file -amp-insert-loss-scaling | FileCheck %s --check-prefixes=CHECK,NONE

// DYNAMIC: amp.loss_scale = #amp.loss_scale<dynamic>
// STATIC: amp.loss_scale = #amp.loss_scale<static>
// NONE: amp.loss_scale = #amp.loss_scale<none>

// DYNAMIC: mpc.variable @mpc.loss_scale : tensor<f32> role loss_scale fill 1.024000e+03
// DYNAMIC: mpc.variable @mpc.good_steps : tensor<i64> role loss_scale{{$}}
// DYNAMIC: mpc.variable @mpc.hysteresis : tensor<i64> role loss_scale fill 2.000000e+00
// STATIC-NOT: role loss_scale
// NONE-NOT: role loss_scale
mpc.variable @w : tensor<8xf32> role parameter
mpc.variable @mean : tensor<8xf32> role statistic
mpc.variable @mpc.step : tensor<i64> role counter
mpc.variable @mpc.micro_step : tensor<i64> role counter

// CHECK-LABEL: func @step
// DYNAMIC-SAME: %[[SCALE:[a-z0-9]+]]: tensor<f32> {mpc.state = @mpc.loss_scale}
// DYNAMIC-SAME: %[[GOOD:[a-z0-9]+]]: tensor<i64> {mpc.state = @mpc.good_steps}
// DYNAMIC-SAME: %[[LEFT:[a-z0-9]+]]: tensor<i64> {mpc.state = @mpc.hysteresis}
// DYNAMIC-SAME: {mpc.updates = @mpc.loss_scale}
// DYNAMIC-SAME: {mpc.updates = @mpc.good_steps}
// DYNAMIC-SAME: {mpc.updates = @mpc.hysteresis}
// SCALED-SAME: tensor<i1> {mpc.output = "finite", mpc.role = #mpc.role<finite>}
// SCALED-SAME: tensor<f32> {mpc.output = "loss_scale", mpc.role = #mpc.role<loss_scale>}
// NONE-NOT: finite
func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %mean: tensor<8xf32> {mpc.state = @mean},
                %step: tensor<i64> {mpc.state = @mpc.step}, %micro: tensor<i64> {mpc.state = @mpc.micro_step},
                %lr: tensor<f32>)
    -> (tensor<8xf32> {mpc.updates = @w}, tensor<8xf32> {mpc.updates = @mean},
        tensor<i64> {mpc.updates = @mpc.step}, tensor<i64> {mpc.updates = @mpc.micro_step}) {
  // The count of updates is known only after the gradients.
  %next = mpc.increment %step : (tensor<i64>) -> tensor<i64>
  // STATIC: %[[SCALE:.*]] = mpc.constant dense<1.280000e+02> : tensor<f32>
  // SCALED: %[[ONE:.*]] = mpc.constant dense<1.000000e+00> : tensor<f32>
  // NONE: %[[ONE:.*]] = mpc.constant {amp.seed} dense<1.000000e+00> : tensor<f32>
  // SCALED: %[[SEED:.*]] = amp.scale_loss %[[ONE]], %[[SCALE]]
  // SCALED: %[[G:.*]] = mpc.mul %{{.*}}, %[[SEED]]
  // NONE: %[[G:.*]] = mpc.mul %{{.*}}, %[[ONE]]
  %seed = mpc.gradient_seed : tensor<f32>
  %g = mpc.mul %w, %seed {mpc.phase = #mpc.phase<backward>} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  // Gradients are unscaled once, before clipping.
  // SCALED: %[[U:.*]] = amp.unscale %[[G]], %[[SCALE]]
  // SCALED-NOT: amp.unscale
  // Statistics advance while they are finite. The count of forward passes
  // always does.
  // CHECK: %[[MEAN:.*]] = mpc.add %{{.*}}, %{{.*}} : (tensor<8xf32>, tensor<8xf32>)
  // SCALED: %[[INF:.*]] = mpc.is_inf %[[MEAN]]
  // SCALED: %[[NAN:.*]] = mpc.is_nan %[[MEAN]]
  // SCALED: %[[BROKEN:.*]] = mpc.or %[[INF]], %[[NAN]]
  // SCALED: mpc.select %[[BROKEN]], %arg1, %[[MEAN]]
  // NONE-NOT: mpc.is_inf
  %mean1 = mpc.add %mean, %w : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  // CHECK: mpc.increment %{{[a-z0-9]+}} : (tensor<i64>) -> tensor<i64>
  %micro1 = mpc.increment %micro : (tensor<i64>) -> tensor<i64>
  // SCALED: mpc.clip_grad_norm %[[U]]
  // NONE: mpc.clip_grad_norm %[[G]]
  // SCALED: %[[OK:.*]] = amp.all_finite %[[U]]
  // DYNAMIC: amp.update_scale %[[SCALE]], %[[GOOD]], %[[LEFT]], %[[OK]] {backoff_factor = 5.000000e-01 : f64, growth_factor = 2.000000e+00 : f64, growth_interval = 5 : i64, hysteresis = 2 : i64
  // STATIC-NOT: amp.update_scale
  // SCALED: mpc.increment %{{.*}}, %[[OK]]
  %clipped, %norm = mpc.clip_grad_norm %g {max_norm = 1.0 : f64} : (tensor<8xf32>) -> (tensor<8xf32>, tensor<f32>)
  // SCALED: mpc.sgd %{{.*}}, %{{.*}}, %{{.*}}, %[[OK]]
  // NONE: mpc.sgd %{{.*}} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>)
  %w1 = mpc.sgd %w, %clipped, %lr : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %w1, %mean1, %next, %micro1 : tensor<8xf32>, tensor<8xf32>, tensor<i64>, tensor<i64>
}

// -----

// Accumulators hold scaled sums, which the update unscales when it reads them.
// The scale changes there too.
mpc.variable @w : tensor<8xf32> role parameter
mpc.variable @w.grad : tensor<8xf32> role accumulator

// CHECK-LABEL: func @accumulate
// SCALED-NOT: mpc.updates = @mpc.loss_scale
// SCALED-NOT: amp.unscale
func.func @accumulate(%w: tensor<8xf32> {mpc.state = @w}, %acc: tensor<8xf32> {mpc.state = @w.grad})
    -> (tensor<8xf32> {mpc.updates = @w.grad}) {
  %seed = mpc.gradient_seed : tensor<f32>
  // SCALED: amp.scale_loss
  %g = mpc.mul %w, %seed {mpc.phase = #mpc.phase<backward>} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %sum = mpc.add %acc, %g {mpc.phase = #mpc.phase<optimizer>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %sum : tensor<8xf32>
}
// CHECK-LABEL: func @update
func.func @update(%w: tensor<8xf32> {mpc.state = @w}, %acc: tensor<8xf32> {mpc.state = @w.grad}, %lr: tensor<f32>)
    -> (tensor<8xf32> {mpc.updates = @w}, tensor<8xf32> {mpc.updates = @w.grad}) {
  %zero = mpc.constant dense<0.0> : tensor<8xf32>
  // SCALED: %[[U:.*]] = amp.unscale %{{.*}}, %{{.*}} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  // SCALED: amp.all_finite %[[U]]
  // DYNAMIC: amp.update_scale
  // SCALED: mpc.sgd %{{.*}}, %[[U]], %{{.*}}, %{{.*}} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>)
  // NONE: mpc.sgd %{{.*}} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>)
  %w1 = mpc.sgd %w, %acc, %lr : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %w1, %zero : tensor<8xf32>, tensor<8xf32>
}

// -----

// An update is any op that writes a parameter or an optimizer's state: here w *
// exp(-g), an average of w, and a rate that is independent of gradients. The
// gradient is unscaled at the start of the update, and its state is guarded at
// the end.
mpc.variable @w : tensor<8xf32> role parameter
mpc.variable @w.average : tensor<8xf32> role optimizer_state
mpc.variable @rate : tensor<f32> role optimizer_state
mpc.variable @mean : tensor<8xf32> role statistic

// CHECK-LABEL: func @step
func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %average: tensor<8xf32> {mpc.state = @w.average},
                %rate: tensor<f32> {mpc.state = @rate}, %mean: tensor<8xf32> {mpc.state = @mean})
    -> (tensor<8xf32> {mpc.updates = @w}, tensor<8xf32> {mpc.updates = @w.average},
        tensor<f32> {mpc.updates = @rate}, tensor<8xf32> {mpc.updates = @mean}) {
  // SCALED: %[[G:.*]] = mpc.mul %{{.*}}, %{{.*}} {mpc.phase = #mpc.phase<backward>}
  // SCALED: %[[U:.*]] = amp.unscale %[[G]]
  // SCALED-NOT: amp.unscale
  %seed = mpc.gradient_seed : tensor<f32>
  %g = mpc.mul %w, %seed {mpc.phase = #mpc.phase<backward>} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  // SCALED: mpc.neg %[[U]]
  // NONE: mpc.neg
  %n = mpc.neg %g {mpc.phase = #mpc.phase<optimizer>} : (tensor<8xf32>) -> tensor<8xf32>
  %e = mpc.exp %n {mpc.phase = #mpc.phase<optimizer>} : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: %[[W:.*]] = mpc.mul
  %w1 = mpc.mul %w, %e {mpc.phase = #mpc.phase<optimizer>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  // CHECK: %[[AVERAGE:.*]] = mpc.add
  %average1 = mpc.add %average, %w1 {mpc.phase = #mpc.phase<optimizer>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  // CHECK: %[[RATE:.*]] = mpc.mul
  %rate1 = mpc.mul %rate, %rate {mpc.phase = #mpc.phase<optimizer>} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  // CHECK: %[[MEAN:.*]] = mpc.sub
  // SCALED: %[[MEAN1:.*]] = mpc.select %{{.*}}, %arg3, %[[MEAN]]
  %mean1 = mpc.sub %mean, %w : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  // SCALED: %[[OK:.*]] = amp.all_finite %[[U]] {{.*}} : (tensor<8xf32>) -> tensor<i1>
  // SCALED: %[[W1:.*]] = mpc.select %[[OK]], %[[W]], %arg0
  // SCALED: %[[AVERAGE1:.*]] = mpc.select %[[OK]], %[[AVERAGE]], %arg1
  // SCALED: %[[RATE1:.*]] = mpc.select %[[OK]], %[[RATE]], %arg2
  // SCALED: return %[[W1]], %[[AVERAGE1]], %[[RATE1]], %[[MEAN1]]
  // NONE: return %[[W]], %[[AVERAGE]], %[[RATE]], %[[MEAN]]
  return %w1, %average1, %rate1, %mean1 : tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<8xf32>
}

// -----

// An optimizer op's condition keeps its own parameter. A variable that receives
// another's new value therefore needs its own guard. A count that the forward
// pass reads cannot wait for that pass's gradients.
mpc.variable @w : tensor<8xf32> role parameter
mpc.variable @copy : tensor<8xf32> role optimizer_state
mpc.variable @count : tensor<i64> role counter

// CHECK-LABEL: func @step
func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %copy: tensor<8xf32> {mpc.state = @copy},
                %count: tensor<i64> {mpc.state = @count}, %lr: tensor<f32>)
    -> (tensor<8xf32> {mpc.updates = @w}, tensor<8xf32> {mpc.updates = @copy},
        tensor<i64> {mpc.updates = @count}) {
  // CHECK: %[[NEXT:.*]] = mpc.increment %arg2 : (tensor<i64>) -> tensor<i64>
  %next = mpc.increment %count : (tensor<i64>) -> tensor<i64>
  // CHECK: mpc.cast %[[NEXT]]
  %x = mpc.cast %next : (tensor<i64>) -> tensor<f32>
  %seed = mpc.gradient_seed : tensor<f32>
  %s = mpc.mul %seed, %x {mpc.phase = #mpc.phase<backward>} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %g = mpc.mul %w, %s {mpc.phase = #mpc.phase<backward>} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  // SCALED: %[[OK:.*]] = amp.all_finite
  // SCALED-DAG: %[[W1:.*]] = mpc.sgd %arg0, %{{.*}}, %arg3, %[[OK]]
  // SCALED-DAG: %[[COUNT1:.*]] = mpc.increment %arg2, %[[OK]]
  // SCALED-DAG: %[[COPY1:.*]] = mpc.select %[[OK]], %[[W1]], %arg1
  // SCALED: return %[[W1]], %[[COPY1]], %[[COUNT1]]
  %w1 = mpc.sgd %w, %g, %lr : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %w1, %w1, %next : tensor<8xf32>, tensor<8xf32>, tensor<i64>
}

// -----

// The model's own condition is combined with that of finite gradients.
// CHECK-LABEL: func @update_with_a_condition
// SCALED: %[[FINITE:.*]] = amp.all_finite
// SCALED: %[[BOTH:.*]] = mpc.and %[[FINITE]], %arg2 {mpc.phase = #mpc.phase<optimizer>} : (tensor<i1>, tensor<i1>) -> tensor<i1>
// SCALED: mpc.sgd %{{.*}}, %{{.*}}, %{{.*}}, %[[BOTH]]
// NONE: mpc.sgd %{{.*}}, %{{.*}}, %{{.*}}, %arg2
mpc.variable @w : tensor<8xf32> role parameter
func.func @update_with_a_condition(%w: tensor<8xf32> {mpc.state = @w}, %lr: tensor<f32>, %ok: tensor<i1>) -> (tensor<8xf32> {mpc.updates = @w}) {
  %seed = mpc.gradient_seed : tensor<f32>
  %g = mpc.mul %w, %seed : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %w1 = mpc.sgd %w, %g, %lr, %ok : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
  return %w1 : tensor<8xf32>
}
