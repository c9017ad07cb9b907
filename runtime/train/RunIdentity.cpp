// Describes the identity and settings of a run.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/RunIdentity.h"

#include "runtime/BoundedJSON.h"
#include "runtime/Communicator.h"
#include "runtime/RecipeNames.h"
#include "runtime/train/checkpoint/StepSplit.h"
#include "runtime/train/support/Text.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <xxhash.h>

namespace mpc::runtime::train {

/// Returns "4 parameters, digest 0123456789abcdef". The digest is over the
/// names of the parameters, in the order of the state.
static std::string describeTrained(const TraineeInfo &info) {
  int64_t count = 0;
  uint64_t digest = 0;
  for (const Port &port : info.state) {
    if (port.role != Role::Parameter)
      continue;
    ++count;
    // Include the zero byte that ends a name, so that "ab", "c" differs from
    // "a", "bc".
    digest =
        XXH3_64bits_withSeed(port.name.c_str(), port.name.size() + 1, digest);
  }
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(digest));
  return counted(count, "parameter") + ", digest " + text;
}

/// Returns "32x8", or "?x8" for any number of samples.
static std::string shapeTextOf(const Port &port, bool ofSample) {
  if (!ofSample || port.batchAxis < 0)
    return toString(port.shape);
  std::string text;
  for (size_t i = 0; i < port.shape.size(); ++i)
    text += (i ? "x" : "") + (int64_t(i) == port.batchAxis
                                  ? std::string("?")
                                  : std::to_string(port.shape[i]));
  return text;
}

/// Returns "labels i64 32, x f32 32x8": the shapes of a batch, whichever flags
/// chose them. With `ofSample`, shapes with any number of samples.
static std::string describeInputs(const TraineeInfo &info,
                                  bool ofSample = false) {
  std::set<std::string> inputs;
  for (const auto &[name, function] : info.functions)
    for (const Port &port : function.inputs)
      if (port.role == Role::Data || port.role == Role::Label)
        inputs.insert(port.name + ' ' +
                      std::string(runtime::nameOf(port.type)) + ' ' +
                      shapeTextOf(port, ofSample));
  std::string text;
  for (const std::string &input : inputs)
    text += (text.empty() ? "" : ", ") + input;
  return text;
}

/// The recipe's member that is true if each rank updates a share.
static constexpr char kShardOptimizer[] = "shard_optimizer";

/// Returns the recipe as JSON text without --data-parallel and
/// --shard-optimizer, since the number of ranks may change when a run is
/// resumed.
static std::string recipeOfAnyRanks(const TraineeInfo &info) {
  if (info.recipe.find(kDataParallel) == std::string::npos)
    return info.recipe;
  BoundedDocument document(info.recipe);
  if (!document.json.is_object())
    return info.recipe;
  document.json.erase(kDataParallel);
  document.json.erase(kShardOptimizer);
  return textOf(document.json);
}

RunIdentity identityOf(const TraineeInfo &info, const RunData &data,
                       uint64_t seed) {
  return {{"model", info.modelHash},
          {"precision", info.precision},
          {"recipe", recipeOfAnyRanks(info)},
          {"trained", describeTrained(info)},
          {kInputsFact, describeInputs(info)},
          {kSampleFact, describeInputs(info, /*ofSample=*/true)},
          {"data", data.fingerprint},
          {kBatchSizeFact, std::to_string(data.batchSize)},
          {kRanksFact, std::to_string(data.ranks)},
          {kStepFact,
           std::to_string(data.batchSize * info.accumulate * data.ranks)},
          {"seed", std::to_string(seed)},
          {"order", data.order},
          {"last batch", data.lastBatch}};
}

RunIdentity identityOf(const TraineeInfo &info, const Dataset &data,
                       const TrainOptions &options) {
  return identityOf(info, describeData(data, options), options.seed);
}

Status checkPosition(const Progress &progress, const EpochSteps &epoch,
                     int64_t batchesPerStep) {
  if (progress.sampleInEpoch >= epoch.samples ||
      progress.batchInStep >= batchesPerStep)
    return Status(StatusCode::Checkpoint,
                  "the checkpoint's position, sample " +
                      std::to_string(progress.sampleInEpoch) + " of epoch " +
                      std::to_string(progress.epoch) +
                      ", does not exist in this run");
  return Status();
}

/// The file's name as train.json stores it, with replaced bytes if it is no
/// UTF-8.
static std::string nameOf(const Dataset &data) {
  const auto name = std::filesystem::path(data.source()).filename();
  return nlohmann::json::parse(textOf(name.string())).get<std::string>();
}

static int64_t countRanks(const TrainOptions &options) {
  return options.communicator ? options.communicator->size() : 1;
}

RunData describeData(const Dataset &data, const TrainOptions &options) {
  return {data.fingerprint(),
          nameOf(data) + ", " + counted(data.size(), "sample"),
          data.batchSize(),
          options.shuffle ? "shuffled" : "that of the file",
          options.lastBatch == LastBatch::Keep ? "kept" : "dropped",
          countRanks(options)};
}

