// Declares the folders of ops, which compute nodes whose inputs are known at
// import, and helpers that make tensors.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_FOLDELEMENTS_H
#define MPC_FRONTENDS_ONNX_IMPORTER_FOLDELEMENTS_H

#include "frontends/ONNX/Importer/ShapeArguments.h"

#include "compiler/Dialect/MPC/Fold/ConstantElements.h"

namespace mpc::onnx_frontend {

using Integers = llvm::SmallVector<int64_t>;

/// Makes a tensor of `element` type. Integers wrap and floats are rounded, as
/// in ONNX.
HostTensor makeIntegers(mlir::Type element, llvm::ArrayRef<int64_t> shape,
                        llvm::ArrayRef<int64_t> values);
HostTensor makeFloats(mlir::Type element, llvm::ArrayRef<int64_t> shape,
                      llvm::ArrayRef<double> values);

/// Makes a tensor of `shape`. Its element at an index is the element of
/// `source` at position `positionOf(index)`.
HostTensor
pick(const HostTensor &source, llvm::ArrayRef<int64_t> shape,
     llvm::function_ref<int64_t(llvm::ArrayRef<int64_t>)> positionOf);

/// Folds a node by defining its outputs. A failure without a reported error
/// means that the node should be imported as an op.
using Folder = mlir::LogicalResult (*)(NodeImporter &);

/// Return the folder of `op`, a name as `getOpName` gives it; null if there is
/// none. Shape folders cover shape arithmetic without an IR op (Shape, Size,
/// Range, NonZero). Signal folders make the tables of signal processing.
Folder getShapeFolder(llvm::StringRef op);
Folder getSignalFolder(llvm::StringRef op);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_FOLDELEMENTS_H
