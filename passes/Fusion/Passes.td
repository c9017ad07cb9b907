// The passes of the Fusion stage, in the order they run: first the passes of
// BodyPasses.td, then those that rewrite ops for kernels and form the kernels.
// Before and after all others, the passes of TypePasses.td run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_FUSION_PASSES_TD
#define MPC_PASSES_FUSION_PASSES_TD

include "passes/Fusion/BodyPasses.td"
include "passes/Fusion/TypePasses.td"

def ConvertLayoutPass : FusionPass<"mpc-convert-layout"> {
  let summary = "convert activations to NHWC, and filters to the layout of the library";
  let description = [{
    Gives every convolution, pooling and BatchNormalization the layout NHWC.
    Moves the necessary transposes to places where the order of elements
    matters: flattening, inputs and outputs. Dropout keeps its layout, since the
    mask depends on an element's position. If the target's library wants OHWI
    filters, weights and their gradients are transposed. State and the
    optimizers' work on state keep ONNX's layout.

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
  let summary = "rewrite composite ops into elementwise ops and reductions";
  let description = [{
    Rewrites every op of role Composite (the softmax family, losses,
    BatchNormalization, global pooling, gradient clipping, the finiteness test)
    into elementwise ops and reductions. Intermediate values are f32, or f64 if
    an operand or result is f64. A BatchNormalization of 16-bit images reads the
    images once for both mean and variance on a GPU, and twice elsewhere.

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

    At the end, no op of role Composite is left.
  }];
}

def FoldScalingPass : FusionPass<"mpc-fold-scaling"> {
  let summary = "fold constant factors of operands and results into alpha of products";
  let description = [{
    Folds constant factors into the `alpha` of products. Applies to a tensor
    that is multiplied or divided by a constant and then read by products alone,
    and to the result of a product that only the scaling reads. `alpha` scales
    the sums in their computation type, so no element is rounded in between. A
    factor that would make alpha infinite or NaN stays.

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
  let summary = "move elementwise ops before transposes if a kernel can fuse them there";
  let description = [{
    Moves an elementwise op, whose other operands are scalars, from behind
    transposes or reshapes to the front, if only products read the result. A
    contraction or an elementwise op must compute the moved value for this op
    alone. The op then joins that kernel, and products can read through the
    transposes (`mpc-split-contractions`, `plan-fold-movement`). An op also
    moves if an equal op already reads the value in front. In gradients of
    scores, for example, one product reads the gradient as it is, another
    product reads the reshaped gradient, and both need the same cast. Every
    element is computed as before. An op with a wider result stays, since moving
    wider elements would cost more.

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
  let summary = "transpose unmerged axes, and concatenate in place";
  let description = [{
    A transpose between two views may move axes that the first view merges. The
    pass then transposes the unmerged axes instead: samples and heads stay two
    axes. Later ops can follow the transpose by strides (`plan-fold-movement`),
    which the merged axis would prevent.

    A transpose of a concat becomes a concat along the moved axis if nothing
    else reads the concat and the transpose moves no element within a part.
    Gradients of queries, keys and values, for example, are then concatenated
    per token.

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
  let summary = "split bias, C and transposes off contractions";
  let description = [{
    Takes elementwise parts out of contractions, so that they can join the
    kernel's epilogue: C, beta and bias become ops after the contraction.
    Transposes of the last two axes, of operands and of the result, become
    `transA` and `transB`. A transpose that also moves batches keeps only that
    part. Batch dimensions that partly broadcast are expanded.

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

    At the end, there is no `mpc.gemm` and no `mpc.conv` with a bias.
  }];
}

def ConvertConvToMatmulPass : FusionPass<"mpc-convert-conv-to-matmul"> {
  let summary = "turn convolutions with one tap into matrix products";
  let description = [{
    Turns convolutions with one tap, one group and no padding, and their
    gradients, into matrix products of pixels and channels. Libraries multiply
    matrices faster than they convolve. With strides, the pixels are a slice of
    the image, and a pad puts zeros between the pixels of the image's gradient;
    on GPUs, strided convolutions stay. Expects activations in NHWC and no bias
    (`mpc-split-contractions`); convolutions in other layouts stay.

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

    At the end, no NHWC convolution has one tap, one group and no padding,
    except strided ones on a GPU.
  }];
}

def NormalizeReductionsPass : FusionPass<"mpc-normalize-reductions"> {
  let summary = "reduce adjacent axes only, and keep them with size 1";
  let description = [{
    Brings every reduction into the form that kernels take: `keepdims` and
    adjacent axes. Large reductions take two steps, so that threads share the
    first step: over some of the axes, or over `parts` of one long axis. On a
    CPU a thread takes wide rows whole (compiler/Kernels/ColumnBands.h), so
    reductions of wide rows count as large sooner. On a GPU, column sums get
    enough parts for about four blocks of 64 columns per multiprocessor of a
    large GPU.

    `mpc.sum_to_size` becomes `mpc.reduce_sum`, and reshapes restore the shape.
    A scatter that adds 16-bit floats accumulates in f32, and a cast rounds the
    result.

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
  let summary = "recompute elementwise values if keeping them costs more";
  let description = [{
    Recomputes elementwise values instead of keeping them in memory, above all
    for the backward pass. A minimum cut (compiler/Regions/KeptValues.h) weighs
    stores and loads against the work to recompute, independent of element
    types. Every kernel that reads a value that is not kept computes a copy. The
    copy reads kept values through `mpc.kept`, so that it does not join the
    kernel of the original. Nothing changes if kernels would then store and load
    more. Expects primitive ops (`mpc-decompose`), and no canonicalization
    before `mpc-form-regions`.

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

    Results keep their bits: each copy rounds like the original, and a reduction
    kernel takes no op that would change the order of its sums.
  }];
}

def FormRegionsPass : FusionPass<"mpc-form-regions"> {
  let summary = "group the ops of each kernel into an mpc.region";
  let description = [{
    Puts the ops that share a kernel into one `mpc.region`, as decided by
    compiler/Regions/RegionAnalysis.h. Expects primitive ops (`mpc-decompose`).

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

    At the end, the function holds regions, reshapes and constants in an
    executable order. Every region has a `kernel` name, unique in the module,
    and the locations of all its nodes.
  }];
}

def VerifyFusionPass : FusionPass<"mpc-verify-fusion"> {
  let summary = "check that the Fusion stage left nothing but kernels";
  let description = [{
    Fails unless a function holds only regions, reshapes and constants. Every
    region must hold one kernel of its kind. Contractions must be matrix
    products or NHWC convolutions without a bias. Reductions must keep their
    axes, which must be adjacent. Codegen relies on each of these facts.

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
