// The second half of the Planning stage, on whole modules: regions become
// kernels and functions become programs. Passes are listed in the order they
// run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_KERNELPASSES_TD
#define MPC_PASSES_PLANNING_KERNELPASSES_TD

include "mlir/Pass/PassBase.td"

def PackFiltersPass : Pass<"plan-pack-filters", "::mlir::ModuleOp"> {
  let summary = "store filters in the order that generated convolutions read";
  let description = [{
    A generated convolution computes vectors along the channels it writes. The
    pass inserts a region that transposes the filters to put the channels last.
    The convolution's region reads the transposed filters and transposes them
    back, which costs the kernel only other strides. Convolutions on a GPU, and
    with one channel per group, would gain nothing and stay unchanged.

    Before:

    ```mlir
    func.func @step(%x: tensor<2x8x8x4xf64>, %w: tensor<6x4x3x3xf64>) -> tensor<2x8x8x6xf64> {
      %y = mpc.region contraction (%x, %w) {kernel = "conv", provider = #mpc.provider<generated>}
          : (tensor<2x8x8x4xf64>, tensor<6x4x3x3xf64>) -> tensor<2x8x8x6xf64> {
      ^bb0(%0: tensor<2x8x8x4xf64>, %1: tensor<6x4x3x3xf64>):
        %2 = mpc.conv %0, %1 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
            dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>}
            : (tensor<2x8x8x4xf64>, tensor<6x4x3x3xf64>) -> tensor<2x8x8x6xf64>
        mpc.yield %2 : tensor<2x8x8x6xf64>
      }
      return %y : tensor<2x8x8x6xf64>
    }
    ```

    After, with `target=x86-64-v3`:

    ```mlir
    %0 = mpc.region movement(%w) {kernel = "conv_filters"}
        : (tensor<6x4x3x3xf64>) -> tensor<3x3x4x6xf64> {
    ^bb0(%arg2: tensor<6x4x3x3xf64>):
      %2 = mpc.transpose %arg2 {perm = array<i64: 2, 3, 1, 0>}
          : (tensor<6x4x3x3xf64>) -> tensor<3x3x4x6xf64>
      mpc.yield %2 : tensor<3x3x4x6xf64>
    }
    %1 = mpc.region contraction(%x, %0)
        {kernel = "conv", provider = #mpc.provider<generated>}
        : (tensor<2x8x8x4xf64>, tensor<3x3x4x6xf64>) -> tensor<2x8x8x6xf64> {
    ^bb0(%arg2: tensor<2x8x8x4xf64>, %arg3: tensor<3x3x4x6xf64>):
      %2 = mpc.transpose %arg3 {perm = array<i64: 3, 2, 0, 1>}
          : (tensor<3x3x4x6xf64>) -> tensor<6x4x3x3xf64>
      %3 = mpc.conv %arg2, %2
          {dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>, pads = array<i64: 1,
          1, 1, 1>, strides = array<i64: 1, 1>}
          : (tensor<2x8x8x4xf64>, tensor<6x4x3x3xf64>) -> tensor<2x8x8x6xf64>
      mpc.yield %3 : tensor<2x8x8x6xf64>
    }
    return %1 : tensor<2x8x8x6xf64>
    ```
  }];
}

