// Passes of the Planning stage on regions, which are still ops of their
// functions. The passes decide which steps exist, and in which order.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_REGIONPASSES_TD
#define MPC_PASSES_PLANNING_REGIONPASSES_TD

include "mlir/Pass/PassBase.td"

def RecomputeUnscalePass : Pass<"plan-recompute-unscale", "::mlir::func::FuncOp"> {
  let summary = "unscale gradients where they are read";
  let description = [{
    On a GPU, clones a pointwise region that holds only `amp.unscale`, as made
    by `plan-place-contractions` from a gradient's epilogue, into every kernel
    that reads it.

    Before:

    ```mlir
    func.func @step(%w: tensor<8x4xf32>, %dw: tensor<8x4xf32>, %scale: tensor<f32>,
                    %lr: tensor<f32>) -> tensor<8x4xf32> {
      %u = mpc.region pointwise (%dw, %scale) {kernel = "dw"}
          : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32> {
      ^bb0(%0: tensor<8x4xf32>, %1: tensor<f32>):
        %2 = amp.unscale %0, %1 : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
        mpc.yield %2 : tensor<8x4xf32>
      }
      %w1 = mpc.region pointwise (%w, %u, %lr) {kernel = "w"}
          : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32> {
      ^bb0(%0: tensor<8x4xf32>, %1: tensor<8x4xf32>, %2: tensor<f32>):
        %3 = mpc.sgd %0, %1, %2
            : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
        mpc.yield %3 : tensor<8x4xf32>
      }
      return %w1 : tensor<8x4xf32>
    }
    ```

    After, with `target=sm_80`:

    ```mlir
    %0 = mpc.region pointwise(%w, %lr, %dw, %scale) {kernel = "w"}
        : (tensor<8x4xf32>, tensor<f32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32> {
    ^bb0(%arg4: tensor<8x4xf32>, %arg5: tensor<f32>, %arg6: tensor<8x4xf32>,
        %arg7: tensor<f32>):
      %1 = amp.unscale %arg6, %arg7 : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
      %2 = mpc.sgd %arg4, %1, %arg5
          : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
      mpc.yield %2 : tensor<8x4xf32>
    }
    return %0 : tensor<8x4xf32>
    ```
  }];
  let dependentDialects = ["::mpc::MPCDialect", "::mpc::amp::AMPDialect"];
}

def MergeUpdatesPass : Pass<"plan-merge-updates", "::mlir::func::FuncOp"> {
  let summary = "merge the optimizer's work on all parameters into few "
                "kernels";
  let description = [{
    On a GPU, merges pointwise regions with optimizer updates into segments of
    one region, and likewise row reductions in the phase `optimizer`; see
    compiler/Kernels/KernelSegments.h. Updates joined by Fusion without a common
    tensor become separate segments. Updates that broadcast, updates with a
    common tensor that either may overwrite, and dependent kernels stay
    separate. A group with too many buffers for one kernel is divided. Runs
    before `plan-order`.

    Before:

    ```mlir
    func.func @step(%w: tensor<8x4xf32>, %b: tensor<8xf32>, %dw: tensor<8x4xf32>,
                    %db: tensor<8xf32>, %lr: tensor<f32>) -> (tensor<8x4xf32>, tensor<8xf32>) {
      %0 = mpc.region pointwise (%w, %dw, %lr) {kernel = "w", mpc.phase = #mpc.phase<optimizer>}
          : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32> {
      ^bb0(%2: tensor<8x4xf32>, %3: tensor<8x4xf32>, %4: tensor<f32>):
        %5 = mpc.sgd %2, %3, %4
            : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
        mpc.yield %5 : tensor<8x4xf32>
      }
      %1 = mpc.region pointwise (%b, %db, %lr) {kernel = "b", mpc.phase = #mpc.phase<optimizer>}
          : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32> {
      ^bb0(%2: tensor<8xf32>, %3: tensor<8xf32>, %4: tensor<f32>):
        %5 = mpc.sgd %2, %3, %4 : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
        mpc.yield %5 : tensor<8xf32>
      }
      return %0, %1 : tensor<8x4xf32>, tensor<8xf32>
    }
    ```

    After, with `target=sm_80`:

    ```mlir
    %0:2 = mpc.region pointwise(%w, %dw, %lr, %b, %db)
        {kernel = "w", mpc.phase = #mpc.phase<optimizer>}
        : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>, tensor<8xf32>, tensor<8xf32>)
        -> (tensor<8x4xf32>, tensor<8xf32>) {
    ^bb0(%arg5: tensor<8x4xf32>, %arg6: tensor<8x4xf32>, %arg7: tensor<f32>,
        %arg8: tensor<8xf32>, %arg9: tensor<8xf32>):
      %1 = mpc.region pointwise(%arg5, %arg6, %arg7) {mpc.phase = #mpc.phase<optimizer>}
          : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32> {
      ^bb0(%arg10: tensor<8x4xf32>, %arg11: tensor<8x4xf32>, %arg12: tensor<f32>):
        %3 = mpc.sgd %arg10, %arg11, %arg12
            : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
        mpc.yield %3 : tensor<8x4xf32>
      }
      %2 = mpc.region pointwise(%arg8, %arg9, %arg7) {mpc.phase = #mpc.phase<optimizer>}
          : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32> {
      ^bb0(%arg10: tensor<8xf32>, %arg11: tensor<8xf32>, %arg12: tensor<f32>):
        %3 = mpc.sgd %arg10, %arg11, %arg12
            : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
        mpc.yield %3 : tensor<8xf32>
      }
      mpc.yield %1, %2 : tensor<8x4xf32>, tensor<8xf32>
    }
    return %0#0, %0#1 : tensor<8x4xf32>, tensor<8xf32>
    ```
  }];
}

