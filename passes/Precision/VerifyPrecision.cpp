// Proves the guarantees that the pass description lists. Reports all
// violations, so that one run shows everything.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/AMP/TF32.h"
#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Dialect/MPC/NodeNames.h"
#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Precision/DecisionReport.h"
#include "compiler/Precision/Facts.h"
#include "passes/Precision/FloatTypes.h"
#include "passes/Precision/GuardedState.h"
#include "passes/Precision/LossScaleAnalysis.h"
#include "passes/Precision/NodeAgreement.h"
#include "passes/Precision/Passes.h"
#include "passes/Precision/RequestOptions.h"
#include "passes/Precision/RoundedValues.h"
#include "passes/Precision/ScaleRequest.h"
#include "passes/Precision/ScaledValues.h"
#include "passes/Precision/StageConstants.h"
#include "passes/Precision/UpdateGuards.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"

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

  void gatherFacts();
  PrecisionFacts::Judgement judge(PrecisionOpInterface op,
                                  DecisionAttr decision) const;
  void verifyState(VariableOp variable);
  void verifyExpanded(Operation *op);
  void verifyMode();
  void verifyRecord(PrecisionOpInterface op, DecisionAttr decision,
                    const PrecisionFacts::Judgement &judgement);
  void verifyReason(PrecisionOpInterface op, DecisionAttr decision,
                    const PrecisionFacts::Judgement &judgement);
  void verifyTF32(PrecisionOpInterface op, DecisionAttr decision);
  void verifyModelTypes(PrecisionOpInterface op, DecisionAttr decision);
  void verifyResultTypes(PrecisionOpInterface op, DecisionAttr decision,
                         const PrecisionFacts::Judgement &judgement);
  void verifyOperandTypes(PrecisionOpInterface op, DecisionAttr decision,
                          const PrecisionFacts::Judgement &judgement);
  void verifyRounding(Operation *op, Value value, bool widens);
  void verifyOptimizer(Operation *op);
  void verifyOp(Operation *op);
  void verifyScale(FunctionOpInterface function);
  void verifyResults(FunctionOpInterface function);
  void findCopies();
  void verifyCopies(FunctionOpInterface function);

  std::optional<VariableTable> variables;
  Request request;
  /// Null unless the mode is mixed. Shared pointers, because MLIR copies
  /// passes.
  std::shared_ptr<PrecisionPolicy> asked;
  std::shared_ptr<PrecisionFacts> facts;
  /// The facts that keep products from tf32, in any mode. Null if the mode is
  /// not mixed and the user does not allow tf32.
  std::shared_ptr<PrecisionFacts> factsOfRounding;
  std::optional<ModelTypes> modelTypes;
  /// Null if the module has no mode.
  PrecisionModeAttr mode;
  NodeAgreement nodes;
  /// Maps each parameter to the low copy that @derive computes.
  llvm::DenseMap<Operation *, VariableOp> copies;
  bool scales = false, isDynamic = false;
  /// True if the module scales a loss. A module without a backward pass does
  /// not, whatever the mode.
  bool hasScaledLoss = false;
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

//===----------------------------------------------------------------------===//
// Records
//===----------------------------------------------------------------------===//

// Computes the facts of the module's mode and request again, instead of
// trusting the records.
void VerifyPrecisionPass::gatherFacts() {
  asked.reset();
  facts.reset();
  factsOfRounding.reset();
  mode = getOperation()->getAttrOfType<PrecisionModeAttr>(kModeAttr);
  modelTypes.emplace(getOperation());
  request = getRequest(getOperation());
  if (!policy.empty())
    request.policy = policy;
  bool isHalf = mode && mode.getValue() == PrecisionMode::FP16Mixed;
  const bool isMixed = mode && amp::isMixed(mode.getValue());
  if (!isMixed && !request.tf32)
    return;
  MLIRContext *context = &getContext();
  asked = std::make_shared<PrecisionPolicy>(
      isHalf ? FloatType(Float16Type::get(context))
             : FloatType(BFloat16Type::get(context)));
  if (isMixed && request.mode != mode.getValue())
    report(getOperation()) << "decided for "
                           << stringifyPrecisionMode(mode.getValue())
                           << ", but the request is for "
                           << stringifyPrecisionMode(request.mode);
  if (!request.policy.empty())
    if (llvm::Error error = asked->load(request.policy))
      report(getOperation()) << llvm::toString(std::move(error));
  factsOfRounding =
      std::make_shared<PrecisionFacts>(getOperation(), *asked, request);
  if (isMixed)
    facts = factsOfRounding;
}

