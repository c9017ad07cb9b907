// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/flags/Options.h"

#include "compiler/Target/TargetInfo.h"
#include "frontends/ONNX/Repair/Repair.h"
#include "passes/Differentiation/Adapters/LoRASpec.h"
#include "passes/Differentiation/LossSpec.h"
#include "tools/mpc/flags/OtherNames.h"
#include "tools/mpc/flags/Validators.h"

#include "llvm/ADT/StringRef.h"

#include <limits>

using namespace mpc;
using namespace mpc::tools;

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

template <typename Enum>
using Choices = std::vector<std::pair<std::string, Enum>>;

template <typename Enum>
static Choices<Enum> wordsOf() {
  Choices<Enum> choices;
  for (std::string_view word : Words<Enum>::list)
    choices.emplace_back(word, *symbolize<Enum>(word));
  return choices;
}

// Adds a flag whose value is one of the words in `choices`, and stores the
// enumerator of the word in `value`.
template <typename Enum, typename Value>
static CLI::Option *addChoice(CLI::App &command, const std::string &flag,
                              Value &value, const std::string &help,
                              const Choices<Enum> &choices) {
  std::vector<std::string> words;
  for (const auto &[word, choice] : choices)
    words.push_back(word);
  return command
      .add_option_function<std::string>(
          flag,
          [&value, choices](const std::string &given) {
            // One of the words matches: CLI::IsMember below has refused all
            // others.
            for (const auto &[word, choice] : choices)
              if (word == given)
                value = choice;
          },
          help)
      ->check(CLI::IsMember(words));
}

//===----------------------------------------------------------------------===//
// Flags
//===----------------------------------------------------------------------===//

static void addModelOptions(CLI::App &command, ModelOptions &options) {
  command
      .add_option("--shape", options.shapes,
                  "shape of an input, such as x=32x3x224x224 (repeatable)")
      ->allow_extra_args(false)
      ->type_name("NAME=SHAPE");
  command
      .add_option(
          "--batch-size", options.batchSize,
          "size of the inputs' first dimension; default: as exported, or, if "
          "the model leaves it open, 32 for train, check and explain")
      ->transform(wholeNumber(int64_t(1)));
  command
      .add_option("--batch-axis", options.batchAxes,
                  "batch axis of an input; default: the first; none: the "
                  "input is the same for every batch (repeatable)")
      ->allow_extra_args(false)
      ->type_name("NAME=AXIS");
  command
      .add_option("--weights", options.weights,
                  "parameter values that replace the model's, by name: "
                  "safetensors, npz or ONNX (repeatable)")
      ->allow_extra_args(false)
      ->type_name("FILE");
  command
      .add_option("--weights-prefix", options.weightsPrefixes,
                  "replace the prefix FROM of names in --weights by TO; "
                  "either may be empty: model.= drops model. (repeatable)")
      ->allow_extra_args(false)
      ->type_name("FROM=TO");
  command
      .add_option("--optimizer-model", options.optimizerModel,
                  "optimizer graph that goes with a training graph")
      ->type_name("FILE");
  addRepairOption(command, options.noRepair);
}

void mpc::tools::addRepairOption(CLI::App &command,
                                 std::vector<std::string> &names) {
  std::vector<std::string> known = {onnx_frontend::kAllRepairs.str()};
  for (const onnx_frontend::RepairInfo &info : onnx_frontend::getRepairs())
    known.push_back(info.name.str());
  command
      .add_option("--no-repair", names,
                  "leave what this repair would bring back as it is in the "
                  "file, or leave out this warning (repeatable)")
      ->allow_extra_args(false)
      ->check(CLI::IsMember(known))
      ->type_name("NAME");
}

