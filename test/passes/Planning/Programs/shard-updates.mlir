// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --plan-shard-updates | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --plan-shard-updates=bucket-bytes=16 | FileCheck %s --check-prefix=BUCKETS
// RUN: mpc-opt %s --mpc-attach-target=name=x86-64-v3 --plan-shard-updates --plan-build-programs | FileCheck %s --check-prefix=PLAN
// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --plan-shard-updates | FileCheck %s

// GPUs divide the optimizer as CPUs do.

// The master @v has a low copy that the forward pass reads, so only the owner
// holds the master. The forward pass reads @w itself, so all ranks hold @w.
// CHECK: mpc.variable @v : tensor<4xf32> role parameter {plan.owner = @v}
// CHECK: mpc.variable @v.m : tensor<4xf32> role optimizer_state {plan.owner = @v}
// CHECK: mpc.variable @v.low : tensor<4xf32> role derived{{$}}
// CHECK: mpc.variable @w : tensor<4xf32> role parameter{{$}}
// CHECK: mpc.variable @mpc.step : tensor<4xf32> role counter{{$}}
mpc.variable @v : tensor<4xf32> role parameter
mpc.variable @v.m : tensor<4xf32> role optimizer_state
mpc.variable @v.low : tensor<4xf32> role derived
mpc.variable @w : tensor<4xf32> role parameter
mpc.variable @mpc.step : tensor<4xf32> role counter

// Scaled gradients belong to the owners, and so do the updates. The norm is of
// all parameters, and the loss of each rank.
// CHECK-LABEL: func.func @step
// CHECK: %[[LOSS:.*]] = call @mul(%arg0, %arg3) : (
// CHECK: %[[G:.*]]:2 = mpc.all_reduce mean %{{.*}}, %{{.*}} owners [@v, @w]
// CHECK: %[[GV:.*]] = call @relu(%[[G]]#0) {plan.owner = @v}
// CHECK: %[[GW:.*]] = call @relu(%[[G]]#1) {plan.owner = @w}
// CHECK: %[[SV:.*]] = plan.share %[[GV]] owner @v : tensor<4xf32>
// CHECK: %[[SW:.*]] = plan.share %[[GW]] owner @w : tensor<4xf32>
// CHECK: %[[NORM:.*]]:2 = call @norm(%[[LOSS]], %[[SV]], %[[SW]]) : (
// CHECK: %[[M:.*]] = call @mul(%[[GV]], %arg2) {plan.owner = @v}
// The decay is only for the update of @w.
// CHECK: %[[DECAY:.*]] = call @relu(%arg4) {plan.owner = @w}
// CHECK: %[[V:.*]] = call @mul(%[[M]], %[[NORM]]#1) {plan.owner = @v}
// CHECK: %[[LOW:.*]] = call @relu(%[[V]]) {plan.owner = @v}
// CHECK: %[[W:.*]] = call @mul(%[[GW]], %[[DECAY]]) {plan.owner = @w}
// CHECK-NEXT: %[[ALLV:.*]] = plan.share %[[LOW]] owner @v
// CHECK-NEXT: %[[ALLW:.*]] = plan.share %[[W]] owner @w
// CHECK-NEXT: return %[[NORM]]#0, %[[V]], %[[M]], %[[ALLV]], %[[ALLW]], %[[NORM]]#1

// BUCKETS-LABEL: func.func @step
// BUCKETS: %[[V:.*]] = call @mul(%{{.*}}, %{{.*}}#1) {plan.owner = @v}
// BUCKETS-NEXT: %[[LOW:.*]] = call @relu(%[[V]]) {plan.owner = @v}
// BUCKETS-NEXT: plan.share %[[LOW]] owner @v
// BUCKETS-NEXT: %[[W:.*]] = call @mul
// BUCKETS-NEXT: plan.share %[[W]] owner @w

