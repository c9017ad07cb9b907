// The fields of a recipe as options of a pass: the text from which mpc-opt
// makes `mpc.recipe`.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_RECIPEOPTIONS_H
#define MPC_PASSES_DIFFERENTIATION_RECIPEOPTIONS_H

#include "compiler/Dialect/MPC/Recipe/Recipe.h"

#include "mlir/Pass/Pass.h"

#include <memory>

namespace mpc {

class RecipeOptions {
public:
  /// The pass that has the options: mpc-add-loss or mpc-add-optimizer.
  enum class Part { Loss, Optimizer };

  RecipeOptions(mlir::Pass &pass, Part part);

  /// Changes the fields of the module's recipe for which an option was given.
  /// Reports a Usage error if a text is not a value of its field.
  mlir::LogicalResult applyTo(mlir::ModuleOp module) const;

private:
  Part part;
  /// The option of each field of `part`, in order. Each points to an
  /// mlir::Pass::Option or ListOption, whose type follows from the field's.
  std::vector<std::shared_ptr<void>> options;
};

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_RECIPEOPTIONS_H
