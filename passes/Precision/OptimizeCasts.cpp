// Shares, cancels and moves casts. No pattern changes how often, or at which
// point, a value is rounded, since users could see the difference.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/AMP/ConstantAttrs.h"
#include "compiler/Precision/ConstantElements.h"
#include "passes/Precision/FloatTypes.h"
#include "passes/Precision/Passes.h"
#include "passes/Precision/ScanCasts.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mpc {
#define GEN_PASS_DEF_OPTIMIZECASTSPASS
#include "passes/Precision/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

namespace {
struct OptimizeCastsPass : mpc::impl::OptimizeCastsPassBase<OptimizeCastsPass> {
  using OptimizeCastsPassBase::OptimizeCastsPassBase;
  void runOnOperation() override;
};
} // namespace

// True if type `to` represents every value of type `from`.
static bool isLossless(FloatType from, FloatType to) {
  const llvm::fltSemantics &narrow = from.getFloatSemantics();
  const llvm::fltSemantics &wide = to.getFloatSemantics();
  return APFloat::semanticsPrecision(narrow) <=
             APFloat::semanticsPrecision(wide) &&
         APFloat::semanticsMaxExponent(narrow) <=
             APFloat::semanticsMaxExponent(wide) &&
         APFloat::semanticsMinExponent(narrow) >=
             APFloat::semanticsMinExponent(wide);
}

// Returns the bits of `value` rounded to nearest even in `type`.
static APInt roundBits(APFloat value, FloatType type) {
  bool losesInfo;
  value.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                &losesInfo);
  return value.bitcastToAPInt();
}

// Returns the float elements of a resource, rounded to `type`; null if the
// resource has no values in memory.
static ElementsAttr roundResource(DenseResourceElementsAttr elements,
                                  FloatType type) {
  auto from = cast<FloatType>(elements.getElementType());
  AsmResourceBlob *blob = elements.getRawHandle().getBlob();
  const size_t count = elements.getNumElements();
  const size_t width = from.getWidth() / 8, newWidth = type.getWidth() / 8;
  if (!blob || blob->getData().size() != count * width)
    return {};
  AsmResourceBlob rounded =
      HeapAsmResourceBlob::allocate(count * newWidth, alignof(int64_t));
  const char *source = blob->getData().data();
  char *target = rounded.getMutableData().data();
  for (size_t i = 0; i < count; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, source + i * width, width);
    bits = roundBits(
               APFloat(from.getFloatSemantics(), APInt(from.getWidth(), bits)),
               type)
               .getZExtValue();
    std::memcpy(target + i * newWidth, &bits, newWidth);
  }
  return DenseResourceElementsAttr::get(elements.getType().clone(type),
                                        elements.getRawHandle().getKey(),
                                        std::move(rounded));
}

// Returns the elements of a float constant, rounded to `type`; null if the
// values are not in memory.
static ElementsAttr roundElements(ElementsAttr elements, FloatType type) {
  if (auto dense = dyn_cast<DenseFPElementsAttr>(elements))
    return cast<ElementsAttr>(dense.mapValues(
        type, [&](const APFloat &value) { return roundBits(value, type); }));
  auto resource = dyn_cast<DenseResourceElementsAttr>(elements);
  return resource ? roundResource(resource, type) : ElementsAttr();
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

namespace {
/// cast(cast(x)) -> cast(x), if the inner cast is exact, as from bf16 to f32.
struct CancelWidening : OpRewritePattern<amp::CastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(amp::CastOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<amp::CastOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "input is not a cast");
    if (!isLossless(getFloatType(inner.getInput()), getFloatType(inner)))
      return rewriter.notifyMatchFailure(op, "the inner cast rounds");
    rewriter.replaceOpWithNewOp<amp::CastOp>(op, op.getType(),
                                             inner.getInput());
    return success();
  }
};

