// Who does a contraction: a library, or a kernel that Codegen generates.
//
// One table answers, by target, op, types and by what follows in the same
// region; whoever plans asks here and nowhere else. An override takes the place
// of the table, for tests and for measuring one against the other, but not of
// what each of the two can do.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ANALYSIS_CONTRACTIONTABLE_H
#define MPC_COMPILER_ANALYSIS_CONTRACTIONTABLE_H

#include "compiler/Target/TargetInfo.h"

#include "mlir/IR/Operation.h"

namespace mpc {

enum class ContractionProvider { Library, Generated };

/// The word for a provider in attributes and options, and back.
llvm::StringRef stringifyProvider(ContractionProvider provider);
std::optional<ContractionProvider> symbolizeProvider(llvm::StringRef name);

/// What follows a contraction in its region.
enum class ContractionTail {
  None,      ///< nothing
  Absorbed,  ///< what the library does as part of the product
  Optimizer, ///< an optimizer's update, or what prepares a gradient for one
  Other,     ///< anything else
};

/// Who does `contraction` on `target`: as the override says, else as the table
/// says, as far as the one chosen can do it at all.
ContractionProvider
getContractionProvider(mlir::Operation *contraction, ContractionTail tail,
                       const TargetInfo &target,
                       std::optional<ContractionProvider> override = {});

/// Whether the library that convolves on `target` takes filters with their
/// input channels last; see compiler/Dialect/MPC/FilterLayout.h.
bool takesInputChannelsLast(const TargetInfo &target);

} // namespace mpc

#endif // MPC_COMPILER_ANALYSIS_CONTRACTIONTABLE_H
