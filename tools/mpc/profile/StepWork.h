// The work of each plan step and the nodes that the step computes, read from an
// artifact (runtime/NodesFormat.h).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PROFILE_STEPWORK_H
#define MPC_TOOLS_MPC_PROFILE_STEPWORK_H

#include "runtime/Artifact.h"

#include <map>
#include <string>
#include <vector>

namespace mpc::tools {

/// The phase of nodes of the forward pass and of the loss.
inline constexpr char kForwardPhase[] = "forward";

/// A node of the model, or several nodes that mpc computes as one op.
struct NodeShare {
  std::vector<std::string> names;
  std::string phase; ///< "forward", "backward" or "optimizer"
  double share = 1;  ///< the part of the plan step's time
};

/// The work of a plan step.
struct StepWork {
  double bytes = 0, flops = 0;
  runtime::DType type = runtime::DType::F32; ///< the type of the arithmetic
  std::vector<NodeShare> nodes;
};

/// The work of the steps of each function.
using ArtifactWork = std::map<std::string, std::vector<StepWork>, std::less<>>;

/// Reads the work of all steps. Empty if the artifact does not describe it.
/// InvalidInput if the description is malformed or does not fit the plan.
runtime::StatusOr<ArtifactWork> readStepWork(const runtime::Artifact &artifact);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PROFILE_STEPWORK_H
