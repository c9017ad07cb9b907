// RUN: mpc-opt %s --plan-assign-offsets | FileCheck %s

// Dead memory is reused by later buffers. An output stays alive.
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

// A parallel loop's buffers have slices side by side: each worker has a copy of
// them. Loops inside belong to an iteration.
// CHECK-LABEL: plan.program @parallel attributes {arena_bytes = 192 : i64}
plan.program @parallel {
  // CHECK: plan.arena at 128 : memref<4x2xf32>
  // CHECK: plan.arena at 0 : memref<32xf32>
  %x = plan.input "x" role data : memref<4x2xf32>
  %y = plan.arena : memref<4x2xf32>
  %before = plan.arena : memref<32xf32>
  plan.copy %before to %before : memref<32xf32>, memref<32xf32>
  // CHECK: plan.for 4 parallel {
  plan.for 4 parallel {
    %in = plan.part %x from 0 by 8 : memref<4x2xf32> to memref<2xf32>
    %out = plan.part %y from 0 by 8 : memref<4x2xf32> to memref<2xf32>
    // CHECK: plan.arena at 0 : memref<2xf32>
    // CHECK: plan.arena at 64 : memref<2xf32>
    %a = plan.arena : memref<2xf32>
    %b = plan.arena : memref<2xf32>
    plan.copy %in to %a : memref<2xf32>, memref<2xf32>
    // CHECK: plan.for 3 {
    plan.for 3 parallel {
      // CHECK: plan.arena at 64 : memref<2xf32>
      %c = plan.arena : memref<2xf32>
      plan.copy %in to %c : memref<2xf32>, memref<2xf32>
    }
    plan.copy %in to %b : memref<2xf32>, memref<2xf32>
    plan.copy %b to %a : memref<2xf32>, memref<2xf32>
    plan.copy %a to %out : memref<2xf32>, memref<2xf32>
    // CHECK: {private_bytes = 128 : i64, private_offset = 0 : i64}
  }
  plan.output "y" role output %y : memref<4x2xf32>
}

// The buffers exceed a cache: workers share the steps of each iteration. The
// inner loop is parallel by itself.
// CHECK-LABEL: plan.program @too_large
plan.program @too_large {
  %x = plan.input "x" role data : memref<4x1048576xf32>
  %y = plan.arena : memref<4x1048576xf32>
  // CHECK: plan.for 4 {
  plan.for 4 parallel {
    %in = plan.part %x from 0 by 4194304 : memref<4x1048576xf32> to memref<1048576xf32>
    %out = plan.part %y from 0 by 4194304 : memref<4x1048576xf32> to memref<1048576xf32>
    %a = plan.arena : memref<1048577xf32>
    %b = plan.view %a at 0 : memref<1048577xf32> to memref<1048576xf32>
    plan.copy %in to %b : memref<1048576xf32>, memref<1048576xf32>
    // CHECK: plan.for 2 parallel {
    plan.for 2 parallel {
      %from = plan.part %b from 0 by 2097152 : memref<1048576xf32> to memref<524288xf32>
      %to = plan.part %out from 0 by 2097152 : memref<1048576xf32> to memref<524288xf32>
      %c = plan.arena : memref<524288xf32>
      plan.copy %from to %c : memref<524288xf32>, memref<524288xf32>
      plan.copy %c to %to : memref<524288xf32>, memref<524288xf32>
      // CHECK: {private_bytes = 2097152 : i64, private_offset = 20971584 : i64}
    }
    // CHECK-NOT: private
  }
  plan.output "y" role output %y : memref<4x1048576xf32>
}

// Outer buffers that a loop uses are alive in all iterations. Buffers declared
// in the loop are alive from their first use to their last.
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

// Buffers declared in two branches may share memory.
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
