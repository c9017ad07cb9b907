// What `mpc train` tells its user: before the first step, during, and at the
// end.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_TRAINREPORT_H
#define MPC_TOOLS_MPC_TRAINREPORT_H

#include "runtime/Plan.h"
#include "runtime/train/Trainer.h"

#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <string>

namespace mpc::tools {

/// Prints what is trained; with `isDefault`, which the user did not choose,
/// also what is not.
void printTrainables(llvm::raw_ostream &os, const runtime::Plan &plan,
                     bool isDefault);
/// Prints how running statistics are updated, where there are any.
void printNormalizations(llvm::raw_ostream &os, const runtime::Plan &plan);
/// Prints what memory training takes and what it runs on.
void printResources(llvm::raw_ostream &os, const runtime::Plan &plan,
                    const std::string &device, int threads);

/// "12,345,678".
std::string formatCount(int64_t value);

/// "1.5 GiB".
std::string formatBytes(double bytes);

/// Progress on stderr: one line that changes on a terminal; otherwise a line at
/// every tenth of the run and at every evaluation.
class ProgressPrinter : public runtime::train::TrainObserver {
public:
  ProgressPrinter();
  ~ProgressPrinter() override;

  void started(const runtime::train::StartReport &report) override;
  void stepped(const runtime::train::StepReport &report) override;
  void evaluated(int64_t step, int64_t epoch,
                 const runtime::train::EvalResult &result) override;
  void checkpointed(int64_t step, const std::string &directory) override;
  void note(std::string_view message) override;

private:
  /// Takes away the line that changes.
  void clearLine();
  bool isDue(int64_t step);

  const bool terminal;
  bool lineShown = false;
  int64_t totalSteps = 0;
  int64_t interval = 1;
  std::chrono::steady_clock::time_point lastShown;
};

/// Prints "accuracy 91.36%, loss 0.281 on 359 samples".
void printEvaluation(llvm::raw_ostream &os,
                     const runtime::train::EvalResult &result);

/// Prints the result of a run.
void printSummary(llvm::raw_ostream &os,
                  const runtime::train::TrainResult &result);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_TRAINREPORT_H
