// The passes of the Planning stage, in the order they run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_PASSES_TD
#define MPC_PASSES_PLANNING_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlaceContractionsPass : Pass<"plan-place-contractions", "::mlir::func::FuncOp"> {
  let summary = "who does every contraction";
  let description = [{
    Asks compiler/Kernels/ContractionTable.h and gives every region of kind
    contraction the attribute `provider`: on a CPU, for example, float64 and,
    where vectors have less than 512 bits, large products are generated, and
    everything else is oneDNN's. Where the library of the target takes
    no epilogue, as on a GPU, the regions it does are dissolved: a tail that it
    knows becomes part of a `plan.product`, with the gradient of a bias and the
    mask of a relu where the backward pass wants them; any other tail becomes a
    pointwise region that reads the product, in the type the region has it.
    A relu becomes part of one only where the library was asked for: its relu
    of NaN is 0. Otherwise the library adds the bias, and a kernel does the relu.

    Before (test/passes/Planning/place-contractions.mlir):

    ```mlir
    %y = mpc.region contraction (%x, %w, %b) {kernel = "step_0_fc1"}
        : (tensor<32x64xf32>, tensor<10x64xf32>, tensor<10xf32>) -> tensor<32x10xf32> {
    ^bb0(%0: tensor<32x64xf32>, %1: tensor<10x64xf32>, %2: tensor<10xf32>):
      %3 = mpc.matmul %0, %1 {transB = true} : (tensor<32x64xf32>, tensor<10x64xf32>) -> tensor<32x10xf32>
      %4 = mpc.add %3, %2 : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32>
      mpc.yield %4 : tensor<32x10xf32>
    }
    ```

    After, for sm_80:

    ```mlir
    %y = plan.product bias %x, %w bias(%b : tensor<10xf32>)
        {transA = false, transB = true, alpha = 1.0 : f64}
        : (tensor<32x64xf32>, tensor<10x64xf32>) -> tensor<32x10xf32> unfused {
    ^bb0(%p: tensor<32x10xf32>):
      %0 = mpc.region pointwise(%p, %b) {kernel = "step_0_fc1_bias"}
          : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32> {
      ^bb0(%1: tensor<32x10xf32>, %2: tensor<10xf32>):
        %3 = mpc.add %1, %2 : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32>
        mpc.yield %3 : tensor<32x10xf32>
      }
      plan.yield %0 : tensor<32x10xf32>
    }
    ```

    Which products a library has algorithms for is known on the machine that
    runs them: `unfused` is what kernels do there if it has none for this one.
  }];
  let options = [
    Option<"contractions", "contractions", "std::string", "\"table\"",
           "who does contractions that both can do: table; library, which also "
           "does relu, where NaN becomes 0; generated; or bare: by table, but no "
           "library does what follows one">,
  ];
  let dependentDialects = ["::mpc::MPCDialect", "::mpc::amp::AMPDialect",
                           "::mpc::plan::PlanDialect"];
}

def FoldMovementPass : Pass<"plan-fold-movement", "::mlir::func::FuncOp"> {
  let summary = "products read and write through transposes and slices";
  let description = [{
    On a CPU, whose library takes any distance between rows and between
    matrices: an operand of a product that the library does, and that transposes,
    slices, expansions and reshapes make of another value, is read there, through
    `plan.access`, if its rows are still whole. A product whose result a
    transpose of whole rows alone reads writes it as that would: the library
    through `plan.arrange`, a kernel that follows it, or that is generated, with
    the transpose as its last op. Kernels that only moved what nobody reads any
    more go.

    Expects providers on contractions, of `plan-place-contractions`.

    Before (test/passes/Planning/fold-movement.mlir):

    ```mlir
    %q = mpc.region movement (%x) {kernel = "q"} : (tensor<8x16x4xf32>) -> tensor<16x8x4xf32> {
    ^bb0(%0: tensor<8x16x4xf32>):
      %1 = mpc.transpose %0 {perm = array<i64: 1, 0, 2>} : (tensor<8x16x4xf32>) -> tensor<16x8x4xf32>
      mpc.yield %1 : tensor<16x8x4xf32>
    }
    %s = mpc.region contraction (%q, %k) {kernel = "s", provider = #mpc.provider<library>} ...
    ```

    After:

    ```mlir
    %q = plan.access %x {offset = 0 : i64, strides = array<i64: 4, 64, 1>}
        : tensor<8x16x4xf32> to tensor<16x8x4xf32>
    %s = mpc.region contraction (%q, %k) {kernel = "s", provider = #mpc.provider<library>} ...
    ```

    Afterwards every reader of a `plan.access` is a product.
  }];
  let dependentDialects = ["::mpc::MPCDialect", "::mpc::plan::PlanDialect"];
}

