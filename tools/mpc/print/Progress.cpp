// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/print/Progress.h"

#include "runtime/train/evaluate/EvalMetrics.h"
#include "runtime/train/support/Text.h"
#include "tools/mpc/print/PrintableStream.h"
#include "tools/mpc/print/TrainReport.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Format.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime::train;

/// The longest interval between lines, in seconds, that isShort assumes. A run
/// shorter than ten intervals prints a line at every tenth of the steps.
static constexpr double kMostBetween = 30;
static constexpr double kTerminalSeconds = 0.1;
static constexpr int64_t kManyEpochs = 100;
static constexpr double kShortEpoch = 1;

static double secondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

bool mpc::tools::isErrTerminal() {
  const char *kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) && kind && llvm::StringRef(kind) != "dumb";
}

llvm::StringRef mpc::tools::fitTerminal(llvm::StringRef line) {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2)
    return line;
  return line.take_front(size.ws_col - 1);
}

ProgressPrinter::ProgressPrinter(double secondsBetween, Verbosity verbosity)
    : secondsBetween(secondsBetween), isQuiet(verbosity == Verbosity::Quiet),
      isTerminal(isErrTerminal()) {}

ProgressPrinter::~ProgressPrinter() { clearLine(); }

void ProgressPrinter::clearLine() {
  if (lineShown)
    messages << "\r\033[K";
  lineShown = false;
}

void ProgressPrinter::say(const std::string &text) {
  if (messages.isRead())
    messages << text;
}

void ProgressPrinter::started(const StartReport &report) {
  start = report;
  // Start the clocks even if nothing is printed, since later methods read them.
  begin = epochShown = sinceLine.begin = sinceEpoch.begin = Clock::now();
  if (isQuiet)
    return;
  const int64_t left =
      std::max<int64_t>(0, report.totalSteps - report.firstStep);
  std::string line;
  llvm::raw_string_ostream os(line);
  // The line reads: data: 50000 samples, 5000 held back; 390 steps of 64 on 2
  // ranks, 390 an epoch.
  os << "data: " << counted(report.samples, "sample");
  if (report.evalSamples > 0)
    os << ", " << report.evalSamples << " held back";
  os << "; "
     << (report.totalSteps == kUnlimited ? "steps" : counted(left, "step"))
     << " of " << report.batchSize;
  if (report.accumulate > 1)
    os << " x " << report.accumulate;
  if (report.ranks > 1)
    os << " on " << report.ranks << " ranks";
  os << ", " << report.stepsPerEpoch << " an epoch";
  if (report.firstStep > 0)
    os << ", from step " << report.firstStep;
  os << "\n";
  say(line);
}

// Prints several losses, like " (mse@y 0.1, l1@z 0.25)". Nothing for none.
static void printTerms(llvm::raw_ostream &os,
                       llvm::ArrayRef<std::pair<std::string, double>> terms) {
  if (terms.empty())
    return;
  os << " (";
  llvm::interleaveComma(terms, os, [&](const auto &term) {
    os << printable(term.first) << " " << tools::formatFigure(term.second);
  });
  os << ")";
}

