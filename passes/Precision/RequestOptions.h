// The fields of a request as options of passes: the text from which mpc-opt
// makes `amp.request`.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_REQUESTOPTIONS_H
#define MPC_PASSES_PRECISION_REQUESTOPTIONS_H

#include "compiler/Dialect/AMP/Request.h"

namespace mpc {

/// The options of a pass. Empty means that the option was not given.
struct RequestOptions {
  llvm::StringRef mode = {}, lossScale = {}, policy = {};
  llvm::ArrayRef<std::string> keepFP32 = {}, forceLow = {};
};

/// Changes the fields of the module's request for which an option was given.
/// Reports a Usage error for unknown text, Unsupported for modes that mpc
/// lacks.
mlir::LogicalResult applyOptions(mlir::ModuleOp module,
                                 const RequestOptions &options);

} // namespace mpc

#endif // MPC_PASSES_PRECISION_REQUESTOPTIONS_H
