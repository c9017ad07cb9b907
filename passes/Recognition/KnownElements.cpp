// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/KnownElements.h"

#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Support/NamePattern.h"

using namespace mlir;
using namespace mpc;

TrainedMarks::TrainedMarks(func::FuncOp function,
                           ArrayRef<std::string> expressions)
    : function(function) {
  const std::vector<NamePattern> patterns = makeNamePatterns(expressions);
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    FlatSymbolRefAttr name =
        getArgumentPort(function.getArgument(i)).getState();
    if (name && matchesAny(patterns, name.getValue()))
      function.setArgAttr(i, kTrainedAttr,
                          UnitAttr::get(function.getContext()));
  }
}

TrainedMarks::~TrainedMarks() {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    function.removeArgAttr(i, kTrainedAttr);
}

// Returns the variable that the argument `value` reads. Null if `value` is no
// argument with state, or if --train names the variable.
static VariableOp findVariable(Value value) {
  const PortAttrs port = getArgumentPort(value);
  if (!port.getState() || port.has(kTrainedAttr))
    return {};
  auto module = value.getParentRegion()->getParentOfType<ModuleOp>();
  return module ? module.lookupSymbol<VariableOp>(port.getState())
                : VariableOp();
}

ElementsAttr mpc::findKnownElements(Value value) {
  if (auto constant = value.getDefiningOp<ConstantOp>())
    return constant.getValue();
  VariableOp variable = findVariable(value);
  if (!variable || variable.getRole() != Role::Frozen)
    return {};
  return variable.getInit().value_or(ElementsAttr());
}
