// Proves that the stage kept its rules; see the pass's description for them.
// Every rule reports all of its violations, so one run shows everything.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Analysis/PrecisionPolicy.h"
#include "passes/Precision/FunctionState.h"
#include "passes/Precision/OperandTypes.h"
#include "passes/Precision/Passes.h"
#include "passes/Precision/ScaledValues.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

namespace mpc {
#define GEN_PASS_DEF_VERIFYPRECISIONPASS
#include "passes/Precision/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

namespace {
struct VerifyPrecisionPass
    : mpc::impl::VerifyPrecisionPassBase<VerifyPrecisionPass> {
  using VerifyPrecisionPassBase::VerifyPrecisionPassBase;
  void runOnOperation() override;

private:
  InFlightDiagnostic report(Operation *op);

  void verifyState(VariableOp variable);
  void verifyExpanded(Operation *op);
  void verifyTypes(PrecisionOpInterface op, DecisionAttr decision);
  void verifyOperands(PrecisionOpInterface op, DecisionAttr decision);
  void verifyCast(amp::CastOp op);
  void verifyOptimizer(Operation *op);
  void verifyScale(FunctionOpInterface function);
  void verifyCopies(FunctionOpInterface function, const SymbolTable &symbols);

  bool scales = false;
  bool violated = false;
};
} // namespace

InFlightDiagnostic VerifyPrecisionPass::report(Operation *op) {
  violated = true;
  InFlightDiagnostic diagnostic = op->emitOpError();
  if (StringRef name = getNodeName(op); !name.empty())
    diagnostic << "of node '" << name << "': ";
  return diagnostic;
}

static bool isNarrow(Value value) {
  FloatType type = getFloatType(value);
  return type && type.getWidth() < 32;
}

// A value that a decision or a cast of the stage rounded, and not the model.
static bool isRoundedByStage(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !isNarrow(value))
    return false;
  if (isa<amp::CastOp>(op))
    return true;
  DecisionAttr decision = DecisionAttr::of(op);
  return decision && decision.isLow() &&
         decision.getReason() != Reason::ModelCast &&
         decision.getReason() != Reason::ModelType;
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

// State that sums is fp32 at least, and so are masters.
void VerifyPrecisionPass::verifyState(VariableOp variable) {
  auto type = dyn_cast<FloatType>(variable.getTensorType().getElementType());
  static constexpr llvm::StringLiteral roles[] = {
      "parameter", "statistic", "optimizer_state", "accumulator", "loss_scale"};
  if (type && type.getWidth() < 32 &&
      llvm::is_contained(roles, variable.getRole()))
    report(variable) << "expected state of role " << variable.getRole()
                     << " in fp32 at least, found " << type;
}

void VerifyPrecisionPass::verifyExpanded(Operation *op) {
  if (isa<GradientOp, GradientSeedOp>(op))
    report(op) << "left unexpanded by the stages before";
}

void VerifyPrecisionPass::verifyTypes(PrecisionOpInterface op,
                                      DecisionAttr decision) {
  for (OpResult result : op->getResults()) {
    FloatType type = getFloatType(result);
    if (!type || type == decision.getStorage())
      continue;
    if (type.getWidth() < 32 ||
        !policyKeepsResultFP32(op.getPolicyKey(), result.getResultNumber()))
      report(op) << "expected result " << result.getResultNumber() << " in "
                 << decision.getStorage() << " as decided, found " << type;
  }
  if (op.getNumContractedOperands() > 0 &&
      decision.getAccumulate().getWidth() < 32)
    report(op) << "expected sums in fp32 at least, found "
               << decision.getAccumulate();
}

void VerifyPrecisionPass::verifyOperands(PrecisionOpInterface op,
                                         DecisionAttr decision) {
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    if (index < op.getNumContractedOperands()) {
      if (getFloatType(operand.get()) != decision.getCompute())
        report(op) << "expected to multiply " << decision.getCompute()
                   << " as decided, found operand " << index << " in "
                   << getFloatType(operand.get());
    } else if (readsFP32Only(decision) && isRoundedByStage(operand.get())) {
      report(op) << "kept in fp32 (" << stringifyReason(decision.getReason())
                 << ") but reads operand " << index << " in "
                 << getFloatType(operand.get());
    }
  }
}

// cast(cast(x) : narrow) : wide hands on rounded digits as exact ones.
void VerifyPrecisionPass::verifyCast(amp::CastOp op) {
  auto inner = op.getInput().getDefiningOp<amp::CastOp>();
  if (!inner)
    return;
  unsigned from = getFloatType(inner.getInput()).getWidth();
  unsigned through = getFloatType(inner).getWidth();
  if (through < from && through < getFloatType(op).getWidth())
    report(op) << "widens what a cast from " << getFloatType(inner.getInput())
               << " to " << getFloatType(inner) << " has rounded";
}

