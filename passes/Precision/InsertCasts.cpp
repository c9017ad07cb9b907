// Carries out the decisions. Results of low ops get the low type, so that the
// ops round; an operand gets a cast if its op must read another type.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/AMP/TF32.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Precision/FloatTypes.h"
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
  void collectTypes(Operation *op);
  void castOperands();

  /// The types to which operands must be cast, and in which results are stored.
  SmallVector<std::pair<OpOperand *, FloatType>> demands;
  SmallVector<std::pair<OpResult, FloatType>> stores;
};
} // namespace

LogicalResult InsertCastsPass::checkDecided(Operation *op) {
  DecisionAttr decision = DecisionAttr::of(op);
  if (decision && !decision.fits(op))
    return op->emitOpError("expected an amp.decision with a type for each "
                           "float operand and result, found ")
           << decision.getOperands().size() << " operands and "
           << decision.getResults().size() << " results";
  if (!isa<PrecisionOpInterface>(op) || decision || !hasFloats(op))
    return success();
  return op->emitOpError(
      "expected an amp.decision, found none, run amp-assign-precision first");
}

void InsertCastsPass::collectTypes(Operation *op) {
  // Operands of loops and conditions, and results of functions, keep the type
  // that the model gives them.
  if (op->hasTrait<OpTrait::ReturnLike>() || isa<BodyOpInterface>(op)) {
    for (OpOperand &operand : op->getOpOperands())
      if (FloatType type = getFloatType(operand.get()))
        demands.push_back({&operand, type});
    return;
  }
  auto precise = dyn_cast<PrecisionOpInterface>(op);
  DecisionAttr decision = DecisionAttr::of(op);
  if (!precise || !decision)
    return;
  decision.forEachOperand(op, [&](OpOperand &operand, FloatType type) {
    // Ops that move elements read what they store.
    if (!type && precise.movesElements())
      type = decision.getStorage();
    if (type)
      demands.push_back({&operand, type});
  });
  if (decision.getCompute().isTF32())
    setRoundsToTF32(op);
  decision.forEachResult(op, [&](OpResult result, FloatType type) {
    stores.push_back({result, type});
  });
}

// Casts operands to the types that `demands` lists. Operands with the same
// value and type share one cast, right after the value.
void InsertCastsPass::castOperands() {
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
    // Collect all types before changing any: loops and returns keep the types
    // of the model.
    demands.clear();
    stores.clear();
    WalkResult walk = function->walk([&](Operation *op) {
      if (failed(checkDecided(op)))
        return WalkResult::interrupt();
      collectTypes(op);
      return WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return signalPassFailure();
    // Change the types of results first, so that casts start from the stored
    // types.
    for (auto [result, stored] : stores)
      result.setType(withElementType(result.getType(), stored));
    castOperands();
  }
}
