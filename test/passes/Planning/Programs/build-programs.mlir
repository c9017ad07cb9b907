// RUN: mpc-opt %s --mpc-attach-target=name=x86-64 --plan-build-programs | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --plan-build-programs | FileCheck %s --check-prefix=GPU

mpc.variable @w : tensor<4xf32> role parameter
mpc.variable @v : tensor<4xf32> role parameter

// A new value overwrites the old one, dead operands are reused, and an input is kept.
// CHECK-LABEL: plan.program @in_place
// CHECK: %[[X:.*]] = plan.input "x" role data
// CHECK: %[[W:.*]] = plan.state @w
// CHECK: %[[A:.*]] = plan.arena
// CHECK: plan.launch @relu ins(%[[X]] : memref<4xf32>) outs(%[[A]] : memref<4xf32>) extent 4 grain 16384
// CHECK: plan.launch @relu ins(%[[A]] : memref<4xf32>) outs(%[[A]] : memref<4xf32>)
// CHECK: plan.launch @sub ins(%[[W]], %[[A]] : memref<4xf32>, memref<4xf32>) outs(%[[W]] : memref<4xf32>)
// CHECK-NOT: plan.copy
func.func @in_place(%x: tensor<4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}, %w: tensor<4xf32> {mpc.state = @w})
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

// Two variables are exchanged, and an old value is an output: each is saved
// before it is overwritten.
// CHECK-LABEL: plan.program @exchange
// CHECK-DAG: %[[W:.*]] = plan.state @w
// CHECK-DAG: %[[V:.*]] = plan.state @v
// CHECK: plan.copy %[[V]] to %[[A:.*]] :
// CHECK: plan.copy %[[W]] to %[[B:.*]] :
// CHECK: plan.copy %[[W]] to %[[C:.*]] :
// CHECK: plan.copy %[[A]] to %[[W]]
// CHECK: plan.copy %[[B]] to %[[V]]
// CHECK: plan.output "old" role output %[[C]]
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

// A reduction never overwrites its operand.
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