def OutlineKernelsPass : Pass<"plan-outline-kernels", "::mlir::ModuleOp"> {
  let summary = "turn every mpc.region into a function and a call";
  let description = [{
    A region's body becomes a private function with the attribute `mpc.kernel`,
    its kind. A library contraction stays in the caller, where
    `plan-build-programs` makes a library call of it. The ops after the
    contraction become an `epilogue` kernel on its fp32 accumulators.

    Before:

    ```mlir
    func.func @step(%x: tensor<32x64xbf16>, %w: tensor<10x64xbf16>, %b: tensor<10xf32>)
        -> tensor<32x10xf32> {
      %y = mpc.region contraction (%x, %w, %b)
          {kernel = "step_0_fc1", provider = #mpc.provider<library>}
          : (tensor<32x64xbf16>, tensor<10x64xbf16>, tensor<10xf32>) -> tensor<32x10xf32> {
      ^bb0(%0: tensor<32x64xbf16>, %1: tensor<10x64xbf16>, %2: tensor<10xf32>):
        %3 = mpc.matmul %0, %1 {transB = true}
            : (tensor<32x64xbf16>, tensor<10x64xbf16>) -> tensor<32x10xf32>
        %4 = mpc.add %3, %2 : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32>
        mpc.yield %4 : tensor<32x10xf32>
      }
      return %y : tensor<32x10xf32>
    }
    ```

    After:

    ```mlir
    func.func @step(%x: tensor<32x64xbf16>, %w: tensor<10x64xbf16>, %b: tensor<10xf32>)
        -> tensor<32x10xf32> {
      %0 = mpc.matmul %x, %w {transB = true}
          : (tensor<32x64xbf16>, tensor<10x64xbf16>) -> tensor<32x10xf32>
      %1 = call @step_0_fc1(%0, %b)
          : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32>
      return %1 : tensor<32x10xf32>
    }
    func.func private @step_0_fc1(%arg0: tensor<32x10xf32>, %arg1: tensor<10xf32>) -> tensor<32x10xf32>
        attributes {mpc.kernel = #mpc.kernel<epilogue>} {
      %0 = mpc.add %arg0, %arg1 : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32>
      return %0 : tensor<32x10xf32>
    }
    ```
  }];
  let dependentDialects = ["::mlir::func::FuncDialect", "::mpc::amp::AMPDialect",
                           "::mpc::plan::PlanDialect"];
}

def DeduplicateKernelsPass : Pass<"plan-deduplicate-kernels", "::mlir::ModuleOp"> {
  let summary = "share one kernel among calls that do the same";
  let description = [{
    Keeps the first of several kernels with equal types, kinds and bodies, and
    calls it instead of the others. The kernel keeps its name and location, and
    so do the steps. Locations and discardable attributes (phases, decision
    records) are not compared. Runs after `plan-outline-kernels`.

    Before:

    ```mlir
    func.func @step(%x: tensor<64xf32>) -> tensor<64xf32> {
      %0 = call @step_0_relu1(%x) : (tensor<64xf32>) -> tensor<64xf32>
      %1 = call @step_1_relu2(%0) : (tensor<64xf32>) -> tensor<64xf32>
      return %1 : tensor<64xf32>
    }
    func.func private @step_0_relu1(%x: tensor<64xf32>) -> tensor<64xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.relu %x : (tensor<64xf32>) -> tensor<64xf32>
      return %0 : tensor<64xf32>
    }
    func.func private @step_1_relu2(%x: tensor<64xf32>) -> tensor<64xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.relu %x : (tensor<64xf32>) -> tensor<64xf32>
      return %0 : tensor<64xf32>
    }
    ```

    After:

    ```mlir
    func.func @step(%x: tensor<64xf32>) -> tensor<64xf32> {
      %0 = call @step_0_relu1(%x) : (tensor<64xf32>) -> tensor<64xf32>
      %1 = call @step_0_relu1(%0) : (tensor<64xf32>) -> tensor<64xf32>
      return %1 : tensor<64xf32>
    }
    func.func private @step_0_relu1(%x: tensor<64xf32>) -> tensor<64xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
    ```
  }];
}

