// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/StageConstants.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/AMP/ConstantAttrs.h"
#include "compiler/Interfaces/TiedValues.h"
#include "compiler/Precision/ConstantElements.h"
#include "passes/Precision/FloatTypes.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

bool amp::isOne(Value value) {
  DenseFPElementsAttr elements;
  return matchPattern(value, m_Constant(&elements)) && elements.isSplat() &&
         elements.getSplatValue<APFloat>().isExactlyValue(1.0);
}

// True if `op` reads a constant loss scale. Functions return the scale, since
// runs print it.
static bool isScaleReader(Operation *op) {
  return isa<ScaleLossOp, UnscaleOp>(op) || op->hasTrait<OpTrait::ReturnLike>();
}

// Returns `number` rounded to nearest even in `type`. The result may be
// infinite.
static double roundTo(double number, FloatType type) {
  APFloat value(number);
  bool losesInfo;
  value.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                &losesInfo);
  return value.convertToDouble();
}

// True if `op` may hold the elements that `before` summarizes, rounded to
// `type`. Rounding is monotonic, so the smallest element remains the smallest.
// Elements that become infinite do not count in either summary.
static bool isRounding(mpc::ConstantOp op, ArrayRef<double> before,
                       FloatType type) {
  std::optional<ElementSummary> after = summarize(op.getValue());
  if (!after || before.empty())
    return after && after->isEmpty;
  const double low = roundTo(before[0], type), high = roundTo(before[1], type);
  if (std::isfinite(low) && std::isfinite(high))
    return after->low == low && after->high == high;
  return after->isEmpty || (after->low >= low && after->high <= high);
}

void amp::verifyConstant(
    mpc::ConstantOp op, FloatType low,
    llvm::function_ref<InFlightDiagnostic(Operation *)> report) {
  FloatType type = getFloatType(op.getResult());
  if (!type)
    return;
  auto rounded = op->getAttrOfType<DenseF64ArrayAttr>(kRoundedAttr);
  const bool isSeed = op->hasAttr(kSeedAttr);
  DecisionAttr decision = DecisionAttr::of(op);
  if (decision && (rounded || isSeed || type != decision.getStorage())) {
    report(op) << "expected a constant of the model in "
               << decision.getStorage() << ", found " << type;
  } else if (rounded) {
    if (type != low || !isRounding(op, rounded, type))
      report(op) << "holds other elements than the constant of the model, "
                    "rounded to "
                 << low;
  } else if (isSeed) {
    bool isReadForward = false;
    forEachTiedUse(op.getResult(), [&](OpOperand &use) {
      isReadForward |= isa<PrecisionOpInterface>(use.getOwner()) &&
                       isForward(getPhase(use.getOwner()));
    });
    if (!isOne(op.getResult()))
      report(op) << "expected a gradient seed of ones";
    else if (isReadForward)
      report(op) << "expected no forward op to read a gradient seed";
  } else if (!decision && !llvm::all_of(op->getUsers(), isScaleReader)) {
    report(op) << "expected an amp.decision, since the constant is neither "
                  "rounded nor a seed, found none";
  }
}
