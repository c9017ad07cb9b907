// Gradient ops of the mpc dialect, in the order of their forward ops.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCGRADOPS_TD
#define MPC_COMPILER_DIALECT_MPC_MPCGRADOPS_TD

include "compiler/Dialect/MPC/MPCContractionOps.td"
include "compiler/Dialect/MPC/MPCElementwiseOps.td"
include "compiler/Dialect/MPC/MPCLossOps.td"
include "compiler/Dialect/MPC/MPCReductionOps.td"

//===----------------------------------------------------------------------===//
// Requests for gradients
//===----------------------------------------------------------------------===//

def MPC_GradientOp : MPC_Op<"gradient", [Pure]> {
  let summary = "derivatives of a value with respect to values it depends on";
  let description = [{
    A placeholder for the backward pass until `mpc-expand-gradients` builds it.
    Result i is dY/dXi, through all ops between Xi and Y. If Y is not a scalar,
    the gradient is that of the sum of its elements. The gradient is zero if Y
    does not depend on Xi. (ONNX's `Gradient` of ai.onnx.preview.training.)

    ```mlir
    %dw, %db = mpc.gradient %loss wrt %w, %b
        : tensor<f32>, (tensor<10x64xf32>, tensor<10xf32>)
       -> (tensor<10x64xf32>, tensor<10xf32>)
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$y, Variadic<MPC_FloatTensor>:$xs);
  let results = (outs Variadic<MPC_FloatTensor>:$gradients);
  let assemblyFormat = [{
    $y `wrt` $xs attr-dict `:` type($y) `,` `(` type($xs) `)` `->` `(` type($gradients) `)`
  }];
  let hasVerifier = 1;
}

def MPC_StopGradientOp : MPC_Op<"stop_gradient", [Pure, SameOperandsAndResultType]> {
  let summary = "a value that is a constant to derivatives";
  let description = [{
    PyTorch's `x.detach()`: returns `x`, but no derivative flows through.
    `mpc-expand-gradients` removes the op once the backward pass is built.

    ```mlir
    %y = mpc.stop_gradient %x : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$input);
  let results = (outs MPC_FloatTensor:$output);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def MPC_GradientSeedOp : MPC_GraphOp<"gradient_seed", []>,
    MPC_Policy<[], "Fixed", "Fixed", "where the loss scale enters: 65536 overflows fp16"> {
  let summary = "where a backward pass starts: ones";
  let description = [{
    dY/dY, where the loss scale enters. The seed is an op instead of a constant,
    so that folding cannot hide it from the Precision stage.

    ```mlir
    %one = mpc.gradient_seed : tensor<f32>
    ```
  }];
  let results = (outs MPC_FloatTensor:$output);
  let assemblyFormat = "attr-dict `:` type($output)";
  let extraClassDefinition = [{
    ::mpc::RegionRole $cppClass::getRegionRole() {
      return ::mpc::RegionRole::Constant;
    }
  }];
}

//===----------------------------------------------------------------------===//
// Gradients of elementwise ops: operands are d_output and a saved value
//===----------------------------------------------------------------------===//

class MPC_ElementwiseGradOp<string mnemonic, string formula, string saved>
    : MPC_TensorOp<mnemonic, "Elementwise"> {
  let summary = "elementwise " # formula;
  let description = "Computes " # formula # ", where " # saved # [{.

    ```mlir
    %dx = mpc.}] # mnemonic # [{ %dy, %saved : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$d_output, MPC_FloatTensor:$saved);
  let results = (outs MPC_FloatTensor:$d_input);
}

def MPC_ReluGradOp : MPC_ElementwiseGradOp<"relu_grad", "dy where saved > 0, NaN where it is NaN, else 0",
    "saved is relu's input or output (both have the same sign)">, MPC_PolicyOf<MPC_ReluOp>,
    MPC_Linear;
def MPC_SigmoidGradOp : MPC_ElementwiseGradOp<"sigmoid_grad", "dy * y * (1 - y)",
    "saved is sigmoid's output y">, MPC_PolicyOf<MPC_SigmoidOp>, MPC_Linear;
def MPC_TanhGradOp : MPC_ElementwiseGradOp<"tanh_grad", "dy * (1 - y * y)",
    "saved is tanh's output y">, MPC_PolicyOf<MPC_TanhOp>, MPC_Linear;

def MPC_ClipGradOp : MPC_TensorOp<"clip_grad", "Elementwise">, MPC_PolicyOf<MPC_ClipOp>, MPC_Linear {
  let summary = "elementwise dy where min <= x <= max, NaN where x is NaN, else 0";
  let description = [{
    The gradient of `mpc.clip`, with the bounds of the forward op. A bound that
    is absent has no effect.

    ```mlir
    %dx = mpc.clip_grad %dy, %x {min = 0.0 : f64, max = 6.0 : f64}
        : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$d_output, MPC_FloatTensor:$input,
                       OptionalAttr<F64Attr>:$min, OptionalAttr<F64Attr>:$max);
  let results = (outs MPC_FloatTensor:$d_input);
}

class MPC_FakeQuantizeGradientOp<string mnemonic, string formula, string example>
    : MPC_TensorOp<mnemonic, "Elementwise"> {
  let summary = formula;
  let description = [{
    A gradient of `mpc.fake_quantize`. The last three operands and the
    attributes are those of the forward op.

    ```mlir
    %}] # example # [{ %dy, %w, %scale, %zero {low = -128 : i64, high = 127 : i64}
        : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x1xf32>, tensor<f32>) -> tensor<8x4xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$d_output, MPC_FloatTensor:$input,
                       MPC_FloatTensor:$scale, MPC_FloatTensor:$zero_point,
                       I64Attr:$low, I64Attr:$high);
  let results = (outs MPC_FloatTensor:$gradient);
}

def MPC_FakeQuantizeGradOp : MPC_FakeQuantizeGradientOp<"fake_quantize_grad",
    "dy where low <= p <= high, NaN where p is NaN, else 0",
    "dx = mpc.fake_quantize_grad">, MPC_PolicyOf<MPC_FakeQuantizeOp, fp32Operands = [2, 3]>,
    MPC_Linear;
def MPC_FakeQuantizeScaleGradOp : MPC_FakeQuantizeGradientOp<"fake_quantize_scale_grad",
    "each element's part of the gradient of the scale",
    "part = mpc.fake_quantize_scale_grad">, MPC_PolicyOf<MPC_FakeQuantizeOp, fp32Operands = [2, 3]>,
    MPC_Linear;

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

class MPC_SoftmaxLikeGradOp<string mnemonic, string formula> : MPC_TensorOp<mnemonic, "Composite"> {
  let summary = formula;
  let description = "Computes " # formula # [{ with sums along `axis`; y is the forward op's output.

    ```mlir
    %dx = mpc.}] # mnemonic # [{ %dy, %y {axis = 1 : i64}
        : (tensor<32x10xf32>, tensor<32x10xf32>) -> tensor<32x10xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$d_output, MPC_FloatTensor:$output, I64Attr:$axis);
  let results = (outs MPC_FloatTensor:$d_input);
}

def MPC_SoftmaxGradOp : MPC_SoftmaxLikeGradOp<"softmax_grad", "y * (dy - sum(dy * y))">,
    MPC_PolicyOf<MPC_SoftmaxOp>, MPC_Linear;
def MPC_LogSoftmaxGradOp : MPC_SoftmaxLikeGradOp<"log_softmax_grad", "dy - exp(y) * sum(dy)">,
    MPC_PolicyOf<MPC_LogSoftmaxOp>, MPC_Linear;

//===----------------------------------------------------------------------===//
// Convolution
//===----------------------------------------------------------------------===//

def MPC_ConvInputGradOp : MPC_ShapedOp<"conv_input_grad", "Contraction", MPC_ConvTraits>,
    MPC_PolicyOf<MPC_ConvOp> {
  let summary = "gradient of conv with respect to its input";
  let description = [{
    The attributes are the forward op's. The result has the shape of the input.

    ```mlir
    %dx = mpc.conv_input_grad %dy, %w {strides = array<i64: 1, 1>,
        pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
        : (tensor<32x16x8x8xf32>, tensor<16x4x3x3xf32>) -> tensor<32x4x8x8xf32>
    ```
  }];
  let arguments = !con((ins MPC_FloatTensor:$d_output, MPC_FloatTensor:$weight), MPC_ConvAttrs);
  let results = (outs MPC_FloatTensor:$d_input);
}

def MPC_ConvWeightGradOp : MPC_ShapedOp<"conv_weight_grad", "Contraction",
    [DeclareOpInterfaceMethods<ContractionOpInterface, ["getColumnAxis"]>,
     DeclareOpInterfaceMethods<LayoutOpInterface,
         ["countActivationOperands", "countActivationResults", "getFilter"]>]>,
    MPC_PolicyOf<MPC_ConvOp> {
  let summary = "gradient of conv with respect to its weight";
  let description = [{
    The attributes are the forward op's. The result has the shape of the weight.

    ```mlir
    %dw = mpc.conv_weight_grad %x, %dy {strides = array<i64: 1, 1>,
        pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
        : (tensor<32x4x8x8xf32>, tensor<32x16x8x8xf32>) -> tensor<16x4x3x3xf32>
    ```
  }];
  let arguments = !con((ins MPC_FloatTensor:$input, MPC_FloatTensor:$d_output), MPC_ConvAttrs);
  let results = (outs MPC_FloatTensor:$d_weight);
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

def MPC_MaxPoolGradOp : MPC_ShapedOp<"max_pool_grad", "Window",
    [DeclareOpInterfaceMethods<LayoutOpInterface, ["countActivationOperands"]>]>,
    MPC_PolicyOf<MPC_MaxPoolOp>, MPC_Linear {
  let summary = "adds every output gradient to the position of its maximum";
  let description = [{
    `indices` is the forward op's second result. Sums of overlapping windows are
    formed in a fixed order.

    ```mlir
    %dx = mpc.max_pool_grad %dy, %i {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
        pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
        : (tensor<32x16x4x4xf32>, tensor<32x16x4x4xi32>) -> tensor<32x16x8x8xf32>
    ```
  }];
  let arguments = !con((ins MPC_FloatTensor:$d_output, MPC_IntTensor:$indices), MPC_PoolAttrs,
                       (ins DenseI64ArrayAttr:$dilations));
  let results = (outs MPC_FloatTensor:$d_input);
}

def MPC_AveragePoolGradOp
    : MPC_ShapedOp<"average_pool_grad", "Window", [LayoutOpInterface]>,
      MPC_PolicyOf<MPC_AveragePoolOp>, MPC_Linear {
  let summary = "spreads every output gradient over its window";
  let description = [{
    Each element of a window gets dy divided by the divisor of the forward op:
    the number of window elements inside the input, or of all with
    `count_include_pad`.

    ```mlir
    %dx = mpc.average_pool_grad %dy {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
        pads = array<i64: 0, 0, 0, 0>}
        : (tensor<32x16x4x4xf32>) -> tensor<32x16x8x8xf32>
    ```
  }];
  let arguments = !con((ins MPC_FloatTensor:$d_output), MPC_PoolAttrs,
                       (ins DefaultValuedAttr<BoolAttr, "false">:$count_include_pad,
                            DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$dilations));
  let results = (outs MPC_FloatTensor:$d_input);
}

def MPC_GlobalAveragePoolGradOp
    : MPC_ShapedOp<"global_average_pool_grad", "Composite", [LayoutOpInterface]>,
      MPC_PolicyOf<MPC_GlobalAveragePoolOp>, MPC_Linear {
  let summary = "spreads the gradient of a mean over all spatial positions";
  let description = [{
    Each position gets dy over the number of positions: in the example, dy / 16.

    ```mlir
    %dx = mpc.global_average_pool_grad %dy : (tensor<32x64x1x1xf32>) -> tensor<32x64x4x4xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$d_output,
                       DefaultValuedAttr<MPC_LayoutAttr, "::mpc::Layout::NCHW">:$layout);
  let results = (outs MPC_FloatTensor:$d_input);
}

//===----------------------------------------------------------------------===//
// Losses
//===----------------------------------------------------------------------===//

def MPC_BCEWithLogitsGradOp : MPC_TensorOp<"bce_with_logits_grad", "Elementwise">,
    MPC_PolicyOf<MPC_BCEWithLogitsOp>, MPC_Linear {
  let summary = "elementwise dy * (sigmoid(x) - t)";
  let description = [{
    The gradient of `mpc.bce_with_logits` with respect to the logits x.

    ```mlir
    %dx = mpc.bce_with_logits_grad %dy, %x, %t
        : (tensor<32x1xf32>, tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<32x1xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$d_output, MPC_FloatTensor:$logits,
                       MPC_FloatTensor:$targets);
  let results = (outs MPC_FloatTensor:$d_logits);
}

def MPC_BCEGradOp : MPC_TensorOp<"bce_grad", "Elementwise">, MPC_PolicyOf<MPC_BCEOp>, MPC_Linear {
  let summary = "elementwise dy * (p - t) / max(p * (1 - p), 1e-12)";
  let description = [{
    The bound of the divisor is PyTorch's.

    ```mlir
    %dp = mpc.bce_grad %dy, %p, %t
        : (tensor<32x1xf32>, tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<32x1xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$d_output, MPC_FloatTensor:$probabilities,
                       MPC_FloatTensor:$targets);
  let results = (outs MPC_FloatTensor:$d_probabilities);
}

def MPC_SoftmaxCrossEntropyLossGradOp : MPC_TensorOp<"softmax_cross_entropy_loss_grad", "Composite">,
    MPC_PolicyOf<MPC_SoftmaxCrossEntropyLossOp, fp32Operands = [0, 3]>, MPC_Linear {
  let summary = "gradient of softmax_cross_entropy_loss with respect to the scores";
  let description = [{
    (exp(log_prob) - one_hot(labels)) * d_loss * weight[label] / denominator,
    and 0 if the label is ignored. The denominator is the divisor of the forward
    op's reduction. With `label_smoothing` e, the contribution of the label is
    multiplied by 1 - e, and e / C * (exp(log_prob) * sum(weights) - weights) is
    added.

    ```mlir
    %dx = mpc.softmax_cross_entropy_loss_grad %dloss, %log_prob, %labels {reduction = #mpc.reduction<mean>}
        : (tensor<f32>, tensor<32x10xf32>, tensor<32xi64>) -> tensor<32x10xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$d_loss, MPC_FloatTensor:$log_prob,
                       MPC_IntTensor:$labels, Optional<MPC_FloatTensor>:$weights,
                       DefaultValuedAttr<MPC_LossReductionAttr, "::mpc::LossReduction::Mean">:$reduction,
                       OptionalAttr<I64Attr>:$ignore_index,
                       DefaultValuedAttr<F64Attr, "0.0">:$label_smoothing);
  let results = (outs MPC_FloatTensor:$d_scores);
}

def MPC_NLLLossGradOp : MPC_ShapedOp<"nll_loss_grad", "Composite">,
    MPC_PolicyOf<MPC_NLLLossOp, fp32Operands = [0, 2]>, MPC_Linear {
  let summary = "gradient of nll_loss with respect to the log-probabilities";
  let description = [{
    -one_hot(labels) * d_loss * weight[label] / denominator.

    ```mlir
    %dx = mpc.nll_loss_grad %dloss, %labels {reduction = #mpc.reduction<mean>}
        : (tensor<f32>, tensor<32xi64>) -> tensor<32x10xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$d_loss, MPC_IntTensor:$labels,
                       Optional<MPC_FloatTensor>:$weights,
                       DefaultValuedAttr<MPC_LossReductionAttr, "::mpc::LossReduction::Mean">:$reduction,
                       OptionalAttr<I64Attr>:$ignore_index);
  let results = (outs MPC_FloatTensor:$d_log_prob);
}

#endif // MPC_COMPILER_DIALECT_MPC_MPCGRADOPS_TD