def BuildProgramsPass : Pass<"plan-build-programs", "::mlir::ModuleOp"> {
  let summary = "turn functions on tensors into programs on buffers";
  let description = [{
    Every function, except kernels, becomes a `plan.program` of equal name. A
    new value of a state variable overwrites the old value if nothing reads the
    old value later; otherwise, a copy at the end does. Pointwise kernels and
    epilogues may overwrite an operand on its last use. Offsets into the arena
    are assigned by `plan-assign-offsets`. On a GPU, launches get their threads,
    and libraries choose tiles. On a CPU, a kernel that takes a slice along one
    axis becomes a copy of rows, without code. Parts of a join along its
    outermost axis are written in place. Expects every computation to be a call
    of a kernel, a library contraction or a `plan.product`.

    Before:

    ```mlir
    mpc.variable @w : tensor<4xf32> role parameter
    func.func @step(%x: tensor<4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                    %w: tensor<4xf32> {mpc.state = @w}) -> (tensor<4xf32> {mpc.updates = @w}) {
      %0 = call @relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = call @sub(%w, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    func.func private @relu(%x: tensor<4xf32>) -> tensor<4xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.relu %x : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    func.func private @sub(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.sub %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    ```

    After, with `target=x86-64`:

    ```mlir
    mpc.variable @w : tensor<4xf32> role parameter
    plan.program @step {
      %0 = plan.input "x" role data : memref<4xf32>
      %1 = plan.state @w : memref<4xf32>
      %2 = plan.arena : memref<4xf32>
      plan.launch @relu ins(%0 : memref<4xf32>) outs(%2 : memref<4xf32>)
          extent 4 grain 16384
      plan.launch @sub ins(%1, %2 : memref<4xf32>, memref<4xf32>) outs(%1 : memref<4xf32>)
          extent 4 grain 16384
    }
    ```

    Afterwards the module holds only variables, programs and kernels.
  }];
  let dependentDialects = ["::mpc::plan::PlanDialect"];
}

def AssignOffsetsPass : Pass<"plan-assign-offsets", "::mlir::ModuleOp"> {
  let summary = "assign offsets to the allocations in every program's arena";
  let description = [{
    Gives every `plan.arena` an offset and sets `arena_bytes`. Allocations that
    hold data at the same time do not overlap. A view keeps its source alive.
    The allocations of a parallel `plan.for` form its private memory; above 4
    MiB, the loop becomes sequential.

    Before:

    ```mlir
    plan.program @chain {
      %x = plan.input "x" role data : memref<64xf32>
      %a = plan.arena : memref<64xf32>
      %b = plan.arena : memref<64xf32>
      %c = plan.arena : memref<64xf32>
      plan.copy %x to %a : memref<64xf32>, memref<64xf32>
      plan.copy %a to %b : memref<64xf32>, memref<64xf32>
      plan.copy %b to %c : memref<64xf32>, memref<64xf32>
      plan.output "c" role output %c : memref<64xf32>
    }
    ```

    After:

    ```mlir
    plan.program @chain attributes {arena_bytes = 512 : i64} {
      %0 = plan.input "x" role data : memref<64xf32>
      %1 = plan.arena at 0 : memref<64xf32>
      %2 = plan.arena at 256 : memref<64xf32>
      %3 = plan.arena at 0 : memref<64xf32>
      plan.copy %0 to %1 : memref<64xf32>, memref<64xf32>
      plan.copy %1 to %2 : memref<64xf32>, memref<64xf32>
      plan.copy %2 to %3 : memref<64xf32>, memref<64xf32>
      plan.output "c" role output %3 : memref<64xf32>
    }
    ```
  }];
}