/// cast(move(x)) -> move(cast(x)) for a narrowing cast, if only the cast reads
/// the moved value. The op then moves fewer bytes, and the cast of a parameter
/// is directly at the parameter, where a low copy can replace the cast.
struct CastBeforeMovement : OpRewritePattern<amp::CastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(amp::CastOp op,
                                PatternRewriter &rewriter) const override {
    Operation *moving = op.getInput().getDefiningOp();
    auto precise = dyn_cast_or_null<PrecisionOpInterface>(moving);
    if (!precise || !precise.movesElements())
      return rewriter.notifyMatchFailure(op, "input is not moved");
    FloatType type = getFloatType(op), from = getFloatType(op.getInput());
    if (!op.getInput().hasOneUse() || type.getWidth() >= from.getWidth())
      return rewriter.notifyMatchFailure(op, "casting first moves no less");
    // If the decision names a type for an operand, the cast stays behind.
    DecisionAttr decision = DecisionAttr::of(moving);
    if (decision &&
        llvm::any_of(decision.getOperands(), llvm::IsaPred<FloatType>))
      return rewriter.notifyMatchFailure(op, "the movement has its type");
    rewriter.modifyOpInPlace(moving, [&] {
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPoint(moving);
      for (OpOperand &operand : moving->getOpOperands())
        operand.set(amp::CastOp::create(
            rewriter, op.getLoc(),
            withElementType(operand.get().getType(), type), operand.get()));
      moving->getResult(0).setType(cast<RankedTensorType>(op.getType()));
      if (decision)
        moving->setAttr(DecisionAttr::attrName, decision.withResult(type));
    });
    rewriter.replaceOp(op, moving->getResult(0));
    return success();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

namespace {
/// A constant of a low type, and the summary of the elements before rounding.
struct RoundedConstant {
  ElementsAttr elements;
  DenseF64ArrayAttr summary;
};
/// Maps elements and a type to the rounded constant. Functions share a constant
/// and must share the rounded constant, because each resource is stored on its
/// own.
using RoundedConstants =
    llvm::DenseMap<std::pair<Attribute, Type>, RoundedConstant>;
} // namespace

static RoundedConstant roundConstant(mpc::ConstantOp constant, FloatType type) {
  RoundedConstant rounded{roundElements(constant.getValue(), type), {}};
  std::optional<ElementSummary> summary = summarizeModel(constant);
  if (rounded.elements && summary) {
    SmallVector<double, 3> numbers;
    if (!summary->isEmpty)
      numbers = {summary->low, summary->high, summary->rms};
    rounded.summary = DenseF64ArrayAttr::get(type.getContext(), numbers);
  }
  return rounded;
}

// cast(constant) -> constant. The constant may be large: otherwise each step
// would cast the constant again. The patterns do not fold constants, since the
// greedy driver merges equal constants and drops attributes.
static void castConstants(FunctionOpInterface function,
                          RoundedConstants &constants) {
  SmallVector<amp::CastOp> casts;
  function->walk([&](amp::CastOp op) {
    auto constant = op.getInput().getDefiningOp<mpc::ConstantOp>();
    if (constant &&
        getFloatType(op).getWidth() < getFloatType(op.getInput()).getWidth())
      casts.push_back(op);
  });
  for (amp::CastOp op : casts) {
    auto constant = op.getInput().getDefiningOp<mpc::ConstantOp>();
    const FloatType type = getFloatType(op);
    auto [entry, isNew] = constants.try_emplace({constant.getValue(), type});
    if (isNew)
      entry->second = roundConstant(constant, type);
    // A resource without values in memory stays as it is.
    if (!entry->second.elements)
      continue;
    OpBuilder builder(op);
    auto low = mpc::ConstantOp::create(builder, op.getLoc(), op.getType(),
                                       entry->second.elements);
    if (entry->second.summary)
      low->setAttr(kRoundedAttr, entry->second.summary);
    op.replaceAllUsesWith(low.getOutput());
    op.erase();
    if (constant->use_empty())
      constant->erase();
  }
}

//===----------------------------------------------------------------------===//
// Sharing
//===----------------------------------------------------------------------===//

// Merges casts of one value to one type into the first. In walk order, the
// first precedes all users of the others.
static void shareCasts(FunctionOpInterface function) {
  llvm::DenseMap<std::pair<Value, Type>, amp::CastOp> first;
  SmallVector<amp::CastOp> casts;
  function->walk([&](amp::CastOp op) { casts.push_back(op); });
  for (amp::CastOp op : casts) {
    auto [it, inserted] = first.try_emplace({op.getInput(), op.getType()}, op);
    if (inserted)
      continue;
    op.replaceAllUsesWith(it->second.getOutput());
    op.erase();
  }
}

// Moves casts out of loops. The walk visits inner loops first, so a cast can
// leave several loops.
static void moveCastsOutOfScans(FunctionOpInterface function) {
  SmallVector<ScanOp> scans;
  function->walk([&](ScanOp scan) { scans.push_back(scan); });
  IRRewriter rewriter(function.getContext());
  for (ScanOp scan : scans)
    moveCastsOut(scan, rewriter);
}

void OptimizeCastsPass::runOnOperation() {
  RewritePatternSet patterns(&getContext());
  patterns.add<CancelWidening, CastBeforeMovement>(&getContext());
  // These patterns remove operands and results of loops and conditions that
  // nothing reads after casts have moved.
  ScanOp::getCanonicalizationPatterns(patterns, &getContext());
  IfOp::getCanonicalizationPatterns(patterns, &getContext());
  FrozenRewritePatternSet frozen(std::move(patterns));
  RoundedConstants constants;
  // Every region has one block, so that a simplification of blocks would only
  // take time.
  GreedyRewriteConfig config;
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  for (auto function : getOperation().getOps<FunctionOpInterface>()) {
    shareCasts(function);
    moveCastsOutOfScans(function);
    if (failed(applyPatternsGreedily(function, frozen, config)))
      return signalPassFailure();
    shareCasts(function);
    castConstants(function, constants);
  }
}
