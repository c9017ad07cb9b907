// Finds parameters that the optimizer treats differently, by name or by use in
// the model.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_PARAMETERGROUPS_H
#define MPC_PASSES_DIFFERENTIATION_PARAMETERGROUPS_H

#include "compiler/Dialect/MPC/FunctionPorts.h"

#include <string>

namespace mpc {

/// Settings of one parameter that differ from the recipe: a factor of the
/// learning rate, and false for `decays` if the parameter has no weight decay.
struct ParameterGroup {
  double learningRateScale = 1;
  bool decays = true;
};

/// The arguments of --no-decay and --lr-scale.
struct GroupPatterns {
  /// Arguments of --no-decay: `bias`, `norm`, or a regular expression of names.
  llvm::ArrayRef<std::string> noDecay;
  /// Arguments of --lr-scale: PATTERN=FACTOR. If several patterns match a
  /// parameter, the last counts.
  llvm::ArrayRef<std::string> learningRateScale;
};

/// Returns the settings of each parameter in `trainables`. In --no-decay,
/// `bias` means vectors that the model adds (biases of layers and
/// normalizations), and `norm` means scales of normalizations. `step` reads the
/// parameters. Reports an error for a pattern without a match.
llvm::FailureOr<llvm::SmallVector<ParameterGroup>>
findParameterGroups(FunctionEditor &step, llvm::ArrayRef<VariableOp> trainables,
                    const GroupPatterns &patterns);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_PARAMETERGROUPS_H
