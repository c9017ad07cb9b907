// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/flags/LossFlags.h"

#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/support/FileSystem.h"
#include "tools/mpc/model/Driver.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/xxhash.h"

#include <algorithm>
#include <cmath>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using runtime::train::Array;

std::string
mpc::tools::suggestLoss(const runtime::train::FunctionPorts &forward) {
  const runtime::train::Port *only = nullptr;
  int64_t numbers = 0;
  for (const runtime::train::Port &output : forward.outputs)
    if (output.shape.empty() && runtime::isFloat(output.type)) {
      only = &output;
      ++numbers;
    }
  if (numbers != 1)
    return "--loss softmax_cross_entropy";
  return "--loss output:" + only->name + ", which is one number";
}

//===----------------------------------------------------------------------===//
// Effect
//===----------------------------------------------------------------------===//

namespace {
/// A flag that affects losses: the name, true if the flag is given, a predicate
/// for the affected losses, and words for the losses in a message.
struct LossFlag {
  llvm::StringLiteral name;
  bool isGiven;
  bool (*concerns)(LossKind kind);
  llvm::StringLiteral losses;
};
} // namespace

static std::vector<LossFlag> lossFlagsOf(const CompileOptions &options) {
  const Recipe &recipe = options.pipeline.recipe;
  auto ofClasses = [](LossKind kind) { return hasClasses(kind); };
  static constexpr llvm::StringLiteral classes =
      "losses of class labels (softmax_cross_entropy, nll, focal, dice)";
  return {
      {"--reduction", recipe.reduction.has_value(),
       [](LossKind kind) { return kind != LossKind::Output; },
       "losses that mpc computes"},
      {"--ignore-index", recipe.ignoreIndex.has_value(), ofClasses, classes},
      {"--label-smoothing", recipe.labelSmoothing.has_value(),
       [](LossKind kind) { return kind == LossKind::SoftmaxCrossEntropy; },
       "softmax_cross_entropy"},
      {"--class-weights", !options.lossFiles.classWeights.empty(), ofClasses,
       classes},
      {"--pos-weight", !options.lossFiles.posWeight.empty(),
       [](LossKind kind) { return kind == LossKind::BCEWithLogits; },
       "bce_with_logits"},
      {"--focal-gamma", recipe.focalGamma.has_value(),
       [](LossKind kind) {
         return kind == LossKind::Focal || kind == LossKind::SigmoidFocal;
       },
       "focal and sigmoid_focal"},
      {"--focal-alpha", recipe.focalAlpha.has_value(),
       [](LossKind kind) { return kind == LossKind::SigmoidFocal; },
       "sigmoid_focal"},
      {"--dice-smooth", recipe.diceSmooth.has_value(),
       [](LossKind kind) {
         return kind == LossKind::Dice || kind == LossKind::SigmoidDice;
       },
       "dice and sigmoid_dice"},
      {"--train-accuracy", recipe.trainAccuracy,
       [](LossKind kind) {
         return hasClasses(kind) || kind == LossKind::Output;
       },
       classes},
  };
}

