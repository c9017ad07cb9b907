// What builders of assembled ops share: common ops as functions, each null
// where an operand is, so that only the last value has to be looked at.
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
/// One value of rank 0, of a float or integer type, or a boolean.
mlir::Value numberConstant(NodeImporter &node, double value,
                           mlir::Type elementType);
/// Integers as i64.
mlir::Value integerConstant(NodeImporter &node, llvm::ArrayRef<int64_t> shape,
                            llvm::ArrayRef<int64_t> values);
/// Floats, rounded to `elementType`.
mlir::Value floatConstant(NodeImporter &node, mlir::Type elementType,
                          llvm::ArrayRef<int64_t> shape,
                          llvm::ArrayRef<double> values);
/// Whether an axis is so short that the places of its elements can be listed at
/// import; a finding where it is not.
bool canList(NodeImporter &node, int64_t extent);
/// 0, 1, ... along `axis` of a shape of `rank` axes, the others of which are 1;
/// null, with a finding, where that are too many.
mlir::Value iota(NodeImporter &node, int64_t rank, int64_t axis, int64_t size);

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

/// Indices of an input, which must name elements of an axis of `size`, are
/// looked at where a user gives them, or when they are computed. A finding
/// where they are no integers that indices may be.
mlir::LogicalResult markIndices(NodeImporter &node, unsigned input,
                                int64_t size);
/// The same of some of them.
mlir::LogicalResult markIndices(NodeImporter &node, unsigned input,
                                const IndexBox &box);

/// The same of indices that the importer computes.
void markIndices(NodeImporter &node, mlir::Value indices, int64_t size);

/// The same of an input, and those that are known are looked at here.
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
/// The value itself where that is all of it.
mlir::Value slice(NodeImporter &node, mlir::Value value,
                  llvm::ArrayRef<int64_t> offsets,
                  llvm::ArrayRef<int64_t> sizes,
                  llvm::ArrayRef<int64_t> strides = {});
mlir::Value concatenate(NodeImporter &node, llvm::ArrayRef<mlir::Value> parts,
                        int64_t axis);
/// `data` with its first elements of every axis, as many as `box` has,
/// replaced by those of `box`: the rest of `data` is appended axis by axis.
mlir::Value replaceBox(NodeImporter &node, mlir::Value data, mlir::Value box);
mlir::Value gather(NodeImporter &node, mlir::Value data, mlir::Value indices,
                   int64_t axis, int64_t batchDims = 0);

/// The elements of an axis that `indices`, which count from the start, name: a
/// slice where they are equally far apart, copies where each is taken as often,
/// else a gather.
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
