// The passes of the Fusion stage on loops, branches and parts of ops, in the
// order they run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_FUSION_BODYPASSES_TD
#define MPC_PASSES_FUSION_BODYPASSES_TD

include "mlir/Pass/PassBase.td"

class FusionPass<string flag> : Pass<flag, "::mlir::func::FuncOp"> {
  let dependentDialects = ["::mpc::MPCDialect", "::mpc::amp::AMPDialect"];
}

def ConvertIfToSelectPass : FusionPass<"mpc-convert-if-to-select"> {
  let summary = "replace conditions by selects between results, for GPUs";
  let description = [{
    Replaces every `mpc.if` by the ops of both branches and an `mpc.select` for
    each result, the innermost first. A plan for a GPU has no conditional steps,
    since its steps are captured once as a graph. The results of the branch not
    taken reach nothing. Gradients are another `mpc.if`, so they are selected
    too, not multiplied by zero. For a CPU nothing changes.

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

    At the end, no `mpc.if` is left if the target is a GPU.
  }];
}

def PlaceAttentionPass : FusionPass<"mpc-place-attention"> {
  let summary = "let a GPU's library compute attention as a whole, where it can";
  let description = [{
    Turns `mpc.attention` into `mpc.library_attention`, and `mpc.attention_grad`
    into `mpc.library_attention_grad`, if the library of the target can compute
    them (compiler/Kernels/LibraryAttention.h). Such an attention has operands
    and an output in f16 or in bf16, and heads of a multiple of 8 elements. The
    forward pass also returns statistics, which the gradient reads together with
    the output. `mpc-decompose-attention` replaces all other attentions.

    Leading axes become a batch and heads. Biases are added up. A mask becomes a
    bias of 0 and of hidden scores.

    Before:

    ```mlir
    func.func @step(%q: tensor<2x3x8x16xbf16>, %k: tensor<2x3x8x16xbf16>,
                    %v: tensor<2x3x8x16xbf16>, %dy: tensor<2x3x8x16xbf16>)
        -> (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>) {
      %y = mpc.attention %q, %k, %v {scale = 2.5e-1 : f64, causal_offset = 0 : i64}
          : (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>)
          -> tensor<2x3x8x16xbf16>
      %dq, %dk, %dv = mpc.attention_grad %dy, %q, %k, %v {scale = 2.5e-1 : f64, causal_offset = 0 : i64}
          : (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>,
             tensor<2x3x8x16xbf16>)
          -> (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>)
      return %y, %dq : tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>
    }
    ```

    After, with `target=sm_90`:

    ```mlir
    %output, %statistics = mpc.library_attention %q, %k, %v
        {causal_offset = 0 : i64, scale = 2.500000e-01 : f64}
        : (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>)
        -> (tensor<2x3x8x16xbf16>, tensor<2x3x8xf32>)
    %d_query, %d_key, %d_value = mpc.library_attention_grad %dy, %q, %k, %v, %output, %statistics
        {causal_offset = 0 : i64, scale = 2.500000e-01 : f64}
        : (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>,
           tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8xf32>)
        -> (tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>)
    return %output, %d_query : tensor<2x3x8x16xbf16>, tensor<2x3x8x16xbf16>
    ```

    For the target of a CPU, nothing changes.
  }];
  let options = [
    Option<"attention", "attention", "std::string", "\"auto\"",
           "who computes attention: auto; library, which is an error where the "
           "library cannot; or products">,
  ];
}

def DecomposeAttentionPass : FusionPass<"mpc-decompose-attention"> {
  let summary = "rewrite mpc.attention and its gradient into products and a softmax";
  let description = [{
    Scores and softmax are in f32, or in f64. Products read the operand types of
    the attention; the last product reads the rounded softmax. A gradient reads
    the softmax of its attention if both are in one block. The next pass,
    `mpc-tile-products`, recomputes large ones.

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

    At the end, no `mpc.attention` and no `mpc.attention_grad` is left.
  }];
}

def TileProductsPass : FusionPass<"mpc-tile-products"> {
  let summary = "split large products and their readers into parts";
  let description = [{
    Splits large products of two batches into parts, together with the ops
    around them. A product qualifies if its result has more than `elements`
    elements, and at least twice as many as either operand. The product and all
    ops of its phase that make or read values of that size become the body of an
    `mpc.scan`. Only one part of these values is then in memory. The scores of
    an attention are the example. Parts are samples, or rows of the result if a
    sample is wider than a part.

    The backward pass recomputes wide forward values in its own loop if the
    products sum over at most 256 elements. Products that sum over the rows, the
    gradients of keys and values, are added up over the parts, in f32 or wider.
    Moves and scaling around the ops, and casts behind them, join the loop if
    they keep the parts apart. Nothing changes if the ops cannot run in parts,
    or if the wide values are results.

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

    Every element keeps its bits, except for sums over rows. On a GPU nothing
    changes.
  }];
  let options = [
    Option<"elements", "elements", "int64_t", "1 << 20",
           "how many elements of a wide value are in memory at a time">,
  ];
}

def OutlineBodiesPass : Pass<"mpc-outline-bodies", "::mlir::ModuleOp"> {
  let summary = "outline the bodies of loops and conditions into functions";
  let description = [{
    Turns the body of every `mpc.scan` into a private function, called by an
    `mpc.scan_call`. Turns the branches of every `mpc.if` into two functions,
    called by an `mpc.if_call`. The innermost go first. Later passes on
    functions then reach the ops of all bodies.

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

    At the end, no `mpc.scan` and no `mpc.if` is left.
  }];
  let dependentDialects = ["::mpc::MPCDialect", "::mlir::func::FuncDialect"];
}

def UpdateRowsPass : FusionPass<"mpc-update-rows"> {
  let summary = "update only the table rows that a step looked up";
  let description = [{
    Updates only the rows of a table that a step looked up. Applies if the
    optimizer leaves elements without a gradient unchanged: SGD, or Adagrad with
    an epsilon above 0, both without weight decay. The gradient of the table
    must come from looking up at most a quarter of its rows, and have no other
    readers (such as clipping). Equal indices share a slot that adds up their
    gradients in order. The updated rows are written over the old rows. All bits
    equal those of an update of the whole table.

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
