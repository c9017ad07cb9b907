// Declares folders and helpers that make tensors. A folder is a function that
// computes the outputs of a node whose inputs are known at import.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_FOLDELEMENTS_H
#define MPC_FRONTENDS_ONNX_IMPORTER_FOLDELEMENTS_H

#include "frontends/ONNX/Importer/ShapeArguments.h"

#include "compiler/Dialect/MPC/Fold/ConstantElements.h"

namespace mpc::onnx_frontend {

using Integers = llvm::SmallVector<int64_t>;

/// Makes a tensor of `values` with elements of type `element`. Converts to this
/// type as ONNX does: integers wrap, floats are rounded.
HostTensor makeIntegers(mlir::Type element, llvm::ArrayRef<int64_t> shape,
                        llvm::ArrayRef<int64_t> values);
HostTensor makeFloats(mlir::Type element, llvm::ArrayRef<int64_t> shape,
                      llvm::ArrayRef<double> values);

/// Makes a tensor of `shape`. The element at an index is element
/// `positionOf(index)` of `source`, in row-major order.
HostTensor
pick(const HostTensor &source, llvm::ArrayRef<int64_t> shape,
     llvm::function_ref<int64_t(llvm::ArrayRef<int64_t>)> positionOf);

/// Folds a node by defining its outputs. A failure without a reported error
/// means that the node should be imported as an op.
using Folder = mlir::LogicalResult (*)(NodeImporter &);

/// Return the folder of the op that getOpName calls `op`; null if there is
/// none. Shape folders cover shape arithmetic without an IR op: Shape, Size,
/// Range, NonZero. Signal folders compute the constant tables of signal
/// processing.
Folder getShapeFolder(llvm::StringRef op);
Folder getSignalFolder(llvm::StringRef op);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_FOLDELEMENTS_H
