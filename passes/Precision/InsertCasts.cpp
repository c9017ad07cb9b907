// Carries out the decisions: results take the type they are stored in, which is
// where their op rounds, and operands are cast where an op must read another.
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
  return op->emitOpError("expected an amp.decision");
}

// One cast per value and type, right behind the value.
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
    // What is read depends on the model's types, so ask before they change.
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
    // Results change their type first: casts then begin at the type that is
    // stored.
    for (auto [result, stored] : stores)
      result.setType(withElementType(result.getType(), stored));
    castOperands(demands);
  }
}
