// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/ValueSources.h"

#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Interfaces/TiedValues.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;

// True if both values have one element type. An integer, such as an index, has
// no elements of a float.
static bool haveSameElements(Value a, Value b) {
  return getElementTypeOrSelf(a.getType()) == getElementTypeOrSelf(b.getType());
}

bool mpc::keepsElements(Operation *op) {
  if (isa<KeptOp>(op))
    return true;
  auto precise = dyn_cast<PrecisionOpInterface>(op);
  const bool moves = precise && (precise.movesElements() || isa<ExpandOp>(op));
  return moves && op->getNumResults() == 1 &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return !isa<FloatType>(getElementTypeOrSelf(operand.getType())) ||
                  haveSameElements(operand, op->getResult(0));
         });
}

bool mpc::computes(Operation *op) {
  return op->getNumRegions() == 0 && !isa<ScanCallOp, IfCallOp>(op) &&
         !op->hasTrait<OpTrait::ConstantLike>() &&
         !op->hasTrait<OpTrait::IsTerminator>() && !keepsElements(op);
}

ValueSources::ValueSources(ModuleOp module) : symbols(module) {
  // Calls of bodies are in no kernel, so do not walk into regions.
  for (auto function : module.getOps<FunctionOpInterface>())
    for (Operation &op : function.getFunctionBody().getOps()) {
      if (auto scan = dyn_cast<ScanCallOp>(op))
        addBody(&op, scan.getFunctionAttr());
      if (auto branches = dyn_cast<IfCallOp>(op)) {
        addBody(&op, branches.getThenFunctionAttr());
        addBody(&op, branches.getElseFunctionAttr());
      }
    }
}

void ValueSources::addBody(Operation *call, FlatSymbolRefAttr body) {
  if (Operation *function = symbols.lookup(body.getValue()))
    calls[function].push_back(call);
}

// Returns the sources of `value` beyond the edge of a loop or branch: of an
// argument of a body, or of a result of an op with bodies. The bodies may be
// functions. Empty for any other value.
SmallVector<Value, 2> ValueSources::listBodySources(Value value) const {
  SmallVector<Value, 2> sources = listTiedSources(value);
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    const unsigned index = argument.getArgNumber();
    Block *body = argument.getOwner();
    for (Operation *call : calls.lookup(body->getParentOp())) {
      auto scan = dyn_cast<ScanCallOp>(call);
      sources.push_back(scan ? scan->getOperand(index)
                             : cast<IfCallOp>(call).getCaptured()[index]);
      // A carried value is also the value of the previous iteration.
      if (scan && index < scan.getCarried().size())
        sources.push_back(body->getTerminator()->getOperand(index));
    }
    return sources;
  }
  auto result = cast<OpResult>(value);
  auto addReturned = [&](FlatSymbolRefAttr body) {
    if (auto function = symbols.lookup<FunctionOpInterface>(body.getValue()))
      sources.push_back(
          getReturn(function)->getOperand(result.getResultNumber()));
  };
  if (auto scan = dyn_cast<ScanCallOp>(result.getOwner()))
    addReturned(scan.getFunctionAttr());
  if (auto branches = dyn_cast<IfCallOp>(result.getOwner())) {
    addReturned(branches.getThenFunctionAttr());
    addReturned(branches.getElseFunctionAttr());
  }
  return sources;
}

// Returns the values one step before `value`; empty if `value` is a root.
SmallVector<Value, 2> ValueSources::listSources(Value value,
                                                Edges edges) const {
  if (auto argument = dyn_cast<BlockArgument>(value))
    if (auto region =
            dyn_cast_or_null<RegionOp>(argument.getOwner()->getParentOp()))
      return {region.getInputs()[argument.getArgNumber()]};
  Operation *op = value.getDefiningOp();
  if (auto region = dyn_cast_or_null<RegionOp>(op))
    return {region.getBody().front().getTerminator()->getOperand(
        cast<OpResult>(value).getResultNumber())};
  SmallVector<Value, 2> sources;
  if (op && keepsElements(op))
    llvm::copy_if(
        op->getOperands(), std::back_inserter(sources),
        [&](Value operand) { return haveSameElements(operand, value); });
  else if (edges == Edges::All)
    sources = listBodySources(value);
  return sources;
}

SmallVector<Value, 2> ValueSources::listRoots(Value value, Edges edges) const {
  llvm::SmallSetVector<Value, 8> seen;
  seen.insert(value);
  SmallVector<Value, 2> roots;
  for (unsigned i = 0; i < seen.size(); ++i) {
    SmallVector<Value, 2> sources = listSources(seen[i], edges);
    if (sources.empty())
      roots.push_back(seen[i]);
    seen.insert(sources.begin(), sources.end());
  }
  return roots;
}
