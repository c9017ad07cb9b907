// RUN: mpc-opt %s --plan-assign-offsets | FileCheck %s

// What is dead gives its place to what comes later; an output lives on.
// CHECK-LABEL: plan.program @chain attributes {arena_bytes = 512 : i64}
plan.program @chain {
  %x = plan.input "x" role data : memref<64xf32>
  // CHECK: %[[A:.*]] = plan.arena at 0 : memref<64xf32>
  // CHECK: %[[B:.*]] = plan.arena at 256 : memref<64xf32>
  // CHECK: %[[C:.*]] = plan.arena at 0 : memref<64xf32>
  %a = plan.arena : memref<64xf32>
  %b = plan.arena : memref<64xf32>
  %c = plan.arena : memref<64xf32>
  plan.copy %x to %a : memref<64xf32>, memref<64xf32>
  plan.copy %a to %b : memref<64xf32>, memref<64xf32>
  plan.copy %b to %c : memref<64xf32>, memref<64xf32>
  plan.output "c" role output %c : memref<64xf32>
}

// A view keeps its source alive, and so does a nested step.
// CHECK-LABEL: plan.program @kept attributes {arena_bytes = 192 : i64}
plan.program @kept {
  %x = plan.input "x" role data : memref<16xf32>
  // CHECK-DAG: plan.arena at 0 : memref<16xf32>
  // CHECK-DAG: plan.arena at 64 : memref<16xf32>
  // CHECK-DAG: plan.arena at 128 : memref<i1>
  %a = plan.arena : memref<16xf32>
  %b = plan.arena : memref<16xf32>
  %p = plan.arena : memref<i1>
  plan.copy %x to %a : memref<16xf32>, memref<16xf32>
  %v = plan.view %a : memref<16xf32> to memref<4x4xf32>
  %w = plan.view %b : memref<16xf32> to memref<4x4xf32>
  plan.copy %x to %b : memref<16xf32>, memref<16xf32>
  plan.if %p {
    plan.copy %v to %w : memref<4x4xf32>, memref<4x4xf32>
  } : memref<i1>
}

// What a loop uses of its surroundings is alive in all iterations; what its list
// declares, only from its first use to its last.
// CHECK-LABEL: plan.program @loop attributes {arena_bytes = 192 : i64}
plan.program @loop {
  %x = plan.input "x" role data : memref<16xf32>
  // CHECK: %[[CARRIED:.*]] = plan.arena at 0 : memref<16xf32>
  // CHECK: %[[INVARIANT:.*]] = plan.arena at 64 : memref<16xf32>
  %carried = plan.arena : memref<16xf32>
  %invariant = plan.arena : memref<16xf32>
  plan.copy %x to %carried : memref<16xf32>, memref<16xf32>
  plan.copy %x to %invariant : memref<16xf32>, memref<16xf32>
  plan.for 4 {
    // CHECK: plan.arena at 128 : memref<16xf32>
    // CHECK: plan.arena at 128 : memref<16xf32>
    %a = plan.arena : memref<16xf32>
    %b = plan.arena : memref<16xf32>
    plan.copy %invariant to %a : memref<16xf32>, memref<16xf32>
    plan.copy %a to %carried : memref<16xf32>, memref<16xf32>
    plan.copy %carried to %b : memref<16xf32>, memref<16xf32>
    plan.copy %b to %carried : memref<16xf32>, memref<16xf32>
  }
  plan.output "y" role output %carried : memref<16xf32>
}

// What the lists of two branches declare may share its place.
// CHECK-LABEL: plan.program @branches attributes {arena_bytes = 128 : i64}
plan.program @branches {
  %x = plan.input "x" role data : memref<16xf32>
  %p = plan.input "p" role data : memref<i1>
  %y = plan.arena : memref<16xf32>
  plan.if %p {
    // CHECK: plan.arena at 64 : memref<16xf32>
    %a = plan.arena : memref<16xf32>
    plan.copy %x to %a : memref<16xf32>, memref<16xf32>
    plan.copy %a to %y : memref<16xf32>, memref<16xf32>
  } else {
    // CHECK: plan.arena at 64 : memref<16xf32>
    %a = plan.arena : memref<16xf32>
    plan.copy %x to %a : memref<16xf32>, memref<16xf32>
    plan.copy %a to %y : memref<16xf32>, memref<16xf32>
  } : memref<i1>
  plan.output "y" role output %y : memref<16xf32>
}
