// Removes the functions and variables that only training needs.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/Passes.h"

#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

namespace mpc {
#define GEN_PASS_DEF_KEEPEVALUATIONPASS
#include "passes/Differentiation/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
class KeepEvaluationPass
    : public mpc::impl::KeepEvaluationPassBase<KeepEvaluationPass> {
  void runOnOperation() override;
};
} // namespace

// Adds the variables that a function reads or updates to `found`.
static void findVariables(FunctionOpInterface function,
                          llvm::StringSet<> &found) {
  auto add = [&](FlatSymbolRefAttr variable) {
    if (variable)
      found.insert(variable.getValue());
  };
  for (Value argument : function.getArguments())
    add(getArgumentPort(argument).getState());
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    add(getResultPort(function, i).getUpdated());
}

void KeepEvaluationPass::runOnOperation() {
  ModuleOp module = getOperation();
  // Without @eval, keep everything: `mpc` reports the model after the stage.
  if (!module.lookupSymbol(kEvalFunction))
    return;
  for (StringRef name : {kStepFunction, kAccumulateFunction, kUpdateFunction})
    if (Operation *function = module.lookupSymbol(name))
      function->erase();
  llvm::StringSet<> used;
  for (auto function : module.getOps<FunctionOpInterface>())
    findVariables(function, used);
  for (auto variable : llvm::make_early_inc_range(module.getOps<VariableOp>()))
    if (!used.contains(variable.getSymName()))
      variable.erase();
}
