// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/flags/OtherNames.h"

#include "compiler/Support/NearestNames.h"
#include "passes/Differentiation/LossSpec.h"
#include "runtime/train/evaluate/EvalMetrics.h"
#include "tools/mpc/flags/Arguments.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <CLI/CLI.hpp>

using namespace mpc;
using namespace mpc::tools;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

namespace {
/// A flag of mpc, and its names in other tools, separated by spaces. `value` is
/// the value to suggest with the flag; empty to suggest the flag alone.
struct OtherFlag {
  StringRef names;
  StringRef flag;
  StringRef value;
};

/// Names of settings in other tools for which mpc needs no flag, and the
/// reason.
struct NoFlag {
  StringRef names;
  StringRef reason;
};

/// A value of the flag `flag`, and its names in other tools.
struct OtherValue {
  StringRef flag;
  StringRef names;
  StringRef value;
};
} // namespace

/// Commands in other tools, and the corresponding commands of mpc.
static constexpr std::pair<StringRef, StringRef> kOtherCommands[] = {
    {"fit finetune fine-tune learn", "train"},
    {"evaluate test validate val score", "eval"},
    {"predict infer inference forward", "run"},
    {"summary summarize info show ls", "inspect"},
    {"build convert", "compile"},
    {"save to-onnx dump", "export"},
    {"plot chart tensorboard dashboard", "report"},
    {"lint verify validate-model", "check"},
    {"profiler bench benchmark time trace", "profile"},
    {"env environment diagnose collect-env", "doctor"},
    {"version", "--version"},
};