static std::string formatRate(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

Status checkDataParallel(const TraineeInfo &info, const TrainOptions &options) {
  if (countRanks(options) == 1)
    return Status();
  const BoundedDocument document(info.recipe);
  const nlohmann::json &recipe = document.json;
  const auto flag = recipe.find(kDataParallel);
  if (flag != recipe.end() && flag->is_boolean() && flag->get<bool>())
    return Status();
  return Status(StatusCode::Unsupported,
                "the artifact is for a single rank, and there are " +
                    std::to_string(countRanks(options)) +
                    "; compile the model with --data-parallel");
}

StatusOr<EpochSteps> planEpoch(const Dataset &data, int64_t accumulate,
                               const TrainOptions &options) {
  EpochSteps epoch;
  epoch.samples = data.size();
  epoch.perStep = data.batchSize() * accumulate * countRanks(options);
  epoch.lastBatch = options.lastBatch;
  if (epoch.lastBegin() >= 0)
    return epoch;
  return Status(StatusCode::InvalidInput,
                data.source() + ": has " + counted(data.size(), "sample") +
                    ", one step takes " + std::to_string(epoch.perStep) +
                    "; use a smaller --batch-size or --last-batch keep");
}

std::string findMovedPlaces(const TraineeInfo &info, const Dataset &data,
                            const TrainOptions &options) {
  const int64_t batch = data.batchSize();
  // Positions stay valid without shuffling, and if a batch has all samples.
  if (!options.shuffle || data.size() == batch)
    return "";
  // True if the input is the same for every batch and its values are positions
  // in the batch, like the edges of a graph.
  const auto saysPlaces = [&](const Port &port) {
    return port.role == Role::Data && port.batchAxis < 0 &&
           std::any_of(port.indices.begin(), port.indices.end(),
                       [&](const IndexBox &box) { return box.size == batch; });
  };
  for (const auto &[name, function] : info.functions)
    for (const Port &port : function.inputs)
      if (saysPlaces(port))
        return "input '" + port.name +
               "' is the same for every batch, but its values number the " +
               counted(batch, "sample") +
               " of a batch, and shuffling changes these; --no-shuffle keeps "
               "the samples in file order";
  return "";
}

int64_t countSteps(const TrainOptions &options, const EpochSteps &epoch,
                   const Progress &progress) {
  const int64_t epochs =
      options.epochs ? options.epochs : (options.endsOtherwise() ? 0 : 1);
  // The steps made, those to the end of this epoch, and whole epochs.
  const int64_t begun = progress.sampleInEpoch > 0 ? 1 : 0;
  int64_t inEpochs = progress.step;
  if (begun && progress.epoch < epochs)
    inEpochs += epoch.stepsFrom(progress.sampleInEpoch);
  const int64_t whole = std::max<int64_t>(0, epochs - progress.epoch - begun);
  int64_t inWhole;
  if (epochs == 0 ||
      __builtin_mul_overflow(whole, epoch.stepsFrom(0), &inWhole) ||
      __builtin_add_overflow(inEpochs, inWhole, &inEpochs))
    inEpochs = kUnlimited;
  return std::min(options.maxSteps ? options.maxSteps : kUnlimited, inEpochs);
}

int64_t countEpochs(const EpochSteps &epoch, const Progress &progress,
                    int64_t totalSteps) {
  if (totalSteps == kUnlimited)
    return kUnlimited;
  const int64_t begun = progress.sampleInEpoch > 0 ? 1 : 0;
  const int64_t inEpoch = begun ? epoch.stepsFrom(progress.sampleInEpoch) : 0;
  const int64_t rest = totalSteps - progress.step - inEpoch;
  const int64_t whole = epoch.stepsFrom(0);
  return progress.epoch + begun + (rest > 0 ? (rest + whole - 1) / whole : 0);
}

std::map<std::string, std::string> settingsOf(const TraineeInfo &info,
                                              const TrainOptions &options,
                                              const Dataset &data,
                                              int64_t totalSteps) {
  return settingsOf(info, options, describeData(data, options).description,
                    totalSteps);
}

std::map<std::string, std::string> settingsOf(const TraineeInfo &info,
                                              const TrainOptions &options,
                                              const std::string &data,
                                              int64_t totalSteps) {
  const bool unlimited = totalSteps == kUnlimited;
  // Messages about changed settings show these keys.
  return {{"learning rate", formatRate(options.schedule.learningRate)},
          {"schedule", options.schedule.name()},
          {"least learning rate", formatRate(options.schedule.minLearningRate)},
          {"warmup steps", std::to_string(options.schedule.warmupSteps)},
          {"evaluations",
           options.evalEvery == 0
               ? "every epoch"
               : "every " + std::to_string(options.evalEvery) + " steps"},
          {"data", data},
          {"best", options.best ? options.best->name() : "not kept"},
          {"early stopping",
           options.earlyStopping ? options.earlyStopping->name() : "none"},
          {"target", info.target},
          {"ranks", std::to_string(countRanks(options))},
          {"steps", unlimited ? "unlimited" : std::to_string(totalSteps)}};
}

std::string changedSettings(const std::map<std::string, std::string> &then,
                            const std::map<std::string, std::string> &now) {
  std::string text;
  for (const auto &[key, value] : now) {
    const auto before = then.find(key);
    if (before != then.end() && before->second != value)
      text += (text.empty() ? "" : "; ") + key + " was " +
              abbreviated(before->second) + ", now it is " + value +
              (key == "target" ? ", which may round differently" : "");
  }
  return text;
}

} // namespace mpc::runtime::train
