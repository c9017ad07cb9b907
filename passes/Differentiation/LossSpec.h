// The losses of `--loss`, and the grammar of its argument.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_LOSSSPEC_H
#define MPC_PASSES_DIFFERENTIATION_LOSSSPEC_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>

namespace mpc {

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

/// A row of the table of losses.
struct LossInfo {
  LossKind kind;
  llvm::StringLiteral name;
  /// True if labels are class numbers and an axis of the output holds the
  /// classes. False if targets have the output's shape.
  bool hasClasses;
};

/// Returns all named losses; `Output` has no name.
llvm::ArrayRef<LossInfo> getLosses();

/// Returns the first row of a kind other than `Output`.
const LossInfo &getLossInfo(LossKind kind);

/// Returns "softmax_cross_entropy, nll, ..." for help and messages.
std::string listLosses();

/// A loss as specified by the user.
struct LossSpec {
  LossKind kind = LossKind::Output;
  std::string output; ///< empty: the model's only output
  std::optional<int64_t> classAxis = {};
  double factor = 1; ///< of this loss in the sum of losses

  bool hasClasses() const {
    return kind != LossKind::Output && getLossInfo(kind).hasClasses;
  }
};

/// Parses NAME, NAME@OUTPUT or output:NAME, each with an optional prefix
/// FACTOR*. OUTPUT may still end in :AXIS, because only the model tells if
/// :AXIS belongs to the name.
llvm::Expected<LossSpec> parseLoss(llvm::StringRef text);

/// True if `target` is OUTPUT=ARRAY for the loss of `output`, which may end in
/// :AXIS.
bool isTargetOf(llvm::StringRef target, llvm::StringRef output);

/// Returns the array with the targets for the loss of `output`, which may end
/// in :AXIS. Each of `targets` is OUTPUT=ARRAY, or ARRAY for all other outputs;
/// the default is "target".
std::string findTarget(llvm::ArrayRef<std::string> targets,
                       llvm::StringRef output);

/// Returns the ARRAY for all other outputs.
std::string findCommonTarget(llvm::ArrayRef<std::string> targets);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_LOSSSPEC_H