// Adds --optimizer and the settings of the update rules.
static void addRuleOptions(CLI::App &command, Recipe &recipe) {
  OptimizerSettings &settings = recipe.optimizer;
  addChoice(command, "--optimizer", settings.kind, "update rule",
            wordsOf<OptimizerKind>())
      ->default_str(std::string(stringify(settings.kind)));
  // All optimizers share these flags. Effects.cpp refuses a setting that the
  // chosen optimizer does not have.
  command
      .add_option("--momentum", settings.momentum,
                  "momentum of the optimizers momentum and nesterov (default: "
                  "0.9) and muon (0.95); if given, also of sgd and rmsprop, "
                  "as in PyTorch")
      ->check(nonNegativeNumber());
  command
      .add_option("--beta1", settings.beta1,
                  "decay of the mean of gradients in adam, adamw, lamb and "
                  "lion")
      ->check(fraction())
      ->capture_default_str();
  command
      .add_option("--beta2", settings.beta2,
                  "decay of the mean of squared gradients in adam, adamw and "
                  "lamb (default: 0.999), of the mean of gradients in lion "
                  "(0.99)")
      ->check(fraction());
  command
      .add_option("--alpha", settings.alpha,
                  "decay of the mean of squared gradients in rmsprop")
      ->check(fraction())
      ->capture_default_str();
  command.add_flag("--centered", settings.centered,
                   "rmsprop: divide by the standard deviation of gradients, "
                   "not by their root mean square");
  command
      .add_option("--eps", settings.epsilon,
                  "default: the optimizer's in PyTorch")
      ->check(nonNegativeNumber());
}

// Adds the settings that only muon has.
static void addMuonOptions(CLI::App &command, OptimizerSettings &settings) {
  command
      .add_option("--muon", settings.muon,
                  "muon: the parameters that Muon trains, while AdamW trains "
                  "the others; default: matrices of hidden layers (repeatable)")
      ->allow_extra_args(false)
      ->type_name("REGEX");
  command.add_flag("--muon-filters", settings.muonFilters,
                   "muon: also train filters of convolutions by Muon, as "
                   "matrices with a row per output channel");
  command
      .add_option("--ns-steps", settings.nsSteps,
                  "muon: Newton-Schulz iterations per step")
      ->transform(wholeNumber(int64_t(1), int64_t(99)))
      ->capture_default_str();
  command.add_flag("--no-nesterov", settings.noNesterov,
                   "muon: plain momentum in place of Nesterov's");
  addChoice(command, "--adjust-lr-fn", settings.adjustLRFn,
            "muon: factor of the learning rate by the shape of a matrix; "
            "default: original",
            wordsOf<AdjustLRFn>());
  command
      .add_option("--adamw-lr-scale", settings.adamWLRScale,
                  "muon: factor of the learning rate of the parameters that "
                  "AdamW trains")
      ->check(nonNegativeNumber())
      ->capture_default_str();
}

static void addOptimizerOptions(CLI::App &command, Recipe &recipe) {
  addRuleOptions(command, recipe);
  addMuonOptions(command, recipe.optimizer);
  // These flags set weight decay and learning rate, which may differ by
  // parameter.
  command
      .add_option("--weight-decay", recipe.optimizer.weightDecay,
                  "default: the optimizer's in PyTorch")
      ->check(nonNegativeNumber());
  command
      .add_option("--no-decay", recipe.noDecay,
                  "exclude parameters from weight decay: bias, norm (scales "
                  "of normalizations), bias,norm, or all whose name matches; "
                  "default: none (repeatable)")
      ->allow_extra_args(false)
      ->type_name("REGEX");
  command
      .add_option("--lr-scale", recipe.lrScale,
                  "multiply the learning rate of parameters whose name "
                  "matches by FACTOR, such as ^backbone=0.1; the last match "
                  "counts (repeatable)")
      ->allow_extra_args(false)
      ->type_name("REGEX=FACTOR");
  command
      .add_option("--gradient-clip-val", recipe.gradientClipVal,
                  "clip the L2 norm of all gradients together to this value; "
                  "0: no limit")
      ->check(nonNegativeNumber());
  command
      .add_option("--ema", recipe.ema,
                  "average the weights over the steps with this decay, such "
                  "as 0.999; evaluations and --output use the averages; "
                  "default: no averages")
      ->check(numberThat([](double value) { return value > 0 && value < 1; },
                         "between 0 and 1"))
      ->type_name("DECAY");
}

