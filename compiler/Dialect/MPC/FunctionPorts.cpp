// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/FunctionPorts.h"

#include "compiler/Dialect/MPC/NodeNames.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mpc;

PortAttrs mpc::getArgumentPort(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument || !argument.getOwner()->isEntryBlock())
    return PortAttrs();
  auto function =
      dyn_cast_or_null<FunctionOpInterface>(argument.getOwner()->getParentOp());
  return function ? PortAttrs(function.getArgAttrDict(argument.getArgNumber()))
                  : PortAttrs();
}

PortAttrs mpc::getResultPort(FunctionOpInterface function, unsigned index) {
  return PortAttrs(function.getResultAttrDict(index));
}

Operation *mpc::getReturn(FunctionOpInterface function) {
  return function.getFunctionBody().front().getTerminator();
}

FunctionEditor::FunctionEditor(FunctionOpInterface function)
    : function(function), body(&function.getFunctionBody().front()),
      terminator(getReturn(function)) {
  assert(function.getNumArguments() == body->getNumArguments() &&
         function.getNumResults() == terminator->getNumOperands() &&
         "another editor of the function has not finished");
  auto empty = DictionaryAttr::get(function.getContext(), {});
  for (auto [index, argument] : llvm::enumerate(body->getArguments())) {
    DictionaryAttr attributes = function.getArgAttrDict(index);
    arguments.push_back(attributes ? attributes : empty);
    if (FlatSymbolRefAttr state = PortAttrs(attributes).getState())
      states.try_emplace(state.getAttr(), argument);
  }
  for (unsigned i = 0, count = terminator->getNumOperands(); i < count; ++i) {
    DictionaryAttr attributes = function.getResultAttrDict(i);
    results.push_back(attributes ? attributes : empty);
  }
}

FunctionEditor FunctionEditor::create(ModuleOp module, Location location,
                                      StringRef name) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto function = func::FuncOp::create(builder, location, name,
                                       builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(function.addEntryBlock());
  func::ReturnOp::create(builder, location);
  return FunctionEditor(function);
}

OpBuilder FunctionEditor::builder() const { return OpBuilder(terminator); }

