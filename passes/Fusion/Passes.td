// The passes of the Fusion stage, in the order they run: those of BodyPasses.td,
// then those that make the ops of kernels, and kernels of them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_FUSION_PASSES_TD
#define MPC_PASSES_FUSION_PASSES_TD

include "passes/Fusion/BodyPasses.td"

def ConvertLayoutPass : FusionPass<"mpc-convert-layout"> {
  let summary = "activations into NHWC, filters as the target's library has them";
  let description = [{
    Gives every convolution, pooling and BatchNormalization the layout NHWC and
    moves the transposes this takes to where the order of elements shows:
    flattening, inputs and outputs. Dropout, whose mask depends on an element's
    place, stays in the layout it has. For a target whose library wants it,
    filters get the layout OHWI, by transposes of weights and of their
    gradients; state and what optimizers do with it stay in ONNX's layout.

    Before:

    ```mlir
    func.func @forward(%x: tensor<2x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) -> tensor<2x6x8x8xf32> {
      %0 = mpc.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
          dilations = array<i64: 1, 1>}
          : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x8x8xf32>
      %y = mpc.relu %0 : (tensor<2x6x8x8xf32>) -> tensor<2x6x8x8xf32>
      return %y : tensor<2x6x8x8xf32>
    }
    ```

    After, with `target=x86-64`:

    ```mlir
    %0 = mpc.transpose %x {perm = array<i64: 0, 2, 3, 1>}
        : (tensor<2x4x8x8xf32>) -> tensor<2x8x8x4xf32>
    %1 = mpc.conv %0, %w {dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>,
        pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>}
        : (tensor<2x8x8x4xf32>, tensor<6x4x3x3xf32>) -> tensor<2x8x8x6xf32>
    %2 = mpc.relu %1 : (tensor<2x8x8x6xf32>) -> tensor<2x8x8x6xf32>
    %y = mpc.transpose %2 {perm = array<i64: 0, 3, 1, 2>}
        : (tensor<2x8x8x6xf32>) -> tensor<2x6x8x8xf32>
    ```
  }];
}

def DecomposePass : FusionPass<"mpc-decompose"> {
  let summary = "composite ops into elementwise ops and reductions";
  let description = [{
    Rewrites every op of role Composite (the softmax family, losses,
    BatchNormalization, global pooling, gradient clipping, the finiteness test)
    into elementwise ops and reductions. What comes between is f32, or f64 where
    an operand or result is. On a GPU, a BatchNormalization of images of 16 bits
    reads them once for both mean and variance, elsewhere twice.

    Before:

    ```mlir
    func.func @forward(%x: tensor<32x10xf32>) -> tensor<32x10xf32> {
      %y = mpc.softmax %x {axis = 1 : i64} : (tensor<32x10xf32>) -> tensor<32x10xf32>
      return %y : tensor<32x10xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.reduce_max %x {axes = array<i64: 1>, keepdims = true}
        : (tensor<32x10xf32>) -> tensor<32x1xf32>
    %1 = mpc.sub %x, %0 : (tensor<32x10xf32>, tensor<32x1xf32>) -> tensor<32x10xf32>
    %2 = mpc.exp %1 : (tensor<32x10xf32>) -> tensor<32x10xf32>
    %3 = mpc.reduce_sum %2 {axes = array<i64: 1>, keepdims = true}
        : (tensor<32x10xf32>) -> tensor<32x1xf32>
    %4 = mpc.div %2, %3 : (tensor<32x10xf32>, tensor<32x1xf32>) -> tensor<32x10xf32>
    ```

    Afterwards no op of role Composite is left.
  }];
}

def FoldScalingPass : FusionPass<"mpc-fold-scaling"> {
  let summary = "constant factors of operands and results as alpha of products";
  let description = [{
    A tensor that is multiplied by a constant, or divided by one, and then read
    by products alone, is read as it was before, and the products' `alpha` takes
    the factor: it applies to the sums in the type they are computed in, so no
    element is rounded in between. So does a factor of the result of a product
    that nothing else reads. A factor that would make alpha infinite or NaN
    stays.

    Before:

    ```mlir
    func.func @forward(%q: tensor<8x6xf32>, %k: tensor<6x8xf32>) -> tensor<8x8xf32> {
      %c = mpc.constant dense<0.5> : tensor<f32>
      %0 = mpc.mul %q, %c : (tensor<8x6xf32>, tensor<f32>) -> tensor<8x6xf32>
      %s = mpc.matmul %0, %k : (tensor<8x6xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>
      return %s : tensor<8x8xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.matmul %q, %k {alpha = 5.000000e-01 : f64}
        : (tensor<8x6xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
    ```
  }];
}

