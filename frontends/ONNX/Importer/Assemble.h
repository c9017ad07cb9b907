// Functions that create common mpc ops. Builders use them to translate one ONNX
// op into several mpc ops. Each function returns null if an operand is null, so
// a builder checks only its last result.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_ASSEMBLE_H
#define MPC_FRONTENDS_ONNX_IMPORTER_ASSEMBLE_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

inline mlir::Type elementTypeOf(mlir::Value value) {
  return NodeImporter::typeOf(value).getElementType();
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

mlir::Value createConstant(NodeImporter &node, const HostTensor &tensor);
/// A rank-0 constant of a float, integer or boolean type.
mlir::Value numberConstant(NodeImporter &node, double value,
                           mlir::Type elementType);
/// An i64 constant.
mlir::Value integerConstant(NodeImporter &node, llvm::ArrayRef<int64_t> shape,
                            llvm::ArrayRef<int64_t> values);
/// A float constant, rounded to `elementType`.
mlir::Value floatConstant(NodeImporter &node, mlir::Type elementType,
                          llvm::ArrayRef<int64_t> shape,
                          llvm::ArrayRef<double> values);
/// True if the module may hold a constant that lists `extent` indices. Reports
/// an error if `extent` is too large.
bool canList(NodeImporter &node, int64_t extent);
/// The constant 0, 1, ..., `size` - 1 along `axis` of a shape of `rank` axes:
/// size 4 on axis 1 of rank 3 has shape [1, 4, 1]. Reports an error and returns
/// null if `size` is too large.
mlir::Value iota(NodeImporter &node, int64_t rank, int64_t axis, int64_t size);

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

/// Ensures that all indices in input `input` are valid for an axis of `size`
/// elements. Indices that come from a graph input are checked at the graph
/// input when the model runs. Computed indices are checked by an
/// `mpc.check_indices`. Reports an error unless the indices are int32 or int64.
mlir::LogicalResult markIndices(NodeImporter &node, unsigned input,
                                int64_t size);
/// Ensures that indices in input `input` are in range. `box` states the range,
/// and the box of the input's elements to which the range applies.
mlir::LogicalResult markIndices(NodeImporter &node, unsigned input,
                                const IndexBox &box);

/// Ensures that all elements of `indices`, a value that the importer has
/// created, are valid indices for an axis of `size` elements.
void markIndices(NodeImporter &node, mlir::Value indices, int64_t size);

/// Ensures that all indices in input `input` are valid for an axis of `size`
/// elements. Indices that are known at import are checked at once, others when
/// the model runs (markIndices).
mlir::LogicalResult checkIndices(NodeImporter &node, unsigned input,
                                 int64_t size);

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

mlir::Value castTo(NodeImporter &node, mlir::Value value,
                   mlir::Type elementType);
mlir::Value expand(NodeImporter &node, mlir::Value value,
                   llvm::ArrayRef<int64_t> shape);
mlir::Value transpose(NodeImporter &node, mlir::Value value,
                      llvm::ArrayRef<int64_t> perm);
/// Slices `value`; returns `value` itself if the slice is all of it.
mlir::Value slice(NodeImporter &node, mlir::Value value,
                  llvm::ArrayRef<int64_t> offsets,
                  llvm::ArrayRef<int64_t> sizes,
                  llvm::ArrayRef<int64_t> strides = {});
mlir::Value concatenate(NodeImporter &node, llvm::ArrayRef<mlir::Value> parts,
                        int64_t axis);
/// Overwrites the corner of `data` at index 0 with `box`: a box of shape [2, 3]
/// replaces data[0:2, 0:3]. Appends the rest of `data` to the box, axis by
/// axis.
mlir::Value replaceBox(NodeImporter &node, mlir::Value data, mlir::Value box);
mlir::Value gather(NodeImporter &node, mlir::Value data, mlir::Value indices,
                   int64_t axis, int64_t batchDims = 0);

/// Takes the elements at `indices`, which are not negative, along `axis`. Emits
/// a slice for equally spaced indices, an expansion if each element is repeated
/// equally often ([0, 0, 1, 1]), and a gather otherwise.
mlir::Value take(NodeImporter &node, mlir::Value value, int64_t axis,
                 llvm::ArrayRef<int64_t> indices);

template <typename OpT>
mlir::Value reduce(NodeImporter &node, mlir::Value value,
                   llvm::ArrayRef<int64_t> axes, bool keepDims = true) {
  return node.emit<OpT>({value}, {node.attribute("axes", axes),
                                  node.attribute("keepdims", keepDims)});
}

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_ASSEMBLE_H
