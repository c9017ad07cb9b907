// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/LossSpec.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mpc;

static constexpr LossInfo kLosses[] = {
    {LossKind::SoftmaxCrossEntropy, "softmax_cross_entropy", true},
    // PyTorch's name for it.
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
  if (rest.consume_front("output:"))
    return LossSpec{LossKind::Output, rest.str(), {}};
  auto [name, output] = rest.split('@');
  for (const LossInfo &info : kLosses)
    if (name == info.name)
      return LossSpec{info.kind, output.str(), {}};
  return llvm::createStringError("unknown loss '" + text + "'; expected " +
                                 listLosses() +
                                 ", each with an optional @OUTPUT, or "
                                 "output:NAME");
}