// Parses the values of --loss. Throws CLI::ValidationError if a text is no
// loss.
static std::vector<LossSpec>
parseLosses(const std::vector<std::string> &texts) {
  std::vector<LossSpec> losses;
  for (const std::string &text : texts)
    checkLossName(text);
  for (const std::string &text : texts) {
    llvm::Expected<LossSpec> loss = parseLoss(text);
    if (!loss)
      throw CLI::ValidationError(llvm::toString(loss.takeError()));
    losses.push_back(std::move(*loss));
  }
  return losses;
}

static void addLossOptions(CLI::App &command, Recipe &recipe,
                           LossFiles &files) {
  command
      .add_option_function<std::vector<std::string>>(
          "--loss",
          [&recipe](const std::vector<std::string> &texts) {
            recipe.losses = parseLosses(texts);
          },
          listLosses() +
              " or output:NAME; @OUTPUT picks the model output (or "
              "the node) it reads, @OUTPUT:AXIS also the class axis; "
              "FACTOR* in front is its weight in the sum of all "
              "losses (repeatable)")
      ->allow_extra_args(false)
      ->type_name("LOSS");
  addChoice(command, "--reduction", recipe.reduction,
            "reduction of the loss over elements or labels; for kl_div, mean "
            "is PyTorch's batchmean; default: mean",
            wordsOf<Reduction>());
  command
      .add_option("--ignore-index", recipe.ignoreIndex,
                  "class label that losses and metrics ignore; default in mpc "
                  "train: -100 if the data has it")
      ->transform(wholeNumber(std::numeric_limits<int64_t>::min() + 1));
  command
      .add_option("--label-smoothing", recipe.labelSmoothing,
                  "share of each softmax_cross_entropy label to spread over "
                  "all classes; default: 0")
      ->check(fraction());
  command
      .add_option("--class-weights", files.classWeights,
                  "one weight per class, such as 1,1,2.5, or a file of "
                  "weights; NAME=FILE picks one of several arrays; balanced: "
                  "rare classes of the data get more, as in scikit-learn")
      ->type_name("NUMBERS|FILE");
  command
      .add_option("--pos-weight", files.posWeight,
                  "factor for positive targets of bce_with_logits: one "
                  "number, one per class, such as 2,3.5, or a file of factors")
      ->type_name("NUMBERS|FILE");
  command
      .add_option("--focal-gamma", recipe.focalGamma,
                  "exponent of focal and sigmoid_focal: how much less well "
                  "classified targets count; default: 2")
      ->check(nonNegativeNumber());
  command
      .add_option("--focal-alpha", recipe.focalAlpha,
                  "weight of the positive targets of sigmoid_focal; negative "
                  "ones have 1 - alpha; -1: no weights; default: 0.25")
      ->check(numberThat(
          [](double value) {
            return value == -1 || (value >= 0 && value <= 1);
          },
          "between 0 and 1, or -1"));
  command
      .add_option("--dice-smooth", recipe.diceSmooth,
                  "number added to numerator and denominator of dice and "
                  "sigmoid_dice; default: 1e-5")
      ->check(numberThat([](double value) { return value > 0; }, "above 0"));
  command.add_flag("--train-accuracy", recipe.trainAccuracy,
                   "also measure the accuracy of every training batch, before "
                   "its update; for losses of class labels");
}

