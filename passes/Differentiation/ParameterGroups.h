// Parameters that the optimizer treats differently, by name or by their part in
// the model.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_PARAMETERGROUPS_H
#define MPC_PASSES_DIFFERENTIATION_PARAMETERGROUPS_H

#include "compiler/Dialect/MPC/FunctionPorts.h"

#include <string>

namespace mpc {

/// How one parameter differs from what the recipe says of all.
struct ParameterGroup {
  double learningRateScale = 1;
  bool decays = true;
};

/// What --no-decay and --lr-scale say of parameters.
struct GroupPatterns {
  /// Each `bias`, `norm` or a pattern of names.
  llvm::ArrayRef<std::string> noDecay;
  /// Each PATTERN=FACTOR; of several that match, the last holds.
  llvm::ArrayRef<std::string> learningRateScale;
};

/// The group of each of `trainables`, whose values `step` reads. `bias` is a
/// vector that is added, a bias of a layer or of a normalization; `norm` one
/// that is multiplied by, the scale of a normalization. A pattern that matches
/// nothing is an error.
llvm::FailureOr<llvm::SmallVector<ParameterGroup>>
findParameterGroups(FunctionEditor &step, llvm::ArrayRef<VariableOp> trainables,
                    const GroupPatterns &patterns);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_PARAMETERGROUPS_H
