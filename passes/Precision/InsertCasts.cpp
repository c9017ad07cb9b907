// Carries out the decisions. Results of low ops get the low type, so that the
// ops round; an operand gets a cast if its op must read another type.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/OperandTypes.h"
#include "passes/Precision/Passes.h"

#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mpc {
#define GEN_PASS_DEF_INSERTCASTSPASS
#include "passes/Precision/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

namespace {
struct InsertCastsPass : mpc::impl::InsertCastsPassBase<InsertCastsPass> {
  using InsertCastsPassBase::InsertCastsPassBase;
  void runOnOperation() override;

private:
  LogicalResult checkDecided(Operation *op);
  void castOperands(ArrayRef<std::pair<OpOperand *, FloatType>> demands);
};
} // namespace

LogicalResult InsertCastsPass::checkDecided(Operation *op) {
  if (!isa<PrecisionOpInterface>(op) || DecisionAttr::of(op) || !hasFloats(op))
    return success();
  return op->emitOpError(
      "expected an amp.decision, found none, run amp-assign-precision first");
}

// Casts operands to the types that `demands` lists. Operands with the same
// value and type share one cast, right after the value.
void InsertCastsPass::castOperands(
    ArrayRef<std::pair<OpOperand *, FloatType>> demands) {
  llvm::DenseMap<std::pair<Value, Type>, Value> casts;
  OpBuilder builder(&getContext());
  for (auto [operand, required] : demands) {
    Value value = operand->get();
    if (getElementTypeOrSelf(value.getType()) == required)
      continue;
    Value &cast = casts[{value, required}];
    if (!cast) {
      builder.setInsertionPointAfterValue(value);
      cast = amp::CastOp::create(builder, operand->getOwner()->getLoc(),
                                 withElementType(value.getType(), required),
                                 value);
    }
    operand->set(cast);
  }
}

void InsertCastsPass::runOnOperation() {
  for (auto function : getOperation().getOps<FunctionOpInterface>()) {
    // Collect all types before changing any: required types follow from the
    // types in the model.
    SmallVector<std::pair<OpOperand *, FloatType>> demands;
    SmallVector<std::pair<OpResult, FloatType>> stores;
    WalkResult walk = function->walk([&](Operation *op) {
      if (failed(checkDecided(op)))
        return WalkResult::interrupt();
      for (OpOperand &operand : op->getOpOperands())
        if (FloatType required = getRequiredType(operand))
          demands.push_back({&operand, required});
      for (OpResult result : op->getResults())
        if (FloatType stored = getStoredType(result))
          stores.push_back({result, stored});
      return WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return signalPassFailure();
    // Change the types of results first, so that casts start from the stored
    // types.
    for (auto [result, stored] : stores)
      result.setType(withElementType(result.getType(), stored));
    castOperands(demands);
  }
}
