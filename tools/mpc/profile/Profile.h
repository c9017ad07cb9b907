// The profile of a training step: the time of each kernel and node, against the
// roof of the machine.
//
// A kernel here is a step of a function's plan: a generated kernel, or a
// product or convolution of a library with its epilogue.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PROFILE_PROFILE_H
#define MPC_TOOLS_MPC_PROFILE_PROFILE_H

#include "tools/mpc/profile/ProfileRecorder.h"
#include "tools/mpc/profile/Roof.h"
#include "tools/mpc/profile/StepWork.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mpc::tools {

struct KernelProfile {
  std::string function;
  std::string name;   ///< the first node
  std::string op;     ///< the kind of step: "launch", "matmul", "conv", ...
  std::string symbol; ///< the generated code; empty for none
  /// The element types of the operands, in order of appearance, each once.
  std::vector<std::string> types;
  double calls = 0;   ///< per training step
  double seconds = 0; ///< of a call, the median
  /// The work of a call. nullopt if the artifact does not describe any work.
  std::optional<StepWork> work;
  /// The least seconds by the roof of the machine. nullopt without a roof.
  std::optional<double> roofSeconds;

  double total() const { return calls * seconds; }
};

struct NodeProfile {
  std::vector<std::string> names; ///< without the suffix of the phase
  /// The seconds in a training step by phase.
  std::map<std::string, double> seconds;

  double total() const;
};

/// The time of an epoch's parts, from the measured steps and one evaluation.
struct EpochProfile {
  int64_t steps = 0;
  double stepSeconds = 0; ///< of all steps, without their data
  double dataSeconds = 0; ///< of all steps
  std::optional<double> evaluationSeconds;

  double total() const {
    return stepSeconds + dataSeconds + evaluationSeconds.value_or(0);
  }
};

struct Profile {
  std::string model, precision, target, device;
  int threads = 1;
  int64_t batchSize = 0; ///< samples of a training step; 0 if unknown
  bool isRandom = false; ///< true if the inputs are random numbers
  size_t measuredSteps = 0;
  double stepSeconds = 0;         ///< median without measured plan steps
  double measuredStepSeconds = 0; ///< median with measured plan steps
  /// By time, the longest first.
  std::vector<KernelProfile> kernels;
  std::vector<NodeProfile> nodes; ///< empty if the artifact names no nodes
  std::map<std::string, double> phases; ///< seconds by phase
  std::optional<EpochProfile> epoch;
  std::optional<Roof> roof;

  double kernelSeconds() const;
};

/// The median; 0 without values.
double findMedian(std::vector<double> values);

/// Computes kernels, nodes, phases and the times of steps. The caller sets the
/// other members before; `profile.roof` gives the kernels' roofs.
void addTimes(Profile &profile, const runtime::Plan &plan,
              const ArtifactWork &work, const ProfileRecorder &recorder);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PROFILE_PROFILE_H