// A kernel that loads a part for every element does not overwrite it either:
// the first element would be lost.
// CHECK-LABEL: plan.program @part
// CHECK: plan.launch @relu ins(%{{.*}}) outs(%[[A:.*]] : memref<4xf32>)
// CHECK-NOT: plan.launch @less_first {{.*}} outs(%[[A]]
// CHECK: plan.launch @less_first ins(%[[A]] : memref<4xf32>) outs(%[[B:.*]] : memref<4xf32>)
// CHECK: plan.launch @relu ins(%[[B]]
func.func @part(%x: tensor<4xf32> {mpc.input = "x"}) -> (tensor<4xf32> {mpc.output = "y"}) {
  %0 = call @relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @less_first(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = call @relu(%1) : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
func.func private @less_first(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.slice %x {offsets = array<i64: 0>, sizes = array<i64: 1>} : (tensor<4xf32>) -> tensor<1xf32>
  %1 = mpc.sub %x, %0 : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// A kernel overwrites the parts that it loads by the parts that it stores.
// CHECK-LABEL: plan.program @parts_in_place
// CHECK: plan.launch @relu4 ins(%{{.*}}) outs(%[[A:.*]] : memref<4x4xf32>)
// CHECK: plan.launch @swap_halves ins(%[[A]] : memref<4x4xf32>) outs(%[[A]] : memref<4x4xf32>)
func.func @parts_in_place(%x: tensor<4x4xf32> {mpc.input = "x"}) -> (tensor<4x4xf32> {mpc.output = "y"}) {
  %0 = call @relu4(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = call @swap_halves(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = call @relu4(%1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}
func.func private @swap_halves(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.slice %x {offsets = array<i64: 0, 0>, sizes = array<i64: 4, 2>} : (tensor<4x4xf32>) -> tensor<4x2xf32>
  %1 = mpc.slice %x {offsets = array<i64: 0, 2>, sizes = array<i64: 4, 2>} : (tensor<4x4xf32>) -> tensor<4x2xf32>
  %2 = mpc.relu %0 : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %3 = mpc.relu %1 : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %4 = mpc.concat %3, %2 {axis = 1} : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>
  return %4 : tensor<4x4xf32>
}

// It does not if a loaded part begins elsewhere than the stored parts.
// CHECK-LABEL: plan.program @parts_elsewhere
// CHECK: plan.launch @relu4 ins(%{{.*}}) outs(%[[A:.*]] : memref<4x4xf32>)
// CHECK-NOT: plan.launch @inner_half {{.*}} outs(%[[A]]
// CHECK: plan.launch @inner_half
func.func @parts_elsewhere(%x: tensor<4x4xf32> {mpc.input = "x"}) -> (tensor<4x4xf32> {mpc.output = "y"}) {
  %0 = call @relu4(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = call @inner_half(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = call @relu4(%1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}
func.func private @inner_half(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.slice %x {offsets = array<i64: 0, 1>, sizes = array<i64: 4, 2>} : (tensor<4x4xf32>) -> tensor<4x2xf32>
  %1 = mpc.relu %0 : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %2 = mpc.neg %0 : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %3 = mpc.concat %1, %2 {axis = 1} : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}

// An epilogue reads its operands at the written element, so the result may
// overwrite them. A product's factors are read everywhere.
// CHECK-LABEL: plan.program @product
// CHECK: %[[W:.*]] = plan.state @w4
// CHECK: plan.launch @relu4 ins(%{{.*}}) outs(%[[A:.*]] : memref<4x4xf32>)
// CHECK: plan.launch @matmul_sub ins(%[[A]], %[[A]], %[[W]] : {{.*}}) outs(%[[W]] : memref<4x4xf32>)
// CHECK: plan.launch @matmul_sub ins(%[[W]], %[[A]], %[[A]] : {{.*}}) outs(%[[B:.*]] : memref<4x4xf32>)
// CHECK: plan.output "y" role output %[[B]]
// GPU-LABEL: plan.program @product
// GPU: %[[W:.*]] = plan.state @w4
// GPU: plan.launch @matmul_sub ins(%[[A:.*]], %[[A]], %[[W]] : {{.*}}) outs(%[[NEW:.*]] : memref<4x4xf32>)
// GPU: plan.copy %[[NEW]] to %[[W]]
mpc.variable @w4 : tensor<4x4xf32> role parameter
func.func @product(%x: tensor<4x4xf32> {mpc.input = "x4"}, %w: tensor<4x4xf32> {mpc.state = @w4})
    -> (tensor<4x4xf32> {mpc.updates = @w4}, tensor<4x4xf32> {mpc.output = "y"}) {
  %0 = call @relu4(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = call @matmul_sub(%0, %0, %w) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = call @matmul_sub(%1, %0, %0) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1, %2 : tensor<4x4xf32>, tensor<4x4xf32>
}
func.func private @relu4(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.relu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
func.func private @matmul_sub(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>, %z: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {mpc.kernel = #mpc.kernel<contraction>} {
  %0 = mpc.matmul %x, %y : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.sub %z, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// Packed filters are factors too, also if a kernel reads them through a
// transpose.
// CHECK-LABEL: plan.program @filters
// CHECK: %[[W:.*]] = plan.arena
// CHECK: plan.launch @relu_filters ins(%{{.*}}) outs(%[[W]] : memref<3x3x5x4xf64>)
// CHECK: %[[Y:.*]] = plan.arena
// CHECK: plan.launch @conv ins(%{{.*}}, %[[W]] : {{.*}}) outs(%[[Y]] : memref<3x3x5x4xf64>)
// CHECK: plan.output "y" role output %[[Y]]
func.func @filters(%x: tensor<3x3x5x5xf64> {mpc.input = "x"}, %w: tensor<3x3x5x4xf64> {mpc.input = "w"}) -> (tensor<3x3x5x4xf64> {mpc.output = "y"}) {
  %0 = call @relu_filters(%w) : (tensor<3x3x5x4xf64>) -> tensor<3x3x5x4xf64>
  %1 = call @conv(%x, %0) : (tensor<3x3x5x5xf64>, tensor<3x3x5x4xf64>) -> tensor<3x3x5x4xf64>
  return %1 : tensor<3x3x5x4xf64>
}
func.func private @relu_filters(%w: tensor<3x3x5x4xf64>) -> tensor<3x3x5x4xf64> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.relu %w : (tensor<3x3x5x4xf64>) -> tensor<3x3x5x4xf64>
  return %0 : tensor<3x3x5x4xf64>
}
func.func private @conv(%x: tensor<3x3x5x5xf64>, %w: tensor<3x3x5x4xf64>) -> tensor<3x3x5x4xf64> attributes {mpc.kernel = #mpc.kernel<contraction>} {
  %0 = mpc.transpose %w {perm = array<i64: 3, 2, 0, 1>} : (tensor<3x3x5x4xf64>) -> tensor<4x5x3x3xf64>
  %1 = mpc.conv %x, %0 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>} : (tensor<3x3x5x5xf64>, tensor<4x5x3x3xf64>) -> tensor<3x3x5x4xf64>
  return %1 : tensor<3x3x5x4xf64>
}

// On a CPU, a slice along one axis is a copy of rows without kernel code. A
// slice along two axes, or of many short rows, is a kernel.
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

// An epilogue may overwrite its own operand, but not the contraction's.
// CHECK-LABEL: plan.program @epilogue
// CHECK: %[[A:.*]] = plan.arena
// CHECK: plan.launch @square_relu {{.*}} outs(%[[A]]
// CHECK: %[[B:.*]] = plan.arena
// CHECK: plan.matmul %[[A]], %[[A]] epilogue @tail ins(%[[A]] : memref<4x4xf32>) outs(%[[B]] : memref<4x4xf32>)
// CHECK-SAME: tile_m = 4, tile_n = 4>
func.func @epilogue(%x: tensor<4x4xf32> {mpc.input = "x"}) -> (tensor<4x4xf32> {mpc.output = "y"}) {
  %0 = call @square_relu(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.matmul %0, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = call @tail(%1, %0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// Fallback launches for fused ops that a library may lack. The bias is added in
// place. Sums in two steps have a buffer in between.
// CHECK-LABEL: plan.program @unfused
// CHECK: %[[X:.*]] = plan.input "x"
// CHECK: %[[Y:.*]] = plan.arena
// CHECK: plan.matmul %[[X]], %[[X]] into %[[Y]] : memref<4x4xf32> fused bias bias(%[[B:.*]] : memref<4xf32>)
// CHECK-SAME: unfused {
// CHECK-NEXT: plan.launch @add ins(%[[Y]], %[[B]] : memref<4x4xf32>, memref<4xf32>) outs(%[[Y]] : memref<4x4xf32>)
// CHECK-NEXT: }
// CHECK: %[[SUM:.*]] = plan.arena : memref<1x4xf32>
// CHECK: %[[PART:.*]] = plan.arena : memref<2x4xf32>
// CHECK: plan.matmul %[[Y]], %[[X]] into %{{.*}} fused bgrad_a bias_grad(%[[SUM]] : memref<1x4xf32>)
// CHECK-SAME: unfused {
// CHECK-NEXT: plan.launch @sum_half ins(%[[Y]] : memref<4x4xf32>) outs(%[[PART]] : memref<2x4xf32>)
// CHECK-NEXT: plan.launch @sum_rest ins(%[[PART]] : memref<2x4xf32>) outs(%[[SUM]] : memref<1x4xf32>)
// CHECK-NEXT: }
func.func @unfused(%x: tensor<4x4xf32> {mpc.input = "x"}, %b: tensor<4xf32> {mpc.input = "b"})
    -> (tensor<4x4xf32> {mpc.output = "y"}, tensor<1x4xf32> {mpc.output = "s"}) {
  %y = plan.product bias %x, %x bias(%b : tensor<4xf32>) {transA = false, transB = false, alpha = 1.0 : f64}
      : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> unfused {
  ^bb0(%p: tensor<4x4xf32>):
    %0 = func.call @add(%p, %b) : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
    plan.yield %0 : tensor<4x4xf32>
  }
  %z, %s = plan.product bgrad_a %y, %x {transA = true, transB = false, alpha = 1.0 : f64}
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



// Unique updates overwrite a state that nothing reads later. Otherwise they
// overwrite a copy.
// CHECK-LABEL: plan.program @rows_in_place
// CHECK: %[[IDS:.*]] = plan.input "ids"
// CHECK: %[[U:.*]] = plan.input "u"
// CHECK: %[[W:.*]] = plan.state @w
// CHECK-NOT: plan.copy
// CHECK: plan.launch @write_rows ins(%[[W]], %[[IDS]], %[[U]] : memref<4xf32>, memref<2xi64>, memref<2xf32>) outs(%[[W]] : memref<4xf32>)
// CHECK-NOT: plan.copy
// CHECK-LABEL: plan.program @rows_of_a_copy
// CHECK: %[[W:.*]] = plan.state @w
// CHECK: %[[NEW:.*]] = plan.arena : memref<4xf32>
// CHECK: plan.copy %[[W]] to %[[NEW]]
// CHECK: plan.launch @write_rows ins(%[[W]], %{{.*}}, %{{.*}}) outs(%[[NEW]] : memref<4xf32>)
// CHECK: plan.launch @relu ins(%[[W]] : memref<4xf32>)
// CHECK: plan.copy %[[NEW]] to %[[W]]
func.func @rows_in_place(%ids: tensor<2xi64> {mpc.input = "ids", mpc.role = #mpc.role<data>}, %u: tensor<2xf32> {mpc.input = "u", mpc.role = #mpc.role<data>},
                         %w: tensor<4xf32> {mpc.state = @w}) -> (tensor<4xf32> {mpc.updates = @w}) {
  %0 = call @write_rows(%w, %ids, %u) : (tensor<4xf32>, tensor<2xi64>, tensor<2xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @rows_of_a_copy(%ids: tensor<2xi64> {mpc.input = "ids", mpc.role = #mpc.role<data>}, %u: tensor<2xf32> {mpc.input = "u", mpc.role = #mpc.role<data>},
                          %w: tensor<4xf32> {mpc.state = @w}) -> (tensor<4xf32> {mpc.output = "old"}, tensor<4xf32> {mpc.updates = @w}) {
  %0 = call @write_rows(%w, %ids, %u) : (tensor<4xf32>, tensor<2xi64>, tensor<2xf32>) -> tensor<4xf32>
  %1 = call @relu(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return %1, %0 : tensor<4xf32>, tensor<4xf32>
}
func.func private @write_rows(%w: tensor<4xf32>, %ids: tensor<2xi64>, %u: tensor<2xf32>) -> tensor<4xf32> attributes {mpc.kernel = #mpc.kernel<scatter>} {
  %0 = mpc.scatter %w, %ids, %u {axis = 0 : i64, reduction = #mpc.scatter<none>, unique_indices = true}
      : (tensor<4xf32>, tensor<2xi64>, tensor<2xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A dense access is a view for every kernel.
// CHECK-LABEL: plan.program @section
// CHECK: %[[W:.*]] = plan.input "x"
// CHECK: %[[ROWS:.*]] = plan.view %[[W]] at 16 : memref<3x4xf32> to memref<2x4xf32>
// CHECK: plan.launch @section_relu ins(%[[ROWS]]
func.func @section(%x: tensor<3x4xf32> {mpc.input = "x"}) -> (tensor<2x4xf32> {mpc.output = "y"}) {
  %0 = plan.access %x {offset = 4 : i64, strides = array<i64: 4, 1>} : tensor<3x4xf32> to tensor<2x4xf32>
  %1 = call @section_relu(%0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}
func.func private @section_relu(%x: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.relu %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