def FillConstantsPass : Pass<"plan-fill-constants", "::mlir::func::FuncOp"> {
  let summary = "let kernels write large constants of one value";
  let description = [{
    Replaces every constant outside kernels with a single value and at least 16
    KiB by a region that writes the constant. The artifact then does not store
    the constant. Runs before `plan-order`.

    Before:

    ```mlir
    func.func @step() -> tensor<128x64xf32> {
      %0 = mpc.constant dense<0.0> : tensor<128x64xf32>
      return %0 : tensor<128x64xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.region pointwise() {kernel = "fill"} : () -> tensor<128x64xf32> {
      %1 = mpc.constant dense<0.000000e+00> : tensor<128x64xf32>
      mpc.yield %1 : tensor<128x64xf32>
    }
    return %0 : tensor<128x64xf32>
    ```
  }];
  let dependentDialects = ["::mpc::MPCDialect", "::mpc::plan::PlanDialect"];
}

def SumOperandsPass : Pass<"plan-sum-operands", "::mlir::func::FuncOp"> {
  let summary = "let products sum an operand that they read";
  let description = [{
    Applies to CPUs with AMX, whose library packs its operands. If kernels only
    sum the rows of an operand of a product, in f32, and the product contracts
    these rows too, the product computes the sum, and the kernels are erased.
    Example: the gradient of a layer's bias, computed with the gradient of its
    weight. `plan-outline-kernels` turns the region into a `plan.product` of
    kind `bgrad_a` or `bgrad_b`.

    Expects providers on contractions, from `plan-place-contractions`. Runs
    before `plan-order`.

    Before:

    ```mlir
    func.func @step(%x: tensor<512x64xbf16>, %dy: tensor<512x32xbf16>)
        -> (tensor<64x32xf32>, tensor<1x32xf32>) {
      %dw = mpc.region contraction (%x, %dy)
          {kernel = "dw", provider = #mpc.provider<library>}
          : (tensor<512x64xbf16>, tensor<512x32xbf16>) -> tensor<64x32xf32> {
      ^bb0(%0: tensor<512x64xbf16>, %1: tensor<512x32xbf16>):
        %2 = mpc.matmul %0, %1 {transA = true}
            : (tensor<512x64xbf16>, tensor<512x32xbf16>) -> tensor<64x32xf32>
        mpc.yield %2 : tensor<64x32xf32>
      }
      %db = mpc.region column_reduce (%dy) {kernel = "db"}
          : (tensor<512x32xbf16>) -> tensor<1x32xf32> {
      ^bb0(%0: tensor<512x32xbf16>):
        %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true}
            : (tensor<512x32xbf16>) -> tensor<1x32xf32>
        mpc.yield %1 : tensor<1x32xf32>
      }
      return %dw, %db : tensor<64x32xf32>, tensor<1x32xf32>
    }
    ```

    After, with `target=sapphirerapids`:

    ```mlir
    %0:2 = mpc.region contraction(%x, %dy)
        {kernel = "dw", provider = #mpc.provider<library>}
        : (tensor<512x64xbf16>, tensor<512x32xbf16>)
        -> (tensor<64x32xf32>, tensor<1x32xf32>) {
    ^bb0(%arg2: tensor<512x64xbf16>, %arg3: tensor<512x32xbf16>):
      %1 = mpc.matmul %arg2, %arg3 {transA = true}
          : (tensor<512x64xbf16>, tensor<512x32xbf16>) -> tensor<64x32xf32>
      %2 = mpc.reduce_sum %arg3 {axes = array<i64: 0>, keepdims = true}
          : (tensor<512x32xbf16>) -> tensor<1x32xf32>
      mpc.yield %1, %2 : tensor<64x32xf32>, tensor<1x32xf32>
    }
    return %0#0, %0#1 : tensor<64x32xf32>, tensor<1x32xf32>
    ```
  }];
  let dependentDialects = ["::mpc::MPCDialect"];
}

