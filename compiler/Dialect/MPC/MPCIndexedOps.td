// Ops that read or write elements at given indices.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCINDEXEDOPS_TD
#define MPC_COMPILER_DIALECT_MPC_MPCINDEXEDOPS_TD

include "compiler/Dialect/MPC/MPC.td"
include "compiler/Dialect/MPC/MPCEnums.td"
include "compiler/Interfaces/ScatterOpInterface.td"

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

def MPC_CheckIndicesOp : MPC_Op<"check_indices", [MemoryEffects<[MemWrite]>]> {
  let summary = "stops the run if an index is out of range";
  let description = [{
    Checks computed indices, whose range is not known at compile time. The
    integers in the box [begin, end) must index an axis of `size` elements, as
    in `mpc.indices` of an argument. The runtime reports the first bad index in
    row-major order, as it does for inputs.

    ```mlir
    mpc.check_indices %ids [{begin = array<i64: 0>, end = array<i64: 16>, size = 20}
        ] : tensor<16xi64>
    ```
  }];
  let arguments = (ins MPC_IntTensor:$input, ArrayAttr:$indices);
  let assemblyFormat = "$input $indices attr-dict `:` type($input)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

class MPC_GatherLikeOp<string mnemonic>
    : MPC_TensorOp<mnemonic, "Elementwise",
        [DeclareOpInterfaceMethods<IndexedOpInterface, ["readsMemory"]>]>;

// The data, often a large table in fp32, is read as it is; only the selected
// elements may be converted to a low type.
def MPC_GatherOp : MPC_GatherLikeOp<"gather">,
    MPC_MovementPolicy<["Gather", "GatherND"], fp32Operands = [0]> {
  let summary = "selects parts of a tensor along an axis by index";
  let description = [{
    ONNX Gather, with TensorFlow's `batch_dims`: data and indices share the
    first `batch_dims` axes. The result has the axes of the data before `axis`,
    the axes of the indices after the batch axes, and the axes of the data after
    `axis`:

      y[b, p, i, s] = data[b, p, indices[b, i], s]

    A negative index counts from the end. An index outside [-size, size) gives
    zeros.

    ```mlir
    %y = mpc.gather %table, %ids {axis = 0 : i64}
        : (tensor<1000x64xf32>, tensor<4x16xi64>) -> tensor<4x16x64xf32>
    ```
  }];
  let arguments = (ins MPC_Tensor:$data, MPC_IntTensor:$indices, I64Attr:$axis,
                       DefaultValuedAttr<I64Attr, "0">:$batch_dims);
  let results = (outs MPC_Tensor:$output);
  let hasFolder = 1;
}

def MPC_GatherElementsOp : MPC_GatherLikeOp<"gather_elements">,
    MPC_MovementPolicy<["GatherElements"], fp32Operands = [0]> {
  let summary = "selects one element along an axis for every index";
  let description = [{
    ONNX GatherElements, PyTorch's gather. Except along `axis`, indices have the
    data's shape, and

      y[p, i, s] = data[p, indices[p, i, s], s]

    Indices are interpreted as in mpc.gather.

    ```mlir
    %y = mpc.gather_elements %x, %labels {axis = 1 : i64}
        : (tensor<32x10xf32>, tensor<32x1xi64>) -> tensor<32x1xf32>
    ```
  }];
  let arguments = (ins MPC_Tensor:$data, MPC_IntTensor:$indices, I64Attr:$axis);
  let results = (outs MPC_Tensor:$output);
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

// Many updates may be added to one element of the scattered tensor, such as the
// row of a frequent word. A sum of many terms needs fp32, so the tensor stays
// fp32.
class MPC_ScatterPolicy<list<string> onnx>
    : MPC_Policy<onnx, "Infer", "Infer", "updates are summed in fp32",
                 fp32Operands = [0], fp32Results = [0]>;

def MPC_ScatterOp : MPC_TensorOp<"scatter", "Scatter",
    [DeclareOpInterfaceMethods<ScatterOpInterface,
                               ["getIndexAxes", "hasUniqueIndices"]>]>,
    MPC_ScatterPolicy<["ScatterND"]> {
  let summary = "writes updates to the parts of a tensor that indices select";
  let description = [{
    The counterpart of mpc.gather. Starts with the data and applies the updates
    in the order of the indices:

      y[b, p, indices[b, i], s] = reduction(y[b, p, indices[b, i], s],
                                            updates[b, p, i, s])

    Sums and products of floats are kept in f32, or in f64 if the result is f64.
    The order of the updates does not depend on the number of threads, so equal
    inputs give equal bits. An update at an index outside [-size, size) is
    dropped. With data of zeros and `add` the op is the gradient of mpc.gather.

    With `unique_indices` no two indices name the same part. Updates are then
    written in any order, and a kernel that updates the data in place only does
    work per update.

    ```mlir
    %dtable = mpc.scatter %zeros, %ids, %dy {axis = 0 : i64, reduction = #mpc.scatter<add>}
        : (tensor<1000x64xf32>, tensor<4x16xi64>, tensor<4x16x64xf32>) -> tensor<1000x64xf32>
    ```
  }];
  let arguments = (ins MPC_Tensor:$data, MPC_IntTensor:$indices,
                       MPC_Tensor:$updates, I64Attr:$axis,
                       DefaultValuedAttr<I64Attr, "0">:$batch_dims,
                       MPC_ScatterReductionAttr:$reduction,
                       DefaultValuedAttr<BoolAttr, "false">:$unique_indices);
  let results = (outs MPC_Tensor:$output);
}

def MPC_ScatterElementsOp : MPC_TensorOp<"scatter_elements", "Scatter",
    [DeclareOpInterfaceMethods<ScatterOpInterface, ["getIndexAxes"]>]>,
    MPC_ScatterPolicy<["ScatterElements"]> {
  let summary = "writes every update to the element that its index selects";
  let description = [{
    The counterpart of mpc.gather_elements, with the rules of mpc.scatter:

      y[p, indices[p, i, s], s] = reduction(y[p, indices[p, i, s], s],
                                            updates[p, i, s])

    ```mlir
    %y = mpc.scatter_elements %x, %i, %u {axis = 1 : i64, reduction = #mpc.scatter<none>}
        : (tensor<3x5xf32>, tensor<3x2xi64>, tensor<3x2xf32>) -> tensor<3x5xf32>
    ```
  }];
  let arguments = (ins MPC_Tensor:$data, MPC_IntTensor:$indices,
                       MPC_Tensor:$updates, I64Attr:$axis,
                       MPC_ScatterReductionAttr:$reduction);
  let results = (outs MPC_Tensor:$output);
}

#endif // MPC_COMPILER_DIALECT_MPC_MPCINDEXEDOPS_TD
