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
  for (auto [index, argument] : llvm::enumerate(function.getArguments()))
    if (auto reference =
            function.getArgAttrOfType<FlatSymbolRefAttr>(index, kStateAttr))
      states.try_emplace(reference.getAttr(), argument);
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
  for (auto [index, argument] : llvm::enumerate(function.getArguments())) {
    auto found = function.getArgAttrOfType<StringAttr>(index, kInputAttr);
    if (found && found.getValue() == name)
      return argument;
  }
  return {};
}

Value TrainingFunction::addInput(StringRef name, StringRef role, Type type) {
  return addArgument(
      type, dictionary({entry(kInputAttr, name), entry(kRoleAttr, role)}));
}

void TrainingFunction::setInputRole(Value input, StringRef role) {
  function.setArgAttr(cast<BlockArgument>(input).getArgNumber(), kRoleAttr,
                      StringAttr::get(function.getContext(), role));
}

StringRef TrainingFunction::variableOf(Value value) const {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return {};
  auto reference = function.getArgAttrOfType<FlatSymbolRefAttr>(
      argument.getArgNumber(), kStateAttr);
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
  unsigned index = function.getNumArguments();
  [[maybe_unused]] LogicalResult inserted =
      function.insertArgument(index, type, attributes, function.getLoc());
  assert(succeeded(inserted) && "a function type takes any argument");
  return function.getArgument(index);
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

StringRef TrainingFunction::text(const Result &result, StringRef key) const {
  auto found = result.attributes.getAs<StringAttr>(key);
  return found ? found.getValue() : StringRef();
}

Value TrainingFunction::output(StringRef name) const {
  for (const Result &result : results)
    if (text(result, kOutputAttr) == name)
      return result.value;
  return {};
}

Value TrainingFunction::outputOfRole(StringRef role) const {
  for (const Result &result : results)
    if (text(result, kRoleAttr) == role)
      return result.value;
  return {};
}

SmallVector<StringRef> TrainingFunction::outputNames() const {
  SmallVector<StringRef> names;
  for (const Result &result : results)
    if (result.attributes.contains(kOutputAttr))
      names.push_back(text(result, kOutputAttr));
  return names;
}

void TrainingFunction::addOutput(StringRef name, StringRef role, Value value) {
  results.push_back(
      {value, dictionary({entry(kOutputAttr, name), entry(kRoleAttr, role)})});
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

void TrainingFunction::dropUpdates() {
  llvm::erase_if(results, [](const Result &result) {
    return result.attributes.contains(kUpdatesAttr);
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
  function.setType(FunctionType::get(function.getContext(),
                                     function.getArgumentTypes(), types));
  function.setAllResultAttrs(attributes);
}

DictionaryAttr
TrainingFunction::dictionary(ArrayRef<NamedAttribute> entries) const {
  return DictionaryAttr::get(function.getContext(), entries);
}

NamedAttribute TrainingFunction::entry(StringRef key, StringRef value) const {
  MLIRContext *context = function.getContext();
  return NamedAttribute(StringAttr::get(context, key),
                        StringAttr::get(context, value));
}

//===----------------------------------------------------------------------===//
// Variables and locations
//===----------------------------------------------------------------------===//

VariableOp mpc::getOrCreateVariable(ModuleOp module, StringRef name,
                                    RankedTensorType type, StringRef role) {
  if (auto found = module.lookupSymbol<VariableOp>(name))
    return found;
  // After the variables there are, so that they stay together.
  Operation *last = nullptr;
  for (VariableOp variable : module.getOps<VariableOp>())
    last = variable;
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  if (last)
    builder.setInsertionPointAfter(last);
  return VariableOp::create(builder, namedLocation(module.getContext(), name),
                            name, type, role, ElementsAttr(), FloatAttr(),
                            StringAttr());
}

Location mpc::namedLocation(MLIRContext *context, const Twine &name) {
  return NameLoc::get(StringAttr::get(context, name));
}
