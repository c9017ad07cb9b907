// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/FunctionState.h"

using namespace mlir;
using namespace mpc;

// The variable that an attribute of a function's argument or result names.
static VariableOp lookup(FunctionOpInterface function, Attribute reference) {
  if (auto name = dyn_cast_or_null<FlatSymbolRefAttr>(reference))
    return SymbolTable::lookupNearestSymbolFrom<VariableOp>(function, name);
  return {};
}

VariableOp amp::getVariable(BlockArgument argument) {
  auto function =
      dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  if (!function || !argument.getOwner()->isEntryBlock())
    return {};
  return lookup(function,
                function.getArgAttr(argument.getArgNumber(), kStateAttr));
}

VariableOp amp::getUpdatedVariable(FunctionOpInterface function,
                                   unsigned index) {
  return lookup(function, function.getResultAttr(index, kUpdatesAttr));
}

Operation *amp::getReturn(FunctionOpInterface function) {
  return function.getFunctionBody().front().getTerminator();
}

BlockArgument amp::readState(FunctionOpInterface function,
                             VariableOp variable) {
  auto name = FlatSymbolRefAttr::get(variable.getSymNameAttr());
  unsigned index = function.getNumArguments();
  for (unsigned i = 0; i < index; ++i)
    if (function.getArgAttr(i, kStateAttr) == name)
      return function.getArgument(i);
  OpBuilder builder(function.getContext());
  auto attributes =
      builder.getDictionaryAttr(builder.getNamedAttr(kStateAttr, name));
  // Types were checked when the variable was declared.
  (void)function.insertArgument(index, variable.getType(), attributes,
                                variable.getLoc());
  return function.getArgument(index);
}

static void addResult(FunctionOpInterface function, Value value,
                      ArrayRef<NamedAttribute> attributes) {
  (void)function.insertResult(
      function.getNumResults(), value.getType(),
      DictionaryAttr::get(function.getContext(), attributes));
  Operation *terminator = amp::getReturn(function);
  terminator->insertOperands(terminator->getNumOperands(), value);
}

void amp::writeState(FunctionOpInterface function, VariableOp variable,
                     Value value) {
  OpBuilder builder(function.getContext());
  addResult(function, value,
            builder.getNamedAttr(kUpdatesAttr, FlatSymbolRefAttr::get(
                                                   variable.getSymNameAttr())));
}

void amp::addOutput(FunctionOpInterface function, StringRef name,
                    StringRef role, Value value) {
  OpBuilder builder(function.getContext());
  addResult(function, value,
            {builder.getNamedAttr(kOutputAttr, builder.getStringAttr(name)),
             builder.getNamedAttr(kRoleAttr, builder.getStringAttr(role))});
}

VariableOp amp::declareVariable(ModuleOp module, StringRef name, Type type,
                                StringRef role, std::optional<double> fill) {
  auto builder = OpBuilder::atBlockBegin(module.getBody());
  for (auto variable : module.getOps<VariableOp>())
    builder.setInsertionPointAfter(variable);
  return VariableOp::create(builder, NameLoc::get(builder.getStringAttr(name)),
                            builder.getStringAttr(name), TypeAttr::get(type),
                            builder.getStringAttr(role),
                            /*init=*/ElementsAttr(),
                            fill ? builder.getF64FloatAttr(*fill) : FloatAttr(),
                            /*sym_visibility=*/StringAttr());
}
