// The training recipe of a module: losses, optimizer, and which parameters are
// trained.
//
// Each field of the recipe is a flag of `mpc`: a member with one line in
// `visitLossFields` or `visitOptimizerFields`. The line has the names of the
// field. The attribute `mpc.recipe`, the options of passes, and the record in
// artifacts are all generated from the line.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_RECIPE_RECIPE_H
#define MPC_COMPILER_DIALECT_MPC_RECIPE_RECIPE_H

#include "runtime/RecipeNames.h"

#include "mlir/IR/Attributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringRef.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// The attribute of a module that holds the recipe; getRecipe reads it.
inline constexpr llvm::StringLiteral kRecipeAttr = "mpc.recipe";

/// A loss as the user specifies it by --loss.
struct LossSpec {
  LossKind kind = LossKind::Output;
  /// The model output that the loss applies to, perhaps with :AXIS at the end;
  /// empty for the only output. Only the model tells if :AXIS belongs to the
  /// output's name.
  std::string output;
  double factor = 1; ///< of the loss in the sum of all losses

  bool operator==(const LossSpec &other) const {
    return kind == other.kind && output == other.output &&
           factor == other.factor;
  }
};

/// The name of the array that holds the targets of a loss.
struct TargetSpec {
  /// The output that the loss applies to, perhaps without the :AXIS of the
  /// loss. nullopt for all losses without an array of their own.
  std::optional<std::string> output;
  std::string array;

  bool operator==(const TargetSpec &other) const {
    return output == other.output && array == other.array;
  }
};

/// An optimizer's update rule and its hyperparameters.
struct OptimizerSettings {
  OptimizerKind kind = OptimizerKind::SGD;
  double beta1 = 0.9, alpha = 0.99;
  bool centered = false;
  /// nullopt for the default of this optimizer (Optimizers.cpp).
  std::optional<double> momentum, beta2, epsilon, weightDecay;
  /// The number of Newton-Schulz iterations of Muon.
  int64_t nsSteps = 5;
  bool noNesterov = false; ///< true for Muon with plain momentum
  /// nullopt means Original.
  std::optional<AdjustLRFn> adjustLRFn;
  /// Patterns of the parameters that Muon trains; empty for the matrices of
  /// hidden layers. AdamW trains all other parameters.
  std::vector<std::string> muon;
  /// True if Muon also trains filters of convolutions.
  bool muonFilters = false;
  /// The factor of the learning rate for the parameters that AdamW trains.
  double adamWLRScale = 1;
};

/// The losses, the optimizer, and the trained parameters. If there are no
/// losses, a forward model is compiled for inference only.
struct Recipe {
  /// The losses, which training adds up.
  std::vector<LossSpec> losses;
  /// nullopt means mean.
  std::optional<Reduction> reduction;
  /// Labels with this value do not count in the loss; nullopt if all labels
  /// count.
  std::optional<int64_t> ignoreIndex;
  std::optional<double> labelSmoothing;
  /// The weight of each class in the loss; empty for equal weights.
  std::vector<double> classWeights;
  /// Factors of positive targets in the loss: one for all classes, or one per
  /// class. Empty for no factors.
  std::vector<double> posWeight;
  /// The exponent of 1 - p in the focal losses; nullopt means 2.
  std::optional<double> focalGamma;
  /// The weight of positive targets in sigmoid_focal; negative targets have 1 -
  /// alpha. nullopt means 0.25; -1 means no weights.
  std::optional<double> focalAlpha;
  /// The number added to numerator and denominator of the dice losses; nullopt
  /// means 1e-5.
  std::optional<double> diceSmooth;
  /// True if a training step also returns which labels the model predicted
  /// correctly.
  bool trainAccuracy = false;
  std::vector<TargetSpec> targets;
  /// Maps a label array to the shape of one sample's labels, if the data
  /// determine the shape. The empty name stands for all other arrays.
  std::map<std::string, std::vector<int64_t>> labelShapes;

  /// Low-rank adapters, each RANK, RANK:ALPHA or either with @PATTERN
  /// (LoRASpec.h). If several match a weight, the last counts. Empty for no
  /// adapters.
  std::vector<std::string> lora;
  int64_t loraSeed = 0; ///< the seed of the adapters' initial values

