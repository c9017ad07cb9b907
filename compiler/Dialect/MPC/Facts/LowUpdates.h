// Marks the ops of an update that may compute in the low type.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FACTS_LOWUPDATES_H
#define MPC_COMPILER_DIALECT_MPC_FACTS_LOWUPDATES_H

#include "llvm/ADT/StringRef.h"

namespace mpc {

/// Unit attribute of a product in an update whose formula tolerates a low type,
/// such as Muon's iterations. The precision policy decides its type, while all
/// other ops of updates stay wide.
inline constexpr llvm::StringLiteral kLowUpdateAttr = "mpc.low_update";

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FACTS_LOWUPDATES_H
