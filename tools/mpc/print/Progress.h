// Prints the progress of `mpc train`.
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
#include <utility>
#include <vector>

namespace mpc::tools {

/// Prints the progress of training on stderr. On a terminal, one line changes
/// in place. Otherwise a new line appears every `secondsBetween` seconds, or at
/// every tenth of a short run. Each epoch, evaluation and checkpoint gets a
/// line. Numbers are means since the previous line.
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

  /// Sums over the steps since the last line, or of the current epoch. A line
  /// prints the means.
  struct Steps {
    int64_t count = 0, updates = 0, measured = 0;
    /// `gradNorm` is a sum over `updates` steps, `accuracy` over `measured`
    /// steps; the others over all `count` steps.
    double loss = 0, gradNorm = 0, accuracy = 0, ms = 0, wireBytes = 0;
    /// The sums of several losses over `reported` steps, by name.
    std::vector<std::pair<std::string, double>> terms;
    int64_t reported = 0;
    Clock::time_point begin;

    void add(const runtime::train::StepReport &report);
  };

  /// Erases the line that changes in place, if one is shown.
  void clearLine();
  bool isDue(int64_t step) const;
  bool isEpochDue(int64_t step) const;
  /// Prints a line. If `stays` is false, the next line overwrites this one.
  void show(llvm::StringRef line, bool stays);
  bool isShort() const;
  /// Prints text that may be left out if the reader of stderr has stopped.
  void say(const std::string &text);
  void printFigures(llvm::raw_ostream &os, const Steps &steps,
                    const runtime::train::StepReport &report) const;
  std::string stepLine(const runtime::train::StepReport &report) const;
  std::string epochLine(const runtime::train::StepReport &report) const;
  /// Returns the time left, like "  ETA 1:23"; empty if it is unknown.
  std::string timeLeft(int64_t step) const;

  const double secondsBetween;
  const bool isQuiet, isTerminal;
  bool lineShown = false;
  RunMessages messages;
  runtime::train::StartReport start;
  Clock::time_point begin, epochShown;
  int64_t stepsDone = 0; ///< steps of this process, not of earlier ones
  Steps sinceLine, sinceEpoch;
};

/// True if stderr is a terminal on which a line can be overwritten.
bool isErrTerminal();
/// Cuts a line to the width of the terminal. A longer line would wrap and could
/// not be overwritten.
llvm::StringRef fitTerminal(llvm::StringRef line);

/// Formats a number like "0.693147"; NaN as "nan", without a sign.
std::string formatFigure(double value);

/// Prints "accuracy 91.40%, loss 0.31 on 360 samples".
void printEvaluation(llvm::raw_ostream &os,
                     const runtime::train::EvalResult &result);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_PROGRESS_H
