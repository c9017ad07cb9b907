// Words of a training recipe that flags, the IR and artifacts share. Like
// Names.h, but only for training. Depends on Names.h alone.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_RECIPENAMES_H
#define MPC_RUNTIME_RECIPENAMES_H

#include "runtime/Names.h"

#include <algorithm>
#include <string>
#include <vector>

namespace mpc {

/// The losses of `--loss`. `Output` is a loss that the model itself computes as
/// one of its outputs.
enum class LossKind {
  SoftmaxCrossEntropy,
  NLL,
  MSE,
  L1,
  Huber,
  SmoothL1,
  BCE,
  BCEWithLogits,
  KLDiv,
  Focal,
  SigmoidFocal,
  Dice,
  SigmoidDice,
  Output,
};

/// True if labels are class numbers and an axis of the output holds the
/// classes. False if targets have the output's shape.
constexpr bool hasClasses(LossKind kind) {
  return kind == LossKind::SoftmaxCrossEntropy || kind == LossKind::NLL ||
         kind == LossKind::Focal || kind == LossKind::Dice;
}

/// True if targets have the output's shape and say in [0, 1] how positive each
/// element is.
constexpr bool hasBinaryTargets(LossKind kind) {
  return kind == LossKind::BCE || kind == LossKind::BCEWithLogits ||
         kind == LossKind::SigmoidFocal || kind == LossKind::SigmoidDice;
}

/// The reduction of losses over elements or labels, and of gradients over
/// micro-batches.
enum class Reduction { Mean, Sum };

/// The update rules of `--optimizer`.
enum class OptimizerKind {
  SGD,
  Momentum,
  Nesterov,
  Adam,
  AdamW,
  Adagrad,
  RMSprop,
  LAMB,
  Lion,
  Muon,
};

/// The factors by which `--optimizer muon` adapts the learning rate to the
/// shape of a matrix, called as in PyTorch.
enum class AdjustLRFn { Original, MatchRMSAdamW, SpectralUnclamped };

template <>
struct Words<LossKind> {
  static constexpr std::string_view kind = "loss";
  static constexpr std::string_view list[] = {"softmax_cross_entropy",
                                              "nll",
                                              "mse",
                                              "l1",
                                              "huber",
                                              "smooth_l1",
                                              "bce",
                                              "bce_with_logits",
                                              "kl_div",
                                              "focal",
                                              "sigmoid_focal",
                                              "dice",
                                              "sigmoid_dice",
                                              "output"};
};

template <>
struct Words<Reduction> {
  static constexpr std::string_view kind = "reduction";
  static constexpr std::string_view list[] = {"mean", "sum"};
};

template <>
struct Words<OptimizerKind> {
  static constexpr std::string_view kind = "optimizer";
  static constexpr std::string_view list[] = {
      "sgd",     "momentum", "nesterov", "adam", "adamw",
      "adagrad", "rmsprop",  "lamb",     "lion", "muon"};
};

template <>
struct Words<AdjustLRFn> {
  static constexpr std::string_view kind = "adjustment of the learning rate";
  static constexpr std::string_view list[] = {"original", "match_rms_adamw",
                                              "spectral_unclamped"};
};

/// The member of a recipe that is true if the model reduces its gradients over
/// ranks.
inline constexpr char kDataParallel[] = "data_parallel";

static_assert(std::size(Words<LossKind>::list) == size_t(LossKind::Output) + 1);
static_assert(std::size(Words<Reduction>::list) == size_t(Reduction::Sum) + 1);
static_assert(std::size(Words<OptimizerKind>::list) ==
              size_t(OptimizerKind::Muon) + 1);
static_assert(std::size(Words<AdjustLRFn>::list) ==
              size_t(AdjustLRFn::SpectralUnclamped) + 1);

//===----------------------------------------------------------------------===//
// Names of several losses
//===----------------------------------------------------------------------===//

/// PyTorch's name for softmax_cross_entropy.
inline constexpr std::string_view kCrossEntropy = "cross_entropy";

/// Prefix of the output that reports one of several losses, such as
/// "loss.mse@y". The prefixes of its value per sample, of the weights of the
/// samples, and of its prediction follow.
inline constexpr std::string_view kLossPrefix = "loss.";
inline constexpr std::string_view kSampleLossPrefix = "sample_loss.";
inline constexpr std::string_view kSampleWeightPrefix = "sample_weight.";
inline constexpr std::string_view kPredictionPrefix = "prediction.";

/// Returns the name of one of several losses in outputs and metrics, such as
/// "mse@y" or "cross_entropy". `output` is empty for the only output.
inline std::string nameLoss(LossKind kind, std::string_view output) {
  if (kind == LossKind::Output)
    return "output:" + std::string(output);
  std::string name(kind == LossKind::SoftmaxCrossEntropy ? kCrossEntropy
                                                         : stringify(kind));
  return output.empty() ? name : name + "@" + std::string(output);
}

/// Makes equal names distinct: "mse@y" and "mse@y" become "mse@y" and
/// "mse@y#2".
inline void numberEqualNames(std::vector<std::string> &names) {
  const std::vector<std::string> given = names;
  for (size_t i = 0; i < names.size(); ++i)
    if (const auto before = std::count(
            given.begin(), given.begin() + std::ptrdiff_t(i), given[i]))
      names[i] += "#" + std::to_string(before + 1);
}

/// True for texts that nameLoss may return, perhaps with a number.
inline bool isLossName(std::string_view text) {
  const std::string_view word = text.substr(0, text.find_first_of("@#:"));
  return word == kCrossEntropy || symbolize<LossKind>(word).has_value();
}

} // namespace mpc

namespace mpc::runtime {
using mpc::LossKind;
} // namespace mpc::runtime

#endif // MPC_RUNTIME_RECIPENAMES_H
