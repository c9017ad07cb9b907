// Finds parameters that the optimizer treats differently, by name or by use in
// the model.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_PARAMETERGROUPS_H
#define MPC_PASSES_DIFFERENTIATION_PARAMETERGROUPS_H

#include "compiler/Dialect/MPC/FunctionPorts.h"

#include <string>

namespace mpc {

/// The settings in which a parameter differs from the recipe.
struct ParameterGroup {
  double learningRateScale = 1;
  bool decays = true;
};

/// The arguments of --no-decay and --lr-scale.
struct GroupPatterns {
  /// Each is `bias`, `norm`, or a pattern of names.
  llvm::ArrayRef<std::string> noDecay;
  /// Each is PATTERN=FACTOR; the last match holds.
  llvm::ArrayRef<std::string> learningRateScale;
};

/// Returns the group of each of `trainables`, whose values `step` reads. `bias`
/// means added vectors: the biases of layers and normalizations. `norm` means
/// factors: the scales of normalizations. A pattern without a match is an
/// error.
llvm::FailureOr<llvm::SmallVector<ParameterGroup>>
findParameterGroups(FunctionEditor &step, llvm::ArrayRef<VariableOp> trainables,
                    const GroupPatterns &patterns);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_PARAMETERGROUPS_H
