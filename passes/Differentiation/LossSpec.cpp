// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/LossSpec.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace mpc;

static constexpr LossInfo kLosses[] = {
    {LossKind::SoftmaxCrossEntropy, "softmax_cross_entropy", true},
    // PyTorch calls the loss cross_entropy, so both names work.
    {LossKind::SoftmaxCrossEntropy, "cross_entropy", true},
    {LossKind::NLL, "nll", true},
    {LossKind::MSE, "mse", false},
    {LossKind::L1, "l1", false},
    {LossKind::Huber, "huber", false},
    {LossKind::SmoothL1, "smooth_l1", false},
    {LossKind::BCE, "bce", false},
    {LossKind::BCEWithLogits, "bce_with_logits", false},
    {LossKind::KLDiv, "kl_div", false},
};

llvm::ArrayRef<LossInfo> mpc::getLosses() { return kLosses; }

const LossInfo &mpc::getLossInfo(LossKind kind) {
  return *llvm::find_if(
      kLosses, [&](const LossInfo &info) { return info.kind == kind; });
}

std::string mpc::listLosses() {
  return llvm::join(
      llvm::map_range(kLosses, [](const LossInfo &info) { return info.name; }),
      ", ");
}

llvm::Expected<LossSpec> mpc::parseLoss(llvm::StringRef text) {
  llvm::StringRef rest = text;
  LossSpec spec;
  // A name of an output may contain a star, so the text before a star counts as
  // a factor only if it is a number.
  auto [number, behind] = text.split('*');
  if (!behind.empty() && !number.getAsDouble(spec.factor)) {
    if (!std::isfinite(spec.factor) || spec.factor <= 0)
      return llvm::createStringError(
          "'" + text + "': expected a factor above 0, found " + number);
    rest = behind;
  }
  // The form is FACTOR*KIND@OUTPUT; only KIND is required.
  auto [name, output] = rest.split('@');
  spec.output = output.str();
  // The model computes this output as a loss. The name may contain an @.
  if (rest.consume_front("output:")) {
    spec.kind = LossKind::Output;
    spec.output = rest.str();
    return spec;
  }
  for (const LossInfo &info : kLosses)
    if (name == info.name) {
      spec.kind = info.kind;
      return spec;
    }
  return llvm::createStringError("unknown loss '" + text + "'; expected " +
                                 listLosses() +
                                 ", each with an optional @OUTPUT, or "
                                 "output:NAME of a loss that the model "
                                 "computes itself");
}

bool mpc::isTargetOf(llvm::StringRef target, llvm::StringRef output) {
  llvm::StringRef name = target.rsplit('=').first;
  return target.contains('=') &&
         (name == output || name == output.rsplit(':').first);
}

std::string mpc::findTarget(llvm::ArrayRef<std::string> targets,
                            llvm::StringRef output) {
  for (llvm::StringRef text : targets)
    if (isTargetOf(text, output))
      return text.rsplit('=').second.str();
  return findCommonTarget(targets);
}

std::string mpc::findCommonTarget(llvm::ArrayRef<std::string> targets) {
  for (llvm::StringRef text : targets)
    if (!text.contains('='))
      return text.str();
  return "target";
}
