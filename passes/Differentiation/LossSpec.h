// The losses that `--loss` names, and the grammar of its argument.
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

/// A loss of the table.
struct LossInfo {
  LossKind kind;
  llvm::StringLiteral name;
  /// Whether labels are class numbers, with the classes on an axis of the
  /// output; otherwise targets have the output's shape.
  bool hasClasses;
};

/// All that have a name; `Output` has none.
llvm::ArrayRef<LossInfo> getLosses();

/// The row of a kind other than `Output`.
const LossInfo &getLossInfo(LossKind kind);

/// "softmax_cross_entropy, nll, ...", as help and messages list them.
std::string listLosses();

/// A loss as the user names it.
struct LossSpec {
  LossKind kind = LossKind::Output;
  std::string output; ///< empty: the model's only one
  std::optional<int64_t> classAxis = {};
  double factor = 1; ///< of this loss in the sum of all

  bool hasClasses() const {
    return kind != LossKind::Output && getLossInfo(kind).hasClasses;
  }
};

/// Parses NAME, NAME@OUTPUT or output:NAME, each with an optional FACTOR* in
/// front. An OUTPUT may still end in the :AXIS of its classes: only the model
/// says whether that belongs to the name.
llvm::Expected<LossSpec> parseLoss(llvm::StringRef text);

/// Whether `target` is OUTPUT=ARRAY for the loss of `output`, which may end in
/// :AXIS.
bool isTargetOf(llvm::StringRef target, llvm::StringRef output);

/// The array of targets for the loss of `output`, which may end in :AXIS:
/// `targets` are OUTPUT=ARRAY, or ARRAY for all others, "target" by default.
std::string findTarget(llvm::ArrayRef<std::string> targets,
                       llvm::StringRef output);

/// The ARRAY for all others.
std::string findCommonTarget(llvm::ArrayRef<std::string> targets);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_LOSSSPEC_H
