// Runs the prepared steps of a function one after the other. Workers share the
// slices of each step.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CPUEXECUTABLE_H
#define MPC_RUNTIME_CPU_CPUEXECUTABLE_H

#include "runtime/Device.h"
#include "runtime/cpu/CPUDevice.h"
#include "runtime/cpu/PreparedSteps.h"
#include "runtime/cpu/ReductionQueue.h"

#include <optional>

namespace mpc::runtime {

/// The workers that run a step: all of them, sharing slices, or one alone.
class Crew {
public:
  explicit Crew(CPUDevice &device) : device(device) {}
  Crew(CPUDevice &device, int worker) : device(device), alone(worker) {}

  /// Calls body(slice, worker) for every slice in [0, slices). A lone worker
  /// runs the slices in order.
  template <typename Body>
  void forEachSlice(int64_t slices, Body &&body) const {
    if (!alone)
      return device.workers().parallelFor(slices, body);
    for (int64_t slice = 0; slice < slices; ++slice)
      body(slice, *alone);
  }
  SliceContext scratchOf(int worker) const {
    return alone ? device.scratchAlone(worker) : device.scratchOf(worker);
  }
  int size() const { return alone ? 1 : device.workers().size(); }

private:
  CPUDevice &device;
  std::optional<int> alone;
};

class CPUExecutable : public Executable {
public:
  CPUExecutable(CPUDevice &device, const Function &function,
                std::vector<PreparedStep> steps)
      : device(device), function(function), steps(std::move(steps)) {}

  Status run() override;
  Status runTimed(std::vector<double> &seconds) override;
  Status run(StepObserver &observer) override {
    return runSteps(steps, function.steps, observer);
  }

private:
  Status runBeside(ReductionQueue &reductions);
  Status runSteps(std::vector<PreparedStep> &list, const Crew &crew);
  static Status locate(const PreparedStep &step, const Status &status);
  Status runSteps(std::vector<PreparedStep> &list,
                  const std::vector<Step> &declared, StepObserver &observer);
  Status runStep(PreparedLaunch &launch, const Crew &crew);
  Status runStep(PreparedCopy &copy, const Crew &crew);
  Status runStep(PreparedCheck &check, const Crew &crew);
  Status runStep(PreparedAllReduce &reduction, const Crew &crew);
  Status runStep(PreparedReduceScatter &reduction, const Crew &crew);
  Status runStep(PreparedAllGather &gather, const Crew &crew);
  Status runStep(PreparedSkip &skip, const Crew &crew);
  Status runStep(PreparedIf &conditional, const Crew &crew);
  Status runStep(PreparedFor &loop, const Crew &crew);
  Status runStep(std::unique_ptr<Contraction> &contraction, const Crew &crew);
  Status runApart(PreparedFor &loop);
  Status runLoop(PreparedBody &body, const ForStep &declared,
                 StepObserver &observer);

  CPUDevice &device;
  const Function &function;
  std::vector<PreparedStep> steps;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CPUEXECUTABLE_H