// Returns the judgement of the facts. Without a mode, only the class in the
// record can tell.
PrecisionFacts::Judgement
VerifyPrecisionPass::judge(PrecisionOpInterface op,
                           DecisionAttr decision) const {
  if (facts)
    return facts->judge(op);
  PrecisionFacts::Judgement judgement;
  judgement.precisionClass = decision.getPrecisionClass();
  if (judgement.precisionClass == PrecisionClass::Deny)
    judgement.keep = Reason::DenyList;
  return judgement;
}

// Reports a module with low values whose mode is unknown: nothing would say
// which values may be low.
void VerifyPrecisionPass::verifyMode() {
  if (mode)
    return;
  WalkResult walk = getOperation().walk([](Operation *op) {
    DecisionAttr decision = DecisionAttr::of(op);
    return decision && decision.isLowered() ? WalkResult::interrupt()
                                            : WalkResult::advance();
  });
  if (walk.wasInterrupted())
    report(getOperation()) << "expected " << StringRef(kModeAttr)
                           << ", since some ops are decided as low";
}

// Verifies class and types of a decision record.
void VerifyPrecisionPass::verifyRecord(
    PrecisionOpInterface op, DecisionAttr decision,
    const PrecisionFacts::Judgement &judgement) {
  PrecisionClass expected = judgement.precisionClass;
  // Guards are no ops of the model, so no policy has named them.
  if (decision.getPrecisionClass() != expected && !isGuard(op))
    report(op) << "recorded as "
               << stringifyPrecisionClass(decision.getPrecisionClass())
               << ", but policy says " << stringifyPrecisionClass(expected);
  if (mode && !facts && decision.isLowered())
    report(op) << "decided as low in a mode without a low type";
  SmallVector<Type> types = {decision.getCompute()};
  llvm::append_range(types, decision.getOperands());
  llvm::append_range(types, decision.getResults());
  llvm::SmallPtrSet<Type, 2> other;
  for (Type type : types)
    if (auto element = dyn_cast<FloatType>(type);
        element && facts && decision.isLowered() && element.getWidth() <= 16 &&
        element != asked->getLowType() && other.insert(element).second)
      report(op) << "decided as " << element << " in a mode that lowers to "
                 << asked->getLowType();
  // An op that must be kept must not be low, even if a pass has changed the
  // record.
  if (judgement.keep && decision.isLowered()) {
    if (expected == PrecisionClass::Deny || expected == PrecisionClass::Fixed)
      report(op) << "is of class " << stringifyPrecisionClass(expected)
                 << ", but decided as low";
    else
      report(op) << "must be kept in fp32 (" << stringifyReason(*judgement.keep)
                 << "), but is decided as low";
  }
  if (judgement.meetsWide && decision.isLowered())
    report(op) << "must be kept in fp32 ("
               << stringifyReason(Reason::WideOperand)
               << "), but is decided as low";
  // Arithmetic and sums in 16 bits would lose small summands: 2048 + 1 is 2048
  // in f16.
  if (op.getNumContractedOperands() == 0 &&
      decision.getCompute().getWidth() < 32)
    report(op) << "expected arithmetic in fp32 at least, found "
               << decision.getCompute();
  verifyReason(op, decision, judgement);
}

// Verifies the reason and the rule in a record, which reports show.
void VerifyPrecisionPass::verifyReason(
    PrecisionOpInterface op, DecisionAttr decision,
    const PrecisionFacts::Judgement &judgement) {
  const Reason reason = decision.getReason();
  // Ops of a node share the strongest reason, which may be that of another op.
  // A low op is reported already.
  const bool isHidden = judgement.keep && (isHard(*judgement.keep)
                                               ? !isHard(reason)
                                               : facts && !isKeeping(reason) &&
                                                     !decision.isLowered());
  if (isHidden)
    report(op) << "recorded for the reason " << stringifyReason(reason)
               << ", but the reason is " << stringifyReason(*judgement.keep);
  // A rule has an origin: a table, a file or a flag. A record written by hand
  // may have any text.
  StringRef rule = decision.getRule().getValue();
  const bool hasOrigin = rule.contains(':') || rule.starts_with("--");
  if (facts && hasOrigin && !isGuard(op) && rule != judgement.rule)
    report(op) << "recorded by the rule '" << rule << "', but '"
               << judgement.rule << "' decides";
}