// Values are gathered in place. Two shares make a step.
// PLAN-LABEL: plan.program @step
// PLAN-DAG: %[[V:.*]] = plan.state @v : memref
// PLAN-DAG: %[[LOW:.*]] = plan.state @v.low : memref
// PLAN-DAG: %[[W:.*]] = plan.state @w : memref
// PLAN: plan.reduce_scatter mean %[[GV:.*]], %[[GW:.*]] owners [@v, @w] : memref<4xf32>, memref<4xf32>
// PLAN-NOT: plan.all_reduce
// PLAN: plan.all_gather %{{.*}}, %{{.*}} owners [@v, @w]
// PLAN: plan.launch @norm
// PLAN-NOT: plan.owner
// PLAN-SAME: extent
// PLAN: outs(%[[W]] : memref<4xf32>) extent 4 grain {{.*}} {plan.owner = @w}
// PLAN: plan.all_gather %[[LOW]], %[[W]] owners [@v, @w] : memref<4xf32>, memref<4xf32>
func.func @step(%x: tensor<4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %v: tensor<4xf32> {mpc.state = @v},
                %m: tensor<4xf32> {mpc.state = @v.m}, %low: tensor<4xf32> {mpc.state = @v.low},
                %w: tensor<4xf32> {mpc.state = @w}, %count: tensor<4xf32> {mpc.state = @mpc.step})
    -> (tensor<4xf32> {mpc.output = "loss", mpc.role = #mpc.role<loss>}, tensor<4xf32> {mpc.updates = @v},
        tensor<4xf32> {mpc.updates = @v.m}, tensor<4xf32> {mpc.updates = @v.low}, tensor<4xf32> {mpc.updates = @w},
        tensor<4xf32> {mpc.updates = @mpc.step}) {
  %loss = call @mul(%x, %low) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = call @mul(%loss, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %h = call @relu(%loss) : (tensor<4xf32>) -> tensor<4xf32>
  %mean:2 = mpc.all_reduce mean %g, %h owners [@v, @w] : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %gv = call @relu(%mean#0) : (tensor<4xf32>) -> tensor<4xf32>
  %gw = call @relu(%mean#1) : (tensor<4xf32>) -> tensor<4xf32>
  %norm:2 = call @norm(%loss, %gv, %gw) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %next_m = call @mul(%gv, %m) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %decay = call @relu(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %next_v = call @mul(%next_m, %norm#1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %next_low = call @relu(%next_v) : (tensor<4xf32>) -> tensor<4xf32>
  %next_w = call @mul(%gw, %decay) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %norm#0, %next_v, %next_m, %next_low, %next_w, %norm#1
      : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// All ranks derive together.
// CHECK-LABEL: func.func @derive
// CHECK: %[[LOW:.*]] = call @relu(%arg0) {plan.owner = @v}
// CHECK: %[[ALL:.*]] = plan.share %[[LOW]] owner @v
// CHECK: return %[[ALL]]
func.func @derive(%v: tensor<4xf32> {mpc.state = @v}) -> (tensor<4xf32> {mpc.updates = @v.low}) {
  %low = call @relu(%v) : (tensor<4xf32>) -> tensor<4xf32>
  return %low : tensor<4xf32>
}

// Ranks evaluate alone.
// CHECK-LABEL: func.func @eval
// CHECK-NOT: plan.
// CHECK: return
func.func @eval(%x: tensor<4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %low: tensor<4xf32> {mpc.state = @v.low})
    -> (tensor<4xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
  %y = call @mul(%x, %low) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

func.func private @mul(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %y = mpc.mul %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @relu(%a: tensor<4xf32>) -> tensor<4xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %y = mpc.relu %a : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
// The first result depends on the rank, the second does not.
func.func private @norm(%loss: tensor<4xf32>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %y = mpc.mul %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = mpc.relu %loss : (tensor<4xf32>) -> tensor<4xf32>
  return %z, %y : tensor<4xf32>, tensor<4xf32>
}
