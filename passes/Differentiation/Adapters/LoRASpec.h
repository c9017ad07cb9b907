// The grammar of --lora: RANK[:ALPHA][@REGEX].
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_ADAPTERS_LORASPEC_H
#define MPC_PASSES_DIFFERENTIATION_ADAPTERS_LORASPEC_H

#include "llvm/Support/Error.h"

#include <string>

namespace mpc {

/// A --lora.
struct LoRASpec {
  int64_t rank = 0;
  double alpha = 0; ///< equals the rank unless given
  /// The pattern of the weights' names; empty for the weights of all matmul and
  /// gemm layers but the last.
  std::string pattern;

  /// The factor of an adapter's product.
  double getScale() const { return alpha / static_cast<double>(rank); }
};

/// Parses the text of a --lora. The pattern begins after the first @.
llvm::Expected<LoRASpec> parseLoRA(llvm::StringRef text);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_ADAPTERS_LORASPEC_H
