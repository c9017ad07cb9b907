// The rows of the default precision policy, each said by its op (MPCPolicy.td).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_POLICYTABLE_H
#define MPC_COMPILER_PRECISION_POLICYTABLE_H

#include "compiler/Interfaces/PrecisionOpInterface.h"

#include <string>
#include <vector>

namespace mpc {

/// The classes of an op, by the low type.
struct PolicyRow : OpPolicy {
  /// mpc's name.
  llvm::StringRef op;
};

/// An op of the classes of another one: a gradient.
struct PolicyFollower : FollowedPolicy {
  llvm::StringRef op;
};

/// All rows, class by class, and in the order of their names within a class.
llvm::ArrayRef<PolicyRow> getPolicyRows();
llvm::ArrayRef<PolicyFollower> getPolicyFollowers();

/// The op whose classes and rules `key` shares; `key` itself where it leads.
llvm::StringRef getPolicyLeader(llvm::StringRef key);

/// All names that ONNX has for an op.
llvm::ArrayRef<llvm::StringRef> getONNXNames(llvm::StringRef key);

/// The mpc key of an ONNX or mpc op name; empty where no row has it. Several
/// rows never share a name.
llvm::StringRef resolvePolicyKey(llvm::StringRef name);

/// All names of ops, ONNX's and mpc's.
std::vector<std::string> getPolicyNames();

/// Whether an operand or result of the op `key` stays fp32 whatever its class:
/// no rule changes that.
bool policyKeepsOperandFP32(llvm::StringRef key, unsigned index);
bool policyKeepsResultFP32(llvm::StringRef key, unsigned index);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_POLICYTABLE_H
