// RUN: mpc-opt %s -amp-insert-master-weights | FileCheck %s

// CHECK: mpc.variable @w.low : tensor<8xbf16> role derived
// CHECK: mpc.variable @f.low : tensor<8xbf16> role derived
// CHECK-NOT: @s.low
mpc.variable @w : tensor<8xf32> role parameter
mpc.variable @f : tensor<8xf32> role frozen
mpc.variable @s : tensor<8xf32> role statistic

// Users read the copy instead of the cast, and the update writes it with the master.
// CHECK-LABEL: func @step
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8xf32> {mpc.state = @w}
// CHECK-SAME: %[[WLOW:[a-z0-9]+]]: tensor<8xbf16> {mpc.state = @w.low}
// CHECK-SAME: %[[FLOW:[a-z0-9]+]]: tensor<8xbf16> {mpc.state = @f.low}
// CHECK-SAME: tensor<8xbf16> {mpc.updates = @w.low}
func.func @step(%w: tensor<8xf32> {mpc.state = @w}, %f: tensor<8xf32> {mpc.state = @f},
                %s: tensor<8xf32> {mpc.state = @s}, %lr: tensor<f32>)
    -> (tensor<8xf32> {mpc.updates = @w}) {
  %0 = amp.cast %w : (tensor<8xf32>) -> tensor<8xbf16>
  %1 = amp.cast %f : (tensor<8xf32>) -> tensor<8xbf16>
  // CHECK: amp.cast %{{.*}} : (tensor<8xf32>) -> tensor<8xbf16>
  %2 = amp.cast %s : (tensor<8xf32>) -> tensor<8xbf16>
  // CHECK: mpc.add %[[WLOW]], %[[FLOW]]
  %3 = mpc.add %0, %1 : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<8xf32>
  %4 = mpc.add %3, %2 : (tensor<8xf32>, tensor<8xbf16>) -> tensor<8xf32>
  // CHECK: %[[NEW:.*]] = mpc.sgd %[[W]]
  // CHECK: %[[NEWLOW:.*]] = amp.cast %[[NEW]]
  // CHECK: return %[[NEW]], %[[NEWLOW]]
  %5 = mpc.sgd %w, %4, %lr : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %5 : tensor<8xf32>
}

// CHECK-LABEL: func @eval
// CHECK-SAME: {mpc.state = @w.low}
// CHECK-NOT: amp.cast
// CHECK: return
func.func @eval(%w: tensor<8xf32> {mpc.state = @w}) -> tensor<8xf32> {
  %0 = amp.cast %w : (tensor<8xf32>) -> tensor<8xbf16>
  %1 = mpc.add %0, %0 : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// An update in another function writes the copy too.
// CHECK-LABEL: func @update
// CHECK-SAME: -> (tensor<8xf32> {mpc.updates = @w}, tensor<8xbf16> {mpc.updates = @w.low})
func.func @update(%w: tensor<8xf32> {mpc.state = @w}) -> (tensor<8xf32> {mpc.updates = @w}) {
  return %w : tensor<8xf32>
}

// CHECK-LABEL: func @derive
// CHECK-SAME: (%[[W:.*]]: tensor<8xf32> {mpc.state = @w}, %[[F:.*]]: tensor<8xf32> {mpc.state = @f})
// CHECK-SAME: -> (tensor<8xbf16> {mpc.updates = @w.low}, tensor<8xbf16> {mpc.updates = @f.low})
// CHECK: %[[A:.*]] = amp.cast %[[W]]
// CHECK: %[[B:.*]] = amp.cast %[[F]]
// CHECK: return %[[A]], %[[B]]