static void addRecipeOptions(CLI::App &command, Recipe &recipe) {
  addOptimizerOptions(command, recipe);
  command
      .add_option_function<std::vector<std::string>>(
          "--lora",
          [&recipe](const std::vector<std::string> &texts) {
            for (const std::string &text : texts)
              if (llvm::Expected<LoRASpec> spec = parseLoRA(text); !spec)
                throw CLI::ValidationError(llvm::toString(spec.takeError()));
            recipe.lora = texts;
          },
          "train low-rank adapters instead of the weights, of this rank, "
          "scaled by ALPHA/RANK (default: 1), of all matmul and gemm layers "
          "but the last, or of layers and 1x1 convolutions whose weight's name "
          "matches (repeatable)")
      ->allow_extra_args(false)
      ->type_name("RANK[:ALPHA][@REGEX]");
  command
      .add_option("--accumulate-grad-batches", recipe.accumulateGradBatches,
                  "batches per optimizer step")
      ->transform(wholeNumber(int64_t(1), int64_t(1) << 30))
      ->capture_default_str();
  command.add_flag("--data-parallel", recipe.dataParallel,
                   "reduce the gradients over the ranks of a distributed run; "
                   "mpc train sets the flag if there are several ranks");
  command.add_flag("--sync-batch-norm", recipe.syncBatchNorm,
                   "normalize by the batches of all ranks, as PyTorch's "
                   "SyncBatchNorm; default: each rank by its own batch");
  command.add_flag("--shard-optimizer", recipe.shardOptimizer,
                   "divide the optimizer's state and work among the ranks of a "
                   "distributed run; sets --data-parallel");
  addChoice(command, "--accumulate-reduction", recipe.accumulateReduction,
            "of the gradients of batches and ranks; default: sum with "
            "--reduction sum and for ONNX Runtime artifacts, else mean",
            wordsOf<Reduction>());
  command
      .add_option("--train", recipe.train,
                  "train only parameters whose name matches (repeatable)")
      ->allow_extra_args(false)
      ->type_name("REGEX");
  command
      .add_option("--freeze", recipe.freeze,
                  "do not train parameters whose name matches (repeatable)")
      ->allow_extra_args(false)
      ->type_name("REGEX");
}

static void addModeOptions(CLI::App &command, CompileOptions &options) {
  command.add_flag("--as-exported", options.asExported,
                   "keep BatchNormalization and Dropout in the mode they were "
                   "exported in; default: training mode with a loss, else "
                   "evaluation mode");
  using onnx_frontend::RunningVariance;
  addChoice<RunningVariance>(
      command, "--running-variance", options.runningVariance,
      "batch variance that updates BatchNormalization's running variance; "
      "auto: "
      "unbiased (n/(n-1)) for models of PyTorch and Keras, else population, as "
      "in ONNX",
      {{"auto", RunningVariance::Auto},
       {"unbiased", RunningVariance::Unbiased},
       {"population", RunningVariance::Population}})
      ->default_str("auto");
}

static void addPrecisionOptions(CLI::App &command, PipelineOptions &pipeline) {
  amp::Request &options = pipeline.precision;
  command
      .add_option_function<std::string>(
          "--precision",
          [&pipeline](const std::string &word) {
            auto mode = amp::symbolizePrecisionMode(word);
            pipeline.precision.mode = mode.value_or(amp::PrecisionMode());
            pipeline.unsupportedMode = mode ? "" : word;
          },
          "precision mode")
      ->check(oneOf({"32-true", "16-mixed", "bf16-mixed", "64-true"},
                    // Accept these modes here, since a later check explains why
                    // mpc lacks each.
                    {"16-true", "bf16-true", "auto"}))
      ->default_str(amp::stringifyPrecisionMode(options.mode).str());
  command.add_option("--policy", options.policy, "precision rules, JSON")
      ->type_name("FILE");
  command
      .add_option("--keep-fp32", options.keepFP32,
                  "keep these nodes in fp32 (repeatable)")
      ->allow_extra_args(false)
      ->type_name("REGEX");
  command
      .add_option("--force-low", options.forceLow,
                  "compute these nodes in the low type, whatever the policy "
                  "says (repeatable)")
      ->allow_extra_args(false)
      ->type_name("REGEX");
  command
      .add_option_function<std::string>(
          "--loss-scale",
          [&options](const std::string &text) {
            auto scaling = amp::parseLossScaling(text);
            if (!scaling)
              throw CLI::ValidationError(llvm::toString(scaling.takeError()));
            options.lossScale = *scaling;
          },
          "dynamic, none or a number; default: dynamic for 16-mixed, none "
          "otherwise")
      ->type_name("SCALE");
}

static std::vector<std::string> findGiven(const CLI::App &command) {
  std::vector<std::string> given;
  for (const CLI::Option *option : command.get_options())
    if (option->get_group() == kCompileGroup && option->count() > 0)
      given.push_back("--" + option->get_lnames().front());
  return given;
}

// True for commands that run code, and therefore accept artifacts.
static bool takesArtifacts(const CLI::App &command) {
  const std::string &name = command.get_name();
  return name == "train" || name == "eval" || name == "run" ||
         name == "profile";
}