/// The rows are in this order: optimizers, schedules, the length of a run,
/// data, losses and metrics, types and devices, weights, output. If a name is
/// in several rows, the first row whose flag the command has applies.
static constexpr OtherFlag kOtherFlags[] = {
    {"learning-rate learningrate base-lr", "lr", ""},
    {"opt optim optimiser solver", "optimizer", ""},
    {"rho smoothing-constant", "alpha", ""},
    {"epsilon adam-epsilon", "eps", ""},
    {"betas adam-beta1 beta-1", "beta1", ""},
    {"adam-beta2 beta-2", "beta2", ""},
    {"wd l2 decay weight-decay-rate", "weight-decay", ""},
    {"nesterov", "optimizer", "nesterov"},
    {"layer-decay lr-mult lr-multiplier param-groups", "lr-scale", ""},
    {"clip clip-grad grad-clip gradient-clip gradient-clipping clip-norm "
     "clipnorm global-clipnorm max-norm max-grad-norm clip-grad-norm "
     "gradient-clip-norm",
     "gradient-clip-val", ""},
    {"accumulate accumulation-steps grad-accum grad-accum-steps accum-steps "
     "gradient-accumulation gradient-accumulation-steps accumulate-steps",
     "accumulate-grad-batches", ""},
    {"sync-bn syncbn sync-batchnorm convert-sync-batchnorm", "sync-batch-norm",
     ""},
    {"ema-decay model-ema use-ema ema-momentum", "ema", ""},
    {"scheduler sched lr-schedule lr-policy lr-scheduler-type schedule",
     "lr-scheduler", ""},
    {"warmup warmup-iters num-warmup-steps lr-warmup-steps", "warmup-steps",
     ""},
    {"eta-min lr-min final-lr end-lr", "min-lr", ""},
    {"max-epochs num-epochs n-epochs nb-epoch epoch e num-train-epochs "
     "train-epochs",
     "epochs", ""},
    {"steps num-steps max-iters max-iter iterations iters num-iters "
     "train-steps",
     "max-steps", ""},
    {"time-limit max-hours max-duration timeout", "max-time", ""},
    {"patience early-stop early-stopping-patience monitor", "early-stopping",
     "METRIC:PATIENCE"},
    {"save-best save-best-only best-metric metric-for-best-model "
     "load-best-model-at-end",
     "best", "METRIC"},
    {"batch bs b batchsize train-batch-size eval-batch-size mini-batch-size "
     "per-device-train-batch-size",
     "batch-size", ""},
    {"dataset train-data training-data data-dir data-path train-dir "
     "train-file root input-data test-data",
     "data", ""},
    {"val valid validation valid-data validation-data eval-data dev-data "
     "validation-file val-dir val-file",
     "val-data", ""},
    {"validation-split valid-split val-size val-fraction "
     "validation-fraction test-size",
     "val-split", ""},
    {"label labels label-name label-column target-column target-name targets "
     "y",
     "target-array", ""},
    {"input-layout-format data-format image-data-format", "input-layout", ""},
    {"mean std normalise rescale input-mean", "normalize", "MEAN:STD"},
    {"aug augmentation augmentations transform transforms hflip random-flip",
     "augment", ""},
    {"drop-last", "last-batch", "drop"},
    {"random-seed random-state manual-seed", "seed", ""},
    {"inputs x feed", "input", ""},
    {"image-size img-size imgsz input-shape input-size shapes", "shape",
     "NAME=SHAPE"},
    {"criterion loss-fn loss-function objective", "loss", ""},
    {"smoothing", "label-smoothing", ""},
    {"weight class-weight loss-weights", "class-weights", ""},
    {"eval-metric eval-metrics", "metric", ""},
    {"amp use-amp autocast fp16 float16 half mixed-precision", "precision",
     "16-mixed"},
    {"bf16 bfloat16 use-bf16", "precision", "bf16-mixed"},
    {"fp32 float32", "precision", "32-true"},
    {"fp64 float64 double", "precision", "64-true"},
    {"dtype", "precision", ""},
    {"gpu gpus cuda use-gpu use-cuda accelerator", "device", "cuda"},
    {"cpu no-cuda", "device", "cpu"},
    {"workers num-workers n-jobs jobs j num-threads nthreads n-threads",
     "threads", ""},
    {"pretrained init init-weights load load-weights weights-file state-dict "
     "finetune",
     "weights", ""},
    {"frozen freeze-layers freeze-backbone", "freeze", "REGEX"},
    {"trainable unfreeze requires-grad train-layers lora", "train", "REGEX"},
    {"out out-file output-file output-model output-path save save-path "
     "save-model model-out export",
     "output", ""},
    {"checkpoint ckpt ckpt-dir ckpt-path save-dir checkpoints checkpoint-path "
     "output-dir default-root-dir",
     "checkpoint-dir", ""},
    {"checkpoint-dir ckpt ckpt-dir ckpt-path checkpoints checkpoint-path "
     "resume",
     "checkpoint", ""},
    {"save-every save-steps save-interval checkpoint-interval "
     "every-n-train-steps",
     "checkpoint-every", ""},
    {"save-total-limit save-top-k max-to-keep", "keep-checkpoints", ""},
    {"resume-from resume-from-checkpoint resume-training continue restore",
     "resume", ""},
    {"eval-every eval-steps eval-interval val-interval val-check-interval "
     "validate-every",
     "val-every", ""},
    {"log-file logfile csv-log history", "metrics", ""},
    {"log-interval log-steps logging-steps log-every-n-steps print-freq "
     "print-every",
     "log-every", "SECONDS"},
    {"tb logdir log-dir tensorboard-dir tb-dir summary-dir", "tensorboard",
     "FOLDER"},
    {"overwrite", "overwrite-metrics", ""},
    {"json as-json output-format", "format", ""},
    {"silent no-progress no-progress-bar", "quiet", ""},
    {"debug verbosity", "verbose", ""},
};

static constexpr NoFlag kNoFlags[] = {
    {"shuffle", "samples are shuffled unless --no-shuffle is given"},
    {"pin-memory persistent-workers prefetch prefetch-factor non-blocking",
     "not needed: images are decoded while steps run"},
    {"compile jit torch-compile jit-compile",
     "every model is compiled; leave it out"},
    {"dropout drop-rate", "the model says how much its Dropout drops"},
    {"profile profiler profiling",
     "mpc profile measures the kernels of a step; mpc train has --trace FILE"},
    {"ddp distributed strategy devices num-devices nodes num-nodes nproc "
     "nproc-per-node num-processes world-size",
     "a launcher starts several processes: mpirun -n 2 mpc train ..."},
    {"wandb use-wandb wandb-project mlflow report-to logger",
     "--metrics FILE writes a JSON object a line, --tensorboard FOLDER event "
     "files"},
    {"gradient-checkpointing activation-checkpointing checkpointing remat",
     "cheap values are computed again unless --no-recompute is given; a "
     "smaller batch with --accumulate-grad-batches needs less memory"},
    {"find-lr lr-find lr-finder auto-lr-find",
     "nothing searches for a rate; train a few steps with each --lr, and "
     "compare with mpc report"},
    {"amsgrad", "AMSGrad is not supported; use --optimizer adam"},
    {"model m model-path onnx",
     "the model needs no flag: mpc COMMAND model.onnx"},
};