def ShardUpdatesPass : Pass<"plan-shard-updates", "::mlir::ModuleOp"> {
  let summary = "let each rank update only the parameters that it owns";
  let description = [{
    Works on modules with an `mpc.all_reduce` with owners (`--shard-optimizer`).
    Expects kernels as functions, in execution order.

    Gives the attribute `plan.owner` to each op of an owner: ops on a reduced
    gradient of the owner, and ops whose results only ops of the owner read. Ops
    with data of the rank stay on all ranks. Adds a `plan.share` if another op
    reads a value of an owner, or if the function returns the value. Shares the
    new values of variables on all ranks in groups of `bucket-bytes`.

    Gives the attribute `plan.owner` to each variable whose users are all ops of
    the owner. Other ranks do not hold the variable: a moment, or a master
    weight with a low copy. All ranks hold the weights of the forward pass.

    Before:

    ```mlir
    mpc.variable @w : tensor<4xf32> role parameter
    mpc.variable @w.m : tensor<4xf32> role optimizer_state
    func.func @step(%x: tensor<4xf32> {mpc.input = "x"}, %w: tensor<4xf32> {mpc.state = @w},
                    %m: tensor<4xf32> {mpc.state = @w.m})
        -> (tensor<4xf32> {mpc.updates = @w}, tensor<4xf32> {mpc.updates = @w.m}) {
      %g = call @mul(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %mean = mpc.all_reduce mean %g owners [@w] : (tensor<4xf32>) -> tensor<4xf32>
      %next_m = call @mul(%mean, %m) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %next_w = call @mul(%next_m, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %next_w, %next_m : tensor<4xf32>, tensor<4xf32>
    }
    func.func private @mul(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %y = mpc.mul %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```

    After, with `target=x86-64-v3`:

    ```mlir
    mpc.variable @w : tensor<4xf32> role parameter
    mpc.variable @w.m : tensor<4xf32> role optimizer_state {plan.owner = @w}
    ...
    %0 = call @mul(%arg0, %arg1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = mpc.all_reduce mean %0 owners [@w] : (tensor<4xf32>) -> tensor<4xf32>
    %2 = call @mul(%1, %arg2) {plan.owner = @w} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = call @mul(%2, %arg1) {plan.owner = @w} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %4 = plan.share %3 owner @w : tensor<4xf32>
    return %4, %2 : tensor<4xf32>, tensor<4xf32>
    ```
  }];
  let options = [
    Option<"bucketBytes", "bucket-bytes", "int64_t", "25 << 20",
           "bytes of a group of shared values; the last value may exceed them">,
  ];
  let dependentDialects = ["::mpc::MPCDialect", "::mpc::plan::PlanDialect"];
}

def PrintPartitionPass : Pass<"plan-print-partition", "::mlir::ModuleOp"> {
  let summary = "print how the work of every kernel is divided";
  let description = [{
    Emits one remark per kernel function with extent, grain and inner (see
    `compiler/Kernels/KernelPartition.h`), on a GPU also threads, lanes and
    vector. Changes nothing; for tests and for reading a plan.
    test/compiler/Kernels/kernel-partition.mlir tests the rule.

    Before:

    ```mlir
    func.func private @row_sum(%x: tensor<64x8xf32>) -> tensor<64x1xf32>
        attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
      %e = mpc.exp %x : (tensor<64x8xf32>) -> tensor<64x8xf32>
      %y = mpc.reduce_sum %e {axes = array<i64: 1>, keepdims = true}
          : (tensor<64x8xf32>) -> tensor<64x1xf32>
      return %y : tensor<64x1xf32>
    }
    ```

    After, with `target=x86-64-v4`, a line more:

    ```text
    ...: remark: extent 64, grain 2048, inner 8
    ```

    After, with `target=sm_80`, a line more:

    ```text
    ...: remark: extent 64, grain 128, inner 8, threads 256, lanes 2, vector 4
    ```
  }];
}

def VerifyPlanPass : Pass<"plan-verify", "::mlir::ModuleOp"> {
  let summary = "check that launches match the loops of their kernels";
  let description = [{
    Fails unless extent, grain, threads, shared memory and scratch memory of
    every launch match the kernel (`compiler/Kernels/KernelPartition.h`). The
    ops' own verifiers check that buffers fit the kernel's tensors.

    Before:

    ```mlir
    func.func private @relu(%x: tensor<32x10xf32>) -> tensor<32x10xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %y = mpc.relu %x : (tensor<32x10xf32>) -> tensor<32x10xf32>
      return %y : tensor<32x10xf32>
    }
    plan.program @step {
      %x = plan.input "x" role data : memref<32x10xf32>
      %y = plan.arena : memref<32x10xf32>
      plan.launch @relu ins(%x : memref<32x10xf32>)
          outs(%y : memref<32x10xf32>) extent 321 grain 16384
    }
    ```

    After, with `target=x86-64-v3`, instead of IR:

    ```text
    ...: error: 'plan.launch' op expected extent 320, which @relu is made for, found 321
    ```
  }];
}

#endif // MPC_PASSES_PLANNING_KERNELPASSES_TD
