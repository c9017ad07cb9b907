// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/ModelTypes.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/AMP/ConstantAttrs.h"
#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Interfaces/TiedValues.h"
#include "runtime/Names.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;

ModelTypes::ModelTypes(ModuleOp module) {
  for (auto variable : module.getOps<VariableOp>())
    if (variable.getRole() == Role::Derived)
      copies.insert(FlatSymbolRefAttr::get(variable.getSymNameAttr()));
}

FloatType ModelTypes::lookup(Value value) const {
  if (!isa<FloatType>(getElementTypeOrSelf(value.getType())))
    return {};
  // A value that enters or leaves a body has the type of its first source.
  while (true) {
    if (auto cast = value.getDefiningOp<amp::CastOp>()) {
      value = cast.getInput();
      continue;
    }
    SmallVector<Value, 2> sources = listTiedSources(value);
    if (sources.empty())
      break;
    value = sources.front();
  }
  auto type = cast<FloatType>(getElementTypeOrSelf(value.getType()));
  Type single = Float32Type::get(value.getContext());
  if (auto argument = dyn_cast<BlockArgument>(value))
    return copies.contains(getArgumentPort(argument).getState())
               ? cast<FloatType>(single)
               : type;
  Operation *op = value.getDefiningOp();
  if (op->hasAttr(amp::kRoundedAttr))
    return cast<FloatType>(single);
  if (auto decision = amp::DecisionAttr::of(op))
    return decision.isLowered() && type.getWidth() < 32
               ? cast<FloatType>(single)
               : type;
  return type;
}

bool ModelTypes::isRounded(Value value) const {
  auto type = dyn_cast<FloatType>(getElementTypeOrSelf(value.getType()));
  if (!type || type.getWidth() >= 32)
    return false;
  FloatType original = lookup(value);
  return original && original.getWidth() > type.getWidth();
}

bool ModelTypes::isSettled(Operation *op) const {
  auto isOther = [&](Value value) {
    FloatType type = lookup(value);
    return type && !type.isF32();
  };
  auto isFloat = [](Type type) {
    return isa<FloatType>(getElementTypeOrSelf(type));
  };
  return llvm::any_of(op->getResults(), isOther) ||
         llvm::any_of(op->getOperands(), isOther) ||
         llvm::none_of(op->getResultTypes(), isFloat);
}

VariableOp mpc::lookupMaster(const SymbolTable &symbols, StringAttr name) {
  auto variable = symbols.lookup<VariableOp>(name);
  StringRef master = name;
  if (variable && variable.getRole() == Role::Derived &&
      master.consume_back(kLowSuffix))
    return symbols.lookup<VariableOp>(master);
  return variable;
}

SmallVector<Value, 2> mpc::listUncastOrigins(Value value) {
  llvm::SmallSetVector<Value, 8> seen;
  seen.insert(value);
  SmallVector<Value, 2> origins;
  for (unsigned i = 0; i < seen.size(); ++i)
    for (Value origin : listOrigins(seen[i]))
      if (auto cast = origin.getDefiningOp<amp::CastOp>())
        seen.insert(cast.getInput());
      else if (!llvm::is_contained(origins, origin))
        origins.push_back(origin);
  return origins;
}

Value mpc::findUncastOrigin(Value value) {
  SmallVector<Value, 2> origins = listUncastOrigins(value);
  return origins.size() == 1 ? origins.front() : Value();
}