// Verifies that only products round their operands to tf32 that the user allows
// to, and that no fact keeps in fp32.
void VerifyPrecisionPass::verifyTF32(PrecisionOpInterface op,
                                     DecisionAttr decision) {
  const bool rounds = decision.getCompute().isTF32();
  if (rounds != roundsToTF32(op))
    report(op) << "expected "
               << (rounds ? "amp.tf32 as decided" : "no amp.tf32")
               << ", since the op computes in " << decision.getCompute();
  if (!rounds)
    return;
  if (!request.tf32 || !getTarget(op).isGPU()) {
    report(op) << "decided as tf32, which is only for GPUs with --tf32";
    return;
  }
  if (auto keep = factsOfRounding->judge(op).keep)
    report(op) << "must be kept in fp32 (" << stringifyReason(*keep)
               << "), but is decided as tf32";
}

// Verifies the types that the op has in the model, by the record. Only casts of
// the model and ops without float operands make a type that no operand has.
void VerifyPrecisionPass::verifyModelTypes(PrecisionOpInterface op,
                                           DecisionAttr decision) {
  if (!decision.getModel() || isa<mpc::CastOp, BitCastOp>(op))
    return;
  llvm::SmallPtrSet<Type, 2> known;
  for (Value operand : op->getOperands())
    if (getFloatType(operand))
      known.insert(modelTypes->lookup(operand));
  if (known.empty())
    return;
  for (Type type : decision.getModel().getAsValueRange<TypeAttr>())
    if (getElementTypeOrSelf(type).getIntOrFloatBitWidth() < 32 &&
        !known.contains(type))
      report(op) << "recorded as " << type
                 << " in the model, but no operand has this type there";
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

// Verifies that parameters, and state that adds up small changes, have at least
// 32 bits.
void VerifyPrecisionPass::verifyState(VariableOp variable) {
  auto type = dyn_cast<FloatType>(variable.getTensorType().getElementType());
  static constexpr Role roles[] = {Role::Parameter,      Role::Statistic,
                                   Role::OptimizerState, Role::Average,
                                   Role::Accumulator,    Role::LossScale};
  if (type && type.getWidth() < 32 &&
      llvm::is_contained(roles, variable.getRole()))
    report(variable) << "expected state of role "
                     << stringify(variable.getRole())
                     << " in fp32 at least, found " << type;
}

void VerifyPrecisionPass::verifyExpanded(Operation *op) {
  if (isa<GradientOp, GradientSeedOp>(op))
    report(op)
        << "expected gradients to be expanded by an earlier stage, found "
        << op->getName();
}

void VerifyPrecisionPass::verifyResultTypes(
    PrecisionOpInterface op, DecisionAttr decision,
    const PrecisionFacts::Judgement &judgement) {
  const bool cancels = facts && facts->cancels(op) && !judgement.isForcedLow;
  decision.forEachResult(op, [&](OpResult result, FloatType decided) {
    FloatType type = getFloatType(result);
    unsigned index = result.getResultNumber();
    bool keeps = policyKeepsResultFP32(op.getPolicyKey(), index);
    if (keeps && decision.isLowered() &&
        std::min(type.getWidth(), decided.getWidth()) < 32)
      report(op) << "expected result " << index << " in fp32, found " << type;
    else if (type != decided)
      report(op) << "expected result " << index << " in " << decided
                 << " as decided, found " << type;
    else if (cancels && modelTypes->isRounded(result))
      report(op) << "rounds result " << index << " to " << type
                 << ", which is close to a constant and would lose all digits";
  });
}

// Verifies the operands' types, in the record and in the IR. A contraction
// multiplies its operands in the decided type. Other operands may be low,
// unless the facts keep the op, or the policy keeps the operand in fp32.
void VerifyPrecisionPass::verifyOperandTypes(
    PrecisionOpInterface op, DecisionAttr decision,
    const PrecisionFacts::Judgement &judgement) {
  decision.forEachOperand(op, [&](OpOperand &operand, FloatType decided) {
    const unsigned index = operand.getOperandNumber();
    Value value = operand.get();
    FloatType type = getFloatType(value), model = modelTypes->lookup(value);
    if (index < op.getNumContractedOperands()) {
      // The library reads fp32, and rounds to tf32 itself.
      const bool isFactor = decision.getCompute().isTF32()
                                ? type.isF32()
                                : type == decision.getCompute();
      if (!isFactor || decided != type)
        report(op) << "expected to multiply " << decision.getCompute()
                   << " as decided, found operand " << index << " in " << type;
      return;
    }
    const bool moves = op.movesElements();
    const bool isRounded = modelTypes->isRounded(value);
    const bool keeps =
        !moves && policyKeepsOperandFP32(op.getPolicyKey(), index);
    // The record may name a type other than the model's only for movements of
    // low values.
    const bool isAny = !decided && !judgement.keep && !keeps;
    const bool isExpected =
        isAny ||
        (decided && (!model || decided == model || (moves && !judgement.keep)));
    if (isRounded && judgement.keep)
      report(op) << "kept in fp32 (" << stringifyReason(*judgement.keep)
                 << ") but reads operand " << index << " in " << type;
    else if (isRounded && keeps)
      report(op) << "expected operand " << index << " in fp32, found " << type;
    else if (facts && !isExpected)
      report(op) << "expected operand " << index << " to be decided as "
                 << model << ", found "
                 << (decided ? "'" + toString(decided) + "'" : "any");
    else if (decided && type != decided)
      report(op) << "expected operand " << index << " in " << decided
                 << " as decided, found " << type;
    else if (isRounded && !moves && findDirectlyRounded(value, *modelTypes))
      report(op) << "reads operand " << index
                 << " through a cast that rounds, but does not multiply it";
  });
}

// Reports `op`, a cast or amp.unscale of `value`, if a cast has already rounded
// the value, or if the value is a low copy or a rounded constant. A wider type
// would make the rounded digits look exact; a narrower type would round twice.
void VerifyPrecisionPass::verifyRounding(Operation *op, Value value,
                                         bool widens) {
  auto isForcedLow = [&](Operation *moved) {
    auto precise = cast<PrecisionOpInterface>(moved);
    return facts && facts->judge(precise).isForcedLow;
  };
  Value rounded = findRounded(value, *modelTypes, isForcedLow);
  if (!rounded)
    return;
  auto inner = rounded.getDefiningOp<amp::CastOp>();
  report(op) << (widens ? "widens" : "rounds again") << " what a cast from "
             << (inner ? getFloatType(inner.getInput())
                       : modelTypes->lookup(rounded))
             << " to " << getFloatType(rounded) << " has rounded";
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

// Verifies all rules about an op with operands and results.
void VerifyPrecisionPass::verifyOp(Operation *op) {
  verifyExpanded(op);
  verifyOptimizer(op);
  if (auto castOp = dyn_cast<amp::CastOp>(op))
    verifyRounding(op, castOp.getInput(),
                   getFloatType(castOp).getWidth() >
                       getFloatType(castOp.getInput()).getWidth());
  if (auto unscale = dyn_cast<UnscaleOp>(op))
    verifyRounding(op, unscale.getGrad(), /*widens=*/true);
  if (auto constant = dyn_cast<mpc::ConstantOp>(op); constant && facts)
    verifyConstant(constant, asked->getLowType(),
                   [&](Operation *at) { return report(at); });
  auto precise = dyn_cast<PrecisionOpInterface>(op);
  if (!precise || op->hasTrait<OpTrait::ConstantLike>())
    return;
  DecisionAttr decision = DecisionAttr::of(op);
  if (!decision) {
    if (hasFloats(op) && !isa<GradientSeedOp>(op))
      report(op) << "expected an amp.decision, found none";
    return;
  }
  if (!decision.fits(op)) {
    report(op) << "expected an amp.decision with a type for each float operand "
                  "and result, found "
               << decision.getOperands().size() << " operands and "
               << decision.getResults().size() << " results";
    return;
  }
  const PrecisionFacts::Judgement judgement = judge(precise, decision);
  if (facts)
    nodes.add(precise, judgement);
  verifyRecord(precise, decision, judgement);
  verifyTF32(precise, decision);
  verifyModelTypes(precise, decision);
  verifyResultTypes(precise, decision, judgement);
  verifyOperandTypes(precise, decision, judgement);
}

//===----------------------------------------------------------------------===//
// The loss scale
//===----------------------------------------------------------------------===//

void VerifyPrecisionPass::verifyScale(FunctionOpInterface function) {
  auto reportAt = [&](Operation *op) { return report(op); };
  if (scales) {
    LossScaleAnalysis analysis(function, *variables, reportAt);
    if (updatesParameters(function, *variables))
      verifyUpdateGuards(function, analysis.getUnscaled(), *variables,
                         reportAt);
    if (hasScaledLoss)
      verifyStatisticGuards(function, *variables, reportAt);
    if (isDynamic && hasScaledLoss)
      verifyScaleUpdate(function, analysis.getUnscaled(), *variables, reportAt);
    return;
  }
  function->walk([&](Operation *op) {
    if (isa<ScaleLossOp, UnscaleOp>(op))
      report(op) << "scales in a module whose loss scale is none";
  });
}

//===----------------------------------------------------------------------===//
// Results of functions, and low copies of parameters
//===----------------------------------------------------------------------===//

// Verifies that results have the types of the model. Only low copies of
// parameters may be rounded.
void VerifyPrecisionPass::verifyResults(FunctionOpInterface function) {
  Operation *terminator = getReturn(function);
  for (OpOperand &result : terminator->getOpOperands()) {
    unsigned index = result.getOperandNumber();
    VariableOp variable = getUpdatedVariable(function, index, *variables);
    bool isCopy = variable && variable.getRole() == Role::Derived;
    if (!isCopy && modelTypes->isRounded(result.get()))
      report(terminator) << "returns a value that the stage has rounded to "
                         << getFloatType(result.get()) << " as result "
                         << index;
  }
}

// Fills `copies` from @derive. Reports a low copy that @derive does not
// compute: the copy would have no value after state is loaded.
void VerifyPrecisionPass::findCopies() {
  copies.clear();
  // @derive computes each copy as the cast of a parameter.
  llvm::DenseSet<Operation *> made;
  auto derive =
      getOperation().lookupSymbol<FunctionOpInterface>(kDeriveFunction);
  for (unsigned i = 0; derive && i < derive.getNumResults(); ++i) {
    VariableOp copy = getUpdatedVariable(derive, i, *variables);
    auto cast = getReturn(derive)->getOperand(i).getDefiningOp<amp::CastOp>();
    auto master =
        cast ? dyn_cast<BlockArgument>(cast.getInput()) : BlockArgument();
    VariableOp variable =
        master ? variables->lookupVariable(getArgumentPort(master).getState())
               : VariableOp();
    if (!copy || !variable)
      continue;
    made.insert(copy);
    copies[variable] = copy;
    if (copy.getSymName() != (variable.getSymName() + kLowSuffix).str())
      report(copy) << "expected @derive to compute @" << copy.getSymName()
                   << " from its own parameter, found @"
                   << variable.getSymName();
  }
  for (auto variable : getOperation().getOps<VariableOp>())
    if (variable.getRole() == Role::Derived && !made.contains(variable))
      report(variable) << "expected @derive to write @" << variable.getSymName()
                       << ", the low copy of a parameter";
}

// Verifies that each update of a parameter also writes the low copy. The next
// forward pass would read an outdated copy.
void VerifyPrecisionPass::verifyCopies(FunctionOpInterface function) {
  llvm::MapVector<Operation *, Value> updates;
  for (OpOperand &result : getReturn(function)->getOpOperands())
    if (VariableOp variable =
            getUpdatedVariable(function, result.getOperandNumber(), *variables))
      updates[variable] = result.get();
  for (auto [variable, value] : updates) {
    VariableOp copy = copies.lookup(variable);
    if (!copy)
      continue;
    Value written = updates.lookup(copy);
    auto copying =
        written ? written.getDefiningOp<amp::CastOp>() : amp::CastOp();
    if (!copying || copying.getInput() != value)
      report(function) << "updates @" << cast<VariableOp>(variable).getSymName()
                       << " but does not write its copy @" << copy.getSymName();
  }
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

void VerifyPrecisionPass::runOnOperation() {
  ModuleOp module = getOperation();
  auto scale = module->getAttrOfType<LossScaleAttr>(kLossScaleAttr);
  scales = scale && scale.getValue() != LossScale::None;
  isDynamic = scale && scale.getValue() == LossScale::Dynamic;
  hasScaledLoss =
      module.walk([](ScaleLossOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  violated = false;
  variables.emplace(module);
  gatherFacts();
  verifyMode();

  // Check variables and copies first: the checks of functions use `copies`.
  for (auto variable : module.getOps<VariableOp>())
    verifyState(variable);
  findCopies();
  verifyScaleRequest(module, *variables,
                     [&](Operation *op) { return report(op); });
  nodes = NodeAgreement();
  for (auto function : module.getOps<FunctionOpInterface>()) {
    function->walk([&](Operation *op) { verifyOp(op); });
    verifyScale(function);
    verifyResults(function);
    verifyCopies(function);
    verifyReplacedState(function, *variables,
                        [&](Operation *op) { return report(op); });
  }
  nodes.verify(module, [&](Operation *op) { return report(op); });
  if (violated)
    signalPassFailure();
  markAllAnalysesPreserved();
}