/// Values of flags. Names are in lower case, without dashes and underscores.
static constexpr OtherValue kOtherValues[] = {
    {"optimizer", "sgdm sgdmomentum", "momentum"},
    {"optimizer", "nag", "nesterov"},
    {"precision", "fp16 float16 f16 half amp mixed mixedfloat16 fp16mixed",
     "16-mixed"},
    {"precision", "bfloat16 mixedbfloat16", "bf16-mixed"},
    {"precision", "fp32 float32 f32 float full tf32", "32-true"},
    {"precision", "fp64 float64 f64 double", "64-true"},
    {"device", "gpu nvidia cuda0", "cuda"},
    {"lr-scheduler", "cosineannealing cosineannealinglr cosinedecay coslr",
     "cosine"},
    {"lr-scheduler", "linearlr polynomial poly", "linear"},
    {"lr-scheduler", "none constantlr fixed", "constant"},
    {"lr-scheduler", "step steplr multistep multisteplr", "step:SIZE"},
    {"lr-scheduler", "exponential exponentiallr exponentialdecay",
     "step:1:GAMMA"},
    {"lr-scheduler", "onecycle onecyclelr", "one-cycle"},
    {"lr-scheduler", "reducelronplateau reduceonplateau", "plateau"},
    {"loss",
     "ce crossentropyloss categoricalcrossentropy softmaxcrossentropyloss "
     "sparsecategoricalcrossentropy crossentropywithlogits "
     "softmaxcrossentropywithlogits softmax",
     "cross_entropy"},
    {"loss", "nllloss negativeloglikelihood", "nll"},
    {"loss", "mseloss l2 l2loss meansquarederror squarederror", "mse"},
    {"loss", "l1loss mae maeloss meanabsoluteerror", "l1"},
    {"loss", "smoothl1loss", "smooth_l1"},
    {"loss", "huberloss", "huber"},
    {"loss", "bceloss binarycrossentropy logloss", "bce"},
    {"loss",
     "bcewithlogitsloss binarycrossentropywithlogits sigmoidcrossentropy "
     "sigmoidcrossentropywithlogits",
     "bce_with_logits"},
    {"loss", "kl kld kldivloss kldivergence kullbackleiblerdivergence",
     "kl_div"},
    {"loss", "focalloss categoricalfocalcrossentropy categoricalfocal",
     "focal"},
    {"loss", "sigmoidfocalloss binaryfocal binaryfocalcrossentropy",
     "sigmoid_focal"},
    {"loss", "diceloss softdice softdiceloss generalizeddice", "dice"},
    {"loss", "binarydice binarydiceloss", "sigmoid_dice"},
    {"metric", "acc binaryaccuracy categoricalaccuracy top1", "accuracy"},
    {"metric", "top5accuracy top5acc acc5", "top5"},
    {"metric", "f1score macrof1 f1macro", "f1"},
    {"metric", "miou meaniou jaccard jaccardindex", "iou"},
    {"metric", "dice dicescore", "f1"},
    {"metric", "matthews matthewscorrcoef matthewscorrelation", "mcc"},
    {"metric", "balancedaccuracyscore balancedacc bacc", "balanced_accuracy"},
    {"metric", "ppl", "perplexity"},
    {"metric", "auroc rocauc aucroc rocaucscore binaryauroc", "auc"},
    {"metric", "meanabsoluteerror l1", "mae"},
    {"metric", "mse meansquarederror rootmeansquarederror", "rmse"},
    {"metric", "r2score rsquared", "r2"},
};

//===----------------------------------------------------------------------===//
// Flags
//===----------------------------------------------------------------------===//

static bool isAmong(StringRef name, StringRef names) {
  llvm::SmallVector<StringRef> words;
  names.split(words, ' ');
  return llvm::is_contained(words, name);
}

