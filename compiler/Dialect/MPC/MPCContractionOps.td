// Contractions, and pooling ops.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCCONTRACTIONOPS_TD
#define MPC_COMPILER_DIALECT_MPC_MPCCONTRACTIONOPS_TD

include "compiler/Dialect/MPC/MPCEnums.td"

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

def MPC_MatMulOp : MPC_TensorOp<"matmul", "Contraction",
                                [DeclareOpInterfaceMethods<ContractionOpInterface>]>,
    MPC_ProductPolicy<["MatMul"]> {
  let summary = "matrix product, batched over leading axes";
  let description = [{
    NumPy's matmul on operands of rank two or more, times `alpha`. `transA` and
    `transB` exchange the last two axes of an operand first. The products are
    summed in f32 (f64 for f64) for all operand types.

    ```mlir
    %y = mpc.matmul %x, %w {transB = true}
        : (tensor<32x64xbf16>, tensor<10x64xbf16>) -> tensor<32x10xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$lhs, MPC_FloatTensor:$rhs,
                       DefaultValuedAttr<BoolAttr, "false">:$transA,
                       DefaultValuedAttr<BoolAttr, "false">:$transB,
                       DefaultValuedAttr<F64Attr, "1.0">:$alpha);
  let results = (outs MPC_FloatTensor:$output);
}

def MPC_GemmOp : MPC_TensorOp<"gemm", "Contraction",
                              [DeclareOpInterfaceMethods<ContractionOpInterface>]>,
    MPC_ProductPolicy<["Gemm"], fp32Operands = [2]> {
  let summary = "alpha * op(A) op(B) + beta * C on matrices";
  let description = [{
    ONNX Gemm. C, where present, broadcasts to the result.

    ```mlir
    %y = mpc.gemm %x, %w, %b {transB = true}
        : (tensor<32x64xf32>, tensor<10x64xf32>, tensor<10xf32>) -> tensor<32x10xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$a, MPC_FloatTensor:$b,
                       Optional<MPC_FloatTensor>:$c,
                       DefaultValuedAttr<F64Attr, "1.0">:$alpha,
                       DefaultValuedAttr<F64Attr, "1.0">:$beta,
                       DefaultValuedAttr<BoolAttr, "false">:$transA,
                       DefaultValuedAttr<BoolAttr, "false">:$transB);
  let results = (outs MPC_FloatTensor:$output);
}

// Interfaces of the convolution ops, with the methods that each op implements
// itself: getColumnAxis returns the axis of the result that holds the columns,
// getFilter the filter.
defvar MPC_ConvTraits = [
  DeclareOpInterfaceMethods<ContractionOpInterface, ["getColumnAxis"]>,
  DeclareOpInterfaceMethods<LayoutOpInterface, ["getFilter"]>];

// Attributes of the convolution ops. `layout` is the axis order of activations,
// `filter_layout` that of filters; importers leave both in ONNX's order.
defvar MPC_ConvAttrs = (ins DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads,
                            DenseI64ArrayAttr:$dilations,
                            DefaultValuedAttr<I64Attr, "1">:$group,
                            DefaultValuedAttr<MPC_LayoutAttr, "::mpc::Layout::NCHW">:$layout,
                            DefaultValuedAttr<MPC_FilterLayoutAttr, "::mpc::FilterLayout::OIHW">:$filter_layout);

def MPC_ConvOp : MPC_TensorOp<"conv", "Contraction", MPC_ConvTraits>,
    MPC_ProductPolicy<["Conv", "ConvTranspose"], fp32Operands = [2]> {
  let summary = "convolution over one to three spatial axes";
  let description = [{
    ONNX Conv with explicit paddings: `pads` holds the begin of every spatial
    axis, then the end of every spatial axis.

    ```mlir
    %y = mpc.conv %x, %w, %b {strides = array<i64: 1, 1>,
        pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
        : (tensor<32x1x8x8xf32>, tensor<16x1x3x3xf32>, tensor<16xf32>) -> tensor<32x16x8x8xf32>
    ```
  }];
  let arguments = !con((ins MPC_FloatTensor:$input, MPC_FloatTensor:$weight,
                            Optional<MPC_FloatTensor>:$bias), MPC_ConvAttrs);
  let results = (outs MPC_FloatTensor:$output);
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

defvar MPC_PoolAttrs = (ins DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                            DenseI64ArrayAttr:$pads,
                            DefaultValuedAttr<BoolAttr, "false">:$ceil_mode,
                            DefaultValuedAttr<MPC_LayoutAttr, "::mpc::Layout::NCHW">:$layout);

def MPC_MaxPoolOp : MPC_TensorOp<"max_pool", "Window",
    [DeclareOpInterfaceMethods<LayoutOpInterface, ["countActivationResults"]>]>,
    MPC_ExactPolicy<["MaxPool"]> {
  let summary = "maximum of sliding windows";
  let description = [{
    `indices` holds, per output element, the row-major position of the maximum
    within the spatial plane of the input. The first maximum counts, and NaN
    counts as maximum. The positions serve the gradient and are independent of
    the layout; they are not ONNX's Indices.

    ```mlir
    %y, %i = mpc.max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
        pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
        : (tensor<32x16x8x8xf32>) -> (tensor<32x16x4x4xf32>, tensor<32x16x4x4xi32>)
    ```
  }];
  let arguments = !con((ins MPC_FloatTensor:$input), MPC_PoolAttrs,
                       (ins DenseI64ArrayAttr:$dilations));
  let results = (outs MPC_FloatTensor:$output, MPC_IntTensor:$indices);
}

def MPC_AveragePoolOp : MPC_TensorOp<"average_pool", "Window", [LayoutOpInterface]>,
    MPC_Policy<["AveragePool"], "Infer", "Infer", "a mean of few elements, summed in fp32">,
    MPC_Linear {
  let summary = "mean of sliding windows";
  let description = [{
    `dilations` are 1 if absent.

    ```mlir
    %y = mpc.average_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
        pads = array<i64: 0, 0, 0, 0>}
        : (tensor<32x16x8x8xf32>) -> tensor<32x16x4x4xf32>
    ```
  }];
  let arguments = !con((ins MPC_FloatTensor:$input), MPC_PoolAttrs,
                       (ins DefaultValuedAttr<BoolAttr, "false">:$count_include_pad,
                            DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$dilations));
  let results = (outs MPC_FloatTensor:$output);
}

def MPC_GlobalAveragePoolOp
    : MPC_TensorOp<"global_average_pool", "Composite", [LayoutOpInterface]>,
      MPC_Policy<["GlobalAveragePool"], "Infer", "Infer", "a mean, summed in fp32">, MPC_Linear {
  let summary = "mean over all spatial axes, which stay with size 1";
  let description = [{
    `layout` determines the spatial axes: in NCHW, all axes from axis 2.

    ```mlir
    %y = mpc.global_average_pool %x : (tensor<32x64x4x4xf32>) -> tensor<32x64x1x1xf32>
    ```
  }];
  let arguments = (ins MPC_FloatTensor:$input,
                       DefaultValuedAttr<MPC_LayoutAttr, "::mpc::Layout::NCHW">:$layout);
  let results = (outs MPC_FloatTensor:$output);
}

#endif // MPC_COMPILER_DIALECT_MPC_MPCCONTRACTIONOPS_TD
