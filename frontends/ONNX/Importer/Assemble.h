// Helpers for builders that assemble an op from several: common ops as
// functions. Each returns null if an operand is null, so builders check only
// the last value.
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
/// True if an axis of `extent` elements is short enough to list its indices at
/// import; reports an error otherwise.
bool canList(NodeImporter &node, int64_t extent);
/// The constant 0, 1, ..., `size` - 1 along `axis` of a shape of `rank` axes;
/// all other axes are 1. Reports an error and returns null if `size` is too
/// large to list.
mlir::Value iota(NodeImporter &node, int64_t rank, int64_t axis, int64_t size);

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

/// Ensures that input `input` holds indices of an axis of `size` elements.
/// Given indices are checked at the graph input, computed indices by an op.
/// Reports an error unless the indices are int32 or int64.
mlir::LogicalResult markIndices(NodeImporter &node, unsigned input,
                                int64_t size);
/// Like above, for the indices in `box`.
mlir::LogicalResult markIndices(NodeImporter &node, unsigned input,
                                const IndexBox &box);

/// Like above, for indices that the importer computes.
void markIndices(NodeImporter &node, mlir::Value indices, int64_t size);

/// Like markIndices, but indices that are known at import are checked at once.
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
/// Replaces the corner of `data` at index 0 by `box`, by appending the rest of
/// `data` axis by axis.
mlir::Value replaceBox(NodeImporter &node, mlir::Value data, mlir::Value box);
mlir::Value gather(NodeImporter &node, mlir::Value data, mlir::Value indices,
                   int64_t axis, int64_t batchDims = 0);

/// Takes the elements at `indices`, which count from the start, along `axis`.
/// Emits a slice if the indices are equally spaced, an expansion if each
/// element is repeated equally often, and otherwise a gather.
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
