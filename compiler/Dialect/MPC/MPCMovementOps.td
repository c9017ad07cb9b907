// Ops that move elements.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCMOVEMENTOPS_TD
#define MPC_COMPILER_DIALECT_MPC_MPCMOVEMENTOPS_TD

include "compiler/Dialect/MPC/MPCEnums.td"

def MPC_ReshapeOp : MPC_ShapedOp<"reshape", "View">,
    MPC_MovementPolicy<["Reshape", "Flatten", "Squeeze", "Unsqueeze"]> {
  let summary = "the same elements in row-major order under another shape";
  let description = [{
    Reshape, Flatten, Squeeze and Unsqueeze of ONNX with known result shapes.

    ```mlir
    %y = mpc.reshape %x : (tensor<32x16x2x2xf32>) -> tensor<32x64xf32>
    ```
  }];
  let arguments = (ins MPC_Tensor:$input);
  let results = (outs MPC_Tensor:$output);
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def MPC_TransposeOp : MPC_TensorOp<"transpose", "Movement">, MPC_MovementPolicy<["Transpose"]> {
  let summary = "permutes the axes";
  let description = [{
    Axis i of the result is axis `perm[i]` of the input.

    ```mlir
    %y = mpc.transpose %x {perm = array<i64: 0, 2, 3, 1>}
        : (tensor<32x16x8x8xf32>) -> tensor<32x8x8x16xf32>
    ```
  }];
  let arguments = (ins MPC_Tensor:$input, DenseI64ArrayAttr:$perm);
  let results = (outs MPC_Tensor:$output);
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def MPC_ExpandOp : MPC_ShapedOp<"expand", "Elementwise">, MPC_MovementPolicy<["Expand"]>, MPC_Linear {
  let summary = "broadcasts to a larger shape by NumPy's rules";
  let description = [{
    Repeats axes of size 1 and axes that are missing in front.

    ```mlir
    %y = mpc.expand %x : (tensor<8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins MPC_Tensor:$input);
  let results = (outs MPC_Tensor:$output);
  let hasFolder = 1;
}

def MPC_ConcatOp : MPC_TensorOp<"concat", "Movement">, MPC_MovementPolicy<["Concat"]> {
  let summary = "joins tensors along an axis";
  let description = [{
    Operands are joined in order. Their other axes must have equal sizes.

    ```mlir
    %y = mpc.concat %a, %b {axis = 1 : i64}
        : (tensor<4x2xf32>, tensor<4x3xf32>) -> tensor<4x5xf32>
    ```
  }];
  let arguments = (ins Variadic<MPC_Tensor>:$inputs, I64Attr:$axis);
  let results = (outs MPC_Tensor:$output);
  let hasFolder = 1;
}

def MPC_SliceOp : MPC_TensorOp<"slice", "Movement">, MPC_MovementPolicy<["Slice"]> {
  let summary = "a box of a tensor, with a stride along each axis";
  let description = [{
    Takes the `sizes[d]` elements offsets[d], offsets[d] + strides[d], ... along
    each axis d. Strides are 1 if absent; a negative stride runs backwards.

    ```mlir
    %y = mpc.slice %x {offsets = array<i64: 0, 2>, sizes = array<i64: 4, 3>}
        : (tensor<4x5xf32>) -> tensor<4x3xf32>
    ```

    Every second row, with its elements in reverse:

    ```mlir
    %z = mpc.slice %x {offsets = array<i64: 0, 4>, sizes = array<i64: 2, 5>,
                       strides = array<i64: 2, -1>}
        : (tensor<4x5xf32>) -> tensor<2x5xf32>
    ```
  }];
  let arguments = (ins MPC_Tensor:$input, DenseI64ArrayAttr:$offsets,
                       DenseI64ArrayAttr:$sizes,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$strides);
  let results = (outs MPC_Tensor:$output);
  let hasFolder = 1;
}

def MPC_PadOp : MPC_TensorOp<"pad", "Movement">, MPC_MovementPolicy<["Pad"]> {
  let summary = "pads a tensor with one value";
  let description = [{
    The input's first element lies at `offsets` in a result of `shape`;
    neighbours along axis d lie `strides[d]` apart. All other elements are
    `value`. Strides are 1 if absent. The gradient of a slice is a pad with
    zeros; the gradient of a pad is a slice.

    ```mlir
    %y = mpc.pad %x {offsets = array<i64: 0, 2>, shape = array<i64: 4, 8>}
        : (tensor<4x3xf32>) -> tensor<4x8xf32>
    ```

    Rows with a row of zeros between them:

    ```mlir
    %z = mpc.pad %x {offsets = array<i64: 0, 0>, shape = array<i64: 7, 3>,
                     strides = array<i64: 2, 1>}
        : (tensor<4x3xf32>) -> tensor<7x3xf32>
    ```
  }];
  let arguments = (ins MPC_Tensor:$input, DenseI64ArrayAttr:$offsets,
                       DenseI64ArrayAttr:$shape,
                       DefaultValuedAttr<F64Attr, "0.0">:$value,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$strides);
  let results = (outs MPC_Tensor:$output);
  let hasFolder = 1;
}

#endif // MPC_COMPILER_DIALECT_MPC_MPCMOVEMENTOPS_TD
