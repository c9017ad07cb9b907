// The prepared steps of a function, run one after the other, each shared among
// the workers by slices.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CPUEXECUTABLE_H
#define MPC_RUNTIME_CPU_CPUEXECUTABLE_H

#include "runtime/Device.h"
#include "runtime/cpu/PreparedSteps.h"

namespace mpc::runtime {

class CPUExecutable : public Executable {
public:
  CPUExecutable(CPUDevice &device, const Function &function,
                std::vector<PreparedStep> steps)
      : device(device), function(function), steps(std::move(steps)) {}

  Status run() override { return runSteps(steps); }
  Status run(StepObserver &observer) override {
    return runSteps(steps, function.steps, observer);
  }

private:
  Status runSteps(std::vector<PreparedStep> &list);
  Status runSteps(std::vector<PreparedStep> &list,
                  const std::vector<Step> &declared, StepObserver &observer);
  Status runStep(PreparedLaunch &launch);
  Status runStep(PreparedCopy &copy);
  Status runStep(PreparedCheck &check);
  Status runStep(PreparedIf &conditional);
  Status runStep(PreparedFor &loop);
  Status runLoop(PreparedFor &loop, const ForStep &declared,
                 StepObserver &observer);
  Status runStep(std::unique_ptr<Contraction> &contraction);
  Status runSlice(Contraction &contraction, size_t phase, int64_t slice,
                  int worker);

  CPUDevice &device;
  const Function &function;
  std::vector<PreparedStep> steps;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CPUEXECUTABLE_H
