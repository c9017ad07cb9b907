// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/flags/RecordedFlags.h"

#include "compiler/Precision/Policy/PrecisionPolicy.h"
#include "compiler/Precision/Policy/RecordedPolicy.h"
#include "passes/Differentiation/LossSpec.h"
#include "runtime/BoundedJSON.h"
#include "runtime/train/checkpoint/CheckpointFiles.h"
#include "runtime/train/data/Preparation.h"
#include "tools/mpc/flags/Configuration.h"
#include "tools/mpc/flags/LossFlags.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/print/FlagOrigins.h"
#include "tools/mpc/print/Notes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <cmath>

using namespace mpc;
using namespace mpc::tools;
using llvm::StringRef;

static constexpr char kMetadataFlag[] = "--no-metadata";

void mpc::tools::addMetadataFlag(CLI::App &command) {
  command.add_flag(kMetadataFlag,
                   "take no flags and no names of classes from the metadata "
                   "of a trained model, or from the checkpoint");
}

bool mpc::tools::ignoresMetadata(const CLI::App &command) {
  const CLI::Option *option = command.get_option_no_throw(kMetadataFlag);
  return !option || option->count() > 0;
}

//===----------------------------------------------------------------------===//
// Recording
//===----------------------------------------------------------------------===//

// Returns the values of a flag, from wherever they come; empty if not given.
static std::vector<std::string> givenValues(const CLI::App &command,
                                            StringRef name) {
  const CLI::Option *option = command.get_option_no_throw("--" + name.str());
  return option ? option->results() : std::vector<std::string>();
}

// Joins numbers with commas, with enough digits to read the same values.
static std::string listNumbers(const std::vector<double> &values) {
  std::string list;
  for (double value : values) {
    char digits[64];
    auto [end, error] =
        std::to_chars(std::begin(digits), std::end(digits), value);
    list += (list.empty() ? "" : ",") + std::string(digits, end);
  }
  return list;
}

static std::vector<std::string>
printField(const std::vector<LossSpec> &losses) {
  std::vector<std::string> texts;
  for (const LossSpec &loss : losses)
    texts.push_back(printLoss(loss));
  return texts;
}

static std::vector<std::string>
printField(const std::vector<TargetSpec> &targets) {
  std::vector<std::string> texts;
  for (const TargetSpec &target : targets)
    texts.push_back(printTarget(target));
  return texts;
}

static std::vector<std::string> printField(std::optional<Reduction> reduction) {
  return {std::string(stringify(reduction.value_or(Reduction::Mean)))};
}

static std::vector<std::string> printField(std::optional<int64_t> number) {
  return {std::to_string(number.value_or(0))};
}

static std::vector<std::string> printField(std::optional<double> number) {
  return {listNumbers({number.value_or(0)})};
}

// Other fields are recorded in another form, or not at all.
template <typename T>
static std::vector<std::string> printField(const T &) {
  return {};
}

static ExitCode recordLoss(const CompileOptions &options, FlagValues &flags) {
  Recipe recipe = options.pipeline.recipe;
  if (recipe.losses.empty())
    return ExitCode::Done;
  const std::vector<std::string> given = options.given();
  visitLossFields(
      [&](const RecipeField &field, const auto &value) {
        if (llvm::is_contained(kTypedLossFlags, field.flag) &&
            llvm::is_contained(given, "--" + field.flag.str()))
          flags[field.flag.str()] = printField(value);
      },
      recipe);
  if (ExitCode code = readLossFiles(options, recipe); code != ExitCode::Done)
    return code;
  if (!recipe.classWeights.empty())
    flags["class-weights"] = {listNumbers(recipe.classWeights)};
  if (!recipe.posWeight.empty())
    flags["pos-weight"] = {listNumbers(recipe.posWeight)};
  return ExitCode::Done;
}

static ExitCode recordPrecision(const amp::Request &request,
                                FlagValues &flags) {
  if (!amp::isMixed(request.mode)) {
    if (request.mode != amp::Request().mode)
      flags["precision"] = {amp::stringifyPrecisionMode(request.mode).str()};
    return ExitCode::Done;
  }
  flags["precision"] = {amp::stringifyPrecisionMode(request.mode).str()};
  for (const auto &[name, values] : {std::pair("keep-fp32", &request.keepFP32),
                                     {"force-low", &request.forceLow}})
    if (!values->empty())
      flags[name] = listExpressions(*values);
  if (request.policy.empty())
    return ExitCode::Done;
  if (llvm::is_contained(PrecisionPolicy::getPresets(), request.policy)) {
    flags["policy"] = {request.policy};
    return ExitCode::Done;
  }
  auto text = llvm::MemoryBuffer::getFile(request.policy, /*IsText=*/true);
  if (!text)
    return reportError(ExitCode::IO, "--policy " + request.policy + ": " +
                                         text.getError().message());
  flags["policy"] = {kRecordedPolicy.str() + (*text)->getBuffer().str()};
  return ExitCode::Done;
}

ExitCode mpc::tools::recordOptions(const CompileOptions &options,
                                   ModelRecord &record) {
  if (ExitCode code = recordLoss(options, record.loss); code != ExitCode::Done)
    return code;
  return recordPrecision(options.pipeline.precision, record.precision);
}

ExitCode mpc::tools::recordFlags(const CLI::App &command,
                                 const CompileOptions &options,
                                 ModelRecord &record) {
  if (std::vector<std::string> names = givenValues(command, "metric");
      !names.empty())
    record.metrics["metric"] = std::move(names);
  return recordOptions(options, record);
}

//===----------------------------------------------------------------------===//
// Taking
//===----------------------------------------------------------------------===//

