// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/TrainReport.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

#include <algorithm>
#include <unistd.h>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

//===----------------------------------------------------------------------===//
// Before the first step
//===----------------------------------------------------------------------===//

// 12,345,678
std::string mpc::tools::formatCount(int64_t value) {
  std::string text = std::to_string(value);
  for (int64_t i = int64_t(text.size()) - 3; i > 0; i -= 3)
    text.insert(size_t(i), ",");
  return text;
}

// What a noun ends with after a count.
static const char *plural(int64_t count) { return count == 1 ? "" : "s"; }

std::string mpc::tools::formatBytes(double bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(units); ++unit)
    bytes /= 1024;
  std::string text;
  llvm::raw_string_ostream(text)
      << llvm::format(unit == 0 ? "%.0f " : "%.1f ", bytes) << units[unit];
  return text;
}

static void printVariable(llvm::raw_ostream &os, const StateVariable &variable,
                          size_t width) {
  os << "  " << llvm::left_justify(variable.name, unsigned(width)) << "  "
     << nameOf(variable.type) << " " << toString(variable.shape) << "\n";
}

// "a, b, c and 4 more"
static std::string joinFirst(llvm::ArrayRef<std::string> names) {
  constexpr size_t most = 8;
  std::string text = llvm::join(names.take_front(most), ", ");
  if (names.size() > most)
    text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

void mpc::tools::printTrainables(llvm::raw_ostream &os, const Plan &plan,
                                 bool isDefault) {
  // A longer list shows its ends.
  constexpr size_t longest = 24, ends = 10;
  std::vector<const StateVariable *> trainables;
  std::vector<std::string> others;
  int64_t elements = 0, frozen = 0;
  size_t width = 0;
  for (const StateVariable &variable : plan.state) {
    if (variable.role == "frozen") {
      frozen += numElements(variable.shape);
      others.push_back(variable.name);
    }
    if (variable.role != "parameter")
      continue;
    trainables.push_back(&variable);
    elements += numElements(variable.shape);
    width = std::max(width, variable.name.size());
  }
  os << "trainable: " << trainables.size() << " parameter"
     << plural(int64_t(trainables.size())) << ", " << formatCount(elements)
     << " element" << plural(elements);
  if (frozen > 0)
    os << " (frozen: " << formatCount(frozen) << " element" << plural(frozen)
       << ")";
  os << "\n";
  const bool abbreviated = trainables.size() > longest;
  for (size_t i = 0; i < trainables.size(); ++i) {
    if (abbreviated && i == ends) {
      i = trainables.size() - ends;
      os << "  ... " << i - ends << " more\n";
    }
    printVariable(os, *trainables[i], width);
  }
  if (isDefault && !others.empty())
    os << "note: not trained, as not weights: " << joinFirst(others)
       << "; --train REGEX chooses\n";
}

void mpc::tools::printNormalizations(llvm::raw_ostream &os, const Plan &plan) {
  auto recipe = llvm::json::parse(plan.recipe);
  if (!recipe) {
    llvm::consumeError(recipe.takeError());
    return;
  }
  const llvm::json::Object *facts = recipe->getAsObject();
  if (!facts)
    return;
  if (auto kind = facts->getString("running_variance"))
    os << "running variance: " << *kind
       << (*kind == "unbiased" ? " (n/(n-1)), as in PyTorch and Keras"
                               : ", as in ONNX's specification")
       << "; --running-variance chooses\n";
  if (auto kept = facts->getInteger("kept_normalizations"))
    os << "BatchNormalization: " << *kept << " layer" << plural(*kept)
       << " use and keep their running statistics, as in evaluation\n";
}

void mpc::tools::printResources(llvm::raw_ostream &os, const Plan &plan,
                                const std::string &device, int threads) {
  const int64_t state = plan.stateBytes(), activations = plan.activationBytes();
  os << "memory: " << formatBytes(double(state + activations)) << " (state "
     << formatBytes(double(state)) << ", activations "
     << formatBytes(double(activations)) << "), beside the data\n";
  os << "target: " << plan.target.cpu << " on " << device;
  if (threads > 0)
    os << ", " << threads << " thread" << plural(threads);
  os << "\n";
}

//===----------------------------------------------------------------------===//
// Progress
//===----------------------------------------------------------------------===//

ProgressPrinter::ProgressPrinter() : terminal(isatty(STDERR_FILENO) != 0) {}

ProgressPrinter::~ProgressPrinter() { clearLine(); }

void ProgressPrinter::clearLine() {
  if (lineShown)
    llvm::errs() << "\r\033[K";
  lineShown = false;
}

void ProgressPrinter::started(const StartReport &report) {
  totalSteps = report.totalSteps;
  const int64_t left =
      std::max<int64_t>(0, report.totalSteps - report.firstStep);
  interval = std::max<int64_t>(1, left / 10);
  llvm::errs() << "data: " << report.samples << " sample"
               << plural(report.samples);
  if (report.evalSamples > 0)
    llvm::errs() << ", " << report.evalSamples << " held back";
  llvm::errs() << "; " << left << " step" << plural(left) << " of "
               << report.batchSize;
  if (report.accumulate > 1)
    llvm::errs() << " x " << report.accumulate;
  llvm::errs() << ", " << report.stepsPerEpoch << " an epoch";
  if (report.firstStep > 0)
    llvm::errs() << ", from step " << report.firstStep;
  llvm::errs() << "\n";
}

bool ProgressPrinter::isDue(int64_t step) {
  if (!terminal)
    return step % interval == 0 || step == totalSteps;
  const auto now = std::chrono::steady_clock::now();
  if (step != totalSteps && now - lastShown < std::chrono::milliseconds(100))
    return false;
  lastShown = now;
  return true;
}

void ProgressPrinter::stepped(const StepReport &report) {
  if (!isDue(report.step))
    return;
  clearLine();
  llvm::raw_ostream &os = llvm::errs();
  os << "step " << report.step << "/" << totalSteps << "  epoch "
     << report.epoch + 1 << "  loss " << llvm::format("%.6g", report.loss)
     << "  lr " << llvm::format("%.4g", report.learningRate);
  if (report.gradNorm)
    os << "  grad norm " << llvm::format("%.4g", *report.gradNorm);
  if (report.lossScale)
    os << "  loss scale " << llvm::format("%g", *report.lossScale)
       << "  skipped " << report.skippedTotal;
  os << llvm::format("  %.2f ms/step", report.stepMs);
  lineShown = terminal;
  if (!terminal)
    os << "\n";
}

void mpc::tools::printEvaluation(llvm::raw_ostream &os,
                                 const EvalResult &result) {
  if (result.accuracy)
    os << "accuracy " << llvm::format("%.2f%%", *result.accuracy * 100) << ", ";
  for (const auto &[name, value] : result.metrics) {
    os << name << " ";
    // A share of all labels, as the accuracy is.
    if (llvm::StringRef(name).starts_with("top"))
      os << llvm::format("%.2f%%", value * 100);
    else
      os << llvm::format("%.6g", value);
    os << ", ";
  }
  os << "loss " << llvm::format("%.6g", result.loss) << " on " << result.samples
     << " sample" << plural(result.samples);
}

void ProgressPrinter::evaluated(int64_t step, int64_t epoch,
                                const EvalResult &result) {
  clearLine();
  llvm::errs() << "epoch " << epoch + 1 << ", step " << step << ": ";
  printEvaluation(llvm::errs(), result);
  llvm::errs() << "\n";
}

void ProgressPrinter::checkpointed(int64_t step, const std::string &directory) {
  clearLine();
  llvm::errs() << "step " << step << ": saved " << directory << "\n";
}

void ProgressPrinter::note(std::string_view message) {
  clearLine();
  llvm::errs() << "note: " << llvm::StringRef(message) << "\n";
}

//===----------------------------------------------------------------------===//
// At the end
//===----------------------------------------------------------------------===//

void mpc::tools::printSummary(llvm::raw_ostream &os,
                              const TrainResult &result) {
  if (result.stopSignal)
    os << "interrupted after ";
  os << result.steps << " step" << plural(result.steps) << ", " << result.epochs
     << " epoch" << plural(result.epochs) << ", " << result.samples << " sample"
     << plural(result.samples) << ": ";
  if (result.finalLoss)
    os << "loss " << llvm::format("%.6g", *result.finalLoss) << "; "
       << result.skipped << " skipped; "
       << llvm::format("%.3g", result.medianStepMs) << " ms/step; ";
  else
    os << "none were left to do; ";
  os << "peak memory " << formatBytes(double(result.peakMemoryBytes)) << "\n";
  if (result.evaluation) {
    os << "evaluation: ";
    printEvaluation(os, *result.evaluation);
    os << "\n";
  }
}
