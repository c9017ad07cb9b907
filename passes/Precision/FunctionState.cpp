// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/FunctionState.h"

using namespace mlir;
using namespace mpc;

VariableOp amp::getVariable(BlockArgument argument,
                            const VariableTable &variables) {
  auto function =
      dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  if (!function || !argument.getOwner()->isEntryBlock())
    return {};
  auto name = function.getArgAttrOfType<FlatSymbolRefAttr>(
      argument.getArgNumber(), kStateAttr);
  return name ? variables.lookupVariable(name.getValue()) : VariableOp();
}

Operation *amp::getReturn(FunctionOpInterface function) {
  return function.getFunctionBody().front().getTerminator();
}

amp::FunctionState::FunctionState(FunctionOpInterface function)
    : function(function) {
  auto orEmpty = [&](DictionaryAttr attributes) {
    return attributes ? attributes
                      : DictionaryAttr::get(function.getContext(), {});
  };
  for (BlockArgument argument : function.getArguments()) {
    argumentAttrs.push_back(
        orEmpty(function.getArgAttrDict(argument.getArgNumber())));
    if (Attribute state = argumentAttrs.back().get(kStateAttr))
      arguments.try_emplace(state, argument);
  }
  for (unsigned i = 0, count = function.getNumResults(); i < count; ++i)
    resultAttrs.push_back(orEmpty(function.getResultAttrDict(i)));
}

BlockArgument amp::FunctionState::read(VariableOp variable) {
  Builder builder(function.getContext());
  auto name = FlatSymbolRefAttr::get(variable.getSymNameAttr());
  BlockArgument &argument = arguments[name];
  if (argument)
    return argument;
  argumentAttrs.push_back(
      builder.getDictionaryAttr(builder.getNamedAttr(kStateAttr, name)));
  return argument = function.getFunctionBody().addArgument(variable.getType(),
                                                           variable.getLoc());
}

void amp::FunctionState::addResult(Value value,
                                   ArrayRef<NamedAttribute> entry) {
  newResults.push_back(value);
  resultAttrs.push_back(DictionaryAttr::get(function.getContext(), entry));
}

void amp::FunctionState::write(VariableOp variable, Value value) {
  Builder builder(function.getContext());
  addResult(value,
            builder.getNamedAttr(kUpdatesAttr, FlatSymbolRefAttr::get(
                                                   variable.getSymNameAttr())));
}

void amp::FunctionState::addOutput(StringRef name, Role role, Value value) {
  Builder builder(function.getContext());
  addResult(value,
            {builder.getNamedAttr(kOutputAttr, builder.getStringAttr(name)),
             builder.getNamedAttr(kRoleAttr,
                                  RoleAttr::get(function.getContext(), role))});
}

void amp::FunctionState::finish() {
  Operation *terminator = getReturn(function);
  terminator->insertOperands(terminator->getNumOperands(), newResults);
  newResults.clear();
  function.setType(
      function.cloneTypeWith(function.getFunctionBody().getArgumentTypes(),
                             terminator->getOperandTypes()));
  function.setAllArgAttrs(argumentAttrs);
  function.setAllResultAttrs(resultAttrs);
}
