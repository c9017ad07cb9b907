// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/flags/Effects.h"

#include "compiler/Target/TargetInfo.h"
#include "frontends/ONNX/Model/Error.h"
#include "tools/mpc/flags/Arguments.h"
#include "tools/mpc/flags/Configuration.h"
#include "tools/mpc/flags/LossFlags.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/model/ModulePorts.h"
#include "tools/mpc/model/TrustedFile.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

#include <CLI/CLI.hpp>
#include <unistd.h>

using namespace mpc;
using namespace mpc::tools;
using llvm::StringLiteral;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Flags that depend on other flags
//===----------------------------------------------------------------------===//

namespace {
/// A rule for a flag that has an effect only if the flag `other` has one of
/// `values`, which may end in `*`. If `values` is empty, `other` only has to be
/// given.
struct Rule {
  StringLiteral flag, other;
  std::vector<StringRef> values;
  /// True if the flag affects how mpc works, not what it computes. The
  /// environment sets such a flag for all commands, so in some commands the
  /// flag may have no effect.
  bool isWorking = false;
  /// A flag that can be given in place of `other`; empty if there is none.
  StringLiteral orOther = "";
};
} // namespace

static const std::vector<Rule> &getRules() {
  static const std::vector<StringRef> mixed = {"16-mixed", "bf16-mixed"};
  static const std::vector<StringRef> adams = {"adam", "adamw", "lamb", "lion",
                                               "muon"};
  static const std::vector<Rule> rules = {
      {"--momentum",
       "--optimizer",
       {"sgd", "momentum", "nesterov", "rmsprop", "muon"}},
      {"--beta1", "--optimizer", adams},
      {"--beta2", "--optimizer", adams},
      {"--alpha", "--optimizer", {"rmsprop"}},
      {"--centered", "--optimizer", {"rmsprop"}},
      {"--eps",
       "--optimizer",
       {"adam", "adamw", "lamb", "adagrad", "rmsprop", "muon"}},
      {"--ns-steps", "--optimizer", {"muon"}},
      {"--no-nesterov", "--optimizer", {"muon"}},
      {"--adjust-lr-fn", "--optimizer", {"muon"}},
      {"--muon", "--optimizer", {"muon"}},
      {"--muon-filters", "--optimizer", {"muon"}},
      {"--adamw-lr-scale", "--optimizer", {"muon"}},
      // --tf32 rounds products in any mode, except those that these flags name.
      {"--policy", "--precision", mixed, false, "--tf32"},
      {"--keep-fp32", "--precision", mixed, false, "--tf32"},
      {"--force-low", "--precision", mixed, false, "--tf32"},
      {"--accumulate-reduction",
       "--accumulate-grad-batches",
       {},
       false,
       "--data-parallel"},
      {"--sync-batch-norm", "--data-parallel", {}},
      {"--min-lr",
       "--lr-scheduler",
       {"linear", "cosine", "step*", "one-cycle", "plateau*"}},
      {"--checkpoint-every", "--checkpoint-dir", {}},
      {"--keep-checkpoints", "--checkpoint-dir", {}},
      {"--requeue-signal", "--checkpoint-dir", {}},
      {"--unfinished-code", "--max-time", {}},
      {"--overwrite-metrics", "--metrics", {}, false, "--tensorboard"},
      {"--trace-steps", "--trace", {}},
      {"--export-model", "--output", {}},
      {"--trained-only", "--output", {}},
      {"--unmerged", "--output", {}},
      {"--weights-prefix", "--weights", {}},
      {"--kernel-cache", "--emit", {"artifact", "ptx"}, /*isWorking=*/true},
      {"--threads", "--emit", {"artifact", "ptx"}, /*isWorking=*/true},
  };
  return rules;
}

static const CLI::Option *findFlag(const CLI::App &command, StringRef flag) {
  return command.get_option_no_throw(flag.str());
}

// Returns the name of the option, and the source of the value, unless it is the
// command line.
static std::string nameOf(const CLI::Option &option,
                          const Configuration &configuration) {
  const Argument argument = describeArgument(option);
  const std::string source = configuration.sourceOf(option);
  return (argument.flags.empty() ? argument.name : argument.flags.back()) +
         (source.empty() ? "" : " (from " + source + ")");
}