def SinkMovementPass : FusionPass<"mpc-sink-movement"> {
  let summary = "elementwise ops before transposes, where that makes them part of a kernel";
  let description = [{
    An elementwise op whose other operands are scalars, and that stands between
    transposes or reshapes and products, goes in front of the former, where what
    it reads is computed by a contraction or an elementwise op for it alone: it
    becomes part of that kernel, and products can read through the transposes
    that are left (`mpc-split-contractions`, `plan-fold-movement`). So does one
    that another op does already to what is in front: one product reads the
    gradient of scores as it is, another in the shape of the scores, and both have
    it cast. Every element is computed as before. An op whose result is wider
    stays, or wider elements would be moved.

    Before:

    ```mlir
    func.func @forward(%x: tensor<8x6xf32>, %w: tensor<6x6xf32>, %scale: tensor<f32>,
                       %k: tensor<2x3x8xf32>) -> tensor<2x8x8xf32> {
      %q = mpc.matmul %x, %w : (tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32>
      %0 = mpc.reshape %q : (tensor<8x6xf32>) -> tensor<8x2x3xf32>
      %1 = mpc.transpose %0 {perm = array<i64: 1, 0, 2>} : (tensor<8x2x3xf32>) -> tensor<2x8x3xf32>
      %2 = mpc.mul %1, %scale : (tensor<2x8x3xf32>, tensor<f32>) -> tensor<2x8x3xf32>
      %s = mpc.matmul %2, %k : (tensor<2x8x3xf32>, tensor<2x3x8xf32>) -> tensor<2x8x8xf32>
      return %s : tensor<2x8x8xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.matmul %x, %w : (tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32>
    %1 = mpc.mul %0, %scale : (tensor<8x6xf32>, tensor<f32>) -> tensor<8x6xf32>
    %2 = mpc.reshape %1 : (tensor<8x6xf32>) -> tensor<8x2x3xf32>
    %3 = mpc.transpose %2 {perm = array<i64: 1, 0, 2>}
        : (tensor<8x2x3xf32>) -> tensor<2x8x3xf32>
    %4 = mpc.matmul %3, %k : (tensor<2x8x3xf32>, tensor<2x3x8xf32>) -> tensor<2x8x8xf32>
    ```
  }];
}

def SimplifyMovementPass : FusionPass<"mpc-simplify-movement"> {
  let summary = "transposes along axes that others can follow, joins in place";
  let description = [{
    A transpose between views, the first of which merges axes, moves the axes as
    they were before: samples and heads that are one axis, and two again behind
    the transpose, stay two. What reads that can follow it with strides
    (`plan-fold-movement`), as through the merged axis it cannot.

    A transpose of a join that nothing else reads, and that would move no element
    of a single part, is a join along the axis to which it moves the joined one:
    gradients of queries, keys and values are joined per token at once.

    Before:

    ```mlir
    func.func @forward(%x: tensor<8x4x16xf32>, %a: tensor<1x8x4x16xf32>, %b: tensor<1x8x4x16xf32>)
        -> (tensor<4x2x8x8xf32>, tensor<8x4x2x16xf32>) {
      %0 = mpc.reshape %x : (tensor<8x4x16xf32>) -> tensor<8x8x8xf32>
      %1 = mpc.transpose %0 {perm = array<i64: 1, 0, 2>} : (tensor<8x8x8xf32>) -> tensor<8x8x8xf32>
      %2 = mpc.reshape %1 : (tensor<8x8x8xf32>) -> tensor<4x2x8x8xf32>
      %3 = mpc.concat %a, %b {axis = 0 : i64}
          : (tensor<1x8x4x16xf32>, tensor<1x8x4x16xf32>) -> tensor<2x8x4x16xf32>
      %4 = mpc.transpose %3 {perm = array<i64: 1, 2, 0, 3>}
          : (tensor<2x8x4x16xf32>) -> tensor<8x4x2x16xf32>
      return %2, %4 : tensor<4x2x8x8xf32>, tensor<8x4x2x16xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.reshape %x : (tensor<8x4x16xf32>) -> tensor<8x4x2x8xf32>
    %1 = mpc.transpose %0 {perm = array<i64: 1, 2, 0, 3>}
        : (tensor<8x4x2x8xf32>) -> tensor<4x2x8x8xf32>
    %2 = mpc.reshape %a : (tensor<1x8x4x16xf32>) -> tensor<8x4x1x16xf32>
    %3 = mpc.reshape %b : (tensor<1x8x4x16xf32>) -> tensor<8x4x1x16xf32>
    %4 = mpc.concat %2, %3 {axis = 2 : i64}
        : (tensor<8x4x1x16xf32>, tensor<8x4x1x16xf32>) -> tensor<8x4x2x16xf32>
    return %1, %4 : tensor<4x2x8x8xf32>, tensor<8x4x2x16xf32>
    ```
  }];
}

