// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/ScaleRequest.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/AMP/Request.h"
#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "passes/Precision/StageConstants.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

using ReportAt = llvm::function_ref<InFlightDiagnostic(Operation *)>;

// Reports an initial scale that no step can recover from: 0, negative, infinite
// or NaN.
static void verifyInitialScale(VariableOp variable, ReportAt report) {
  if (variable.getRole() != Role::LossScale ||
      !isa<FloatType>(variable.getTensorType().getElementType()))
    return;
  const double fill =
      variable.getFill().value_or(APFloat(0.0)).convertToDouble();
  if (!(fill > 0.0) || std::isinf(fill))
    report(variable) << "expected a finite initial loss scale above 0, found "
                     << fill;
}

// True if `scale` is the state of a dynamic loss scale.
static bool isScaleState(Value scale, const VariableTable &variables) {
  auto argument = dyn_cast<BlockArgument>(scale);
  VariableOp variable =
      argument ? variables.lookupVariable(getArgumentPort(argument).getState())
               : VariableOp();
  return variable && variable.getRole() == Role::LossScale;
}

// True if `scale` is the constant `number`. The stage writes it as float32.
static bool isNumber(Value scale, double number) {
  DenseFPElementsAttr elements;
  return matchPattern(scale, m_Constant(&elements)) && elements.isSplat() &&
         elements.getSplatValue<APFloat>().convertToDouble() ==
             static_cast<float>(number);
}

void amp::verifyScaleRequest(ModuleOp module, const VariableTable &variables,
                             ReportAt report) {
  for (auto variable : module.getOps<VariableOp>())
    verifyInitialScale(variable, report);
  bool hasBackward = false, hasScaledLoss = false;
  module.walk([&](Operation *op) {
    hasBackward |= getPhase(op) == Phase::Backward;
    auto scaling = dyn_cast<ScaleLossOp>(op);
    hasScaledLoss |= static_cast<bool>(scaling);
    if (scaling && !isOne(scaling.getSeed()))
      report(op) << "expected a gradient seed of ones";
  });
  if (!module->hasAttr(kRequestAttr) || !hasBackward)
    return;
  const LossScaling asked = getRequest(module).getLossScaling();
  auto found = module->getAttrOfType<LossScaleAttr>(kLossScaleAttr);
  const LossScale kind = found ? found.getValue() : LossScale::None;
  if (kind != asked.kind)
    report(module) << "expected the requested loss scale, "
                   << stringifyLossScale(asked.kind) << ", found "
                   << stringifyLossScale(kind);
  if (asked.kind == LossScale::None)
    return;
  if (!hasScaledLoss)
    report(module) << "expected a scaled loss, found none";
  module.walk([&](Operation *op) {
    if (!isa<ScaleLossOp, UnscaleOp>(op))
      return;
    Value scale = op->getOperand(1);
    if (asked.kind == LossScale::Dynamic && !isScaleState(scale, variables))
      report(op) << "expected the state of the dynamic loss scale as the scale";
    if (asked.kind == LossScale::Static && !isNumber(scale, asked.scale))
      report(op) << "expected the requested loss scale, " << asked.scale;
  });
}