// Returns the help text of MODEL. `runs` is true if the command accepts
// artifacts.
static std::string describeModelArgument(bool runs) {
  return std::string("ONNX model, - for stdin, ") + (runs ? "" : "or ") +
         "a directory of ONNX Runtime training artifacts" +
         (runs ? ", or an artifact of mpc compile (.mpc)" : "");
}

void mpc::tools::addCompileOptions(CLI::App &command, CompileOptions &options) {
  const bool runs = takesArtifacts(command);
  command.add_option("model", options.model.model, describeModelArgument(runs))
      ->required()
      ->type_name("MODEL");
  // A file of flags cannot set --trust, since another user may have written the
  // file.
  if (runs)
    command
        .add_flag("--trust", options.isTrusted,
                  "run an artifact whatever its name, owner and permissions")
        ->configurable(false);
  command
      .add_option_function<std::vector<std::string>>(
          "--target-array",
          [&targets = options.pipeline.recipe.targets](
              const std::vector<std::string> &texts) {
            targets.clear();
            for (const std::string &text : texts)
              targets.push_back(parseTarget(text));
          },
          "name of the label array in the data; OUTPUT=NAME: for the loss of "
          "one output (repeatable); default: target")
      ->allow_extra_args(false)
      ->type_name("NAME");
  // Put the flags below under one heading of the help, which all commands
  // share.
  const std::string group = command.option_defaults()->get_group();
  command.option_defaults()->group(kCompileGroup);
  addModelOptions(command, options.model);
  addLossOptions(command, options.pipeline.recipe, options.lossFiles);
  addRecipeOptions(command, options.pipeline.recipe);
  addModeOptions(command, options);
  addPrecisionOptions(command, options.pipeline);
  std::vector<std::string> targets;
  for (llvm::StringRef name : TargetInfo::getNames())
    targets.push_back(name.str());
  command
      .add_option("--target", options.pipeline.target,
                  "CPU or GPU to compile for")
      ->check(CLI::IsMember(targets))
      ->capture_default_str();
  command
      .add_option(
          "--contractions", options.pipeline.contractions,
          "choose library or generated code for products and convolutions "
          "that both can do; library: with relu, which turns NaN into 0; "
          "bare: like table, but libraries fuse nothing")
      ->check(CLI::IsMember({"table", "library", "generated", "bare"}))
      ->capture_default_str();
  command
      .add_option("--attention", options.pipeline.attention,
                  "who computes attention in 16 bits on a GPU; auto: cuDNN "
                  "where it can, else products; library: cuDNN, or an error; "
                  "products: products and kernels")
      ->check(CLI::IsMember({"auto", "library", "products"}))
      ->capture_default_str();
  command.add_flag("--tf32", options.pipeline.precision.tf32,
                   "on a GPU, round operands of float32 products to tf32");
  // --no-recognize turns rewrites off, so that users can see the effect of
  // each.
  std::vector<std::string> recognized = {"all"};
  for (llvm::StringRef op : getRecognizedOps())
    recognized.push_back(op.str());
  command
      .add_option("--no-recognize", options.pipeline.unrecognized,
                  "do not replace the model's spelled-out form by this op "
                  "(repeatable)")
      ->allow_extra_args(false)
      ->check(CLI::IsMember(recognized));
  command.add_flag("!--no-recompute", options.pipeline.recompute,
                   "keep every value that another kernel reads, even if "
                   "recomputing is cheaper; the bits of results stay the "
                   "same, except for sums over rows of long attentions");
  // Flags added later have the command's own heading again.
  command.option_defaults()->group(group);
  options.given = [&command] { return findGiven(command); };
}

void mpc::tools::addKernelCacheOption(CLI::App &command,
                                      CompileOptions &options) {
  command
      .add_option("--kernel-cache", options.kernelCache,
                  "folder for compiled kernels, pruned to 512 MiB; auto: "
                  "$XDG_CACHE_HOME/mpc or ~/.cache/mpc; none: no cache")
      ->type_name("DIR")
      ->capture_default_str();
}
