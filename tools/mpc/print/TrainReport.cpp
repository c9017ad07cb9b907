// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/print/TrainReport.h"

#include "frontends/ONNX/Model/Error.h"
#include "frontends/ONNX/Model/Names.h"
#include "runtime/BoundedJSON.h"
#include "runtime/train/support/Text.h"
#include "tools/mpc/print/Notes.h"
#include "tools/mpc/print/PrintableStream.h"
#include "tools/mpc/print/Progress.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <algorithm>
#include <cassert>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

//===----------------------------------------------------------------------===//
// The report before the first step
//===----------------------------------------------------------------------===//

// Formats a count as 12,345,678.
std::string mpc::tools::formatCount(int64_t value) {
  std::string text = std::to_string(value);
  for (int64_t i = int64_t(text.size()) - 3; i > 0; i -= 3)
    text.insert(size_t(i), ",");
  return text;
}

std::string mpc::tools::formatBytes(double bytes) {
  assert(bytes >= 0 && "a size");
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(units); ++unit)
    bytes /= 1024;
  std::string text;
  llvm::raw_string_ostream(text)
      << llvm::format(unit == 0 ? "%.0f " : "%.1f ", bytes) << units[unit];
  return text;
}

// Returns the variable's name in the model, with control characters replaced.
static std::string printableName(const StateVariable &variable) {
  return printable(onnx_frontend::getONNXName(variable.name));
}

static void printVariable(llvm::raw_ostream &os, const StateVariable &variable,
                          size_t width) {
  os << "  " << llvm::left_justify(printableName(variable), unsigned(width))
     << "  " << nameOf(variable.type) << " " << toString(variable.shape)
     << "\n";
}

// True for names that exporters invent, as PyTorch's older exporter does for
// constants.
static bool isNumbered(llvm::StringRef name) {
  return name.starts_with("onnx::") || name.starts_with("Constant_") ||
         (name.starts_with("/") && name.contains("Constant"));
}

// Lists names of frozen tensors, like "mean, std and 3 constants of the graph".
static std::string describeOthers(std::vector<std::string> names) {
  const auto numbered = std::stable_partition(
      names.begin(), names.end(),
      [](const std::string &name) { return !isNumbered(name); });
  const int64_t constants = std::distance(numbered, names.end());
  names.erase(numbered, names.end());
  std::string text = onnx_frontend::listFirst(names, 8);
  if (constants > 0)
    text += (names.empty() ? "" : ", and ") + counted(constants, "constant") +
            " of the graph";
  return text;
}

void mpc::tools::printTrainables(llvm::raw_ostream &os, const Plan &plan,
                                 const TrainablesList &list) {
  constexpr size_t longest = 24, ends = 10;
  // Collect the names before printing, since the longest determines the width
  // of the column.
  std::vector<const StateVariable *> trainables;
  std::vector<std::string> others;
  int64_t elements = 0, frozen = 0;
  size_t width = 0;
  for (const StateVariable &variable : plan.state) {
    if (variable.role == Role::Frozen) {
      frozen += numElements(variable.shape);
      others.push_back(onnx_frontend::getONNXName(variable.name).str());
    }
    if (variable.role != Role::Parameter)
      continue;
    trainables.push_back(&variable);
    elements += numElements(variable.shape);
    width = std::max(width, printableName(variable).size());
  }
  os << "trainable: " << counted(int64_t(trainables.size()), "parameter")
     << ", " << formatCount(elements) << " element"
     << (elements == 1 ? "" : "s");
  if (frozen > 0)
    os << " (frozen: " << formatCount(frozen) << " element"
       << (frozen == 1 ? "" : "s") << ")";
  os << "\n";
  const bool abbreviated = !list.isWhole && trainables.size() > longest;
  for (size_t i = 0; i < trainables.size(); ++i) {
    if (abbreviated && i == ends) {
      i = trainables.size() - ends;
      os << "  ... " << i - ends << " more\n";
    }
    printVariable(os, *trainables[i], width);
  }
  if (list.notesOthers && !others.empty())
    note("not trained, because no layer uses them as weights: " +
         describeOthers(others) +
         "; --train REGEX chooses the trained parameters, --train . trains "
         "all");
}

