// Gives a pass one option for each field of a recipe. From these options,
// mpc-opt makes the attribute `mpc.recipe`; mpc sets the attribute without
// options.
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
  /// The pass that has the options: mpc-add-loss (Loss), mpc-add-adapters
  /// (Adapters) or mpc-add-optimizer (Optimizer).
  enum class Part { Loss, Adapters, Optimizer };

  RecipeOptions(mlir::Pass &pass, Part part);

  /// Changes the fields of the module's recipe for which an option was given.
  /// Reports a Usage error if a text is not a value of its field.
  mlir::LogicalResult applyTo(mlir::ModuleOp module) const;

private:
  Part part;
  /// One option per field of `part`, in the order of Recipe.h. Each points to
  /// an mlir::Pass::Option or ListOption, by the type of the field.
  std::vector<std::shared_ptr<void>> options;
};

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_RECIPEOPTIONS_H