  OptimizerSettings optimizer;
  int64_t accumulateGradBatches = 1;
  /// The reduction of gradients over micro-batches and ranks. nullopt means
  /// sum if the losses are sums, and for ONNX Runtime artifacts, else mean.
  std::optional<Reduction> accumulateReduction;
  std::optional<double> gradientClipVal;
  /// Decay of the moving averages of all parameters; nullopt for no averages.
  std::optional<double> ema;
  /// True if the gradients are reduced over the ranks of a distributed run.
  bool dataParallel = false;
  /// True if the statistics of BatchNormalization are also reduced over the
  /// ranks. Has no effect without dataParallel.
  bool syncBatchNorm = false;
  /// True if each rank updates only its share of the parameters, and holds only
  /// its share of the optimizer's state. Implies `dataParallel`.
  bool shardOptimizer = false;
  /// Regular expressions for names of parameters to train, and to freeze.
  std::vector<std::string> train, freeze;
  /// Parameters without weight decay: `bias`, `norm`, or a regular expression
  /// for names.
  std::vector<std::string> noDecay;
  /// PATTERN=FACTOR: multiplies the learning rate of parameters that match
  /// PATTERN.
  std::vector<std::string> lrScale;

  bool sumsLoss() const { return reduction == Reduction::Sum; }
  /// The reduction of gradients over micro-batches and ranks. With a sum of
  /// losses, several small batches train as one large batch.
  Reduction gradientReduction() const {
    return accumulateReduction.value_or(sumsLoss() ? Reduction::Sum
                                                   : Reduction::Mean);
  }
  /// True if labels have different weights in the mean of a loss.
  bool weighsLabels() const { return ignoreIndex || !classWeights.empty(); }
};

/// The names of one field of a recipe, and the help for its pass option.
struct RecipeField {
  llvm::StringLiteral flag; ///< the flag of `mpc`, without dashes
  llvm::StringLiteral help; ///< the help text of the pass option
  /// The name of the pass option; empty if equal to the flag.
  llvm::StringLiteral passOption = "";

  llvm::StringRef option() const {
    return passOption.empty() ? flag : passOption;
  }
  /// Returns the name of the field in the IR and in artifacts, for example
  /// gradient_clip_val.
  std::string word() const;
};

/// Calls `visit` for each field that the pass `mpc-add-loss` reads, with the
/// names of the field and the member of each given recipe.
template <typename Visitor, typename... Recipes>
void visitLossFields(Visitor &&visit, Recipes &...of) {
  using Field = RecipeField;
  visit(Field{"loss", "losses to add up, each with an optional FACTOR*: the "
                      "name of a loss with an optional @OUTPUT, or "
                      "output:NAME"},
        of.losses...);
  visit(Field{"reduction", "mean or sum over all elements or labels; the mean "
                           "of kl_div is that of the samples' sums; default: "
                           "mean"},
        of.reduction...);
  visit(Field{"ignore-index", "the label that counts nowhere"},
        of.ignoreIndex...);
  visit(Field{"label-smoothing",
              "the part of each label that all classes share, in [0, 1)"},
        of.labelSmoothing...);
  visit(Field{"class-weights", "how much labels count, one weight of each "
                               "class"},
        of.classWeights...);
  visit(Field{"pos-weight", "factor of positive targets of bce_with_logits: "
                            "one, or one of each class"},
        of.posWeight...);
  visit(Field{"focal-gamma", "exponent of focal and sigmoid_focal; default: 2"},
        of.focalGamma...);
  visit(Field{"focal-alpha", "weight of positive targets of sigmoid_focal; -1: "
                             "no weights; default: 0.25"},
        of.focalAlpha...);
  visit(Field{"dice-smooth", "number added to numerator and denominator of "
                             "dice and sigmoid_dice; default: 1e-5"},
        of.diceSmooth...);
  visit(Field{"train-accuracy",
              "the step says, too, which labels the scores got right"},
        of.trainAccuracy...);
  visit(Field{"target-array", "the name of the label input, target by default; "
                              "OUTPUT=NAME: that of the loss of an output"},
        of.targets...);
  visit(Field{"label-shape", "shape of one sample's labels, such as 7x5 or "
                             "scalar, of all label inputs, or NAME=SHAPE of "
                             "one; none: not known"},
        of.labelShapes...);
}

/// Like visitLossFields, for the fields that `mpc-add-adapters` reads.
template <typename Visitor, typename... Recipes>
void visitAdapterFields(Visitor &&visit, Recipes &...of) {
  using Field = RecipeField;
  visit(Field{"lora", "low-rank adapters: RANK, RANK:ALPHA, or either with "
                      "@PATTERN"},
        of.lora...);
  visit(Field{"lora-seed", "seed of the adapters' initial values"},
        of.loraSeed...);
}