def FillConstantsPass : Pass<"plan-fill-constants", "::mlir::func::FuncOp"> {
  let summary = "large constants of one value written by kernels";
  let description = [{
    Replaces every constant that is outside of kernels, has one value throughout
    and 16 KiB at least by a region that writes it, so that an artifact does not
    hold it. Runs before `plan-order`.

    Before (test/passes/Planning/fill-constants.mlir):

    ```mlir
    %0 = mpc.constant dense<0.0> : tensor<128x64xf32>
    return %0 : tensor<128x64xf32>
    ```

    After:

    ```mlir
    %0 = mpc.region pointwise() {kernel = "fill"} : () -> tensor<128x64xf32> {
      %1 = mpc.constant dense<0.0> : tensor<128x64xf32>
      mpc.yield %1 : tensor<128x64xf32>
    }
    return %0 : tensor<128x64xf32>
    ```
  }];
  let dependentDialects = ["::mpc::MPCDialect", "::mpc::plan::PlanDialect"];
}

def OrderPass : Pass<"plan-order", "::mlir::func::FuncOp"> {
  let summary = "the order in which a function's kernels run";
  let description = [{
    Moves every op that reads the old value of a state variable before the op
    that makes the new one, as far as their operands allow, so that
    `plan-build-programs` can write it in place. Otherwise keeps the order.

    Before (test/passes/Planning/order.mlir):

    ```mlir
    func.func @reader_first(%w: tensor<4xf32> {mpc.state = @w}, %g: tensor<4xf32>)
        -> (tensor<4xf32> {mpc.updates = @w}, tensor<4xf32>) {
      %0 = mpc.region pointwise (%w, %g) {kernel = "update"} ...
      %1 = mpc.region pointwise (%w) {kernel = "late_reader"} ...
      return %0, %1
    ```

    After:

    ```mlir
      %1 = mpc.region pointwise (%w) {kernel = "late_reader"} ...
      %0 = mpc.region pointwise (%w, %g) {kernel = "update"} ...
      return %0, %1
    ```
  }];
}

def RecomputeUnscalePass : Pass<"plan-recompute-unscale", "::mlir::func::FuncOp"> {
  let summary = "unscale gradients where they are read";
  let description = [{
    On a GPU, a pointwise region that holds nothing but `amp.unscale`, as
    `plan-place-contractions` makes of a gradient's tail, is repeated in every
    kernel that reads it.

    Before (test/passes/Planning/recompute-unscale.mlir):

    ```mlir
    %u = mpc.region pointwise (%dw, %scale) {kernel = "dw"} : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32> {
    ^bb0(%0: tensor<8x4xf32>, %1: tensor<f32>):
      %2 = amp.unscale %0, %1 : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
      mpc.yield %2 : tensor<8x4xf32>
    }
    %w1 = mpc.region pointwise (%w, %u, %lr) {kernel = "w"} ...
    ```

    After:

    ```mlir
    %w1 = mpc.region pointwise (%w, %lr, %dw, %scale) {kernel = "w"} ...
    ```
  }];
  let dependentDialects = ["::mpc::MPCDialect", "::mpc::amp::AMPDialect"];
}

