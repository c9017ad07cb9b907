// The passes of the Fusion stage on loops, branches and what is done in parts, in
// the order they run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_FUSION_BODYPASSES_TD
#define MPC_PASSES_FUSION_BODYPASSES_TD

include "mlir/Pass/PassBase.td"

class FusionPass<string flag> : Pass<flag, "::mlir::func::FuncOp"> {
  let dependentDialects = ["::mpc::MPCDialect", "::mpc::amp::AMPDialect"];
}

def ConvertIfToSelectPass : FusionPass<"mpc-convert-if-to-select"> {
  let summary = "conditions into choices between results, for GPUs";
  let description = [{
    Replaces every `mpc.if` by the ops of both branches and an `mpc.select` for
    each result, the innermost first. A plan for a GPU has no conditional steps,
    since its steps are captured once as a graph. What the branch that is not
    taken computes reaches nothing: its gradients are another `mpc.if`, and so
    are chosen too, not multiplied by zero. For a CPU nothing changes.

    Before:

    ```mlir
    func.func @forward(%condition: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
      %y = mpc.if %condition captured(%x : tensor<4xf32>) -> (tensor<4xf32>) {
      ^bb0(%a: tensor<4xf32>):
        %0 = mpc.sqrt %a : (tensor<4xf32>) -> tensor<4xf32>
        mpc.yield %0 : tensor<4xf32>
      } else {
      ^bb0(%a: tensor<4xf32>):
        mpc.yield %a : tensor<4xf32>
      }
      return %y : tensor<4xf32>
    }
    ```

    After, with `target=sm_80`:

    ```mlir
    %0 = mpc.sqrt %x : (tensor<4xf32>) -> tensor<4xf32>
    %1 = mpc.select %condition, %0, %x
        : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
    ```

    Afterwards no `mpc.if` is left where the target is a GPU.
  }];
}

def DecomposeAttentionPass : FusionPass<"mpc-decompose-attention"> {
  let summary = "mpc.attention and its gradient into products and a softmax";
  let description = [{
    Scores and their softmax are in f32, or f64; products read what the op reads,
    and the last one what the softmax is rounded to. The gradient reads the
    softmax of its attention where both are in one block: `mpc-tile-products`,
    which runs next, computes large ones again.

    Before:

    ```mlir
    func.func @forward(%q: tensor<2x8x4xbf16>, %k: tensor<2x8x4xbf16>, %v: tensor<2x8x4xbf16>)
        -> tensor<2x8x4xbf16> {
      %y = mpc.attention %q, %k, %v {scale = 5.0e-1 : f64}
          : (tensor<2x8x4xbf16>, tensor<2x8x4xbf16>, tensor<2x8x4xbf16>) -> tensor<2x8x4xbf16>
      return %y : tensor<2x8x4xbf16>
    }
    ```

    After:

    ```mlir
    %0 = mpc.matmul %q, %k {alpha = 5.000000e-01 : f64, transB = true}
        : (tensor<2x8x4xbf16>, tensor<2x8x4xbf16>) -> tensor<2x8x8xf32>
    %1 = mpc.softmax %0 {axis = 2 : i64} : (tensor<2x8x8xf32>) -> tensor<2x8x8xbf16>
    %2 = mpc.matmul %1, %v : (tensor<2x8x8xbf16>, tensor<2x8x4xbf16>) -> tensor<2x8x4xbf16>
    ```

    Afterwards no `mpc.attention` and no `mpc.attention_grad` is left.
  }];
}