static bool hasFlag(const CLI::App &command, StringRef name) {
  return command.get_option_no_throw("--" + name.str()) != nullptr;
}

// Spells a word like mpc's flags: learning_rate becomes learning-rate.
static std::string asFlag(StringRef word) {
  std::string name = word.lower();
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

static const OtherFlag *findOther(const CLI::App &command, StringRef name) {
  const auto *other = llvm::find_if(kOtherFlags, [&](const OtherFlag &entry) {
    return isAmong(name, entry.names) && hasFlag(command, entry.flag);
  });
  return other == std::end(kOtherFlags) ? nullptr : other;
}

std::string mpc::tools::findMeantFlag(const CLI::App &command, StringRef word) {
  const std::string name = asFlag(word);
  if (hasFlag(command, name))
    return name;
  if (const OtherFlag *other = findOther(command, name))
    return other->flag.str();
  return findNearestName(name, longNamesOf(command));
}

// If one or two commands have the flag `name`, returns words for a message,
// like "; mpc train has it". Empty otherwise.
static std::string nameOwners(const CLI::App &program, StringRef name) {
  std::vector<std::string> owners;
  for (const CLI::App *command : commandsOf(program))
    if (hasFlag(*command, name))
      owners.push_back("mpc " + command->get_name());
  if (owners.empty() || owners.size() > 2)
    return "";
  return "; " + llvm::join(owners, " and ") +
         (owners.size() == 1 ? " has it" : " have it");
}

std::string mpc::tools::findMeantCommand(StringRef word) {
  const std::string lower = word.lower();
  for (auto [names, command] : kOtherCommands)
    if (isAmong(lower, names))
      return command.str();
  return "";
}

std::string mpc::tools::adviseFlag(const CLI::App &program,
                                   const CLI::App &command, StringRef flag,
                                   StringRef value) {
  const std::string name = asFlag(flag.ltrim('-'));
  const OtherFlag *other =
      hasFlag(command, name) ? nullptr : findOther(command, name);
  if (other) {
    // The user's value says more than the flag: --mixed-precision=bf16.
    std::string meant;
    if (other->flag == "precision" && !value.empty())
      meant = findMeantValue(other->flag, value,
                             {"32-true", "16-mixed", "bf16-mixed", "64-true"});
    if (meant.empty())
      meant = other->value.str();
    return "; did you mean --" + other->flag.str() +
           (meant.empty() ? "" : " " + meant) + "?";
  }
  for (const NoFlag &entry : kNoFlags)
    if (isAmong(name, entry.names))
      return "; " + entry.reason.str();
  if (std::string owners = nameOwners(program, name); !owners.empty())
    return owners;
  const std::string meant = findMeantFlag(command, name);
  return meant.empty() ? "" : "; did you mean --" + meant + "?";
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static std::string bareOf(StringRef word) {
  std::string bare;
  for (char c : word)
    if (c != '-' && c != '_' && c != ' ')
      bare += llvm::toLower(c);
  return bare;
}

std::string mpc::tools::findMeantValue(StringRef flag, StringRef word,
                                       llvm::ArrayRef<std::string> values) {
  const std::string bare = bareOf(word);
  // First compare the words without case and dashes.
  for (const std::string &value : values)
    if (bareOf(value) == bare)
      return value;
  for (const OtherValue &other : kOtherValues)
    if (other.flag == flag && isAmong(bare, other.names))
      return other.value.str();
  // Accept the start of a value, like bf16 for bf16-mixed, which
  // findNearestName considers too different.
  std::string near = findNearestName(word.lower(), values);
  for (const std::string &value : values)
    if (near.empty() && word.size() > 1 &&
        StringRef(value).starts_with(word.lower()))
      near = value;
  return near;
}

// Returns NAME of a --loss like 0.5*NAME@OUTPUT. Empty for output:NAME,
// since the model itself computes this loss.
static StringRef lossName(StringRef text) {
  double factor;
  auto [number, behind] = text.split('*');
  if (!behind.empty() && !number.getAsDouble(factor))
    text = behind;
  return text.starts_with("output:") ? "" : text.split('@').first;
}

static const std::vector<std::string> &metricNames() {
  static const std::vector<std::string> names = {"accuracy",
                                                 "top5",
                                                 "f1",
                                                 "precision",
                                                 "recall",
                                                 "iou",
                                                 "balanced_accuracy",
                                                 "mcc",
                                                 "auc",
                                                 "perplexity",
                                                 "mae",
                                                 "rmse",
                                                 "r2"};
  return names;
}

// Returns the metric of mpc that a name in Lightning or Keras means, such as
// accuracy for val_acc.
static std::string findMeantFigure(StringRef word) {
  for (StringRef prefix : {"val_", "valid_", "eval_", "test_", "val/", "eval/"})
    word.consume_front(prefix);
  std::vector<std::string> names = metricNames();
  names.push_back("loss");
  return findMeantValue("metric", word, names);
}

// Throws CLI::ValidationError if `word` is not `meant`, the value of mpc with
// this meaning. `what` is the kind of value, for the message.
static void refuse(StringRef flag, StringRef what, StringRef word,
                   StringRef meant) {
  if (!meant.empty() && meant != word)
    throw CLI::ValidationError("--" + flag.str(),
                               "unknown " + what.str() + " '" + word.str() +
                                   "'; did you mean " + meant.str() + "?");
}

static std::vector<std::string> valuesOf(const CLI::App &command,
                                         StringRef flag) {
  const CLI::Option *option = command.get_option_no_throw("--" + flag.str());
  return option && option->count() > 0 ? option->results()
                                       : std::vector<std::string>();
}

static void checkMetrics(const CLI::App &command) {
  for (const std::string &list : valuesOf(command, "metric"))
    for (StringRef word : llvm::split(list, ','))
      if (!runtime::train::checkEvalMetric(word.str()).ok()) {
        auto [name, output] = word.split('@');
        refuse("metric", "metric", name,
               findMeantValue("metric", name, metricNames()));
      }
  for (const std::string &file : valuesOf(command, "metrics"))
    if (runtime::train::checkEvalMetric(file).ok() || file == "acc")
      throw CLI::ValidationError("--metrics",
                                 "names a file for the run's metrics; did you "
                                 "mean --metric " +
                                     findMeantFigure(file) + "?");
}

// Checks the name METRIC in --best METRIC and in --early-stopping
// METRIC:PATIENCE.
static void checkFigures(const CLI::App &command) {
  for (StringRef flag : {"best", "early-stopping"})
    for (const std::string &value : valuesOf(command, flag)) {
      StringRef word = value;
      if (!word.consume_front("min:"))
        word.consume_front("max:");
      if (flag == "early-stopping")
        word = word.rsplit(':').first;
      // Skip a number: parsing the flag reports a patience without a metric.
      const bool isNumber = llvm::all_of(word, llvm::isDigit);
      if (!isNumber && word != "loss" && !isLossName(word) &&
          !runtime::train::checkEvalMetric(word.str()).ok())
        refuse(flag, "metric", word.split('@').first,
               findMeantFigure(word.split('@').first));
    }
}

void mpc::tools::checkLossName(StringRef text) {
  const std::vector<std::string> names = getLossNames();
  const StringRef name = lossName(text);
  if (!name.empty() && !llvm::is_contained(names, name))
    refuse("loss", "loss", name, findMeantValue("loss", name, names));
}

void mpc::tools::checkOtherNames(const CLI::App &command) {
  for (const std::string &value : valuesOf(command, "lr-scheduler")) {
    const std::vector<std::string> names = {"constant",  "linear",  "cosine",
                                            "one-cycle", "plateau", "step"};
    const StringRef name = StringRef(value).split(':').first;
    // The word `step` alone is invalid too, since the schedule needs a size.
    if (!llvm::is_contained(names, name) || value == "step")
      refuse("lr-scheduler", "schedule", name,
             value == "step" ? "step:SIZE"
                             : findMeantValue("lr-scheduler", name, names));
  }
  for (const std::string &value : valuesOf(command, "device")) {
    const std::vector<std::string> names = {"cpu", "cuda", "auto"};
    if (!llvm::is_contained(names, StringRef(value).split(':').first))
      refuse("device", "device", value, findMeantValue("device", value, names));
  }
  checkMetrics(command);
  checkFigures(command);
}
