// What `mpc train` tells its user while it trains.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PRINT_PROGRESS_H
#define MPC_TOOLS_MPC_PRINT_PROGRESS_H

#include "runtime/train/Trainer.h"
#include "tools/mpc/print/Notes.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <string>

namespace mpc::tools {

/// Progress on stderr. On a terminal one line that changes; otherwise a line
/// every so many seconds, or at every tenth of a short run. Either way a line
/// for every epoch, evaluation and checkpoint. Figures are means since the line
/// before.
class ProgressPrinter : public runtime::train::TrainObserver {
public:
  ProgressPrinter(double secondsBetween, Verbosity verbosity);
  ~ProgressPrinter() override;

  void started(const runtime::train::StartReport &report) override;
  void stepped(const runtime::train::StepReport &report) override;
  void evaluated(int64_t step, int64_t epoch,
                 const runtime::train::EvalResult &result) override;
  void checkpointed(int64_t step, const std::string &directory) override;
  void note(std::string_view message) override;
  void warning(std::string_view message) override;

private:
  using Clock = std::chrono::steady_clock;

  /// What some steps have in common.
  struct Steps {
    int64_t count = 0, updates = 0, measured = 0;
    /// Sums; the norm's is over `updates`, the accuracy's over `measured`.
    double loss = 0, gradNorm = 0, accuracy = 0, ms = 0;
    Clock::time_point begin;

    void add(const runtime::train::StepReport &report);
  };

  /// Takes away the line that changes.
  void clearLine();
  bool isDue(int64_t step) const;
  bool isEpochDue(int64_t step) const;
  /// Prints a line, which the next one overwrites unless it stays.
  void show(llvm::StringRef line, bool stays);
  bool isShort() const;
  /// Writes lines that may be left out where nobody reads.
  void say(const std::string &text);
  void printFigures(llvm::raw_ostream &os, const Steps &steps,
                    const runtime::train::StepReport &report) const;
  std::string stepLine(const runtime::train::StepReport &report) const;
  std::string epochLine(const runtime::train::StepReport &report) const;
  /// "  ETA 1:23", or nothing where that is not known.
  std::string timeLeft(int64_t step) const;

  const double secondsBetween;
  const bool isQuiet, isTerminal;
  bool lineShown = false;
  RunMessages messages;
  runtime::train::StartReport start;
  Clock::time_point begin, epochShown;
  int64_t stepsDone = 0; ///< of this process
  Steps sinceLine, sinceEpoch;
};

/// "0.693147", or "nan", which has no sign.
std::string formatFigure(double value);

/// "accuracy 91.40%, loss 0.31 on 360 samples".
void printEvaluation(llvm::raw_ostream &os,
                     const runtime::train::EvalResult &result);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_PROGRESS_H
