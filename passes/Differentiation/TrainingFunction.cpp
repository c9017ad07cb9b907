// Edits one of the module's functions by the names of its arguments and
// results.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/TrainingFunction.h"

using namespace mlir;
using namespace mpc;

TrainingFunction::TrainingFunction(func::FuncOp function) : function(function) {
  Operation *terminator = function.getBody().front().getTerminator();
  for (auto [index, value] : llvm::enumerate(terminator->getOperands())) {
    DictionaryAttr attributes = function.getResultAttrDict(index);
    results.push_back({value, attributes ? attributes : dictionary({})});
  }
  for (auto [index, argument] : llvm::enumerate(function.getArguments())) {
    DictionaryAttr attributes = function.getArgAttrDict(index);
    arguments.push_back(attributes ? attributes : dictionary({}));
    if (auto reference = arguments.back().getAs<FlatSymbolRefAttr>(kStateAttr))
      states.try_emplace(reference.getAttr(), argument);
  }
}

TrainingFunction TrainingFunction::create(ModuleOp module, StringRef name) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto function = func::FuncOp::create(builder, module.getLoc(), name,
                                       builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(function.addEntryBlock());
  func::ReturnOp::create(builder, module.getLoc());
  return TrainingFunction(function);
}

OpBuilder TrainingFunction::builder() const {
  return OpBuilder(function.getBody().front().getTerminator());
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

Value TrainingFunction::input(StringRef name) const {
  for (auto [index, attributes] : llvm::enumerate(arguments)) {
    auto found = attributes.getAs<StringAttr>(kInputAttr);
    if (found && found.getValue() == name)
      return function.getArgument(index);
  }
  return {};
}

Value TrainingFunction::addInput(StringRef name, Role role, Type type) {
  return addArgument(type, describe(kInputAttr, name, role));
}

std::optional<Role> TrainingFunction::roleOf(Value argument) const {
  unsigned number = cast<BlockArgument>(argument).getArgNumber();
  auto role = arguments[number].getAs<RoleAttr>(kRoleAttr);
  return role ? std::optional(role.getValue()) : std::nullopt;
}

void TrainingFunction::setInputRole(Value input, Role role) {
  DictionaryAttr &attributes =
      arguments[cast<BlockArgument>(input).getArgNumber()];
  NamedAttrList changed(attributes);
  changed.set(kRoleAttr, RoleAttr::get(function.getContext(), role));
  attributes = changed.getDictionary(function.getContext());
}

StringRef TrainingFunction::variableOf(Value value) const {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return {};
  auto reference =
      arguments[argument.getArgNumber()].getAs<FlatSymbolRefAttr>(kStateAttr);
  return reference ? reference.getValue() : StringRef();
}

Value TrainingFunction::state(VariableOp variable) {
  Value &value = states[variable.getSymNameAttr()];
  if (value)
    return value;
  auto reference = FlatSymbolRefAttr::get(variable.getSymNameAttr());
  auto key = StringAttr::get(function.getContext(), kStateAttr);
  value = addArgument(variable.getType(),
                      dictionary(NamedAttribute(key, reference)));
  return value;
}

Value TrainingFunction::addArgument(Type type, DictionaryAttr attributes) {
  arguments.push_back(attributes);
  return function.getBody().addArgument(type, function.getLoc());
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

StringRef TrainingFunction::nameOf(const Result &result) {
  auto found = result.attributes.getAs<StringAttr>(kOutputAttr);
  return found ? found.getValue() : StringRef();
}

bool TrainingFunction::hasRole(const Result &result, Role role) {
  auto found = result.attributes.getAs<RoleAttr>(kRoleAttr);
  return found && found.getValue() == role;
}

Value TrainingFunction::output(StringRef name) const {
  for (const Result &result : results)
    if (nameOf(result) == name)
      return result.value;
  return {};
}

Value TrainingFunction::outputOfRole(Role role) const {
  for (const Result &result : results)
    if (hasRole(result, role))
      return result.value;
  return {};
}

Value TrainingFunction::outputOfRole(Role role, StringRef name) const {
  for (const Result &result : results)
    if (hasRole(result, role) && nameOf(result) == name)
      return result.value;
  return {};
}

SmallVector<StringRef> TrainingFunction::outputNames() const {
  SmallVector<StringRef> names;
  for (const Result &result : results)
    if (result.attributes.contains(kOutputAttr))
      names.push_back(nameOf(result));
  return names;
}

void TrainingFunction::addOutput(StringRef name, Role role, Value value) {
  results.push_back({value, describe(kOutputAttr, name, role)});
}

void TrainingFunction::addUpdate(StringRef variable, Value value) {
  MLIRContext *context = function.getContext();
  NamedAttribute update(StringAttr::get(context, kUpdatesAttr),
                        FlatSymbolRefAttr::get(context, variable));
  results.push_back({value, dictionary(update)});
}

void TrainingFunction::dropOutputs() {
  llvm::erase_if(results, [](const Result &result) {
    return result.attributes.contains(kOutputAttr);
  });
}

void TrainingFunction::dropOutputsOfRole(Role role) {
  llvm::erase_if(results,
                 [&](const Result &result) { return hasRole(result, role); });
}

void TrainingFunction::dropUpdates() {
  llvm::erase_if(results, [](const Result &result) {
    return result.attributes.contains(kUpdatesAttr);
  });
}

void TrainingFunction::dropUpdatesBy(Operation *op) {
  llvm::erase_if(results, [&](const Result &result) {
    return result.attributes.contains(kUpdatesAttr) &&
           result.value.getDefiningOp() == op;
  });
}

void TrainingFunction::finish() {
  SmallVector<Value> values;
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  for (const Result &result : results) {
    values.push_back(result.value);
    types.push_back(result.value.getType());
    attributes.push_back(result.attributes);
  }
  function.getBody().front().getTerminator()->setOperands(values);
  function.setType(FunctionType::get(
      function.getContext(), function.getBody().getArgumentTypes(), types));
  function.setAllArgAttrs(arguments);
  function.setAllResultAttrs(attributes);
}

DictionaryAttr
TrainingFunction::dictionary(ArrayRef<NamedAttribute> entries) const {
  return DictionaryAttr::get(function.getContext(), entries);
}

DictionaryAttr TrainingFunction::describe(StringRef key, StringRef name,
                                          Role role) const {
  Builder builder(function.getContext());
  return dictionary(
      {builder.getNamedAttr(key, builder.getStringAttr(name)),
       builder.getNamedAttr(kRoleAttr,
                            RoleAttr::get(function.getContext(), role))});
}

//===----------------------------------------------------------------------===//
// Locations
//===----------------------------------------------------------------------===//

Location mpc::namedLocation(MLIRContext *context, const Twine &name) {
  return NameLoc::get(StringAttr::get(context, name));
}
