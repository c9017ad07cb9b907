// Options with which mpc-opt changes the attribute `amp.request`: the precision
// that the user wants. mpc sets the attribute without options.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_REQUESTOPTIONS_H
#define MPC_PASSES_PRECISION_REQUESTOPTIONS_H

#include "compiler/Dialect/AMP/Request.h"

namespace mpc {

/// Values of the options of a pass, as text. Empty if an option is not given.
struct RequestOptions {
  llvm::StringRef mode = {}, lossScale = {}, policy = {};
  llvm::ArrayRef<std::string> keepFP32 = {}, forceLow = {};
};

/// Changes the fields of the module's `amp.request` for which an option is
/// given. Reports an error with exit code Usage for invalid text, and
/// Unsupported for a mode that mpc lacks.
mlir::LogicalResult applyOptions(mlir::ModuleOp module,
                                 const RequestOptions &options);

} // namespace mpc

#endif // MPC_PASSES_PRECISION_REQUESTOPTIONS_H