def SplitContractionsPass : FusionPass<"mpc-split-contractions"> {
  let summary = "contractions without bias, C or transposed operands";
  let description = [{
    Takes what is elementwise out of a contraction, so that it can join the
    kernel's tail: C, beta and bias become ops after it. Transposes of the last
    two axes become `transA` / `transB`, of operands and of the result; of one
    that moves batches too, that is what is left. Batch dimensions that only
    partly broadcast are expanded.

    Before:

    ```mlir
    func.func @forward(%x: tensor<32x64xbf16>, %w: tensor<10x64xbf16>, %b: tensor<10xf32>)
        -> tensor<32x10xbf16> {
      %y = mpc.gemm %x, %w, %b {transB = true}
          : (tensor<32x64xbf16>, tensor<10x64xbf16>, tensor<10xf32>) -> tensor<32x10xbf16>
      return %y : tensor<32x10xbf16>
    }
    ```

    After:

    ```mlir
    %0 = mpc.matmul %x, %w {transB = true}
        : (tensor<32x64xbf16>, tensor<10x64xbf16>) -> tensor<32x10xf32>
    %1 = mpc.add %0, %b : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xbf16>
    return %1 : tensor<32x10xbf16>
    ```

    Afterwards there is no `mpc.gemm` and no `mpc.conv` with a bias.
  }];
}

def ConvertConvToMatmulPass : FusionPass<"mpc-convert-conv-to-matmul"> {
  let summary = "convolutions of one tap as matrix products";
  let description = [{
    A convolution with a filter of one tap, one group and no padding is a product
    of pixels and channels, which libraries do better; so are its gradients. With
    strides, which stay a convolution on GPUs, the pixels are a slice of the
    image, and a pad puts zeros between those of its gradient. Expects
    activations in NHWC and no bias (`mpc-split-contractions`); what is not in
    NHWC stays.

    Before:

    ```mlir
    func.func @forward(%x: tensor<2x8x8x4xf32>, %w: tensor<6x4x1x1xf32>) -> tensor<2x8x8x6xf32> {
      %y = mpc.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
          dilations = array<i64: 1, 1>, layout = #mpc.layout<NHWC>}
          : (tensor<2x8x8x4xf32>, tensor<6x4x1x1xf32>) -> tensor<2x8x8x6xf32>
      return %y : tensor<2x8x8x6xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.reshape %w : (tensor<6x4x1x1xf32>) -> tensor<6x4xf32>
    %1 = mpc.matmul %x, %0 {transB = true}
        : (tensor<2x8x8x4xf32>, tensor<6x4xf32>) -> tensor<2x8x8x6xf32>
    return %1 : tensor<2x8x8x6xf32>
    ```

    Afterwards no convolution in NHWC has one tap, one group and no padding; on a
    GPU those with strides still may.
  }];
}

def NormalizeReductionsPass : FusionPass<"mpc-normalize-reductions"> {
  let summary = "reductions over adjacent axes, which stay with size 1";
  let description = [{
    Brings every reduction into the form kernels take: `keepdims`, axes that lie
    together, and large ones in two steps so that threads share the first: over
    some of the axes, or over `parts` of one long axis. On a CPU a thread takes
    wide rows whole (compiler/Kernels/ColumnBands.h), so these are large sooner.
    On a GPU sums of columns are in as many parts as give each multiprocessor of
    a large one about four blocks of 64 columns.
    `mpc.sum_to_size` becomes `mpc.reduce_sum`; reshapes restore the shape. A scatter that adds up floats of
    16 bits does so in f32, and a cast rounds its result.

    Before:

    ```mlir
    func.func @step(%dy: tensor<32x10xf32>) -> tensor<10xf32> {
      %b = mpc.sum_to_size %dy : (tensor<32x10xf32>) -> tensor<10xf32>
      return %b : tensor<10xf32>
    }
    ```

    After, with `target=x86-64`:

    ```mlir
    %0 = mpc.reduce_sum %dy {axes = array<i64: 0>, keepdims = true}
        : (tensor<32x10xf32>) -> tensor<1x10xf32>
    %1 = mpc.reshape %0 : (tensor<1x10xf32>) -> tensor<10xf32>
    return %1 : tensor<10xf32>
    ```
  }];
}