/// Like visitLossFields, for the fields that `mpc-add-optimizer` reads.
template <typename Visitor, typename... Recipes>
void visitOptimizerFields(Visitor &&visit, Recipes &...of) {
  using Field = RecipeField;
  visit(Field{"optimizer", "sgd, momentum, nesterov, adam, adamw, adagrad, "
                           "rmsprop, lamb, lion or muon"},
        of.optimizer.kind...);
  visit(Field{"momentum", "for momentum, nesterov, rmsprop, muon"},
        of.optimizer.momentum...);
  visit(Field{"beta1", "for adam, adamw, lamb, lion, muon"},
        of.optimizer.beta1...);
  visit(Field{"beta2", "for adam, adamw, lamb, lion, muon"},
        of.optimizer.beta2...);
  visit(Field{"alpha", "for rmsprop"}, of.optimizer.alpha...);
  visit(Field{"centered", "for rmsprop"}, of.optimizer.centered...);
  visit(Field{"eps", "default: the optimizer's in PyTorch", "epsilon"},
        of.optimizer.epsilon...);
  visit(Field{"weight-decay", "default: the optimizer's in PyTorch"},
        of.optimizer.weightDecay...);
  visit(Field{"ns-steps", "for muon: Newton-Schulz iterations"},
        of.optimizer.nsSteps...);
  visit(Field{"no-nesterov", "for muon: plain momentum"},
        of.optimizer.noNesterov...);
  visit(Field{"adjust-lr-fn", "for muon: original, match_rms_adamw or "
                              "spectral_unclamped"},
        of.optimizer.adjustLRFn...);
  visit(Field{"muon", "for muon: patterns of the parameters that it trains"},
        of.optimizer.muon...);
  visit(Field{"muon-filters", "for muon: also filters of convolutions"},
        of.optimizer.muonFilters...);
  visit(Field{"adamw-lr-scale", "for muon: factor of the learning rate of the "
                                "other parameters"},
        of.optimizer.adamWLRScale...);
  visit(Field{"accumulate-grad-batches", "micro-batches per update",
              "accumulate"},
        of.accumulateGradBatches...);
  visit(Field{"accumulate-reduction",
              "mean or sum of the gradients of micro-batches and ranks"},
        of.accumulateReduction...);
  visit(Field{"gradient-clip-val",
              "bound of the gradients' common L2 norm; 0: none", "clip-norm"},
        of.gradientClipVal...);
  visit(Field{"ema", "decay of the average of each parameter; 0: no averages"},
        of.ema...);
  visit(Field{"data-parallel", "the gradients are reduced over the ranks of a "
                               "distributed run before the update"},
        of.dataParallel...);
  visit(Field{"sync-batch-norm", "with data-parallel: the statistics of "
                                 "batch_norm are over the ranks"},
        of.syncBatchNorm...);
  visit(Field{"shard-optimizer", "each rank of a distributed run updates its "
                                 "share of the parameters"},
        of.shardOptimizer...);
  visit(Field{"train", "patterns of the parameters to train"}, of.train...);
  visit(Field{"freeze", "patterns of the parameters to keep as they are"},
        of.freeze...);
  visit(Field{"no-decay", "bias, norm or patterns of the parameters without "
                          "weight decay"},
        of.noDecay...);
  visit(Field{"lr-scale", "PATTERN=FACTOR: parameters with another learning "
                          "rate"},
        of.lrScale...);
}

template <typename Visitor, typename... Recipes>
void visitFields(Visitor &&visit, Recipes &...of) {
  visitLossFields(visit, of...);
  visitAdapterFields(visit, of...);
  visitOptimizerFields(visit, of...);
}

/// True if all fields are equal.
bool operator==(const Recipe &lhs, const Recipe &rhs);
llvm::hash_code hash_value(const Recipe &recipe);

/// Returns the recipe of `module`; the defaults if the module has none.
Recipe getRecipe(mlir::ModuleOp module);

/// Sets the recipe of `module`. Reports an error with exit code Usage if a
/// number is out of range. Does nothing if getRecipe returns `recipe`
/// already, so a recipe of defaults adds no attribute.
mlir::LogicalResult setRecipe(mlir::ModuleOp module, const Recipe &recipe);

} // namespace mpc

#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/MPC/RecipeAttr.h.inc"

#endif // MPC_COMPILER_DIALECT_MPC_RECIPE_RECIPE_H
