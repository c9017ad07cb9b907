// The rows of the default precision policy. Each op defines its own row
// (MPCPolicy.td).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_POLICYTABLE_H
#define MPC_COMPILER_PRECISION_POLICYTABLE_H

#include "compiler/Interfaces/PrecisionOpInterface.h"

#include <string>
#include <vector>

namespace mpc {

/// The classes of an op for either low type.
struct PolicyRow : OpPolicy {
  /// The op's name in mpc.
  llvm::StringRef op;
};

/// A gradient op, which shares the classes of a leader.
struct PolicyFollower : FollowedPolicy {
  llvm::StringRef op;
};

/// Returns all rows, sorted by class, then by name.
llvm::ArrayRef<PolicyRow> getPolicyRows();
llvm::ArrayRef<PolicyFollower> getPolicyFollowers();

/// Returns the op whose classes and rules `key` shares; `key` if the op leads.
llvm::StringRef getPolicyLeader(llvm::StringRef key);

/// Returns all ONNX names of an op.
llvm::ArrayRef<llvm::StringRef> getONNXNames(llvm::StringRef key);

/// Returns the mpc key of an ONNX or mpc op name; empty if no row has the name.
/// Rows never share a name.
llvm::StringRef resolvePolicyKey(llvm::StringRef name);

/// Returns all ONNX and mpc names of ops.
std::vector<std::string> getPolicyNames();

/// True if an operand or result of the op `key` stays fp32 in any class. No
/// rule changes this.
bool policyKeepsOperandFP32(llvm::StringRef key, unsigned index);
bool policyKeepsResultFP32(llvm::StringRef key, unsigned index);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_POLICYTABLE_H