def MergeUpdatesPass : Pass<"plan-merge-updates", "::mlir::func::FuncOp"> {
  let summary = "what the optimizer does to all parameters into few kernels";
  let description = [{
    On a GPU, pointwise regions with an optimizer's update become segments of
    one region, and so do reductions of rows in the phase `optimizer`; see
    compiler/Kernels/KernelSegments.h. Updates that broadcast, or that share a
    tensor which one of them may overwrite, stay apart, as do kernels of which
    one needs the other; what would have too many buffers for one becomes
    several. Runs before `plan-order`.

    Before (test/passes/Planning/merge-updates.mlir):

    ```mlir
    %0 = mpc.region pointwise (%w, %dw, %lr) {kernel = "w"} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32> { ... }
    %1 = mpc.region pointwise (%b, %db, %lr) {kernel = "b"} : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32> { ... }
    ```

    After:

    ```mlir
    %0:2 = mpc.region pointwise (%w, %dw, %lr, %b, %db) {kernel = "w"} : ... -> (tensor<8x4xf32>, tensor<8xf32>) {
    ^bb0(%2: tensor<8x4xf32>, %3: tensor<8x4xf32>, %4: tensor<f32>, %5: tensor<8xf32>, %6: tensor<8xf32>):
      %7 = mpc.region pointwise (%2, %3, %4) : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32> { ... }
      %8 = mpc.region pointwise (%5, %6, %4) : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32> { ... }
      mpc.yield %7, %8 : tensor<8x4xf32>, tensor<8xf32>
    }
    ```
  }];
}

def OutlineKernelsPass : Pass<"plan-outline-kernels", "::mlir::ModuleOp"> {
  let summary = "every mpc.region into a function and a call";
  let description = [{
    A region's body becomes a private function with the attribute `mpc.kernel`,
    its kind. A contraction whose provider is the library stays in the caller,
    where `plan-build-programs` makes it a library call; the ops after it become
    an `epilogue` kernel on its fp32 accumulators.

    Before (test/passes/Planning/outline-kernels.mlir):

    ```mlir
    %y = mpc.region contraction (%x, %w, %b) {kernel = "step_0_fc1", provider = #mpc.provider<library>}
        : (tensor<32x64xf32>, tensor<10x64xf32>, tensor<10xf32>) -> tensor<32x10xf32> {
    ^bb0(%0: tensor<32x64xf32>, %1: tensor<10x64xf32>, %2: tensor<10xf32>):
      %3 = mpc.matmul %0, %1 {transB = true} : (tensor<32x64xf32>, tensor<10x64xf32>) -> tensor<32x10xf32>
      %4 = mpc.add %3, %2 : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32>
      mpc.yield %4 : tensor<32x10xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.matmul %x, %w {transB = true} : (tensor<32x64xf32>, tensor<10x64xf32>) -> tensor<32x10xf32>
    %y = call @step_0_fc1(%0, %b) : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32>
    ```
  }];
  let dependentDialects = ["::mlir::func::FuncDialect", "::mpc::amp::AMPDialect"];
}

def PackFiltersPass : Pass<"plan-pack-filters", "::mlir::ModuleOp"> {
  let summary = "filters as generated convolutions read them";
  let description = [{
    The vectors of a convolution whose provider is `generated` lie along the
    channels it writes. Before its region comes one that transposes the filters
    so that these channels are last; the region gets the transposed ones, and
    transposes them back: in its kernel that is no work but other strides. What
    gains nothing (one channel per group) and what is for a GPU stays.

    Before (test/passes/Planning/pack-filters.mlir):

    ```mlir
    %y = mpc.region contraction(%x, %w) {provider = #mpc.provider<generated>, ...} {
    ^bb0(%0: tensor<2x8x8x4xf64>, %1: tensor<6x4x3x3xf64>):
      %2 = mpc.conv %0, %1 {layout = #mpc.layout<NHWC>, ...}
      mpc.yield %2
    }
    ```

    After:

    ```mlir
    %p = mpc.region movement(%w) ... {
    ^bb0(%0: tensor<6x4x3x3xf64>):
      %1 = mpc.transpose %0 {perm = array<i64: 2, 3, 1, 0>}
      mpc.yield %1
    }
    %y = mpc.region contraction(%x, %p) {provider = #mpc.provider<generated>, ...} {
    ^bb0(%0: tensor<2x8x8x4xf64>, %1: tensor<3x3x4x6xf64>):
      %2 = mpc.transpose %1 {perm = array<i64: 3, 2, 0, 1>}
      %3 = mpc.conv %0, %2 {layout = #mpc.layout<NHWC>, ...}
      mpc.yield %3
    }
    ```
  }];
}

