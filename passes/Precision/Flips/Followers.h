// Lists the ops that follow if the user flips the decision of one op.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_FLIPS_FOLLOWERS_H
#define MPC_PASSES_PRECISION_FLIPS_FOLLOWERS_H

#include "compiler/Target/TargetInfo.h"
#include "passes/Precision/Flips/LowTypes.h"

namespace mpc::amp {

/// A flag that flips the decision of a node.
struct Flip {
  unsigned node;
  /// The flag of the user to leave out; empty if a new flag names the node.
  llvm::StringRef dropped;
  /// True if the new flag is --force-low, false for --keep-fp32.
  bool toLow;
};

/// The nodes that get other types by a flip, in ascending order; nullopt if the
/// search takes too long, as in a chain of many thousand ops that all follow.
using Followers = std::optional<llvm::SmallVector<unsigned>>;

/// Returns the followers of each flip.
std::vector<Followers> findFollowers(const PrecisionGraph &graph,
                                     const TargetInfo &target,
                                     llvm::ArrayRef<Placement> placements,
                                     llvm::ArrayRef<Flip> flips);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_FLIPS_FOLLOWERS_H
