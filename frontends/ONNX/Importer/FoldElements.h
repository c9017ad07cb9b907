// What folding computes with: the elements of tensors that are known at import.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_FOLDELEMENTS_H
#define MPC_FRONTENDS_ONNX_IMPORTER_FOLDELEMENTS_H

#include "frontends/ONNX/Importer/ShapeArguments.h"

#include "compiler/Dialect/MPC/Fold/ConstantElements.h"

namespace mpc::onnx_frontend {

using Integers = llvm::SmallVector<int64_t>;

/// A tensor of this element type; integers wrap and floats are rounded as
/// ONNX's are.
HostTensor makeIntegers(mlir::Type element, llvm::ArrayRef<int64_t> shape,
                        llvm::ArrayRef<int64_t> values);
HostTensor makeFloats(mlir::Type element, llvm::ArrayRef<int64_t> shape,
                      llvm::ArrayRef<double> values);

/// The tensor of `shape` whose element at an index is that of `source` at the
/// position that `positionOf` gives for the index.
HostTensor
pick(const HostTensor &source, llvm::ArrayRef<int64_t> shape,
     llvm::function_ref<int64_t(llvm::ArrayRef<int64_t>)> positionOf);

/// How a node is folded: defines its outputs. A failure without a finding says
/// that it is better imported as an op.
using Folder = mlir::LogicalResult (*)(NodeImporter &);

/// Folders of shape arithmetic that has no op of the IR (Shape, Size, Range,
/// NonZero), and of what makes tables of signal processing; null if `op` is not
/// one. Names are as `getOpName` gives them.
Folder getShapeFolder(llvm::StringRef op);
Folder getSignalFolder(llvm::StringRef op);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_FOLDELEMENTS_H
