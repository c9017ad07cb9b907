// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/flags/CompileFlags.h"

#include "passes/Differentiation/Optimizers.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/xxhash.h"

using namespace mpc;
using namespace mpc::tools;
namespace json = llvm::json;

// The digest of a file's bytes. null if `file` is empty or cannot be read;
// compiling has reported an unreadable file.
static json::Value digestOf(const std::string &file) {
  if (file.empty())
    return nullptr;
  auto bytes = llvm::MemoryBuffer::getFile(file, /*IsText=*/false,
                                           /*RequiresNullTerminator=*/false);
  if (!bytes)
    return nullptr;
  return llvm::utohexstr(llvm::xxh3_64bits((*bytes)->getBuffer()),
                         /*LowerCase=*/true, /*Width=*/16);
}

static json::Array listOf(const std::vector<std::string> &words) {
  json::Array list;
  for (const std::string &word : words)
    list.push_back(json::fixUTF8(word));
  return list;
}

// Describes the loss scale as a number, so that "1024" and "1024.0" are equal.
static json::Value describeLossScale(const PrecisionOptions &options) {
  double scale;
  if (options.lossScale.empty())
    return options.mode == "16-mixed" ? "dynamic" : "none";
  if (llvm::StringRef(options.lossScale).getAsDouble(scale))
    return json::fixUTF8(options.lossScale);
  return scale;
}

// Adds the defaults of PyTorch's optimizers for flags that were not given.
static void addOptimizerDefaults(json::Object &recipe,
                                 const RecipeOptions &options) {
  const Optimizer *optimizer = findOptimizer(options.optimizer);
  if (!optimizer)
    return;
  recipe["eps"] = options.epsilon.value_or(optimizer->epsilon);
  recipe["weight_decay"] = options.weightDecay.value_or(optimizer->weightDecay);
  recipe["gradient_clip_val"] = options.gradientClipVal.value_or(0);
}

void mpc::tools::addCompileFlags(json::Object &recipe,
                                 const CompileOptions &options,
                                 llvm::StringRef decisions,
                                 bool addsOptimizer) {
  const RecipeOptions &training = options.pipeline.recipe;
  const PrecisionOptions &precision = options.pipeline.precision;
  if (addsOptimizer)
    addOptimizerDefaults(recipe, training);
  if (training.accumulateReduction.empty())
    recipe["accumulate_reduction"] = addsOptimizer ? "mean" : "sum";
  if (!training.noDecay.empty())
    recipe["no_decay"] = listOf(training.noDecay);
  if (!training.lrScale.empty())
    recipe["lr_scale"] = listOf(training.lrScale);
  if (training.ema)
    recipe["ema"] = *training.ema;
  if (training.trainAccuracy)
    recipe["train_accuracy"] = true;
  // These flags decide values or types. Files count by contents, not by name.
  recipe["as_exported"] = training.asExported;
  recipe["loss_scale"] = describeLossScale(precision);
  recipe["policy"] = digestOf(precision.policyFile);
  recipe["keep_fp32"] = listOf(precision.keepFp32);
  recipe["force_low"] = listOf(precision.forceLow);
  recipe["decisions"] = decisions;
  recipe["tf32"] = options.pipeline.tf32;
  recipe["contractions"] = options.pipeline.contractions;
  recipe["optimizer_model"] = digestOf(options.model.optimizerModel);
  json::Array weights;
  for (const std::string &file : options.model.weights)
    weights.push_back(digestOf(file));
  recipe["weights"] = std::move(weights);
  if (!options.model.weightsPrefixes.empty())
    recipe["weights_prefix"] = listOf(options.model.weightsPrefixes);
  if (!options.model.noRepair.empty())
    recipe["no_repair"] = listOf(options.model.noRepair);
}
