// Policies and expressions that come from a trained model rather than from the
// user.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_POLICY_RECORDEDPOLICY_H
#define MPC_COMPILER_PRECISION_POLICY_RECORDEDPOLICY_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace mpc {

/// The beginning of a policy's name that is followed by the policy itself, as
/// JSON. The training of a model had nodes that other functions lack, such as
/// gradients, so rules and expressions that match no node are no errors then.
inline constexpr llvm::StringLiteral kRecordedPolicy = "recorded:";

/// The name of a recorded policy in messages, in place of a file's name.
inline constexpr llvm::StringLiteral kRecordedPolicyFile = "the model's policy";

/// The beginning of a recorded value of --keep-fp32 or --force-low, followed by
/// the expression. A recorded expression that matches no node is no error; an
/// expression of the user is. No regular expression begins with an asterisk.
inline constexpr llvm::StringLiteral kRecordedExpression = "*recorded:";

/// Returns the regular expression of a value of --keep-fp32 or --force-low.
inline llvm::StringRef getExpression(llvm::StringRef value) {
  value.consume_front(kRecordedExpression);
  return value;
}

/// Returns the regular expressions of several values.
inline std::vector<std::string>
listExpressions(llvm::ArrayRef<std::string> values) {
  std::vector<std::string> expressions;
  for (const std::string &value : values)
    expressions.push_back(getExpression(value).str());
  return expressions;
}

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_POLICY_RECORDEDPOLICY_H