namespace {
/// Sets the recorded flags of one command.
class RecordTaker {
public:
  RecordTaker(CLI::App &command, Configuration &configuration,
              std::string where)
      : command(command), configuration(configuration),
        where(std::move(where)) {}

  /// Sets the flags that the user does not give; none if the user gives the
  /// flag `leader` another value than the recorded one.
  void take(const FlagValues &flags, StringRef leader = "");
  /// Prints a note of the flags set, and lets later errors name the record.
  void finish() const;

private:
  bool set(const std::string &name, const std::vector<std::string> &values);

  CLI::App &command;
  Configuration &configuration;
  const std::string where;
  FlagValues taken;
};
} // namespace

// Replaces a list of numbers by the same numbers in a form that is never the
// name of a file: such a flag also takes a file. False if `values` is no list.
static bool spellNumbers(std::vector<std::string> &values) {
  if (values.size() != 1)
    return false;
  std::vector<std::string> numbers;
  for (StringRef part : llvm::split(values.front(), ',')) {
    double value = 0;
    if (part.trim().getAsDouble(value) || !std::isfinite(value))
      return false;
    numbers.push_back(llvm::formatv("{0:e17}", value).str());
  }
  values = {llvm::join(numbers, ",")};
  return true;
}

bool RecordTaker::set(const std::string &name,
                      const std::vector<std::string> &values) {
  CLI::Option *option = command.get_option_no_throw("--" + name);
  if (!option || option->count() > 0)
    return false;
  std::vector<std::string> given = values;
  const bool isNumbers = name == "class-weights" || name == "pos-weight";
  // Recorded expressions may match no node: `mpc run` compiles no gradients.
  if (name == "keep-fp32" || name == "force-low")
    for (std::string &expression : given)
      expression.insert(0, kRecordedExpression);
  std::string problem;
  if (isNumbers && !spellNumbers(given))
    problem = "expected numbers";
  // A record never names a file: a policy is recorded by its contents.
  else if (name == "policy" &&
           !StringRef(given.front()).starts_with(kRecordedPolicy) &&
           !llvm::is_contained(PrecisionPolicy::getPresets(), given.front()))
    problem = "expected a policy or the name of a preset";
  else
    problem = configuration.take(*option, where, given);
  if (!problem.empty())
    warn(where + ": the recorded flag --" + name + " is ignored: " + problem);
  return problem.empty();
}

void RecordTaker::take(const FlagValues &flags, StringRef leader) {
  const std::vector<std::string> given = leader.empty()
                                             ? std::vector<std::string>()
                                             : givenValues(command, leader);
  const auto recorded = flags.find(leader.str());
  if (!given.empty() && recorded != flags.end() && given != recorded->second)
    return;
  for (const auto &[name, values] : flags)
    if (set(name, values))
      taken[name] = values;
}

void RecordTaker::finish() const {
  if (taken.empty())
    return;
  std::vector<std::string> names;
  for (const auto &[name, values] : taken)
    names.push_back(name);
  setRecordedFlags(where, std::move(names));
  note("from " + where + ": " + printFlags(taken) + "; " + kMetadataFlag +
       " leaves out what a model records");
}

// True if the record's flags of preparation can be parsed.
static bool isValidPreparation(const FlagValues &flags) {
  const auto givenValues = [&](const char *name) {
    const auto found = flags.find(name);
    return found == flags.end() ? std::vector<std::string>() : found->second;
  };
  return runtime::train::parsePreparation(givenValues("normalize"),
                                          givenValues("input-layout"),
                                          /*augment=*/"", /*seed=*/0)
      .ok();
}

// Returns the MODEL argument; empty if there is none.
static std::string modelOf(const CLI::App &command) {
  const CLI::Option *model = command.get_option_no_throw("model");
  return model && model->count() > 0 ? model->results().back() : "";
}

// Finds the record that applies to a command, and sets `where` to the name of
// the file that has it.
static ModelRecord findRecord(const CLI::App &command, std::string &where) {
  const std::vector<std::string> checkpoint =
      givenValues(command, "checkpoint");
  if (!checkpoint.empty()) {
    // If the checkpoint cannot be read, the command reports that later.
    auto path = runtime::train::findCheckpoint(checkpoint.back());
    auto header =
        path.ok() ? runtime::train::readCheckpointHeader(*path) : path.status();
    if (header.ok() && !header->progress.record.empty()) {
      where = *path;
      return parseRecord(header->progress.record, where);
    }
  }
  where = modelOf(command);
  return readModelRecord(where);
}

void mpc::tools::takeRecordedFlags(CLI::App &command,
                                   Configuration &configuration) {
  if (ignoresMetadata(command))
    return;
  std::string where;
  const ModelRecord record = findRecord(command, where);
  RecordTaker taker(command, configuration, where);
  // `mpc run` computes no loss. An artifact has its loss and its precision
  // compiled in, but may get the weights of a checkpoint.
  const bool isCompiled = isArtifact(modelOf(command));
  const bool hasLoss = !givenValues(command, "loss").empty();
  if (!isCompiled && !hasLoss && command.get_name() != "run") {
    taker.take(record.loss);
    taker.take(record.metrics);
  }
  if (!isCompiled)
    taker.take(record.precision, "precision");
  // Flags of preparation apply to --data alone.
  if (!givenValues(command, "data").empty()) {
    const bool isGiven = !givenValues(command, "normalize").empty() ||
                         !givenValues(command, "input-layout").empty();
    if (!isValidPreparation(record.preparation))
      warn(where + ": the recorded preparation is ignored: expected values of "
                   "--normalize and --input-layout");
    else if (!isGiven)
      taker.take(record.preparation);
  }
  taker.finish();
}