std::string mpc::tools::formatFigure(double value) {
  if (std::isnan(value))
    return "nan";
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.6g", value);
  return text;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

void ProgressPrinter::Steps::add(const StepReport &report) {
  ++count;
  loss += report.loss;
  ms += report.stepMs;
  wireBytes += double(report.wireBytes.value_or(0));
  const bool areKnown =
      !report.terms.empty() && llvm::all_of(report.terms, [](const auto &term) {
        return term.second.has_value();
      });
  if (areKnown) {
    ++reported;
    terms.resize(report.terms.size());
    for (auto [sum, term] : llvm::zip(terms, report.terms)) {
      sum.first = term.first;
      sum.second += *term.second;
    }
  }
  if (report.accuracy) {
    ++measured;
    accuracy += *report.accuracy;
  }
  // Leave out the norm of a skipped step, which is infinite or NaN.
  if (!report.gradNorm || report.skipped)
    return;
  ++updates;
  gradNorm += *report.gradNorm;
}

/// True if the whole run is expected to be shorter than ten intervals, so that
/// lines appear at every tenth of the run.
bool ProgressPrinter::isShort() const {
  assert(stepsDone > 0 && "a step has ended");
  const double perStep = secondsSince(begin) / double(stepsDone);
  const double whole = perStep * double(start.totalSteps - start.firstStep);
  return whole < 10 * std::min(secondsBetween, kMostBetween);
}

bool ProgressPrinter::isDue(int64_t step) const {
  if (step == start.totalSteps)
    return true;
  const double passed = secondsSince(sinceLine.begin);
  if (isTerminal)
    return passed >= kTerminalSeconds;
  const int64_t tenth =
      std::max<int64_t>(1, (start.totalSteps - start.firstStep) / 10);
  return passed >= secondsBetween || (sinceLine.count >= tenth && isShort());
}

/// True if the line for the current epoch is due. A run of many short epochs
/// prints at most one such line per second.
bool ProgressPrinter::isEpochDue(int64_t step) const {
  return start.totalEpochs <= kManyEpochs ||
         secondsSince(epochShown) >= kShortEpoch || step == start.totalSteps;
}

std::string ProgressPrinter::timeLeft(int64_t step) const {
  assert(stepsDone > 0 && step <= start.totalSteps && "a step has ended");
  if (start.totalSteps == kUnlimited || step == start.totalSteps)
    return "";
  const double perStep = secondsSince(begin) / double(stepsDone);
  const std::string text =
      formatDuration(perStep * double(start.totalSteps - step));
  return text.empty() ? "" : "  ETA " + text;
}

void ProgressPrinter::printFigures(llvm::raw_ostream &os, const Steps &steps,
                                   const StepReport &report) const {
  assert(steps.count > 0 && "figures are means over steps");
  const double count = double(steps.count);
  os << "  loss " << formatFigure(steps.loss / count);
  std::vector<std::pair<std::string, double>> terms = steps.terms;
  for (auto &[name, value] : terms)
    value /= double(steps.reported);
  printTerms(os, terms);
  if (steps.measured > 0)
    os << "  accuracy "
       << llvm::format("%.2f%%", 100 * steps.accuracy / double(steps.measured));
  if (report.learningRate)
    os << "  lr " << llvm::format("%.4g", *report.learningRate);
  if (steps.updates > 0)
    os << "  grad norm "
       << llvm::format("%.4g", steps.gradNorm / double(steps.updates));
  if (report.lossScale)
    os << "  loss scale " << formatScale(*report.lossScale) << "  skipped "
       << report.skippedTotal;
  const double samples =
      count * double(start.batchSize * start.accumulate * start.ranks);
  if (steps.ms > 0)
    os << "  " << llvm::format("%.0f", samples / steps.ms * 1000)
       << " samples/s";
  os << "  " << formatMilliseconds(steps.ms / count) << " ms/step";
  if (report.wireBytes)
    os << "  sent " << formatBytes(steps.wireBytes / count) << "/step";
}

// Returns "N/TOTAL", or "N" if the run has no end.
static std::string outOf(int64_t number, int64_t total) {
  std::string text = std::to_string(number);
  if (total < kUnlimited)
    text += "/" + std::to_string(total);
  return text;
}

std::string ProgressPrinter::stepLine(const StepReport &report) const {
  std::string line;
  llvm::raw_string_ostream os(line);
  os << "step " << outOf(report.step, start.totalSteps) << "  epoch "
     << outOf(report.epoch + 1, start.totalEpochs);
  printFigures(os, sinceLine, report);
  os << timeLeft(report.step);
  return line;
}

std::string ProgressPrinter::epochLine(const StepReport &report) const {
  std::string line;
  llvm::raw_string_ostream os(line);
  os << "epoch " << outOf(report.epoch + 1, start.totalEpochs) << " done  step "
     << outOf(report.step, start.totalSteps);
  printFigures(os, sinceEpoch, report);
  os << "  took " << formatDuration(secondsSince(sinceEpoch.begin))
     << timeLeft(report.step);
  return line;
}

void ProgressPrinter::show(llvm::StringRef line, bool stays) {
  if (messages.isRead()) {
    clearLine();
    messages << (stays ? line.str() + "\n" : fitTerminal(line).str());
    lineShown = !stays;
  }
  sinceLine = Steps();
  sinceLine.begin = Clock::now();
}

void ProgressPrinter::stepped(const StepReport &report) {
  ++stepsDone;
  sinceLine.add(report);
  sinceEpoch.add(report);
  if (!isQuiet && report.endsEpoch && isEpochDue(report.step)) {
    show(epochLine(report), /*stays=*/true);
    epochShown = Clock::now();
  } else if (!isQuiet && isDue(report.step)) {
    show(stepLine(report), /*stays=*/!isTerminal);
  }
  if (!report.endsEpoch)
    return;
  sinceEpoch = Steps();
  sinceEpoch.begin = Clock::now();
}

//===----------------------------------------------------------------------===//
// Other events
//===----------------------------------------------------------------------===//

void mpc::tools::printEvaluation(llvm::raw_ostream &os,
                                 const EvalResult &result) {
  if (result.accuracy)
    os << "accuracy " << llvm::format("%.2f%%", *result.accuracy * 100) << ", ";
  for (const auto &[name, value] : result.metrics) {
    os << printable(name) << " ";
    // Print a top-K accuracy in percent, like the accuracy.
    if (isShare(name))
      os << llvm::format("%.2f%%", value * 100);
    else
      os << formatFigure(value);
    os << ", ";
  }
  os << "loss " << formatFigure(result.loss);
  printTerms(os, result.terms);
  os << " on " << counted(result.samples, "sample");
}

void ProgressPrinter::evaluated(int64_t step, int64_t epoch,
                                const EvalResult &result) {
  if (isQuiet)
    return;
  clearLine();
  std::string line;
  llvm::raw_string_ostream os(line);
  os << "epoch " << epoch + 1 << ", step " << step << ": ";
  printEvaluation(os, result);
  os << "\n";
  say(line);
}

void ProgressPrinter::checkpointed(int64_t step, const std::string &directory) {
  if (isQuiet)
    return;
  clearLine();
  say("step " + std::to_string(step) + ": saved " + directory + "\n");
}

void ProgressPrinter::note(std::string_view message) {
  clearLine();
  tools::note(llvm::StringRef(message), messages);
}

void ProgressPrinter::warning(std::string_view message) {
  clearLine();
  warn(llvm::StringRef(message), messages);
}