def RecomputeElementwisePass : FusionPass<"mpc-recompute-elementwise"> {
  let summary = "elementwise values in kernels that use them, where keeping costs more";
  let description = [{
    What kernels keep in memory for each other, the forward pass for the
    backward pass above all, is a minimum cut (compiler/Regions/KeptValues.h):
    elements to store and load against work to compute them again, blind to
    types. What is not kept is computed in every kernel that reads it, from what
    is: `mpc.kept`, which keeps the copy out of the kernel of the original.
    Nothing changes where kernels would then store and load more. Needs
    primitive ops (`mpc-decompose`), and no canonicalization between it and
    `mpc-form-regions`.

    Before:

    ```mlir
    func.func @step(%x: tensor<64x32xbf16>, %w: tensor<32x32xbf16>, %b: tensor<32xf32>)
        -> tensor<64x32xf32> {
      %m = mpc.matmul %x, %w : (tensor<64x32xbf16>, tensor<32x32xbf16>) -> tensor<64x32xf32>
      %h = mpc.add %m, %b : (tensor<64x32xf32>, tensor<32xf32>) -> tensor<64x32xbf16>
      %s = mpc.sigmoid %h : (tensor<64x32xbf16>) -> tensor<64x32xbf16>
      %y = mpc.mul %h, %s : (tensor<64x32xbf16>, tensor<64x32xbf16>) -> tensor<64x32xbf16>
      %z = mpc.matmul %y, %w : (tensor<64x32xbf16>, tensor<32x32xbf16>) -> tensor<64x32xbf16>
      %g = mpc.matmul %z, %w {transB = true}
          : (tensor<64x32xbf16>, tensor<32x32xbf16>) -> tensor<64x32xf32>
      %d = mpc.mul %g, %s : (tensor<64x32xf32>, tensor<64x32xbf16>) -> tensor<64x32xf32>
      %dh = mpc.mul %d, %h : (tensor<64x32xf32>, tensor<64x32xbf16>) -> tensor<64x32xf32>
      return %dh : tensor<64x32xf32>
    }
    ```

    After:

    ```mlir
    %h = mpc.add %0, %b : (tensor<64x32xf32>, tensor<32xf32>) -> tensor<64x32xbf16>
    %kept = mpc.kept %h : tensor<64x32xbf16>
    ...
    %again = mpc.sigmoid %kept : (tensor<64x32xbf16>) -> tensor<64x32xbf16>
    %d = mpc.mul %g, %again : (tensor<64x32xf32>, tensor<64x32xbf16>) -> tensor<64x32xf32>
    %dh = mpc.mul %d, %kept : (tensor<64x32xf32>, tensor<64x32xbf16>) -> tensor<64x32xf32>
    ```

    Results are the same bits: each copy is rounded as the original is, and a
    kernel that reduces takes nothing that would change the order it adds up in.
  }];
}

def FormRegionsPass : FusionPass<"mpc-form-regions"> {
  let summary = "ops that share a kernel into one mpc.region each";
  let description = [{
    Obeys compiler/Regions/RegionAnalysis.h. Needs primitive ops
    (`mpc-decompose`).

    Before:

    ```mlir
    func.func @update(%x: tensor<32x64xf32>, %dy: tensor<32x16xf32>, %w: tensor<16x64xf32>,
                      %lr: tensor<f32>) -> tensor<16x64xf32> {
      %g = mpc.matmul %dy, %x {transA = true}
          : (tensor<32x16xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
      %p = mpc.sgd %w, %g, %lr
          : (tensor<16x64xf32>, tensor<16x64xf32>, tensor<f32>) -> tensor<16x64xf32>
      return %p : tensor<16x64xf32>
    }
    ```

    After:

    ```mlir
    %0 = mpc.region contraction(%dy, %x, %w, %lr) {kernel = "update_0_matmul"}
        : (tensor<32x16xf32>, tensor<32x64xf32>, tensor<16x64xf32>, tensor<f32>)
        -> tensor<16x64xf32> {
    ^bb0(%arg4: tensor<32x16xf32>, %arg5: tensor<32x64xf32>, %arg6: tensor<16x64xf32>,
        %arg7: tensor<f32>):
      %1 = mpc.matmul %arg4, %arg5 {transA = true}
          : (tensor<32x16xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
      %2 = mpc.sgd %arg6, %1, %arg7
          : (tensor<16x64xf32>, tensor<16x64xf32>, tensor<f32>) -> tensor<16x64xf32>
      mpc.yield %2 : tensor<16x64xf32>
    }
    return %0 : tensor<16x64xf32>
    ```

    Afterwards the function holds regions, reshapes and constants in an order
    that can be executed; every region has a `kernel` name, unique in the
    module, and is located at the nodes it holds.
  }];
}

def VerifyFusionPass : FusionPass<"mpc-verify-fusion"> {
  let summary = "check that the Fusion stage left nothing but kernels";
  let description = [{
    Fails unless a function holds only regions, reshapes and constants; every
    region holds one kernel of its kind; contractions are matrix products or
    convolutions in NHWC without a bias; reductions keep their axes, which lie
    together. Codegen relies on each of these.

    Before:

    ```mlir
    func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = mpc.relu %x : (tensor<4xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```

    After, instead of IR:

    ```text
    ...: error: 'mpc.relu' op expected to be part of an mpc.region
    ```
  }];
}

#endif // MPC_PASSES_FUSION_PASSES_TD
