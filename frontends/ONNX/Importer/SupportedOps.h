// Lists the ops that the importer knows, for documentation and reports.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_SUPPORTEDOPS_H
#define MPC_FRONTENDS_ONNX_IMPORTER_SUPPORTEDOPS_H

#include "llvm/Support/raw_ostream.h"

namespace mpc::onnx_frontend {

/// Prints a Markdown table of ops by domain, with the first opset of each.
void printSupportedOps(llvm::raw_ostream &os);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_SUPPORTEDOPS_H