static bool matches(StringRef value, StringRef pattern) {
  return pattern.consume_back("*") ? value.starts_with(pattern)
                                   : value == pattern;
}

// Joins values for a message: "sgd, momentum or nesterov".
static std::string list(llvm::ArrayRef<StringRef> values) {
  std::string text;
  for (auto [index, value] : llvm::enumerate(values))
    text += (index == 0                   ? ""
             : index + 1 == values.size() ? " or "
                                          : ", ") +
            value.rtrim('*').str();
  return text;
}

bool mpc::tools::hasSetting(StringRef optimizer, StringRef key) {
  for (const Rule &rule : getRules())
    if (rule.other == "--optimizer" && rule.flag.drop_front(2) == key)
      return llvm::is_contained(rule.values, optimizer);
  return true;
}

// True if only the model tells if the flag has an effect: without --optimizer
// and --loss, the model may have an optimizer of its own. checkTrainingFlags
// decides later.
static bool dependsOnModel(const Rule &rule, const CLI::App &command) {
  const auto isGiven = [&](StringRef name) {
    const CLI::Option *flag = findFlag(command, name);
    return flag && flag->count() > 0;
  };
  return rule.other == "--optimizer" && !isGiven("--optimizer") &&
         !isGiven("--loss");
}

static void check(const Rule &rule, const CLI::App &command,
                  const Configuration &configuration) {
  const CLI::Option *flag = findFlag(command, rule.flag);
  const CLI::Option *other = findFlag(command, rule.other);
  if (!flag || !other || flag->count() == 0 || dependsOnModel(rule, command))
    return;
  // --print-policy prints the policies for fp16 and bf16, so --policy has an
  // effect without --precision.
  const CLI::Option *printed = findFlag(command, "--print-policy");
  if (rule.flag == "--policy" && printed && printed->count() > 0)
    return;
  // mpc train sets --data-parallel later, if there are several ranks.
  if (rule.other == "--data-parallel" && command.get_name() == "train")
    return;
  if (rule.isWorking && !configuration.sourceOf(*flag).empty())
    return;
  const std::string name = nameOf(*flag, configuration);
  const CLI::Option *orOther =
      rule.orOther.empty() ? nullptr : findFlag(command, rule.orOther);
  if (orOther && orOther->count() > 0)
    return;
  if (rule.values.empty()) {
    if (other->count() == 0)
      throw CLI::ValidationError(
          name + " has no effect without " + rule.other.str() +
          (orOther ? " or " + rule.orOther.str() : std::string()));
    return;
  }
  const std::string value =
      other->count() ? other->results().back() : other->get_default_str();
  if (llvm::none_of(rule.values,
                    [&](StringRef pattern) { return matches(value, pattern); }))
    throw CLI::ValidationError(name + " is for " + rule.other.str() + " " +
                               list(rule.values) +
                               (orOther ? " or " + rule.orOther.str() : "") +
                               ", and has no effect on " + value);
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

/// Arguments that accept `-` for stdin or stdout: the command, then the
/// argument.
static constexpr StringLiteral kStreams[] = {
    "compile --output", "export --output", "report --output", "train --output",
    "train --metrics",  "check model",     "compile model",   "eval model",
    "explain model",    "export model",    "inspect file",    "profile model",
    "run model",        "train model",
};

static bool isStream(const CLI::Option *option) {
  return option && option->count() > 0 && option->results().back() == "-";
}

static void checkStreams(const CLI::App &command,
                         const Configuration &configuration) {
  if (isStream(command.get_option_no_throw("--config")) &&
      isStream(command.get_option_no_throw("model")))
    throw CLI::ValidationError("--config and the model cannot both be stdin");
  for (const CLI::Option *option : command.get_options()) {
    const Argument argument = describeArgument(*option);
    const std::string flag =
        argument.flags.empty() ? argument.name : argument.flags.back();
    if (!argument.isPath || flag == "--config" ||
        llvm::is_contained(kStreams, command.get_name() + " " + flag))
      continue;
    for (StringRef value : option->results())
      if (value == "-" || value.ends_with("=-") || value.ends_with("=@-"))
        throw CLI::ValidationError(nameOf(*option, configuration) + " " +
                                   value.str() +
                                   ": this flag takes no stream; name a file, "
                                   "such as ./-");
  }
}

// Refuses empty names of files. For example, -o "$OUT" gives an empty name if
// OUT is not set, and the result would be lost.
static void checkEmptyNames(const CLI::App &command,
                            const Configuration &configuration) {
  for (const CLI::Option *option : command.get_options()) {
    const Argument argument = describeArgument(*option);
    if ((argument.isPath || argument.isCache) && !argument.flags.empty() &&
        llvm::is_contained(option->results(), ""))
      throw CLI::ValidationError(nameOf(*option, configuration) +
                                 ": expected a name of a file or folder, "
                                 "found an empty one; to name none, leave the "
                                 "flag out");
  }
}

// Refuses --max-skipped if there is no loss scale: training skips a step only
// if scaled gradients overflow.
static void checkMaxSkipped(const CLI::App &command,
                            const Configuration &configuration) {
  const CLI::Option *flag = findFlag(command, "--max-skipped");
  const CLI::Option *loss = findFlag(command, "--loss");
  const CLI::Option *scale = findFlag(command, "--loss-scale");
  const CLI::Option *precision = findFlag(command, "--precision");
  // Without --loss, the model is a training graph or an artifact, which may
  // have a loss scale.
  if (!flag || flag->count() == 0 || !loss || loss->count() == 0)
    return;
  const bool isScaled = scale->count() > 0
                            ? scale->results().back() != "none"
                            : precision->as<std::string>() == "16-mixed";
  if (!isScaled)
    throw CLI::ValidationError(
        nameOf(*flag, configuration) +
        " limits the steps that a loss scale skips, and has no effect without "
        "one; --precision 16-mixed and --loss-scale set one");
}

//===----------------------------------------------------------------------===//
// Artifacts
//===----------------------------------------------------------------------===//

// Refuses compile flags for an artifact, which is compiled already, and
// --kernel-cache, since nothing is compiled. mpc profile keeps the machine's
// roof in the cache.
static void checkArtifactFlags(const CLI::App &command, const std::string &file,
                               const Configuration &configuration) {
  std::vector<std::string> given;
  for (const CLI::Option *option : command.get_options()) {
    // --weights is a compile flag, but mpc eval can also load weights into an
    // artifact.
    const bool isReplaced =
        command.get_name() == "eval" && option->check_name("--weights");
    if (option->get_group() == kCompileGroup && option->count() > 0 &&
        !isReplaced)
      given.push_back(nameOf(*option, configuration));
  }
  if (!given.empty())
    throw CLI::ValidationError(
        file + ": an artifact is compiled already; leave out " +
        llvm::join(given, ", ") + ", or compile the model again");
  const CLI::Option *cache = findFlag(command, "--kernel-cache");
  if (cache && cache->count() > 0 && command.get_name() != "profile" &&
      configuration.sourceOf(*cache).empty())
    throw CLI::ValidationError("--kernel-cache is for models, and has no "
                               "effect on an artifact");
}

// Refuses an untrusted artifact, before any other file is read. Refuses --trust
// for a model, on which it has no effect.
static void checkTrust(const CLI::App &command, const std::string &file,
                       bool isCompiled) {
  const CLI::Option *flag = findFlag(command, "--trust");
  if (!flag)
    return;
  const bool isTrusted = flag->count() > 0;
  if (!isCompiled && isTrusted && (file == "-" || llvm::sys::fs::exists(file)))
    throw CLI::ValidationError("--trust is for artifacts, and has no effect on "
                               "a model");
  if (!isCompiled)
    return;
  llvm::Expected<int> opened = openArtifact(file, isTrusted);
  if (opened) {
    close(*opened);
    return;
  }
  // Report only missing trust here. If the file cannot be opened, loading
  // reports the error.
  onnx_frontend::Findings found =
      onnx_frontend::takeFindings(opened.takeError());
  if (found.exitCode == static_cast<int>(ExitCode::Usage))
    throw CLI::ValidationError(found.messages.front());
}

//===----------------------------------------------------------------------===//
// Evaluations
//===----------------------------------------------------------------------===//

// Refuses --as-exported in mpc eval, which always evaluates in inference mode.
// In mixed precision, the flag is accepted, because the mode of layers
// influences types.
static void checkEvaluation(const CLI::App &command,
                            const Configuration &configuration) {
  const CLI::Option *exported = findFlag(command, "--as-exported");
  const CLI::Option *precision = findFlag(command, "--precision");
  if (command.get_name() != "eval" || exported->count() == 0 ||
      !configuration.sourceOf(*exported).empty() ||
      StringRef(precision->as<std::string>()).ends_with("-mixed"))
    return;
  throw CLI::ValidationError(
      "--as-exported has no effect on mpc eval, which always uses evaluation "
      "mode; mpc run --as-exported runs a model in the mode it was exported "
      "in");
}

//===----------------------------------------------------------------------===//
// Policies
//===----------------------------------------------------------------------===//

// Refuses other flags beside --print-policy, which reads no model: only
// --policy affects the output. Values from the environment or a file are
// accepted, since they may be for other commands.
static void checkPrintPolicy(const CLI::App &command,
                             const Configuration &configuration) {
  const CLI::Option *printed = findFlag(command, "--print-policy");
  if (!printed || printed->count() == 0)
    return;
  std::vector<std::string> idle;
  for (const CLI::Option *option : command.get_options()) {
    const bool isMeant = option == printed || option->check_name("--policy") ||
                         option->check_name("--config");
    if (!isMeant && option->count() > 0 &&
        configuration.sourceOf(*option).empty())
      idle.push_back(option->check_name("model")
                         ? "MODEL"
                         : nameOf(*option, configuration));
  }
  if (!idle.empty())
    throw CLI::ValidationError("--print-policy",
                               llvm::join(idle, ", ") +
                                   ": has no effect on a policy; leave it out");
}

//===----------------------------------------------------------------------===//
// All checks of a command
//===----------------------------------------------------------------------===//

void mpc::tools::checkEffects(const CLI::App &command,
                              const Configuration &configuration) {
  checkStreams(command, configuration);
  checkEmptyNames(command, configuration);
  checkPrintPolicy(command, configuration);
  checkEvaluation(command, configuration);
  const CLI::Option *model = command.get_option_no_throw("model");
  const std::string file =
      model && model->count() > 0 ? model->results().back() : "";
  const bool isCompiled = isArtifact(file);
  if (isCompiled)
    checkArtifactFlags(command, file, configuration);
  checkTrust(command, file, isCompiled);
  for (const Rule &rule : getRules())
    check(rule, command, configuration);
  checkMaxSkipped(command, configuration);
}

//===----------------------------------------------------------------------===//
// Flags that depend on the model
//===----------------------------------------------------------------------===//

static llvm::Error makeUsage(const llvm::Twine &message) {
  return onnx_frontend::makeError(onnx_frontend::ErrorKind::Usage, message);
}

/// Flags that have an effect only if mpc adds the optimizer.
static constexpr StringRef kOptimizerFlags[] = {"--optimizer",
                                                "--momentum",
                                                "--beta1",
                                                "--beta2",
                                                "--alpha",
                                                "--centered",
                                                "--eps",
                                                "--ns-steps",
                                                "--no-nesterov",
                                                "--adjust-lr-fn",
                                                "--muon",
                                                "--muon-filters",
                                                "--adamw-lr-scale",
                                                "--train",
                                                "--freeze",
                                                "--weight-decay",
                                                "--no-decay",
                                                "--lr-scale",
                                                "--gradient-clip-val",
                                                "--data-parallel",
                                                "--sync-batch-norm",
                                                "--shard-optimizer",
                                                "--ema"};
/// Other flags that have an effect only if the model is trained.
static constexpr StringRef kTrainingFlags[] = {
    "--accumulate-grad-batches", "--accumulate-reduction", "--running-variance",
    "--loss-scale"};

// Returns the first of `flags` that the user gave; empty if none was given.
static std::string findGiven(const CompileOptions &options,
                             llvm::ArrayRef<StringRef> flags) {
  for (const std::string &given : options.given())
    if (llvm::is_contained(flags, given))
      return given;
  return "";
}

// Refuses flags for settings that the chosen optimizer does not have.
static llvm::Error checkOptimizerFlags(const CompileOptions &options) {
  StringRef optimizer = stringify(options.pipeline.recipe.optimizer.kind);
  for (const Rule &rule : getRules())
    if (rule.other == "--optimizer" &&
        !hasSetting(optimizer, rule.flag.drop_front(2)) &&
        !findGiven(options, {rule.flag}).empty())
      return makeUsage(rule.flag + " is for --optimizer " + list(rule.values) +
                       ", and has no effect on " + optimizer);
  return llvm::Error::success();
}

llvm::Error mpc::tools::checkTrainingFlags(const CompileOptions &options,
                                           mlir::ModuleOp module,
                                           bool addsOptimizer) {
  const bool isForward = module.lookupSymbol(kForwardFunction) != nullptr;
  if (!isForward && options.pipeline.recipe.losses.empty() &&
      !options.pipeline.recipe.targets.empty())
    return makeUsage("--target-array: the labels of a training graph are "
                     "inputs, and the data has them under the names of these "
                     "inputs; leave the flag out");
  if (addsOptimizer)
    return checkOptimizerFlags(options);
  // Without a loss, a forward model is only run, so no training flag has an
  // effect.
  std::string given = findGiven(options, kOptimizerFlags);
  if (isForward) {
    if (given.empty())
      given = findGiven(options, kTrainingFlags);
    if (given.empty() && !options.leavesOutLabels &&
        !options.pipeline.recipe.targets.empty())
      given = "--target-array";
    return given.empty()
               ? llvm::Error::success()
               : makeUsage(given +
                           " is for training, and has no effect "
                           "without --loss" +
                           ", such as " +
                           suggestLoss(*describeModule(module).function(
                               kForwardFunction)));
  }
  // A training graph determines how it trains. With ONNX Runtime's artifacts,
  // mpc can still choose how many batches make a step.
  const bool isArtifacts = module.lookupSymbol(kAccumulateFunction) != nullptr;
  if (given.empty() && !isArtifacts)
    given = findGiven(options, {"--accumulate-grad-batches"});
  if (isArtifacts && options.asExported)
    return makeUsage("--as-exported has no effect on ONNX Runtime's training "
                     "artifacts, whose graphs fix the mode; leave the flag "
                     "out");
  if (given.empty())
    return llvm::Error::success();
  if (isArtifacts && !module.lookupSymbol(kUpdateFunction))
    return makeUsage(given +
                     ": the training graph adds up gradients for an optimizer "
                     "graph, which is missing; name the optimizer graph with "
                     "--optimizer-model FILE instead of this flag, or train "
                     "the model that the graph was made from, with --loss");
  if (isArtifacts)
    return makeUsage(given + " has no effect: ONNX Runtime's training "
                             "artifacts have an optimizer of their own; leave "
                             "the flag out");
  return makeUsage(given +
                   " has no effect: the model is a training graph with an "
                   "optimizer of its own; leave the flag out, or name the "
                   "model's loss with --loss output:NAME to use mpc's "
                   "optimizer");
}

void mpc::tools::chooseOptimizer(const CompileOptions &options,
                                 Recipe &recipe) {
  OptimizerSettings &settings = recipe.optimizer;
  if (settings.kind == OptimizerKind::SGD && settings.momentum.value_or(0) != 0)
    settings.kind = OptimizerKind::Momentum;
}

llvm::Error mpc::tools::checkTargetFlags(const CompileOptions &options) {
  const std::string given = findGiven(options, {"--tf32", "--attention"});
  if (given.empty())
    return llvm::Error::success();
  auto target = TargetInfo::get(options.pipeline.target);
  if (!target)
    return makeUsage(llvm::toString(target.takeError()));
  return target->isGPU() ? llvm::Error::success()
                         : makeUsage(given +
                                     " is for GPUs, and has no effect "
                                     "on target " +
                                     target->getName());
}
