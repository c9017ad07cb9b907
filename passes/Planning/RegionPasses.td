// The first half of the Planning stage: passes on regions, each of which is still
// an op in its function, in the order they run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_REGIONPASSES_TD
#define MPC_PASSES_PLANNING_REGIONPASSES_TD

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
    A bias of constant zeros, as PyTorch's exporter gives convolutions that have
    none, is not added: the library rounds the product itself.

    Before:

    ```mlir
    func.func @step(%x: tensor<32x64xf32>, %w: tensor<10x64xf32>, %b: tensor<10xf32>)
        -> tensor<32x10xf32> {
      %y = mpc.region contraction (%x, %w, %b) {kernel = "step_0_fc1"}
          : (tensor<32x64xf32>, tensor<10x64xf32>, tensor<10xf32>) -> tensor<32x10xf32> {
      ^bb0(%0: tensor<32x64xf32>, %1: tensor<10x64xf32>, %2: tensor<10xf32>):
        %3 = mpc.matmul %0, %1 {transB = true}
            : (tensor<32x64xf32>, tensor<10x64xf32>) -> tensor<32x10xf32>
        %4 = mpc.add %3, %2 : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32>
        mpc.yield %4 : tensor<32x10xf32>
      }
      return %y : tensor<32x10xf32>
    }
    ```

    After, with `target=x86-64-v4`:

    ```mlir
    %y = mpc.region contraction(%x, %w, %b)
        {kernel = "step_0_fc1", provider = #mpc.provider<library>} ...
    ```

    After, with `target=sm_80`:

    ```mlir
    %output = plan.product bias %x, %w bias(%b : tensor<10xf32>)
        {alpha = 1.000000e+00 : f64, transA = false, transB = true}
        : (tensor<32x64xf32>, tensor<10x64xf32>) -> tensor<32x10xf32> unfused {
    ^bb0(%arg3: tensor<32x10xf32>):
      %0 = mpc.region pointwise(%arg3, %b) {kernel = "step_0_fc1_bias"}
          : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32> {
      ^bb0(%arg4: tensor<32x10xf32>, %arg5: tensor<10xf32>):
        %1 = mpc.add %arg4, %arg5 : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32>
        mpc.yield %1 : tensor<32x10xf32>
      }
      plan.yield %0 : tensor<32x10xf32>
    }
    return %output : tensor<32x10xf32>
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
  let summary = "kernels and products read and write through transposes";
  let description = [{
    A transpose of whole rows (32 bytes and more) that alone reads what an
    elementwise kernel or a reduction of rows makes becomes the last op of that
    kernel, which stores where the transpose would. What such kernels alone read
    they read through a transpose, as their first op. Where a view with axes in
    parts is between the two, as heads are of the columns of queries, the
    elementwise kernel computes in the shape of the view.

    On a CPU, whose library takes any distance between rows and between
    matrices: an operand of a product that the library does, and that transposes,
    slices, expansions and reshapes make of another value, is read there, through
    `plan.access`, if its rows are still whole. A product whose result a
    transpose of whole rows alone reads writes it as that would: the library
    through `plan.arrange`, a kernel that follows it, or that is generated, with
    the transpose as its last op. So does one that the transpose reads in a view
    which merges axes, as heads are that share keys. Kernels that only moved what
    nobody reads any more go.

    On any target a product whose kernel is generated reads its operands through
    copies of the ops that move them, at the head of its region: for these no code
    is made. Two are left alone: samples that share weights, and so are the rows of
    one matrix, where they would no longer lie evenly; and on a GPU rows that would
    begin where no vector does.

    On a GPU, whose library takes one distance between the matrices of a batch:
    the operands and the result of a product that the library does are left where
    they are if the calls it takes then, one for each index of the other axes of
    the batch, cost less than the kernels that move (`TargetInfo`). The kernel
    of a transpose casts what another kernel would cast for it alone.

    On any target a slice whose elements lie side by side, such as some rows of a
    matrix, is read there too, by whatever reads it.

    Expects providers on contractions, of `plan-place-contractions`.

    Before:

    ```mlir
    func.func @step(%x: tensor<8x16x4xf32>, %k: tensor<16x4x8xf32>) -> tensor<16x8x8xf32> {
      %q = mpc.region movement (%x) {kernel = "q"} : (tensor<8x16x4xf32>) -> tensor<16x8x4xf32> {
      ^bb0(%0: tensor<8x16x4xf32>):
        %1 = mpc.transpose %0 {perm = array<i64: 1, 0, 2>}
            : (tensor<8x16x4xf32>) -> tensor<16x8x4xf32>
        mpc.yield %1 : tensor<16x8x4xf32>
      }
      %s = mpc.region contraction (%q, %k) {kernel = "s", provider = #mpc.provider<library>}
          : (tensor<16x8x4xf32>, tensor<16x4x8xf32>) -> tensor<16x8x8xf32> {
      ^bb0(%0: tensor<16x8x4xf32>, %1: tensor<16x4x8xf32>):
        %2 = mpc.matmul %0, %1 : (tensor<16x8x4xf32>, tensor<16x4x8xf32>) -> tensor<16x8x8xf32>
        mpc.yield %2 : tensor<16x8x8xf32>
      }
      return %s : tensor<16x8x8xf32>
    }
    ```

    After, with `target=x86-64-v3`:

    ```mlir
    %0 = plan.access %x {offset = 0 : i64, strides = array<i64: 4, 64, 1>}
        : tensor<8x16x4xf32> to tensor<16x8x4xf32>
    %1 = mpc.region contraction(%0, %k)
        {kernel = "s", provider = #mpc.provider<library>}
        : (tensor<16x8x4xf32>, tensor<16x4x8xf32>) -> tensor<16x8x8xf32> {
    ^bb0(%arg2: tensor<16x8x4xf32>, %arg3: tensor<16x4x8xf32>):
      %2 = mpc.matmul %arg2, %arg3
          : (tensor<16x8x4xf32>, tensor<16x4x8xf32>) -> tensor<16x8x8xf32>
      mpc.yield %2 : tensor<16x8x8xf32>
    }
    return %1 : tensor<16x8x8xf32>
    ```

    Afterwards every reader of a `plan.access` whose elements do not lie side by
    side is a product.
  }];
  let dependentDialects = ["::mpc::MPCDialect", "::mpc::plan::PlanDialect"];
}

def FillConstantsPass : Pass<"plan-fill-constants", "::mlir::func::FuncOp"> {
  let summary = "large constants of one value written by kernels";
  let description = [{
    Replaces every constant that is outside of kernels, has one value throughout
    and 16 KiB at least by a region that writes it, so that an artifact does not
    hold it. Runs before `plan-order`.

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

def OrderPass : Pass<"plan-order", "::mlir::func::FuncOp"> {
  let summary = "the order in which a function's kernels run";
  let description = [{
    Moves every op that reads the old value of a state variable before the op
    that makes the new one, as far as their operands allow, so that
    `plan-build-programs` can write it in place. An op that makes nothing but
    new values of state comes as soon as it then can: the gradient of a weight
    is in memory from the product that makes it to the update that follows, and
    not until all gradients are there. Otherwise keeps the order.

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

def RecomputeUnscalePass : Pass<"plan-recompute-unscale", "::mlir::func::FuncOp"> {
  let summary = "unscale gradients where they are read";
  let description = [{
    On a GPU, a pointwise region that holds nothing but `amp.unscale`, as
    `plan-place-contractions` makes of a gradient's tail, is repeated in every
    kernel that reads it.

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
  let summary = "what the optimizer does to all parameters into few kernels";
  let description = [{
    On a GPU, pointwise regions with an optimizer's update become segments of
    one region, and so do reductions of rows in the phase `optimizer`; see
    compiler/Kernels/KernelSegments.h. Updates that Fusion has joined
    though they share no tensor are segments of their own. Updates that broadcast, or that share a
    tensor which one of them may overwrite, stay apart, as do kernels of which
    one needs the other; what would have too many buffers for one becomes
    several. Runs before `plan-order`.

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

def FoldPartsPass : Pass<"plan-fold-parts", "::mlir::func::FuncOp"> {
  let summary = "kernels load and store parts of rows";
  let description = [{
    A kernel that only copies a slice of neighbours, such as some columns of a
    matrix, goes where pointwise kernels, reductions of rows and the tails of a
    library's products alone compute with its elements: the slice becomes their
    first op, and they load that part of the whole. So does a kernel that only
    joins values of one shape, all of one pointwise kernel or tail, and read by
    nothing else: the join becomes the last op there, and the values are stored
    side by side.

    Neither where it would take more memory: a whole that would be kept for the
    backward pass for one of its parts, or results that can be written over what
    the kernel reads.

    Expects updates merged by `plan-merge-updates`, which compares kernels.

    Before:

    ```mlir
    func.func @step(%h: tensor<8x64xf32>) -> tensor<8x32xf32> {
      %u = mpc.region movement (%h) {kernel = "u"} : (tensor<8x64xf32>) -> tensor<8x32xf32> {
      ^bb0(%0: tensor<8x64xf32>):
        %1 = mpc.slice %0 {offsets = array<i64: 0, 32>, sizes = array<i64: 8, 32>}
            : (tensor<8x64xf32>) -> tensor<8x32xf32>
        mpc.yield %1 : tensor<8x32xf32>
      }
      %y = mpc.region pointwise (%u) {kernel = "y"} : (tensor<8x32xf32>) -> tensor<8x32xf32> {
      ^bb0(%0: tensor<8x32xf32>):
        %1 = mpc.relu %0 : (tensor<8x32xf32>) -> tensor<8x32xf32>
        mpc.yield %1 : tensor<8x32xf32>
      }
      return %y : tensor<8x32xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.region pointwise(%h) {kernel = "y"}
        : (tensor<8x64xf32>) -> tensor<8x32xf32> {
    ^bb0(%arg1: tensor<8x64xf32>):
      %1 = mpc.slice %arg1 {offsets = array<i64: 0, 32>, sizes = array<i64: 8, 32>}
          : (tensor<8x64xf32>) -> tensor<8x32xf32>
      %2 = mpc.relu %1 : (tensor<8x32xf32>) -> tensor<8x32xf32>
      mpc.yield %2 : tensor<8x32xf32>
    }
    return %0 : tensor<8x32xf32>
    ```

    Afterwards kernels hold slices of their arguments and joins of what they
    return, which are no ops to compute but places to load from and store to.
  }];
  let dependentDialects = ["::mpc::MPCDialect"];
}

def PadRowsPass : Pass<"plan-pad-rows", "::mlir::func::FuncOp"> {
  let summary = "rows of whole 16 bytes for products of a GPU's library";
  let description = [{
    On a GPU, where the rows of a product's operand or result are no multiple of
    16 bytes, the library has but slow kernels: scores of 50257 classes are such
    rows. What a product of 16 bits makes or reads has its rows further apart
    then, if all that makes and reads it can do with that: products of the
    library, elementwise kernels and reductions, and views that keep rows as they
    are. Inputs, state and what the function returns stay as they are. Kernels
    load rows through a slice and store them through `plan.pad_rows`, products
    read through `plan.access`; what lies behind a row is written by nobody and
    read by nobody. Rows are as long as before: the runtime multiplies what is
    behind their last whole vector apart (`runtime/cuda/ProductPieces`).

    Rows are padded to 128 bytes where that is at most a 64th more memory, else
    to as little as makes them whole vectors of f32 and of 16 bits. It is done
    where products win more time than memory takes for what is added
    (`TargetInfo`): products that read more than they multiply win nothing.

    Before:

    ```mlir
    func.func @step(%x: tensor<512x256xbf16>, %w: tensor<1003x256xbf16>) -> tensor<512x1xf32> {
      %s = mpc.matmul %x, %w {transB = true}
          : (tensor<512x256xbf16>, tensor<1003x256xbf16>) -> tensor<512x1003xf32>
      %y = mpc.region row_reduce (%s) {kernel = "y"} : (tensor<512x1003xf32>) -> tensor<512x1xf32> {
      ^bb0(%0: tensor<512x1003xf32>):
        %1 = mpc.reduce_max %0 {axes = array<i64: 1>, keepdims = true}
            : (tensor<512x1003xf32>) -> tensor<512x1xf32>
        mpc.yield %1 : tensor<512x1xf32>
      }
      return %y : tensor<512x1xf32>
    }
    ```

    After, with `target=sm_90`:

    ```mlir
    %0 = mpc.matmul %x, %w {transB = true}
        : (tensor<512x256xbf16>, tensor<1003x256xbf16>) -> tensor<512x1003xf32>
    %1 = plan.pad_rows %0 : tensor<512x1003xf32> to tensor<512x1008xf32>
    %2 = mpc.region row_reduce(%1) {kernel = "y"} : (tensor<512x1008xf32>) -> tensor<512x1xf32> {
    ^bb0(%arg2: tensor<512x1008xf32>):
      %3 = mpc.slice %arg2 {offsets = array<i64: 0, 0>, sizes = array<i64: 512, 1003>}
          : (tensor<512x1008xf32>) -> tensor<512x1003xf32>
      %4 = mpc.reduce_max %3 {axes = array<i64: 1>, keepdims = true}
          : (tensor<512x1003xf32>) -> tensor<512x1xf32>
      mpc.yield %4 : tensor<512x1xf32>
    }
    return %2 : tensor<512x1xf32>
    ```

    Expects kernels as `plan-fold-parts` leaves them.
  }];
  let options = [
    Option<"tf32", "tf32", "bool", "false",
           "products of f32 are rounded to tf32, and so on Tensor Cores">,
  ];
  let dependentDialects = ["::mpc::MPCDialect", "::mpc::plan::PlanDialect"];
}

def SumOperandsPass : Pass<"plan-sum-operands", "::mlir::func::FuncOp"> {
  let summary = "products add up an operand that they read";
  let description = [{
    On a CPU with AMX, whose library packs what it multiplies: where kernels do
    nothing but add up the rows of an operand of a product, in f32, and the
    product is summed along these rows too, the product gives the sum besides, and
    the kernels go. That is the gradient of a layer's bias beside the gradient of
    its weight. `plan-outline-kernels` makes it a `plan.product` of kind `bgrad_a`
    or `bgrad_b`.

    Expects providers on contractions, of `plan-place-contractions`. Runs before
    `plan-order`.

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
  let summary = "kernels over rows add up columns of what they have at hand";
  let description = [{
    On a CPU, a kernel that only adds up columns joins one that reduces the rows
    they are of, where both read the same tensor, or the one what the other
    makes: of a layer norm's backward pass, for example, the gradients of scale
    and shift, and that of a bias that was added before. One launch then reads
    what two did; see compiler/Kernels/ColumnSums.h. Rows have 768 columns at
    least, which a kernel of its own would add up in the same order: sums keep
    their bits. A slice makes one element of the result in every column, so sums
    in fewer than 8 parts of many elements stay apart, and those for which half
    of a first-level cache has no room.

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

#endif // MPC_PASSES_PLANNING_REGIONPASSES_TD