ExitCode mpc::tools::checkLossFlags(const CompileOptions &options) {
  const std::vector<LossSpec> &losses = options.pipeline.recipe.losses;
  std::vector<std::string> names;
  for (const LossSpec &loss : losses)
    names.emplace_back(loss.kind == LossKind::Output
                           ? "a loss of the model's own"
                           : stringify(loss.kind));
  for (const LossFlag &flag : lossFlagsOf(options))
    if (flag.isGiven && llvm::none_of(losses, [&](const LossSpec &loss) {
          return flag.concerns(loss.kind);
        }))
      return reportError(
          ExitCode::Usage,
          flag.name + " is for " + flag.losses + ", and has no effect " +
              (names.empty() ? "without --loss"
                             : "on " + llvm::join(names, " and ")));
  return ExitCode::Done;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

// Splits "NAME=FILE" into the name and the path. If `text` is the path of an
// existing file, or has no '=', the name is empty and all of `text` is the
// path.
static StatusOr<std::pair<llvm::StringRef, llvm::StringRef>>
splitName(llvm::StringRef text) {
  StatusOr<bool> isFile = train::exists(text.str());
  if (!isFile.ok())
    return isFile.status();
  if (*isFile || !text.contains('='))
    return std::pair(llvm::StringRef(), text);
  return text.split('=');
}

// Reads one array from FILE or NAME=FILE, the value of a flag.
static StatusOr<Array> readOne(const std::string &text) {
  auto split = splitName(text);
  if (!split.ok())
    return split.status();
  auto [name, path] = *split;
  StatusOr<std::vector<Array>> arrays = train::readPackedArrays(path.str());
  if (!arrays.ok())
    return arrays.status();
  const auto whole = [](Array &array) -> StatusOr<Array> {
    Status status = train::unpack(array);
    return status.ok() ? StatusOr<Array>(array) : status;
  };
  // The only array in a file needs no name.
  if (name.empty() && arrays->size() == 1)
    return whole(arrays->front());
  std::vector<std::string> names;
  for (Array &array : *arrays) {
    if (array.name == name)
      return whole(array);
    names.push_back("'" + array.name + "'");
  }
  const std::string all = names.empty() ? "none" : llvm::join(names, ", ");
  if (name.empty())
    return train::invalid(path.str(), "expected one array, found " + all +
                                          "; pick one with NAME=" + path.str());
  return train::invalid(path.str(), "has no array '" + name.str() +
                                        "'; its arrays are " + all);
}

// Reads weights from a file. Weights must lie along one axis, and be finite and
// at least 0, but not all 0.
static StatusOr<std::vector<double>> readWeights(const std::string &text) {
  StatusOr<Array> array = readOne(text);
  if (!array.ok())
    return array.status();
  // Accept [C] and shapes like [1, C] or [C, 1, 1]: one axis has all
  // weights.
  const int64_t extent =
      array->shape.empty()
          ? 1
          : *std::max_element(array->shape.begin(), array->shape.end());
  if (extent != array->size() || extent == 0)
    return train::invalid(train::locate(*array),
                          "expected weights along one axis, found shape " +
                              toString(array->shape));
  // Accept any numeric type if float32 can hold the values.
  std::vector<double> values(size_t(array->size()));
  if (auto bad =
          train::convertElements(*array, 0, array->size(), DType::F64,
                                 train::NonFinite::Reject, values.data()))
    return train::invalid(train::describe(*array, *bad, DType::F64));
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0)
      return train::invalid(train::locate(*array, int64_t(i)) +
                            ": expected a weight of at least 0, found " +
                            llvm::formatv("{0}", values[i]).str());
    if (!std::isfinite(static_cast<float>(values[i])))
      return train::invalid(
          train::locate(*array, int64_t(i)) + ": the weight " +
          llvm::formatv("{0:e}", values[i]).str() + " does not fit in float32");
  }
  if (llvm::all_of(values, [](double value) { return value == 0; }))
    return train::invalid(train::locate(*array),
                          "expected a weight above 0, found " +
                              std::to_string(values.size()) + " weights of 0");
  return values;
}

// Parses a list of numbers like "1,2.5,3". nullopt if `text` is an existing
// file, or no such list.
static StatusOr<std::optional<std::vector<double>>>
parseNumbers(llvm::StringRef text) {
  StatusOr<bool> isFile = train::exists(text.str());
  if (!isFile.ok())
    return isFile.status();
  if (*isFile)
    return std::optional<std::vector<double>>();
  std::vector<double> values;
  for (llvm::StringRef part : llvm::split(text, ','))
    if (part.trim().getAsDouble(values.emplace_back()))
      return std::optional<std::vector<double>>();
  return std::optional(std::move(values));
}

