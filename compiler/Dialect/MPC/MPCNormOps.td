// Normalisation ops of the mpc dialect and their gradients. In mixed precision,
// scale, bias and statistics stay fp32.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCNORMOPS_TD
#define MPC_COMPILER_DIALECT_MPC_MPCNORMOPS_TD

include "compiler/Dialect/MPC/MPCEnums.td"

def MPC_Normalization : NativeOpTrait<"NormalizationTrait"> {
  let cppNamespace = "::mpc";
}
def MPC_NormalizationGrad : NativeOpTrait<"NormalizationGradTrait"> {
  let cppNamespace = "::mpc";
}

//===----------------------------------------------------------------------===//
// Batch normalisation: statistics over all samples of a batch
//===----------------------------------------------------------------------===//

def MPC_BatchNormOp
    : MPC_TensorOp<"batch_norm", "Composite",
                   [LayoutOpInterface, MPC_Normalization]>,
      MPC_Policy<["BatchNormalization"], "Infer", "Infer",
                 "statistics and their arithmetic stay fp32",
                 fp32Operands = [1, 2, 3, 4], fp32Results = [1, 2, 3, 4]> {
  let summary = "BatchNormalization in training mode";
  let description = [{
    Normalises every channel by the mean and the population variance of the
    batch, in f32. `mean` and `inv_std` are those of the batch, for the
    gradient. `new_running_*` = running * momentum + batch * (1 - momentum).

    With the attribute `mpc.over_ranks`, the batch is that of all ranks of a
    distributed run: `mpc-decompose` reduces the statistics over the ranks.

    ```mlir
    %y, %mean, %inv_std, %rm, %rv = mpc.batch_norm %x, %scale, %bias, %running_mean, %running_var
        {epsilon = 1.0e-5 : f64, momentum = 0.9 : f64}
        : (tensor<32x16x8x8xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
       -> (tensor<32x16x8x8xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$input, MPC_FloatTensor:$scale,
                       MPC_FloatTensor:$bias, MPC_FloatTensor:$running_mean,
                       MPC_FloatTensor:$running_var, F64Attr:$epsilon,
                       F64Attr:$momentum,
                       DefaultValuedAttr<MPC_LayoutAttr, "::mpc::Layout::NCHW">:$layout);
  let results = (outs MPC_FloatTensor:$output, MPC_FloatTensor:$mean,
                      MPC_FloatTensor:$inv_std,
                      MPC_FloatTensor:$new_running_mean,
                      MPC_FloatTensor:$new_running_var);
}

def MPC_BatchNormInferenceOp
    : MPC_TensorOp<"batch_norm_inference", "Composite",
                   [LayoutOpInterface, MPC_Normalization]>,
      MPC_PolicyOf<MPC_BatchNormOp, fp32Operands = [1, 2, 3, 4]> {
  let summary = "BatchNormalization with given statistics";
  let description = [{
    (x - mean) / sqrt(var + epsilon) * scale + bias per channel, in f32.

    ```mlir
    %y = mpc.batch_norm_inference %x, %scale, %bias, %mean, %var {epsilon = 1.0e-5 : f64}
        : (tensor<32x16x8x8xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
       -> tensor<32x16x8x8xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$input, MPC_FloatTensor:$scale,
                       MPC_FloatTensor:$bias, MPC_FloatTensor:$mean,
                       MPC_FloatTensor:$var, F64Attr:$epsilon,
                       DefaultValuedAttr<MPC_LayoutAttr, "::mpc::Layout::NCHW">:$layout);
  let results = (outs MPC_FloatTensor:$output);
}

def MPC_BatchNormGradOp : MPC_TensorOp<"batch_norm_grad", "Composite",
    [DeclareOpInterfaceMethods<LayoutOpInterface, ["countActivationOperands"]>,
     MPC_NormalizationGrad]>,
    MPC_PolicyOf<MPC_BatchNormOp, fp32Operands = [2, 3, 4], fp32Results = [1, 2]>, MPC_Linear {
  let summary = "gradient of batch_norm";
  let description = [{
    d_scale = sum(dy * xhat), d_bias = sum(dy), d_input = scale * inv_std * (dy
    - mean(dy) - xhat * mean(dy * xhat)), with xhat = (x - mean) * inv_std. All
    sums are over a channel, in f32. With the attribute `mpc.over_ranks`, the
    means are over the batches of all ranks; the sums are those of the rank.

    ```mlir
    %dx, %dscale, %dbias = mpc.batch_norm_grad %dy, %x, %scale, %mean, %inv_std
        : (tensor<32x16x8x8xf32>, tensor<32x16x8x8xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
       -> (tensor<32x16x8x8xf32>, tensor<16xf32>, tensor<16xf32>)
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$d_output, MPC_FloatTensor:$input,
                       MPC_FloatTensor:$scale, MPC_FloatTensor:$mean,
                       MPC_FloatTensor:$inv_std,
                       DefaultValuedAttr<MPC_LayoutAttr, "::mpc::Layout::NCHW">:$layout);
  let results = (outs MPC_FloatTensor:$d_input, MPC_FloatTensor:$d_scale,
                      MPC_FloatTensor:$d_bias);
}

//===----------------------------------------------------------------------===//
// Layer and RMS normalisation: statistics of each sample
//===----------------------------------------------------------------------===//

// The policy of mpc.layer_norm and mpc.rms_norm. `fp32` lists the positions of
// scale and bias among the operands, which stay fp32. The statistics have the
// same positions among the results, and stay fp32 too.
class MPC_SampleNormPolicy<list<string> onnx, list<int> fp32>
    : MPC_Policy<onnx, "Deny", "Infer",
                 "sums of residuals and their scaled gradients overflow fp16",
                 fp32, fp32>;

def MPC_LayerNormOp
    : MPC_TensorOp<"layer_norm", "Composite", [MPC_Normalization]>,
      MPC_SampleNormPolicy<["LayerNormalization", "InstanceNormalization",
                            "GroupNormalization"], [1, 2]> {
  let summary = "LayerNormalization over given axes";
  let description = [{
    (x - mean) * inv_std * scale + bias, with the mean and the population
    variance over `axes` and inv_std = 1 / sqrt(variance + epsilon). Computed in
    f32, or in f64 for f64 inputs. `mean` and `inv_std` keep the axes with size
    1; the gradient reads both. Scale and bias broadcast to the input.

    `axes` depends on the ONNX op:

    - LayerNormalization: the last axes
    - InstanceNormalization: the axes after the channels, with a scale of shape
      (C, 1, ...)
    - GroupNormalization: the last axis, on groups

    ```mlir
    %y, %mean, %inv_std = mpc.layer_norm %x, %scale, %bias {axes = array<i64: 2>, epsilon = 1.0e-5 : f64}
        : (tensor<8x128x768xf32>, tensor<768xf32>, tensor<768xf32>)
       -> (tensor<8x128x768xf32>, tensor<8x128x1xf32>, tensor<8x128x1xf32>)
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$input, MPC_FloatTensor:$scale,
                       Optional<MPC_FloatTensor>:$bias,
                       DenseI64ArrayAttr:$axes, F64Attr:$epsilon);
  let results = (outs MPC_FloatTensor:$output, MPC_FloatTensor:$mean,
                      MPC_FloatTensor:$inv_std);
}

def MPC_LayerNormGradOp
    : MPC_TensorOp<"layer_norm_grad", "Composite", [MPC_NormalizationGrad]>,
      MPC_PolicyOf<MPC_LayerNormOp, fp32Operands = [2, 3, 4], fp32Results = [1]>, MPC_Linear {
  let summary = "gradient of layer_norm";
  let description = [{
    d_scale = sum(dy * xhat) over the axes along which the scale broadcasts.
    d_input = inv_std * (g - mean(g) - xhat * mean(g * xhat)). Here xhat = (x -
    mean) * inv_std, g = dy * scale, and all means are over `axes`, in f32.

    ```mlir
    %dx, %dscale = mpc.layer_norm_grad %dy, %x, %scale, %mean, %inv_std {axes = array<i64: 2>}
        : (tensor<8x128x768xf32>, tensor<8x128x768xf32>, tensor<768xf32>,
           tensor<8x128x1xf32>, tensor<8x128x1xf32>)
       -> (tensor<8x128x768xf32>, tensor<768xf32>)
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$d_output, MPC_FloatTensor:$input,
                       MPC_FloatTensor:$scale, MPC_FloatTensor:$mean,
                       MPC_FloatTensor:$inv_std, DenseI64ArrayAttr:$axes);
  let results = (outs MPC_FloatTensor:$d_input, MPC_FloatTensor:$d_scale);
}

def MPC_RMSNormOp
    : MPC_TensorOp<"rms_norm", "Composite", [MPC_Normalization]>,
      MPC_SampleNormPolicy<["RMSNormalization", "SimplifiedLayerNormalization"], [1]> {
  let summary = "RMSNormalization over given axes";
  let description = [{
    x * inv_rms * scale with inv_rms = 1 / sqrt(mean(x * x) + epsilon) over
    `axes`. Computed in f32, or in f64 for f64 inputs. `inv_rms` keeps the axes
    with size 1; the gradient reads it. The scale broadcasts to the input.

    ```mlir
    %y, %inv_rms = mpc.rms_norm %x, %scale {axes = array<i64: 2>, epsilon = 1.0e-5 : f64}
        : (tensor<8x128x768xf32>, tensor<768xf32>) -> (tensor<8x128x768xf32>, tensor<8x128x1xf32>)
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$input, MPC_FloatTensor:$scale,
                       DenseI64ArrayAttr:$axes, F64Attr:$epsilon);
  let results = (outs MPC_FloatTensor:$output, MPC_FloatTensor:$inv_rms);
}

def MPC_RMSNormGradOp
    : MPC_TensorOp<"rms_norm_grad", "Composite", [MPC_NormalizationGrad]>,
      MPC_PolicyOf<MPC_RMSNormOp, fp32Operands = [2, 3], fp32Results = [1]>, MPC_Linear {
  let summary = "gradient of rms_norm";
  let description = [{
    d_scale = sum(dy * xhat) over the axes along which the scale broadcasts.
    d_input = inv_rms * (g - xhat * mean(g * xhat)). Here xhat = x * inv_rms, g
    = dy * scale, and the mean is over `axes`, in f32.

    ```mlir
    %dx, %dscale = mpc.rms_norm_grad %dy, %x, %scale, %inv_rms {axes = array<i64: 2>}
        : (tensor<8x128x768xf32>, tensor<8x128x768xf32>, tensor<768xf32>, tensor<8x128x1xf32>)
       -> (tensor<8x128x768xf32>, tensor<768xf32>)
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$d_output, MPC_FloatTensor:$input,
                       MPC_FloatTensor:$scale, MPC_FloatTensor:$inv_rms,
                       DenseI64ArrayAttr:$axes);
  let results = (outs MPC_FloatTensor:$d_input, MPC_FloatTensor:$d_scale);
}

#endif // MPC_COMPILER_DIALECT_MPC_MPCNORMOPS_TD
