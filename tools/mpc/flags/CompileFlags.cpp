// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/flags/CompileFlags.h"

#include "compiler/Precision/Policy/RecordedPolicy.h"
#include "passes/Differentiation/Updates/Optimizers.h"
#include "tools/mpc/flags/Effects.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/xxhash.h"

using namespace mpc;
using namespace mpc::tools;
namespace json = llvm::json;

// Returns a digest of the file's bytes. Null if `file` is empty or cannot be
// read; the compiler has reported an unreadable file already.
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

// Describes the loss scale. A static scale is a number, so that "1024" and
// "1024.0" are equal.
static json::Value describeLossScale(const amp::Request &request) {
  const amp::LossScaling scaling = request.getLossScaling();
  if (scaling.kind == amp::LossScale::Static)
    return scaling.scale;
  return amp::stringifyLossScale(scaling.kind);
}

namespace {
/// Copies the fields of a recipe that determine the optimizer's update to a
/// JSON object.
class OptimizerRecorder {
public:
  explicit OptimizerRecorder(OptimizerKind kind, json::Object &object)
      : optimizer(stringify(kind)), object(object) {}

  template <typename Enum>
  std::enable_if_t<std::is_enum_v<Enum>> operator()(const RecipeField &field,
                                                    Enum value) {
    object[field.word()] = llvm::StringRef(stringify(value));
  }
  template <typename Number>
  std::enable_if_t<std::is_arithmetic_v<Number>>
  operator()(const RecipeField &field, Number value) {
    // Record these settings for every optimizer, since checkpoints of older
    // versions contain all four.
    bool isAlways = llvm::is_contained({"momentum", "beta1", "beta2", "eps"},
                                       llvm::StringRef(field.flag));
    if (isAlways || hasSetting(optimizer, field.flag))
      object[field.word()] = value;
  }
  template <typename Number>
  void operator()(const RecipeField &field, std::optional<Number> value) {
    if (value)
      (*this)(field, *value);
  }
  void operator()(const RecipeField &field,
                  const std::vector<std::string> &words) {
    if (!words.empty())
      object[field.word()] = listOf(words);
  }

private:
  llvm::StringRef optimizer;
  json::Object &object;
};
} // namespace

void mpc::tools::addOptimizerFlags(json::Object &object, Recipe recipe) {
  recipe.optimizer = withDefaults(recipe.optimizer);
  recipe.gradientClipVal = recipe.gradientClipVal.value_or(0);
  OptimizerRecorder record(recipe.optimizer.kind, object);
  visitOptimizerFields(
      [&](const RecipeField &field, const auto &value) {
        // Skip fields that are recorded elsewhere: trained parameters have a
        // role in the list of state, and the number of accumulated batches has
        // a key of its own, which training graphs have too.
        constexpr llvm::StringLiteral elsewhere[] = {"accumulate-grad-batches",
                                                     "accumulate-reduction",
                                                     "train", "freeze"};
        if (!llvm::is_contained(elsewhere, field.flag))
          record(field, value);
      },
      recipe);
}

void mpc::tools::addCompileFlags(json::Object &recipe,
                                 const CompileOptions &options,
                                 llvm::StringRef decisions,
                                 bool addsOptimizer) {
  const Recipe &training = options.pipeline.recipe;
  const amp::Request &precision = options.pipeline.precision;
  recipe["accumulate_reduction"] =
      llvm::StringRef(stringify(training.accumulateReduction.value_or(
          addsOptimizer ? training.gradientReduction() : Reduction::Sum)));
  // Record the texts as typed, so "bias,norm" is one text.
  if (!training.noDecay.empty())
    recipe["no_decay"] = listOf(training.noDecay);
  if (!training.lora.empty())
    recipe["lora"] = listOf(training.lora);
  if (training.trainAccuracy)
    recipe["train_accuracy"] = true;
  if (training.dataParallel || training.shardOptimizer)
    recipe[kDataParallel] = true;
  if (training.shardOptimizer)
    recipe["shard_optimizer"] = true;
  if (training.syncBatchNorm)
    recipe["sync_batch_norm"] = true;
  // Record flags that change values or types. A file is recorded by a digest of
  // the contents, not by name.
  recipe["as_exported"] = options.asExported;
  recipe["loss_scale"] = describeLossScale(precision);
  recipe["policy"] = digestOf(precision.policy);
  recipe["keep_fp32"] = listOf(listExpressions(precision.keepFP32));
  recipe["force_low"] = listOf(listExpressions(precision.forceLow));
  recipe["decisions"] = decisions;
  recipe["tf32"] = precision.tf32;
  recipe["contractions"] = options.pipeline.contractions;
  // Older checkpoints do not have this member.
  if (options.pipeline.attention != "auto")
    recipe["attention"] = options.pipeline.attention;
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
