// RUN: mpc-opt %s --plan-build-programs=target=x86-64 | FileCheck %s
// RUN: mpc-opt %s --plan-build-programs=target=sm_80 | FileCheck %s --check-prefix=GPU

mpc.variable @w : tensor<4xf32> role "parameter"
mpc.variable @v : tensor<4xf32> role "parameter"

// A new value over the old one, an operand that ends reused, an input kept.
// CHECK-LABEL: plan.program @in_place
// CHECK: %[[X:.*]] = plan.input "x" role "data"
// CHECK: %[[W:.*]] = plan.state @w
// CHECK: %[[A:.*]] = plan.arena
// CHECK: plan.launch @relu ins(%[[X]] : memref<4xf32>) outs(%[[A]] : memref<4xf32>) extent 4 grain 16384
// CHECK: plan.launch @relu ins(%[[A]] : memref<4xf32>) outs(%[[A]] : memref<4xf32>)
// CHECK: plan.launch @sub ins(%[[W]], %[[A]] : memref<4xf32>, memref<4xf32>) outs(%[[W]] : memref<4xf32>)
// CHECK-NOT: plan.copy
func.func @in_place(%x: tensor<4xf32> {mpc.input = "x", mpc.role = "data"}, %w: tensor<4xf32> {mpc.state = @w})
    -> (tensor<4xf32> {mpc.updates = @w}) {
  %0 = call @relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @relu(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = call @sub(%w, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// An old value that is read later stays until the end.
// CHECK-LABEL: plan.program @read_later
// CHECK: %[[W:.*]] = plan.state @w
// CHECK: %[[NEW:.*]] = plan.arena
// CHECK: plan.launch @relu ins(%[[W]] : memref<4xf32>) outs(%[[NEW]] : memref<4xf32>)
// CHECK: plan.launch @sub ins(%[[W]], %[[NEW]]
// CHECK: plan.copy %[[NEW]] to %[[W]]
// CHECK: plan.output "y"
func.func @read_later(%w: tensor<4xf32> {mpc.state = @w}) -> (tensor<4xf32> {mpc.updates = @w}, tensor<4xf32> {mpc.output = "y"}) {
  %0 = call @relu(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @sub(%w, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// Two variables exchanged, and an old value as an output: saved before any is
// overwritten.
// CHECK-LABEL: plan.program @exchange
// CHECK-DAG: %[[W:.*]] = plan.state @w
// CHECK-DAG: %[[V:.*]] = plan.state @v
// CHECK: plan.copy %[[V]] to %[[A:.*]] :
// CHECK: plan.copy %[[W]] to %[[B:.*]] :
// CHECK: plan.copy %[[W]] to %[[C:.*]] :
// CHECK: plan.copy %[[A]] to %[[W]]
// CHECK: plan.copy %[[B]] to %[[V]]
// CHECK: plan.output "old" role "output" %[[C]]
func.func @exchange(%w: tensor<4xf32> {mpc.state = @w}, %v: tensor<4xf32> {mpc.state = @v})
    -> (tensor<4xf32> {mpc.updates = @w}, tensor<4xf32> {mpc.updates = @v}, tensor<4xf32> {mpc.output = "old"}) {
  return %v, %w, %w : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// A variable that is only written is not an argument.
// CHECK-LABEL: plan.program @derive
// CHECK: plan.launch @relu ins(%[[W:.*]] : memref<4xf32>) outs(%[[V:.*]] : memref<4xf32>)
// CHECK-NOT: plan.copy
func.func @derive(%w: tensor<4xf32> {mpc.state = @w}) -> (tensor<4xf32> {mpc.updates = @v}) {
  %0 = call @relu(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A reduction never writes over what it reads.
// CHECK-LABEL: plan.program @reduction
// CHECK: plan.launch @relu ins(%{{.*}}) outs(%[[A:.*]] : memref<4xf32>)
// CHECK: plan.launch @sum ins(%[[A]] : memref<4xf32>) outs(%[[B:.*]] : memref<1xf32>) extent 1
// CHECK: plan.view %[[B]] : memref<1xf32> to memref<f32>
func.func @reduction(%x: tensor<4xf32> {mpc.input = "x"}) -> (tensor<f32> {mpc.output = "y"}) {
  %0 = call @relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @sum(%0) : (tensor<4xf32>) -> tensor<1xf32>
  %2 = mpc.reshape %1 : (tensor<1xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}

// A slice along one axis is a copy of rows, and its kernel no code, on a CPU;
// one along two, or of many short rows, a kernel.
// CHECK-LABEL: plan.program @slices
// CHECK: plan.copy %[[X:.*]] to %{{.*}} {offset = 32 : i64, rows = 2 : i64, stride = 96 : i64} : memref<2x3x8xf32>, memref<2x1x8xf32>
// CHECK: plan.launch @box
// CHECK: plan.launch @thin
// GPU-LABEL: plan.program @slices
// GPU: plan.launch @middle
func.func @slices(%x: tensor<2x3x8xf32> {mpc.input = "x"}, %z: tensor<65536x4xf32> {mpc.input = "z"})
    -> (tensor<2x1x8xf32> {mpc.output = "y"}, tensor<2x1x4xf32> {mpc.output = "b"}, tensor<65536x1xf32> {mpc.output = "t"}) {
  %0 = call @middle(%x) : (tensor<2x3x8xf32>) -> tensor<2x1x8xf32>
  %1 = call @box(%x) : (tensor<2x3x8xf32>) -> tensor<2x1x4xf32>
  %2 = call @thin(%z) : (tensor<65536x4xf32>) -> tensor<65536x1xf32>
  return %0, %1, %2 : tensor<2x1x8xf32>, tensor<2x1x4xf32>, tensor<65536x1xf32>
}

// CHECK-NOT: func.func private @middle
// GPU: func.func private @middle
func.func private @middle(%x: tensor<2x3x8xf32>) -> tensor<2x1x8xf32> attributes {mpc.kernel = #mpc.kernel<movement>} {
  %y = mpc.slice %x {offsets = array<i64: 0, 1, 0>, sizes = array<i64: 2, 1, 8>} : (tensor<2x3x8xf32>) -> tensor<2x1x8xf32>
  return %y : tensor<2x1x8xf32>
}
// CHECK: func.func private @box
func.func private @box(%x: tensor<2x3x8xf32>) -> tensor<2x1x4xf32> attributes {mpc.kernel = #mpc.kernel<movement>} {
  %y = mpc.slice %x {offsets = array<i64: 0, 1, 0>, sizes = array<i64: 2, 1, 4>} : (tensor<2x3x8xf32>) -> tensor<2x1x4xf32>
  return %y : tensor<2x1x4xf32>
}
// CHECK: func.func private @thin
func.func private @thin(%x: tensor<65536x4xf32>) -> tensor<65536x1xf32> attributes {mpc.kernel = #mpc.kernel<movement>} {
  %y = mpc.slice %x {offsets = array<i64: 0, 1>, sizes = array<i64: 65536, 1>} : (tensor<65536x4xf32>) -> tensor<65536x1xf32>
  return %y : tensor<65536x1xf32>
}

// An epilogue may write over its own operand, not over the contraction's.
// CHECK-LABEL: plan.program @epilogue
// CHECK: %[[A:.*]] = plan.arena
// CHECK: plan.launch @square_relu {{.*}} outs(%[[A]]
// CHECK: %[[B:.*]] = plan.arena
// CHECK: plan.matmul %[[A]], %[[A]] epilogue @tail ins(%[[A]] : memref<4x4xf32>) outs(%[[B]] : memref<4x4xf32>)
// CHECK-SAME: tile_m = 4 : i64, tile_n = 4 : i64
func.func @epilogue(%x: tensor<4x4xf32> {mpc.input = "x"}) -> (tensor<4x4xf32> {mpc.output = "y"}) {
  %0 = call @square_relu(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.matmul %0, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = call @tail(%1, %0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// What a library may be unable to do with a product: launches in reserve. The
// bias is added where the product lies; sums in two steps have memory between.
// CHECK-LABEL: plan.program @unfused
// CHECK: %[[X:.*]] = plan.input "x"
// CHECK: %[[Y:.*]] = plan.arena
// CHECK: plan.matmul %[[X]], %[[X]] into %[[Y]] : memref<4x4xf32> fused "bias" bias(%[[B:.*]] : memref<4xf32>)
// CHECK-SAME: unfused {
// CHECK-NEXT: plan.launch @add ins(%[[Y]], %[[B]] : memref<4x4xf32>, memref<4xf32>) outs(%[[Y]] : memref<4x4xf32>)
// CHECK-NEXT: }
// CHECK: %[[SUM:.*]] = plan.arena : memref<1x4xf32>
// CHECK: %[[PART:.*]] = plan.arena : memref<2x4xf32>
// CHECK: plan.matmul %[[Y]], %[[X]] into %{{.*}} fused "bgrad_a" bias_grad(%[[SUM]] : memref<1x4xf32>)
// CHECK-SAME: unfused {
// CHECK-NEXT: plan.launch @sum_half ins(%[[Y]] : memref<4x4xf32>) outs(%[[PART]] : memref<2x4xf32>)
// CHECK-NEXT: plan.launch @sum_rest ins(%[[PART]] : memref<2x4xf32>) outs(%[[SUM]] : memref<1x4xf32>)
// CHECK-NEXT: }
func.func @unfused(%x: tensor<4x4xf32> {mpc.input = "x"}, %b: tensor<4xf32> {mpc.input = "b"})
    -> (tensor<4x4xf32> {mpc.output = "y"}, tensor<1x4xf32> {mpc.output = "s"}) {
  %y = plan.product "bias" %x, %x bias(%b : tensor<4xf32>) {transA = false, transB = false, alpha = 1.0 : f64}
      : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> unfused {
  ^bb0(%p: tensor<4x4xf32>):
    %0 = func.call @add(%p, %b) : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
    plan.yield %0 : tensor<4x4xf32>
  }
  %z, %s = plan.product "bgrad_a" %y, %x {transA = true, transB = false, alpha = 1.0 : f64}
      : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> bias_grad tensor<1x4xf32> unfused {
  ^bb0(%p: tensor<4x4xf32>):
    %0 = func.call @sum_half(%y) : (tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = func.call @sum_rest(%0) : (tensor<2x4xf32>) -> tensor<1x4xf32>
    plan.yield %1 : tensor<1x4xf32>
  }
  return %z, %s : tensor<4x4xf32>, tensor<1x4xf32>
}

func.func private @add(%x: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<4x4xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.add %x, %b : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
func.func private @sum_half(%x: tensor<4x4xf32>) -> tensor<2x4xf32> attributes {mpc.kernel = #mpc.kernel<column_reduce>} {
  %0 = mpc.reshape %x : (tensor<4x4xf32>) -> tensor<2x2x4xf32>
  %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = false} : (tensor<2x2x4xf32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}
func.func private @sum_rest(%x: tensor<2x4xf32>) -> tensor<1x4xf32> attributes {mpc.kernel = #mpc.kernel<column_reduce>} {
  %0 = mpc.reduce_sum %x {axes = array<i64: 0>, keepdims = true} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}
func.func private @relu(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @square_relu(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.relu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
func.func private @sub(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.sub %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @sum(%x: tensor<4xf32>) -> tensor<1xf32> attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
  %0 = mpc.reduce_sum %x {axes = array<i64: 0>, keepdims = true} : (tensor<4xf32>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}
func.func private @tail(%t: tensor<4x4xf32>, %x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {mpc.kernel = #mpc.kernel<epilogue>} {
  %0 = mpc.add %t, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
