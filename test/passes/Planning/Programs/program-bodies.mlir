// RUN: mpc-opt %s --mpc-attach-target=name=x86-64 --plan-build-programs | FileCheck %s
// RUN: mpc-opt %s --mpc-attach-target=name=sm_80 --plan-build-programs | FileCheck %s --check-prefix=GPU

mpc.variable @w : tensor<4xf32> role parameter

// In a loop, carried values use the result's buffer. Parts are read and written
// in place. A value that is both carried and stacked is copied.
// CHECK-LABEL: plan.program @loop
// CHECK: %[[H:.*]] = plan.input "h0"
// CHECK: %[[X:.*]] = plan.input "x"
// CHECK: %[[LAST:.*]] = plan.arena : memref<4xf32>
// CHECK: %[[ALL:.*]] = plan.arena : memref<8x4xf32>
// CHECK: plan.copy %[[H]] to %[[LAST]]
// CHECK: plan.for 8 {
// CHECK: %[[X_T:.*]] = plan.part %[[X]] from 0 by 16 : memref<8x4xf32> to memref<4xf32>
// CHECK: %[[PART:.*]] = plan.part %[[ALL]] from 112 by -16 : memref<8x4xf32> to memref<4xf32>
// CHECK: plan.launch @sub ins(%[[LAST]], %[[X_T]] : memref<4xf32>, memref<4xf32>) outs(%[[PART]] : memref<4xf32>)
// CHECK: plan.copy %[[PART]] to %[[LAST]]
// CHECK: }
// CHECK: plan.output "last" role output %[[LAST]]
// CHECK: plan.output "all" role output %[[ALL]]
func.func @loop(%h0: tensor<4xf32> {mpc.input = "h0", mpc.role = #mpc.role<data>}, %x: tensor<8x4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<4xf32> {mpc.output = "last"}, tensor<8x4xf32> {mpc.output = "all"}) {
  %last, %all = mpc.scan_call @loop_body 8 carried(%h0 : tensor<4xf32>) scanned(%x : tensor<8x4xf32>)
      {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: true>} -> (tensor<4xf32>, tensor<8x4xf32>)
  return %last, %all : tensor<4xf32>, tensor<8x4xf32>
}
func.func private @loop_body(%h: tensor<4xf32>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = call @sub(%h, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0, %0 : tensor<4xf32>, tensor<4xf32>
}

// A carried value is written in place if nothing reads the old value later. An
// invariant operand never is, even if the body has no later use of it.
// CHECK-LABEL: plan.program @carried_in_place
// CHECK: %[[W:.*]] = plan.arena : memref<4xf32>
// CHECK: %[[LAST:.*]] = plan.arena : memref<4xf32>
// CHECK: plan.for 8 {
// CHECK: %[[NEW:.*]] = plan.arena : memref<4xf32>
// CHECK: plan.launch @relu ins(%[[W]] : memref<4xf32>) outs(%[[NEW]] : memref<4xf32>)
// CHECK: plan.launch @sub ins(%[[LAST]], %[[NEW]] : memref<4xf32>, memref<4xf32>) outs(%[[LAST]] : memref<4xf32>)
// CHECK-NOT: plan.copy
// CHECK: }
func.func @carried_in_place(%h0: tensor<4xf32> {mpc.input = "h0", mpc.role = #mpc.role<data>}) -> (tensor<4xf32> {mpc.output = "last"}) {
  %w = call @relu(%h0) : (tensor<4xf32>) -> tensor<4xf32>
  %last = mpc.scan_call @in_place_body 8 carried(%h0 : tensor<4xf32>) invariant(%w : tensor<4xf32>)
      {reversed_inputs = array<i1>, reversed_outputs = array<i1>} -> (tensor<4xf32>)
  return %last : tensor<4xf32>
}
func.func private @in_place_body(%h: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @relu(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @sub(%h, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// Two carried values are swapped: one is saved before it is overwritten.
// CHECK-LABEL: plan.program @swap
// CHECK: %[[A:.*]] = plan.arena : memref<4xf32>
// CHECK: %[[B:.*]] = plan.arena : memref<4xf32>
// CHECK: plan.for 3 {
// CHECK: plan.copy %[[B]] to %[[SAVED:.*]] :
// CHECK: plan.copy %[[A]] to %[[SAVED2:.*]] :
// CHECK: plan.copy %[[SAVED]] to %[[A]]
// CHECK: plan.copy %[[SAVED2]] to %[[B]]
// CHECK: }
func.func @swap(%a: tensor<4xf32> {mpc.input = "a", mpc.role = #mpc.role<data>}, %b: tensor<4xf32> {mpc.input = "b", mpc.role = #mpc.role<data>})
    -> (tensor<4xf32> {mpc.output = "a3"}, tensor<4xf32> {mpc.output = "b3"}) {
  %0:2 = mpc.scan_call @swap_body 3 carried(%a, %b : tensor<4xf32>, tensor<4xf32>)
      {reversed_inputs = array<i1>, reversed_outputs = array<i1>} -> (tensor<4xf32>, tensor<4xf32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}
func.func private @swap_body(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  return %b, %a : tensor<4xf32>, tensor<4xf32>
}

// An inner loop's carried values lie in a view of the outer loop's part. They
// are in place there, and saved if two values are swapped. The outer loop
// carries no value, so its iterations are independent.
// CHECK-LABEL: plan.program @carried_in_parts
// CHECK: plan.for 5 parallel {
// CHECK: %[[TO:.*]] = plan.part {{.*}} to memref<1x4xf32>
// CHECK: %[[VIEW:.*]] = plan.view %[[TO]]
// CHECK: plan.for 8 {
// CHECK: plan.launch @sub ins(%[[VIEW]], {{.*}}) outs(%[[VIEW]] :
// CHECK-NOT: plan.copy
// CHECK: }
func.func @carried_in_parts(%h0: tensor<5x4xf32> {mpc.input = "h0", mpc.role = #mpc.role<data>}, %w: tensor<4xf32> {mpc.input = "w", mpc.role = #mpc.role<data>})
    -> (tensor<5x1x4xf32> {mpc.output = "last"}) {
  %last = mpc.scan_call @outer_body 5 scanned(%h0 : tensor<5x4xf32>) invariant(%w : tensor<4xf32>)
      {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: false>} -> (tensor<5x1x4xf32>)
  return %last : tensor<5x1x4xf32>
}
func.func private @outer_body(%h: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<1x4xf32> {
  %0 = mpc.scan_call @in_place_body 8 carried(%h : tensor<4xf32>) invariant(%w : tensor<4xf32>)
      {reversed_inputs = array<i1>, reversed_outputs = array<i1>} -> (tensor<4xf32>)
  %1 = mpc.reshape %0 : (tensor<4xf32>) -> tensor<1x4xf32>
  return %1 : tensor<1x4xf32>
}

// CHECK-LABEL: plan.program @swap_in_parts
// CHECK: %[[A:.*]] = plan.view %{{.*}} to memref<4xf32>
// CHECK: %[[B:.*]] = plan.view %{{.*}} to memref<4xf32>
// CHECK: plan.for 3 {
// CHECK: plan.copy %[[B]] to %[[SAVED:.*]] :
// CHECK: plan.copy %[[A]] to %[[SAVED2:.*]] :
// CHECK: plan.copy %[[SAVED]] to %[[A]]
// CHECK: plan.copy %[[SAVED2]] to %[[B]]
// CHECK: }
func.func @swap_in_parts(%a: tensor<5x4xf32> {mpc.input = "a", mpc.role = #mpc.role<data>}, %b: tensor<5x4xf32> {mpc.input = "b", mpc.role = #mpc.role<data>})
    -> (tensor<5x1x4xf32> {mpc.output = "a3"}, tensor<5x1x4xf32> {mpc.output = "b3"}) {
  %0:2 = mpc.scan_call @outer_swap_body 5 scanned(%a, %b : tensor<5x4xf32>, tensor<5x4xf32>)
      {reversed_inputs = array<i1: false, false>, reversed_outputs = array<i1: false, false>} -> (tensor<5x1x4xf32>, tensor<5x1x4xf32>)
  return %0#0, %0#1 : tensor<5x1x4xf32>, tensor<5x1x4xf32>
}
func.func private @outer_swap_body(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<1x4xf32>, tensor<1x4xf32>) {
  %0:2 = mpc.scan_call @swap_body 3 carried(%a, %b : tensor<4xf32>, tensor<4xf32>)
      {reversed_inputs = array<i1>, reversed_outputs = array<i1>} -> (tensor<4xf32>, tensor<4xf32>)
  %1 = mpc.reshape %0#0 : (tensor<4xf32>) -> tensor<1x4xf32>
  %2 = mpc.reshape %0#1 : (tensor<4xf32>) -> tensor<1x4xf32>
  return %1, %2 : tensor<1x4xf32>, tensor<1x4xf32>
}

// GPU kernels need aligned addresses: parts of 12 bytes are copied.
// GPU-LABEL: plan.program @unaligned_parts
// GPU: plan.for 5 {
// GPU: %[[PART:.*]] = plan.part
// GPU: %[[IN:.*]] = plan.arena : memref<3xf32>
// GPU: plan.copy %[[PART]] to %[[IN]]
// GPU: %[[TO:.*]] = plan.part
// GPU: plan.launch @relu3 ins(%[[IN]] : memref<3xf32>) outs(%[[OUT:.*]] : memref<3xf32>)
// GPU: plan.copy %[[OUT]] to %[[TO]]
func.func @unaligned_parts(%x: tensor<5x3xf32> {mpc.input = "x", mpc.role = #mpc.role<data>}) -> (tensor<5x3xf32> {mpc.output = "y"}) {
  %y = mpc.scan_call @unaligned_body 5 scanned(%x : tensor<5x3xf32>)
      {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: false>} -> (tensor<5x3xf32>)
  return %y : tensor<5x3xf32>
}
func.func private @unaligned_body(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = call @relu3(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func private @relu3(%x: tensor<3xf32>) -> tensor<3xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.relu %x : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// Both branches of a condition write its results. Captured values that are
// returned unchanged are copied.
// CHECK-LABEL: plan.program @condition
// CHECK: %[[P:.*]] = plan.input "p"
// CHECK: %[[X:.*]] = plan.input "x"
// CHECK: %[[Y:.*]] = plan.arena : memref<4xf32>
// CHECK: plan.if %[[P]] {
// CHECK: %[[T:.*]] = plan.arena : memref<4xf32>
// CHECK: plan.launch @relu ins(%[[X]] : memref<4xf32>) outs(%[[T]] : memref<4xf32>)
// CHECK: plan.launch @sub ins(%[[X]], %[[T]] : memref<4xf32>, memref<4xf32>) outs(%[[Y]] : memref<4xf32>)
// CHECK-NOT: plan.copy
// CHECK: } else {
// CHECK-NEXT: plan.copy %[[X]] to %[[Y]]
// CHECK-NEXT: } : memref<i1>
// CHECK: plan.output "y" role output %[[Y]]
func.func @condition(%p: tensor<i1> {mpc.input = "p", mpc.role = #mpc.role<data>}, %x: tensor<4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>})
    -> (tensor<4xf32> {mpc.output = "y"}) {
  %y = mpc.if_call %p @condition_then else @condition_else(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @condition_then(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @sub(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @condition_else(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// A state's new value does not overwrite the old one before the branch that
// reads it is done.
// CHECK-LABEL: plan.program @state_in_a_branch
// CHECK: %[[P:.*]] = plan.input "p"
// CHECK: %[[W:.*]] = plan.state @w
// CHECK: %[[NEW:.*]] = plan.arena : memref<4xf32>
// CHECK: plan.if %[[P]] {
// CHECK: plan.launch @relu ins(%[[W]] : memref<4xf32>) outs(%[[NEW]] : memref<4xf32>)
// CHECK: } else {
// CHECK: plan.copy %[[W]] to %[[NEW]]
// CHECK: }
// CHECK: plan.copy %[[NEW]] to %[[W]]
func.func @state_in_a_branch(%p: tensor<i1> {mpc.input = "p", mpc.role = #mpc.role<data>}, %w: tensor<4xf32> {mpc.state = @w})
    -> (tensor<4xf32> {mpc.updates = @w}) {
  %y = mpc.if_call %p @state_then else @condition_else(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @state_then(%w: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @relu(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

func.func private @relu(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @sub(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
  %0 = mpc.sub %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
