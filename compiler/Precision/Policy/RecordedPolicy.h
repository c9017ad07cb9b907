// Policies that come from a trained model rather than from a file.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_POLICY_RECORDEDPOLICY_H
#define MPC_COMPILER_PRECISION_POLICY_RECORDEDPOLICY_H

#include "llvm/ADT/StringRef.h"

namespace mpc {

/// The beginning of a policy's name that is followed by the policy itself, as
/// JSON. The training of a model had nodes that other functions lack, such as
/// gradients, so rules and expressions that match no node are no errors then.
inline constexpr llvm::StringLiteral kRecordedPolicy = "recorded:";

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_POLICY_RECORDEDPOLICY_H
