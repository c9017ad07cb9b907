// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/LabelData.h"

#include "passes/Differentiation/LossSpec.h"
#include "runtime/train/EvalMetrics.h"
#include "tools/mpc/Driver.h"
#include "tools/mpc/LossFlags.h"
#include "tools/mpc/Notes.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

void mpc::tools::findLabelShapes(const std::vector<Array> &arrays,
                                 RecipeOptions &recipe) {
  for (const Array &array : arrays)
    if (!array.shape.empty())
      recipe.labelShapes[array.name] = {array.shape.begin() + 1,
                                        array.shape.end()};
}

// Whether labels of the data are PyTorch's for what counts nowhere.
static bool hasIgnoredLabels(const std::vector<Array> &arrays,
                             const std::string &targetArray) {
  constexpr int64_t chunk = 65536;
  std::vector<int64_t> values(chunk);
  for (const Array &array : arrays) {
    if (array.name != targetArray)
      continue;
    for (int64_t begin = 0; begin < array.size(); begin += chunk) {
      const int64_t count = std::min(chunk, array.size() - begin);
      // What is no integer is for the data set to report.
      if (convertElements(array, begin, count, DType::I64, NonFinite::Reject,
                          values.data()))
        return false;
      if (std::find(values.begin(), values.begin() + count,
                    kPyTorchIgnoreIndex) != values.begin() + count)
        return true;
    }
  }
  return false;
}

void mpc::tools::chooseIgnoreIndex(CompileOptions &options,
                                   const std::vector<Array> &arrays) {
  RecipeOptions &recipe = options.pipeline.recipe;
  if (recipe.ignoreIndex || isArtifact(options.model.model))
    return;
  const bool isAny = llvm::any_of(recipe.losses, [&](const std::string &text) {
    llvm::Expected<LossSpec> loss = parseLoss(text);
    if (!loss) {
      llvm::consumeError(loss.takeError()); // it has been checked
      return false;
    }
    return loss->hasClasses() &&
           hasIgnoredLabels(arrays,
                            findTarget(recipe.targetArrays, loss->output));
  });
  if (!isAny)
    return;
  recipe.ignoreIndex = kPyTorchIgnoreIndex;
  note("labels of " + llvm::Twine(kPyTorchIgnoreIndex) +
       " count nowhere, as in PyTorch; --ignore-index chooses");
}

ExitCode mpc::tools::checkMetricFlags(const std::vector<std::string> &names) {
  for (const std::string &name : names) {
    if (Status status = checkEvalMetric(name); !status.ok())
      return reportError(ExitCode::Usage, "--metric: " + status.message());
    if (llvm::count(names, name) > 1)
      return reportError(ExitCode::Usage, "--metric " + name + ": given twice");
  }
  return ExitCode::Done;
}
