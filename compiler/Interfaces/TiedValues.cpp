// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/TiedValues.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;

SmallVector<Value, 2> mpc::listTiedSources(Value value) {
  SmallVector<Value, 2> sources;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    Block *body = argument.getOwner();
    auto op = dyn_cast_or_null<BodyOpInterface>(body->getParentOp());
    if (!op)
      return sources;
    sources.push_back(op.getTiedOperand(argument).get());
    if (argument.getArgNumber() < op.getNumCarried())
      sources.push_back(
          body->getTerminator()->getOperand(argument.getArgNumber()));
    return sources;
  }
  // The body of a loop runs at least once, so each result is a yielded value,
  // never an operand of the loop.
  if (auto op = dyn_cast<BodyOpInterface>(value.getDefiningOp()))
    for (Region &body : op->getRegions())
      sources.push_back(body.front().getTerminator()->getOperand(
          cast<OpResult>(value).getResultNumber()));
  return sources;
}

SmallVector<Value, 2> mpc::listTiedResults(OpOperand &use) {
  SmallVector<Value, 2> results;
  Operation *owner = use.getOwner();
  if (auto op = dyn_cast<BodyOpInterface>(owner)) {
    for (Region &body : op->getRegions())
      for (BlockArgument argument : body.getArguments())
        if (&op.getTiedOperand(argument) == &use)
          results.push_back(argument);
    return results;
  }
  auto op = dyn_cast_or_null<BodyOpInterface>(owner->getParentOp());
  if (!op || owner != owner->getBlock()->getTerminator())
    return results;
  unsigned index = use.getOperandNumber();
  results.push_back(op->getResult(index));
  if (index < op.getNumCarried())
    results.push_back(owner->getBlock()->getArgument(index));
  return results;
}

SmallVector<Value, 2> mpc::listOrigins(Value value) {
  llvm::SmallSetVector<Value, 8> seen;
  seen.insert(value);
  SmallVector<Value, 2> origins;
  for (unsigned i = 0; i < seen.size(); ++i) {
    SmallVector<Value, 2> sources = listTiedSources(seen[i]);
    if (sources.empty())
      origins.push_back(seen[i]);
    seen.insert(sources.begin(), sources.end());
  }
  return origins;
}

Value mpc::findOrigin(Value value) {
  SmallVector<Value, 2> origins = listOrigins(value);
  return origins.size() == 1 ? origins.front() : Value();
}

void mpc::forEachTiedUse(Value value,
                         llvm::function_ref<void(OpOperand &)> visit) {
  llvm::SmallSetVector<Value, 8> seen;
  seen.insert(value);
  for (unsigned i = 0; i < seen.size(); ++i)
    for (OpOperand &use : seen[i].getUses()) {
      SmallVector<Value, 2> results = listTiedResults(use);
      seen.insert(results.begin(), results.end());
      if (results.empty() && !isa<BodyOpInterface>(use.getOwner()))
        visit(use);
    }
}