def JoinColumnSumsPass : Pass<"plan-join-column-sums", "::mlir::func::FuncOp"> {
  let summary = "let kernels over rows sum columns of values they already "
                "hold";
  let description = [{
    On a CPU, a kernel that only sums columns joins a kernel that reduces rows
    of equal shape, if both read a common tensor, or either reads a result of
    the other. Example: in the backward pass of a layer norm, the gradients of
    scale and shift, and that of a bias added before. One launch then reads what
    two launches read; see compiler/Kernels/ColumnSums.h. Rows must have at
    least 768 columns: then a separate kernel would add in the same order, so
    results keep their bits. A slice makes one element of the result in every
    column. So sums in fewer than 8 parts of many elements stay separate, and so
    do sums that do not fit in half of a first-level cache.

    Runs before `plan-order`.

    Before:

    ```mlir
    func.func @step(%x: tensor<8x64x768xf32>)
        -> (tensor<8x64x768xf32>, tensor<8x1x768xf32>) {
      %y = mpc.region row_reduce (%x) {kernel = "y"}
          : (tensor<8x64x768xf32>) -> tensor<8x64x768xf32> {
      ^bb0(%0: tensor<8x64x768xf32>):
        %1 = mpc.reduce_mean %0 {axes = array<i64: 2>, keepdims = true}
            : (tensor<8x64x768xf32>) -> tensor<8x64x1xf32>
        %2 = mpc.sub %0, %1
            : (tensor<8x64x768xf32>, tensor<8x64x1xf32>) -> tensor<8x64x768xf32>
        mpc.yield %2 : tensor<8x64x768xf32>
      }
      %sums = mpc.region column_reduce (%y) {kernel = "sums"}
          : (tensor<8x64x768xf32>) -> tensor<8x1x768xf32> {
      ^bb0(%0: tensor<8x64x768xf32>):
        %1 = mpc.reduce_sum %0 {axes = array<i64: 1>, keepdims = true}
            : (tensor<8x64x768xf32>) -> tensor<8x1x768xf32>
        mpc.yield %1 : tensor<8x1x768xf32>
      }
      return %y, %sums : tensor<8x64x768xf32>, tensor<8x1x768xf32>
    }
    ```

    After, with `target=x86-64-v3`:

    ```mlir
    %0:2 = mpc.region row_reduce(%x) {kernel = "y"}
        : (tensor<8x64x768xf32>) -> (tensor<8x64x768xf32>, tensor<8x1x768xf32>) {
    ^bb0(%arg1: tensor<8x64x768xf32>):
      %1 = mpc.reduce_mean %arg1 {axes = array<i64: 2>, keepdims = true}
          : (tensor<8x64x768xf32>) -> tensor<8x64x1xf32>
      %2 = mpc.sub %arg1, %1
          : (tensor<8x64x768xf32>, tensor<8x64x1xf32>) -> tensor<8x64x768xf32>
      %3 = mpc.reduce_sum %2 {axes = array<i64: 1>, keepdims = true}
          : (tensor<8x64x768xf32>) -> tensor<8x1x768xf32>
      mpc.yield %2, %3 : tensor<8x64x768xf32>, tensor<8x1x768xf32>
    }
    return %0#0, %0#1 : tensor<8x64x768xf32>, tensor<8x1x768xf32>
    ```
  }];
  let dependentDialects = ["::mpc::MPCDialect"];
}

