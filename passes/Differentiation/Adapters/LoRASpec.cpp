// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/Adapters/LoRASpec.h"

#include <cmath>

using namespace mpc;
using llvm::StringRef;

llvm::Expected<LoRASpec> mpc::parseLoRA(StringRef text) {
  LoRASpec spec;
  auto [numbers, pattern] = text.split('@');
  auto [rank, alpha] = numbers.split(':');
  bool isValid = !rank.getAsInteger(10, spec.rank) && spec.rank > 0 &&
                 pattern.empty() != text.contains('@');
  spec.alpha = static_cast<double>(spec.rank);
  if (numbers.contains(':'))
    isValid &= !alpha.getAsDouble(spec.alpha) && std::isfinite(spec.alpha) &&
               spec.alpha > 0;
  spec.pattern = pattern.str();
  if (isValid)
    return spec;
  return llvm::createStringError(
      "--lora " + text +
      ": expected RANK, RANK:ALPHA or either with @REGEX, with a rank of at "
      "least 1 and an alpha above 0, such as 8:16@attention");
}