def TileProductsPass : FusionPass<"mpc-tile-products"> {
  let summary = "large products, and what reads them, in parts";
  let description = [{
    A product of two batches whose result has more than `elements` elements, and
    at least twice as many as either operand, becomes the body of an `mpc.scan` with
    all ops of its phase that make or read values of that size, so that a part of
    these is in memory at a time, and no more. The scores of an attention are
    the example. Parts are samples, or, where a sample is wider than a part, rows
    of its result. What the backward pass reads of these values it computes
    again, in its own loop, if it is a product of rows and columns of 256
    elements at most. Products that sum over the rows, the gradients of keys and
    values, are added up over the parts, in f32 at least. Moves and scaling
    around the ops, and changes of type behind them, become part of the loop
    where they leave parts what they are. Where the ops cannot run in parts, or where the wide values
    are results, nothing changes.

    Before:

    ```mlir
    func.func @forward(%q: tensor<4x64x8xf32>, %k: tensor<4x64x8xf32>, %v: tensor<4x64x8xf32>)
        -> tensor<4x64x8xf32> {
      %s = mpc.matmul %q, %k {transB = true}
          : (tensor<4x64x8xf32>, tensor<4x64x8xf32>) -> tensor<4x64x64xf32>
      %p = mpc.softmax %s {axis = 2 : i64} : (tensor<4x64x64xf32>) -> tensor<4x64x64xf32>
      %o = mpc.matmul %p, %v : (tensor<4x64x64xf32>, tensor<4x64x8xf32>) -> tensor<4x64x8xf32>
      return %o : tensor<4x64x8xf32>
    }
    ```

    After, with `target=x86-64 elements=8192`:

    ```mlir
    %0 = mpc.reshape %q : (tensor<4x64x8xf32>) -> tensor<2x2x64x8xf32>
    ...
    %3 = mpc.scan 2 scanned(%0, %1, %2
        : tensor<2x2x64x8xf32>, tensor<2x2x64x8xf32>, tensor<2x2x64x8xf32>)
        -> (tensor<2x2x64x8xf32>) {
    ^bb0(%arg3: tensor<2x64x8xf32>, %arg4: tensor<2x64x8xf32>, %arg5: tensor<2x64x8xf32>):
      %5 = mpc.matmul %arg3, %arg4 {transB = true}
          : (tensor<2x64x8xf32>, tensor<2x64x8xf32>) -> tensor<2x64x64xf32>
      %6 = mpc.softmax %5 {axis = 2 : i64} : (tensor<2x64x64xf32>) -> tensor<2x64x64xf32>
      %7 = mpc.matmul %6, %arg5
          : (tensor<2x64x64xf32>, tensor<2x64x8xf32>) -> tensor<2x64x8xf32>
      mpc.yield %7 : tensor<2x64x8xf32>
    } {reversed_inputs = array<i1: false, false, false>,
        reversed_outputs = array<i1: false>}
    %4 = mpc.reshape %3 : (tensor<2x2x64x8xf32>) -> tensor<4x64x8xf32>
    return %4 : tensor<4x64x8xf32>
    ```

    Each element has the bits that it had, but for the sums over rows. On a GPU
    nothing changes.
  }];
  let options = [
    Option<"elements", "elements", "int64_t", "1 << 20",
           "how many elements of a wide value are in memory at a time">,
  ];
}

def OutlineBodiesPass : Pass<"mpc-outline-bodies", "::mlir::ModuleOp"> {
  let summary = "bodies of loops and conditions into functions";
  let description = [{
    Turns the body of every `mpc.scan` into a private function that
    `mpc.scan_call` names, and the branches of every `mpc.if` into two that
    `mpc.if_call` names, the innermost first: from here on, what a pass does to
    functions it does to the ops of bodies.

    Before:

    ```mlir
    func.func @forward(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
      %all = mpc.scan 8 scanned(%x : tensor<8x4xf32>) -> (tensor<8x4xf32>) {
      ^bb0(%x_t: tensor<4xf32>):
        %0 = mpc.tanh %x_t : (tensor<4xf32>) -> tensor<4xf32>
        mpc.yield %0 : tensor<4xf32>
      } {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: false>}
      return %all : tensor<8x4xf32>
    }
    ```

    After:

    ```mlir
    func.func @forward(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
      %0 = mpc.scan_call @forward_scan 8 scanned(%x : tensor<8x4xf32>)
          {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: false>}
          -> (tensor<8x4xf32>)
      return %0 : tensor<8x4xf32>
    }
    func.func private @forward_scan(%arg0: tensor<4xf32>) -> tensor<4xf32> {
      %0 = mpc.tanh %arg0 : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    ```

    Afterwards no `mpc.scan` and no `mpc.if` is left.
  }];
  let dependentDialects = ["::mpc::MPCDialect", "::mlir::func::FuncDialect"];
}