def DeduplicateKernelsPass : Pass<"plan-deduplicate-kernels", "::mlir::ModuleOp"> {
  let summary = "one kernel for all calls that do the same";
  let description = [{
    Of kernels with equal types, kinds and bodies, the first stays and is called
    in place of the others; it keeps its name and location, and the steps keep
    theirs. Locations and discardable attributes (phases, decision records) do
    not count. Comes after `plan-outline-kernels`.

    Before (test/passes/Planning/deduplicate-kernels.mlir):

    ```mlir
    %0 = call @step_0_relu1(%x) : (tensor<64xf32>) -> tensor<64xf32>
    %1 = call @step_1_relu2(%0) : (tensor<64xf32>) -> tensor<64xf32>
    ```

    After, without `@step_1_relu2`:

    ```mlir
    %0 = call @step_0_relu1(%x) : (tensor<64xf32>) -> tensor<64xf32>
    %1 = call @step_0_relu1(%0) : (tensor<64xf32>) -> tensor<64xf32>
    ```
  }];
}

def BuildProgramsPass : Pass<"plan-build-programs", "::mlir::ModuleOp"> {
  let summary = "functions on tensors into programs on buffers";
  let description = [{
    Every function that is no kernel becomes a `plan.program` of its name. New
    values of state variables are written in place where nothing needs the old
    value any more, and copied at the end otherwise; pointwise kernels and
    epilogues may write over an operand that ends there. Offsets into the arena
    are assigned by `plan-assign-offsets`. On a GPU launches get their threads,
    and libraries choose tiles. On a CPU, a kernel that takes a slice along one
    axis is a copy of rows, without code of its own. Expects that what computes is a call of a kernel,
    a contraction of the library or a `plan.product`.

    Before (test/passes/Planning/build-programs.mlir):

    ```mlir
    func.func @in_place(%x: tensor<4xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
                        %w: tensor<4xf32> {mpc.state = @w}) -> (tensor<4xf32> {mpc.updates = @w}) {
      %0 = call @relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = call @sub(%w, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    ```

    After:

    ```mlir
    plan.program @in_place {
      %x = plan.input "x" role data : memref<4xf32>
      %w = plan.state @w : memref<4xf32>
      %0 = plan.arena : memref<4xf32>
      plan.launch @relu ins(%x : memref<4xf32>) outs(%0 : memref<4xf32>) extent 4 grain 16384
      plan.launch @sub ins(%w, %0 : memref<4xf32>, memref<4xf32>) outs(%w : memref<4xf32>) extent 4 grain 16384
    }
    ```

    Afterwards the module holds variables, programs and kernels alone.
  }];
  let options = [
    Option<"tf32", "tf32", "bool", "false",
           "let a GPU round the operands of f32 contractions to tf32">,
  ];
  let dependentDialects = ["::mpc::plan::PlanDialect"];
}

def AssignOffsetsPass : Pass<"plan-assign-offsets", "::mlir::ModuleOp"> {
  let summary = "offsets for the slices of every program's arena";
  let description = [{
    Gives every `plan.arena` its place and sets `arena_bytes`. Slices that hold
    data at the same time do not overlap; a view keeps what it shows.

    Before (test/passes/Planning/assign-offsets.mlir):

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
      %a = plan.arena at 0 : memref<64xf32>
      %b = plan.arena at 256 : memref<64xf32>
      %c = plan.arena at 0 : memref<64xf32>
      ...
    ```
  }];
}

def PrintPartitionPass : Pass<"plan-print-partition", "::mlir::ModuleOp"> {
  let summary = "say how the work of every kernel is divided";
  let description = [{
    Emits one remark per kernel function: extent, grain and inner of
    `compiler/Kernels/KernelPartition.h`, on a GPU threads, lanes and vector
    too. Changes nothing; for tests and for reading a plan. See
    test/compiler/Kernels/kernel-partition.mlir.
  }];
}

#endif // MPC_PASSES_PLANNING_PASSES_TD
