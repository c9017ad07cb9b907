// Reads the attributes that losses and their gradients share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_OPS_TRAINING_LOSSATTRIBUTES_H
#define MPC_FRONTENDS_ONNX_OPS_TRAINING_LOSSATTRIBUTES_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

/// Reads 'reduction' and 'ignore_index'.
llvm::SmallVector<mlir::NamedAttribute> readLossAttributes(NodeImporter &node);

/// Like readLossAttributes(), for ops whose ignore_index is the optional input
/// `ignoreIndex`.
mlir::FailureOr<llvm::SmallVector<mlir::NamedAttribute>>
readInternalLossAttributes(NodeImporter &node, unsigned ignoreIndex);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_OPS_TRAINING_LOSSATTRIBUTES_H
