// Names the attributes by which users address single ops.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_AMP_NODEIDS_H
#define MPC_COMPILER_DIALECT_AMP_NODEIDS_H

#include "llvm/ADT/StringRef.h"

namespace mpc::amp {

/// Discardable attribute of an op that shares its name with other ops, or has
/// none: the id of the op, such as "conv1~2". The name of any other op is the
/// id. The expression ^conv1~2$ of --keep-fp32 and --force-low matches this op
/// alone.
inline constexpr llvm::StringLiteral kIdAttr = "amp.id";
/// Discardable attribute of an op with a flag that flips the decision: the ids
/// of other ops that get other types if the flag is given, in an array. Absent
/// if amp-assign-precision was not asked for the ids, or a search took too
/// long.
inline constexpr llvm::StringLiteral kFollowersAttr = "amp.followers";

} // namespace mpc::amp

#endif // MPC_COMPILER_DIALECT_AMP_NODEIDS_H