NamedAttribute FunctionEditor::entry(StringRef key, Attribute attribute) const {
  return {StringAttr::get(function.getContext(), key), attribute};
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

PortAttrs FunctionEditor::port(Value value) const {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && argument.getOwner() == body
             ? PortAttrs(arguments[argument.getArgNumber()])
             : PortAttrs();
}

Value FunctionEditor::input(StringRef name) const {
  for (BlockArgument argument : body->getArguments())
    if (StringAttr found = port(argument).getInput(); found && found == name)
      return argument;
  return {};
}

Value FunctionEditor::addArgument(Type type, Location location,
                                  ArrayRef<NamedAttribute> entries) {
  arguments.push_back(DictionaryAttr::get(function.getContext(), entries));
  return body->addArgument(type, location);
}

Value FunctionEditor::addInput(StringRef name, Role role, Type type) {
  MLIRContext *context = function.getContext();
  return addArgument(type, namedLocation(context, name),
                     {entry(kInputAttr, StringAttr::get(context, name)),
                      entry(kRoleAttr, RoleAttr::get(context, role))});
}

void FunctionEditor::setInputRole(Value input, Role role) {
  setAttr(input, kRoleAttr, RoleAttr::get(function.getContext(), role));
}

void FunctionEditor::setAttr(Value argument, StringRef key,
                             Attribute attribute) {
  assert(cast<BlockArgument>(argument).getOwner() == body &&
         "an argument of another block");
  DictionaryAttr &attributes =
      arguments[cast<BlockArgument>(argument).getArgNumber()];
  NamedAttrList changed(attributes);
  changed.set(key, attribute);
  attributes = changed.getDictionary(function.getContext());
}

Value FunctionEditor::state(VariableOp variable) {
  Value &value = states[variable.getSymNameAttr()];
  if (!value)
    value = addArgument(variable.getType(), variable.getLoc(),
                        entry(kStateAttr, FlatSymbolRefAttr::get(variable)));
  return value;
}

StringRef FunctionEditor::variableOf(Value argument) const {
  FlatSymbolRefAttr state = port(argument).getState();
  return state ? state.getValue() : StringRef();
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

Value FunctionEditor::findResult(Predicate isWanted) const {
  for (auto [attributes, value] :
       llvm::zip_equal(results, terminator->getOperands()))
    if (isWanted(PortAttrs(attributes), value))
      return value;
  return {};
}

Value FunctionEditor::output(StringRef name) const {
  return findResult([&](PortAttrs port, Value) {
    return port.getOutput() && port.getOutput() == name;
  });
}

Value FunctionEditor::outputOfRole(Role role) const {
  return findResult(
      [&](PortAttrs port, Value) { return port.getRole() == role; });
}

Value FunctionEditor::outputOfRole(Role role, StringRef name) const {
  return findResult([&](PortAttrs port, Value) {
    return port.getRole() == role && port.getOutput() &&
           port.getOutput() == name;
  });
}

SmallVector<StringRef> FunctionEditor::outputNames() const {
  SmallVector<StringRef> names;
  for (DictionaryAttr attributes : results)
    if (StringAttr name = PortAttrs(attributes).getOutput())
      names.push_back(name.getValue());
  return names;
}

Value FunctionEditor::update(VariableOp variable) const {
  auto reference = FlatSymbolRefAttr::get(variable);
  return findResult(
      [&](PortAttrs port, Value) { return port.getUpdated() == reference; });
}

void FunctionEditor::addResult(Value value, ArrayRef<NamedAttribute> entries) {
  assert(value && "a result has a value");
  terminator->insertOperands(terminator->getNumOperands(), value);
  results.push_back(DictionaryAttr::get(function.getContext(), entries));
}

void FunctionEditor::addOutput(StringRef name, Role role, Value value) {
  MLIRContext *context = function.getContext();
  addResult(value, {entry(kOutputAttr, StringAttr::get(context, name)),
                    entry(kRoleAttr, RoleAttr::get(context, role))});
}

void FunctionEditor::addUpdate(VariableOp variable, Value value) {
  assert(!update(variable) && "a variable has one new value");
  addResult(value, entry(kUpdatesAttr, FlatSymbolRefAttr::get(variable)));
}

void FunctionEditor::dropResults(Predicate isUnwanted) {
  SmallVector<Value> values;
  SmallVector<DictionaryAttr> kept;
  for (auto [attributes, value] :
       llvm::zip_equal(results, terminator->getOperands()))
    if (!isUnwanted(PortAttrs(attributes), value)) {
      values.push_back(value);
      kept.push_back(attributes);
    }
  terminator->setOperands(values);
  results = std::move(kept);
}

void FunctionEditor::dropOutputs() {
  dropResults([](PortAttrs port, Value) { return bool(port.getOutput()); });
}

void FunctionEditor::dropOutputsOfRole(Role role) {
  dropResults([&](PortAttrs port, Value) { return port.getRole() == role; });
}

void FunctionEditor::dropUpdates() {
  dropResults([](PortAttrs port, Value) { return bool(port.getUpdated()); });
}

void FunctionEditor::dropUpdate(VariableOp variable) {
  auto reference = FlatSymbolRefAttr::get(variable);
  dropResults(
      [&](PortAttrs port, Value) { return port.getUpdated() == reference; });
}

void FunctionEditor::dropUpdatesBy(Operation *op) {
  dropResults([&](PortAttrs port, Value value) {
    return port.getUpdated() && value.getDefiningOp() == op;
  });
}

void FunctionEditor::putOutputsFirst() {
  SmallVector<Value> values;
  SmallVector<DictionaryAttr> sorted;
  for (bool isOutput : {true, false})
    for (auto [attributes, value] :
         llvm::zip_equal(results, terminator->getOperands()))
      if (bool(PortAttrs(attributes).getOutput()) == isOutput) {
        values.push_back(value);
        sorted.push_back(attributes);
      }
  terminator->setOperands(values);
  results = std::move(sorted);
}

//===----------------------------------------------------------------------===//
// The end
//===----------------------------------------------------------------------===//

void FunctionEditor::finish() {
  assert(arguments.size() == body->getNumArguments() &&
         results.size() == terminator->getNumOperands() &&
         "somebody else has changed the ports");
  function.setType(function.cloneTypeWith(body->getArgumentTypes(),
                                          terminator->getOperandTypes()));
  function.setAllArgAttrs(arguments);
  function.setAllResultAttrs(results);
}