def OrderPass : Pass<"plan-order", "::mlir::func::FuncOp"> {
  let summary = "choose the order in which a function's kernels run";
  let description = [{
    Moves readers of the old value of a state variable before the update, if
    dependences allow, so that `plan-build-programs` can update in place. An op
    that makes only new values of state then runs as early as possible: the
    gradient of a weight is in memory only until the update, not until all
    gradients exist. An `mpc.all_reduce` runs as early as possible too, but
    updates that read its results keep their place behind the backward pass,
    which then runs while the ranks exchange gradients. Otherwise keeps the
    order.

    Before:

    ```mlir
    mpc.variable @w : tensor<4xf32> role parameter
    func.func @step(%w: tensor<4xf32> {mpc.state = @w}, %g: tensor<4xf32>)
        -> (tensor<4xf32> {mpc.updates = @w}, tensor<4xf32>) {
      %0 = mpc.region pointwise (%w, %g) {kernel = "update"}
          : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
        %2 = mpc.sub %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        mpc.yield %2 : tensor<4xf32>
      }
      %1 = mpc.region pointwise (%w) {kernel = "late_reader"} : (tensor<4xf32>) -> tensor<4xf32> {
      ^bb0(%a: tensor<4xf32>):
        %2 = mpc.relu %a : (tensor<4xf32>) -> tensor<4xf32>
        mpc.yield %2 : tensor<4xf32>
      }
      return %0, %1 : tensor<4xf32>, tensor<4xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.region pointwise(%w) {kernel = "late_reader"} : (tensor<4xf32>) -> tensor<4xf32> {
    ...
    %1 = mpc.region pointwise(%w, %g) {kernel = "update"}
        : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
    ...
    return %1, %0 : tensor<4xf32>, tensor<4xf32>
    ```
  }];
}

def FormBucketsPass : Pass<"plan-form-buckets", "::mlir::func::FuncOp"> {
  let summary = "join reductions over ranks into buckets";
  let description = [{
    Joins each `mpc.all_reduce` with those before it, of equal kind and element
    type, until the operands have `bucket-bytes` bytes. The joined op stands at
    the last of its parts. A bucket ends early before an op that reads a
    result. An op with several operands is no part of a bucket. An op with
    `rows` is none either if the operand has `table-bytes` bytes. Smaller tables
    lose `rows`, as do all tables on a GPU.

    Before:

    ```mlir
    func.func @step(%x: tensor<4xf32>, %a: tensor<4xf32>, %b: tensor<2xf32>)
        -> (tensor<4xf32>, tensor<2xf32>, tensor<4xf32>) {
      %0 = mpc.all_reduce mean %a : (tensor<4xf32>) -> tensor<4xf32>
      %1 = mpc.region pointwise (%x) {kernel = "backward"} : (tensor<4xf32>) -> tensor<4xf32> {
      ^bb0(%c: tensor<4xf32>):
        %3 = mpc.relu %c : (tensor<4xf32>) -> tensor<4xf32>
        mpc.yield %3 : tensor<4xf32>
      }
      %2 = mpc.all_reduce mean %b : (tensor<2xf32>) -> tensor<2xf32>
      return %0, %2, %1 : tensor<4xf32>, tensor<2xf32>, tensor<4xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.region pointwise(%x) {kernel = "backward"} : (tensor<4xf32>) -> tensor<4xf32> {
    ...
    %1:2 = mpc.all_reduce mean %a, %b
        : (tensor<4xf32>, tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>)
    return %1#0, %1#1, %0 : tensor<4xf32>, tensor<2xf32>, tensor<4xf32>
    ```
  }];
  let options = [
    Option<"bucketBytes", "bucket-bytes", "int64_t", "25 << 20",
           "bytes of a bucket; the last operand may exceed them">,
    Option<"tableBytes", "table-bytes", "int64_t", "256 << 10",
           "least bytes of a table of which only rows travel">,
  ];
}

#endif // MPC_PASSES_PLANNING_REGIONPASSES_TD