void VerifyPrecisionPass::verifyOptimizer(Operation *op) {
  if (!isa<OptimizerOpInterface, ClipGradNormOp>(op))
    return;
  for (ValueRange values :
       {ValueRange(op->getOperands()), ValueRange(op->getResults())})
    for (Value value : values)
      if (isNarrow(value))
        report(op) << "expected fp32 at least, found " << value.getType();
}

//===----------------------------------------------------------------------===//
// The loss scale
//===----------------------------------------------------------------------===//

// Whether a sum has one scaled operand and one that is not: it is a multiple of
// nothing. Constants pass, since a gradient may be plain zero.
static bool mixesScales(Operation *op, const llvm::DenseSet<Value> &scaled) {
  if (!isa<AddOp, SubOp>(op))
    return false;
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  if (scaled.contains(lhs) == scaled.contains(rhs))
    return false;
  return !matchPattern(scaled.contains(lhs) ? rhs : lhs, m_Constant());
}

void VerifyPrecisionPass::verifyScale(FunctionOpInterface function) {
  llvm::DenseSet<Value> scaled = findScaledValues(function);
  if (!scales)
    scaled.clear();
  bool updates = updatesParameters(function);
  for (Operation &op : function.getFunctionBody().front()) {
    if (!scales && isa<ScaleLossOp, UnscaleOp>(op))
      report(&op) << "scales in a module whose loss scale is none";
    if (mixesScales(&op, scaled))
      report(&op) << "adds a value that carries the loss scale to one that "
                     "does not";
    auto unscale = dyn_cast<UnscaleOp>(op);
    if (scales && unscale && !scaled.contains(unscale.getGrad()))
      report(&op) << "unscales what carries no loss scale";
    if (auto optimizer = dyn_cast<OptimizerOpInterface>(op))
      if (scales && optimizer.getApplyOperand().empty())
        report(&op) << "expected a condition, since gradients can overflow";
    if (!updates || !belongsToUpdate(&op) || unscale)
      continue;
    for (Value operand : op.getOperands())
      if (scaled.contains(operand))
        report(&op) << "reads a gradient that is still scaled";
  }
  llvm::DenseSet<unsigned> mayBeScaled = findScaledResults(function);
  for (OpOperand &operand : getReturn(function)->getOpOperands())
    if (scaled.contains(operand.get()) &&
        !mayBeScaled.contains(operand.getOperandNumber()))
      report(operand.getOwner())
          << "returns a scaled value as result " << operand.getOperandNumber();
}

//===----------------------------------------------------------------------===//
// Low copies
//===----------------------------------------------------------------------===//

// A copy that lags behind its master is a wrong forward pass one step later.
void VerifyPrecisionPass::verifyCopies(FunctionOpInterface function,
                                       const SymbolTable &symbols) {
  llvm::StringMap<unsigned> updated;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (auto name =
            function.getResultAttrOfType<FlatSymbolRefAttr>(i, kUpdatesAttr))
      updated[name.getValue()] = i;
  for (auto &item : updated) {
    auto copy = symbols.lookup<VariableOp>((item.first() + ".low").str());
    if (!copy)
      continue;
    auto written = updated.find(copy.getSymName());
    Value master = getReturn(function)->getOperand(item.second);
    amp::CastOp cast;
    if (written != updated.end())
      cast = getReturn(function)
                 ->getOperand(written->second)
                 .getDefiningOp<amp::CastOp>();
    if (!cast || cast.getInput() != master)
      report(function) << "updates @" << item.first()
                       << " but does not write its copy @" << copy.getSymName();
  }
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

void VerifyPrecisionPass::runOnOperation() {
  ModuleOp module = getOperation();
  auto scale = module->getAttrOfType<StringAttr>(kLossScaleAttr);
  scales = scale && scale.getValue() != "none";
  violated = false;

  SymbolTable symbols(module);
  for (auto variable : module.getOps<VariableOp>())
    verifyState(variable);
  for (auto function : module.getOps<FunctionOpInterface>()) {
    function->walk([&](Operation *op) {
      verifyExpanded(op);
      verifyOptimizer(op);
      if (auto castOp = dyn_cast<amp::CastOp>(op))
        verifyCast(castOp);
      auto precise = dyn_cast<PrecisionOpInterface>(op);
      if (!precise || op->hasTrait<OpTrait::ConstantLike>())
        return;
      DecisionAttr decision = DecisionAttr::of(op);
      if (!decision) {
        if (hasFloats(op) && !isa<GradientSeedOp>(op))
          report(op) << "expected an amp.decision";
        return;
      }
      verifyTypes(precise, decision);
      verifyOperands(precise, decision);
    });
    verifyScale(function);
    verifyCopies(function, symbols);
  }
  if (violated)
    signalPassFailure();
  markAllAnalysesPreserved();
}
