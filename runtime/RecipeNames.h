// Words of a training recipe that flags, the IR and artifacts share. Like
// Names.h, but only for training. Depends on Names.h alone.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_RECIPENAMES_H
#define MPC_RUNTIME_RECIPENAMES_H

#include "runtime/Names.h"

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
  Output,
};

/// True if labels are class numbers and an axis of the output holds the
/// classes. False if targets have the output's shape.
constexpr bool hasClasses(LossKind kind) {
  return kind == LossKind::SoftmaxCrossEntropy || kind == LossKind::NLL;
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

static_assert(std::size(Words<LossKind>::list) == size_t(LossKind::Output) + 1);
static_assert(std::size(Words<Reduction>::list) == size_t(Reduction::Sum) + 1);
static_assert(std::size(Words<OptimizerKind>::list) ==
              size_t(OptimizerKind::Muon) + 1);
static_assert(std::size(Words<AdjustLRFn>::list) ==
              size_t(AdjustLRFn::SpectralUnclamped) + 1);

} // namespace mpc

namespace mpc::runtime {
using mpc::LossKind;
} // namespace mpc::runtime

#endif // MPC_RUNTIME_RECIPENAMES_H
