// The rows of the default precision policy. Each op defines its own row
// (MPCPolicy.td).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_POLICY_POLICYTABLE_H
#define MPC_COMPILER_PRECISION_POLICY_POLICYTABLE_H

#include "compiler/Interfaces/PrecisionOpInterface.h"

#include <string>
#include <vector>

namespace mpc {

/// The classes of an op for either low type.
struct PolicyRow : OpPolicy {
  /// The op's name in mpc.
  llvm::StringRef op;
  /// The reason for the class in bf16; `why` is the reason in fp16.
  llvm::StringRef bf16Why;
};

/// A gradient op without classes of its own. It shares the classes of its
/// leader, mostly the forward op.
struct PolicyFollower : FollowedPolicy {
  llvm::StringRef op;
};

/// Returns all rows, sorted by class, then by name.
llvm::ArrayRef<PolicyRow> getPolicyRows();
llvm::ArrayRef<PolicyFollower> getPolicyFollowers();

/// Returns the leader of `key`: the op whose classes and rules `key` shares.
/// Returns `key` itself if the op has its own classes.
llvm::StringRef getPolicyLeader(llvm::StringRef key);

/// Returns all ONNX names of an op.
llvm::ArrayRef<llvm::StringRef> getONNXNames(llvm::StringRef key);

/// Returns the key of the op with the ONNX or mpc name `name`: "gemm" for
/// "Gemm". Empty if no row has the name. Rows never share a name.
llvm::StringRef resolvePolicyKey(llvm::StringRef name);

/// Returns all ONNX and mpc names of ops.
std::vector<std::string> getPolicyNames();

/// True if an operand or result of the op `key` stays fp32 in any class. No
/// rule changes this.
bool policyKeepsOperandFP32(llvm::StringRef key, unsigned index);
bool policyKeepsResultFP32(llvm::StringRef key, unsigned index);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_POLICY_POLICYTABLE_H