def UpdateRowsPass : FusionPass<"mpc-update-rows"> {
  let summary = "updates of the rows of a table that a step looked up";
  let description = [{
    Where an optimizer leaves as they are elements without a gradient (without
    weight decay, SGD and an Adagrad with an epsilon above 0), and the gradient
    of a table is that of looking up a quarter of its rows at most, updates these
    rows alone. Indices of one row share a slot, in which their gradients are
    added up in their order; the rows are updated, and written over the old
    ones. All bits are those of the update of the whole table. A gradient that
    anything else reads, such as clipping, stays whole.

    Before:

    ```mlir
    func.func @step(%w: tensor<1000x64xf32>, %ids: tensor<8xi64>, %rows: tensor<8x64xf32>,
                    %lr: tensor<f32>) -> tensor<1000x64xf32> {
      %zeros = mpc.constant dense<0.0> : tensor<1000x64xf32>
      %g = mpc.scatter %zeros, %ids, %rows {axis = 0 : i64, reduction = #mpc.scatter<add>}
          : (tensor<1000x64xf32>, tensor<8xi64>, tensor<8x64xf32>) -> tensor<1000x64xf32>
      %w1 = mpc.sgd %w, %g, %lr
          : (tensor<1000x64xf32>, tensor<1000x64xf32>, tensor<f32>) -> tensor<1000x64xf32>
      return %w1 : tensor<1000x64xf32>
    }
    ```

    After, in short:

    ```mlir
    %places = mpc.constant dense<[1, 2, 3, 4, 5, 6, 7, 8]> : tensor<8xi64>
    %none = mpc.constant dense<9> : tensor<1000xi64>
    %firsts = mpc.scatter %none, %ids, %places {axis = 0 : i64, reduction = #mpc.scatter<min>}
        : (tensor<1000xi64>, tensor<8xi64>, tensor<8xi64>) -> tensor<1000xi64>
    %found = mpc.gather %firsts, %ids {axis = 0 : i64}
        : (tensor<1000xi64>, tensor<8xi64>) -> tensor<8xi64>
    ...
    %slots = mpc.select %outside, %last, %less
        : (tensor<8xi1>, tensor<i64>, tensor<8xi64>) -> tensor<8xi64>
    %zeros = mpc.constant dense<0.000000e+00> : tensor<8x64xf32>
    %sums = mpc.scatter %zeros, %slots, %rows {axis = 0 : i64, reduction = #mpc.scatter<add>}
        : (tensor<8x64xf32>, tensor<8xi64>, tensor<8x64xf32>) -> tensor<8x64xf32>
    %old = mpc.gather %w, %ids {axis = 0 : i64}
        : (tensor<1000x64xf32>, tensor<8xi64>) -> tensor<8x64xf32>
    %new = mpc.sgd %old, %sums, %lr
        : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf32>
    ...
    %names = mpc.select %first, %ids, %nowhere
        : (tensor<8xi1>, tensor<8xi64>, tensor<i64>) -> tensor<8xi64>
    %w1 = mpc.scatter %w, %names, %new
        {axis = 0 : i64, reduction = #mpc.scatter<none>, unique_indices = true}
        : (tensor<1000x64xf32>, tensor<8xi64>, tensor<8x64xf32>) -> tensor<1000x64xf32>
    return %w1 : tensor<1000x64xf32>
    ```
  }];
}

#endif // MPC_PASSES_FUSION_BODYPASSES_TD
