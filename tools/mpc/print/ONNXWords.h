// Rewrites types in messages from MLIR's form to ONNX's.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PRINT_ONNXWORDS_H
#define MPC_TOOLS_MPC_PRINT_ONNXWORDS_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mpc::tools {

/// Rewrites the types in a message: `tensor<2x8xf32>` to float[2,8], `f32[N,8]`
/// to float[N,8], and `tensor(f32)` to tensor(float).
std::string inONNXWords(llvm::StringRef message);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_ONNXWORDS_H
