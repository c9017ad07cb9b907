// Marks weights that the importer has dequantized and folded.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FACTS_DEQUANTIZED_H
#define MPC_COMPILER_DIALECT_MPC_FACTS_DEQUANTIZED_H

#include "llvm/ADT/StringRef.h"

namespace mpc {

/// Unit attribute of an mpc.constant that the importer folded from quantized
/// numbers. The integers of larger weights stay in the program.
inline constexpr llvm::StringLiteral kDequantizedAttr = "mpc.dequantized";

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FACTS_DEQUANTIZED_H