void mpc::tools::printNormalizations(llvm::raw_ostream &os, const Plan &plan) {
  // The recipe of an artifact of another version may lack both entries.
  const nlohmann::json recipe = parseBoundedJSON(plan.recipe);
  if (!recipe.is_object())
    return;
  if (recipe.contains("running_variance") &&
      recipe["running_variance"].is_string()) {
    const std::string kind = recipe["running_variance"];
    os << "running variance: " << kind
       << (kind == "unbiased" ? " (n/(n-1)), as in PyTorch and Keras"
                              : ", as in ONNX's specification")
       << "; --running-variance chooses\n";
  }
  if (recipe.contains("kept_normalizations") &&
      recipe["kept_normalizations"].is_number_integer()) {
    const int64_t kept = recipe["kept_normalizations"];
    os << "BatchNormalization: " << counted(kept, "layer")
       << (kept == 1 ? " uses and keeps its" : " use and keep their")
       << " running statistics, as in evaluation\n";
  }
}

void mpc::tools::printResources(llvm::raw_ostream &os, const Plan &plan,
                                const std::string &device, int threads) {
  const int64_t state = plan.stateBytes(), activations = plan.activationBytes();
  os << "memory: " << formatBytes(double(state + activations)) << " (state "
     << formatBytes(double(state)) << ", activations "
     << formatBytes(double(activations)) << "), plus the data\n";
  os << "target: " << plan.target.cpu << " on " << device;
  if (threads > 0)
    os << ", " << counted(threads, "thread");
  os << "\n";
}

// Counts the steps of each kind, also those inside loops and conditions.
static void countSteps(const std::vector<Step> &steps,
                       std::map<std::string, int64_t> &counts) {
  for (const Step &step : steps) {
    if (auto *branch = std::get_if<IfStep>(&step.op)) {
      countSteps(branch->then, counts);
      countSteps(branch->otherwise, counts);
    } else if (auto *loop = std::get_if<ForStep>(&step.op)) {
      countSteps(loop->steps, counts);
    } else {
      ++counts[std::holds_alternative<LaunchStep>(step.op) ? "generated kernel"
               : std::holds_alternative<MatMulStep>(step.op)
                   ? "product of a library"
               : std::holds_alternative<ConvStep>(step.op)
                   ? "convolution of a library"
               : std::holds_alternative<AttentionStep>(step.op)
                   ? "attention of a library"
               : std::holds_alternative<CopyStep>(step.op) ? "copy"
               : std::holds_alternative<CheckIndicesStep>(step.op)
                   ? "check"
                   : "exchange with ranks"];
    }
  }
}

void mpc::tools::printFunctions(llvm::raw_ostream &os, const Plan &plan) {
  for (const auto &[name, function] : plan.functions) {
    std::map<std::string, int64_t> counts;
    countSteps(function.steps, counts);
    os << "function " << name << ": "
       << formatBytes(double(function.arenaBytes)) << " of activations";
    for (const auto &[kind, count] : counts)
      os << ", " << count << " x " << kind;
    os << "\n";
  }
}

//===----------------------------------------------------------------------===//
// At the end
//===----------------------------------------------------------------------===//

void mpc::tools::printSummary(llvm::raw_ostream &os,
                              const TrainResult &result) {
  if (result.stopSignal)
    os << "interrupted after ";
  os << counted(result.steps, "step") << ", " << counted(result.epochs, "epoch")
     << ", " << counted(result.samples, "sample") << ": ";
  if (result.finalLoss)
    os << "loss " << formatFigure(*result.finalLoss) << "; " << result.skipped
       << " skipped; " << formatMilliseconds(result.medianStepMs)
       << " ms/step; ";
  else
    os << "none were left to do; ";
  os << "peak memory " << formatBytes(double(result.peakMemoryBytes)) << "\n";
  if (result.evaluation) {
    os << "evaluation: ";
    printEvaluation(os, *result.evaluation);
    os << "\n";
  }
  if (result.best)
    os << "best: step " << result.best->step << ", "
       << describeFigure(result.best->metric, result.best->value) << "\n";
}