// Reads the numbers of a flag into `values`: from `text`, or from the file
// called `text`. Prints errors.
static ExitCode readInto(llvm::StringRef flag, const std::string &text,
                         std::vector<double> &values) {
  auto parsed = parseNumbers(text);
  if (!parsed.ok())
    return reportError(parsed.status());
  if (auto &numbers = *parsed) {
    bool isValid = llvm::all_of(*numbers, [](double value) {
      return value >= 0 && std::isfinite(static_cast<float>(value));
    });
    bool isNothing = llvm::all_of(*numbers, [](double v) { return v == 0; });
    if (!isValid || (isNothing && numbers->size() > 1))
      return reportError(ExitCode::Usage,
                         flag +
                             ": expected numbers of at least 0, not all 0, "
                             "found '" +
                             text + "'");
    values = std::move(*numbers);
    return ExitCode::Done;
  }
  StatusOr<std::vector<double>> read = readWeights(text);
  if (!read.ok())
    return reportError(Status(read.status().getCode(),
                              flag.str() + ": " + read.status().message()));
  values = std::move(*read);
  return ExitCode::Done;
}

bool mpc::tools::isBalanced(const std::string &weights) {
  if (weights != "balanced")
    return false;
  StatusOr<bool> isFile = train::exists(weights);
  return isFile.ok() && !*isFile;
}

ExitCode mpc::tools::readLossFiles(const CompileOptions &options,
                                   Recipe &recipe) {
  const LossFiles &files = options.lossFiles;
  if (isBalanced(files.classWeights))
    return reportError(ExitCode::Usage,
                       "--class-weights balanced: only mpc train reads the "
                       "labels to count; give numbers or a file");
  if (!files.classWeights.empty())
    if (ExitCode code = readInto("--class-weights", files.classWeights,
                                 recipe.classWeights);
        code != ExitCode::Done)
      return code;
  if (files.posWeight.empty())
    return ExitCode::Done;
  return readInto("--pos-weight", files.posWeight, recipe.posWeight);
}

std::vector<std::string>
mpc::tools::lossFilesOf(const CompileOptions &options) {
  std::vector<std::string> files;
  for (const std::string *text :
       {&options.lossFiles.classWeights, &options.lossFiles.posWeight})
    if (auto numbers = parseNumbers(*text);
        !text->empty() && !isBalanced(*text) && (!numbers.ok() || !*numbers))
      files.push_back(*text);
  return files;
}

//===----------------------------------------------------------------------===//
// The recipe
//===----------------------------------------------------------------------===//

// Describes weights for the recipe: one weight as a number, several by a digest
// of the bytes.
static llvm::json::Value describeWeights(const std::vector<double> &values) {
  if (values.size() == 1)
    return values.front();
  llvm::ArrayRef<uint8_t> bytes(
      reinterpret_cast<const uint8_t *>(values.data()),
      values.size() * sizeof(double));
  return llvm::utohexstr(llvm::xxh3_64bits(bytes), /*LowerCase=*/true,
                         /*Width=*/16);
}

void mpc::tools::addLossFlags(llvm::json::Object &object,
                              const Recipe &recipe) {
  if (recipe.sumsLoss())
    object["reduction"] = llvm::StringRef(stringify(Reduction::Sum));
  if (recipe.labelSmoothing.value_or(0) != 0)
    object["label_smoothing"] = *recipe.labelSmoothing;
  if (recipe.focalGamma)
    object["focal_gamma"] = *recipe.focalGamma;
  if (recipe.focalAlpha)
    object["focal_alpha"] = *recipe.focalAlpha;
  if (recipe.diceSmooth)
    object["dice_smooth"] = *recipe.diceSmooth;
  if (!recipe.classWeights.empty())
    object["class_weights"] = describeWeights(recipe.classWeights);
  if (!recipe.posWeight.empty())
    object["pos_weight"] = describeWeights(recipe.posWeight);
}
