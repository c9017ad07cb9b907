// Chooses a library or products for each attention, before other passes see the
// products.
//
// The library computes forward pass and gradient as a whole. The forward pass
// stores statistics of each row of scores; from these and the output, the
// gradient computes the softmax again.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Passes.h"

#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/LibraryAttention.h"
#include "compiler/Support/ExitCode.h"
#include "passes/Fusion/Attentions.h"
#include "passes/Fusion/Decompose.h"

namespace mpc {
#define GEN_PASS_DEF_PLACEATTENTIONPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// An attention that the library computes. `seen` tells which rows of the
/// scores have a key, if other rows shall be zero; null otherwise.
struct Placed {
  AttentionOp op;
  LibraryAttentionOp library;
  Value seen;
};

struct PlaceAttentionPass
    : public mpc::impl::PlaceAttentionPassBase<PlaceAttentionPass> {
  using PlaceAttentionPassBase::PlaceAttentionPassBase;
  void runOnOperation() override;

private:
  template <typename Op>
  bool isPlaced(Op op, const std::string &obstacle);

  bool hasFailed = false;
};
} // namespace

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

// Returns `value`, a query, key, value or output of `heads` heads, as [batch,
// heads, rows, columns].
static Value mergeAxes(Value value, int64_t batch, int64_t heads, Emitter &e) {
  ArrayRef<int64_t> rows = shapeOf(value).take_back(2);
  return e.reshape(value, {batch, heads, rows[0], rows[1]});
}

// Returns `value`, a bias or mask of `op`, with four axes. The library repeats
// values along axes of one element, so skips an expand.
static Value spread(AttentionOp op, Value value, Emitter &e) {
  while (auto expand = value.getDefiningOp<ExpandOp>())
    value = expand.getInput();
  return e.reshape(value, *findSpreadShape(op, value));
}

// Returns the f32 sum of the biases, with a hidden score where the mask is
// false; null if there is neither.
static Value joinBiases(AttentionOp op, Emitter &e) {
  Value bias;
  for (Value each : op.getBiases()) {
    Value next = spread(op, each, e);
    if (elementOf(next) != e.compute)
      next = e.convert(next, e.compute);
    bias = bias ? e.emit<AddOp>(bias, next) : next;
  }
  if (!op.getMask())
    return bias;
  Value hidden = e.scalar(op.getHidden().convertToDouble());
  return e.emit<SelectOp>(spread(op, op.getMask(), e),
                          bias ? bias : e.scalar(0), hidden);
}

// Returns a boolean for each row of `bias`: true if the row's query sees a key.
static Value findSeenRows(Value bias, Emitter &e) {
  Value hidden = e.scalar(-std::numeric_limits<double>::infinity());
  return e.emitAs<LessOp>(e.builder.getI1Type(), hidden,
                          e.reduce<ReduceMaxOp>(bias, {3}));
}

// Returns `value` [batch, heads, queries, columns] with zeros in rows that see
// no key. Returns `value` itself if `seen` is null.
static Value clearEmptyRows(Value value, Value seen, Emitter &e) {
  if (!seen)
    return value;
  Type element = elementOf(value);
  return e.emitAs<SelectOp>(element, seen, value,
                            e.convert(e.scalar(0), element));
}

//===----------------------------------------------------------------------===//
// The ops
//===----------------------------------------------------------------------===//

static Placed placeForward(AttentionOp op) {
  Emitter e(op);
  const AttentionAxes axes =
      *findAttentionAxes(shapeOf(op.getQuery()), shapeOf(op.getKey()));
  Value query = mergeAxes(op.getQuery(), axes.batch, axes.heads, e);
  Value key = mergeAxes(op.getKey(), axes.batch, axes.keyHeads, e);
  Value value = mergeAxes(op.getValue(), axes.batch, axes.keyHeads, e);
  Value bias = joinBiases(op, e), seen;
  // In a row without keys, scores of minus infinity have no softmax. A finite
  // bias that hides as well gives such a row a softmax, whose product is
  // cleared.
  if (op.getZeroEmptyRows() && bias) {
    seen = findSeenRows(bias, e);
    bias = e.emit<MaximumOp>(bias, e.scalar(kHidingBias));
  }
  SmallVector<int64_t> output(shapeOf(query));
  output.back() = shapeOf(value).back();
  auto type = typeOf(query).clone(output);
  auto statistics = RankedTensorType::get(ArrayRef(output).drop_back(),
                                          e.builder.getF32Type());
  auto library = LibraryAttentionOp::create(
      e.builder, type, statistics, query, key, value, bias,
      e.builder.getF64FloatAttr(op.getScale().convertToDouble()),
      op.getCausalOffsetAttr());
  e.finish(library);
  op.replaceAllUsesWith(e.reshape(clearEmptyRows(library.getOutput(), seen, e),
                                  shapeOf(op.getOutput())));
  return {op, library, seen};
}

static void placeGradient(AttentionGradOp op, const Placed &forward) {
  Emitter e(op);
  LibraryAttentionOp library = forward.library;
  Value dOutput =
      clearEmptyRows(e.reshape(op.getDOutput(), shapeOf(library.getOutput())),
                     forward.seen, e);
  auto gradient = LibraryAttentionGradOp::create(
      e.builder, library.getQuery().getType(), library.getKey().getType(),
      library.getValue().getType(), dOutput, library.getQuery(),
      library.getKey(), library.getValue(), library.getOutput(),
      library.getStatistics(), library.getBias(), library.getScaleAttr(),
      library.getCausalOffsetAttr());
  e.finish(gradient);
  for (auto [old, result] :
       llvm::zip(op->getResults().take_front(3), gradient->getResults()))
    old.replaceAllUsesWith(e.reshape(result, shapeOf(old)));
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

// True if the library shall compute `op`. Reports the obstacle if the user asks
// for the library.
template <typename Op>
bool PlaceAttentionPass::isPlaced(Op op, const std::string &obstacle) {
  if (obstacle.empty() || attention != "library")
    return obstacle.empty();
  hasFailed = true;
  StringRef name = getNodeName(op);
  withExitCode(op->emitError(), ExitCode::Unsupported)
      << "--attention library: no library of the target computes attention '"
      << (name.empty() ? op->getName().getStringRef() : name)
      << "': " << obstacle
      << "; with --attention auto, products compute this attention";
  return false;
}

void PlaceAttentionPass::runOnOperation() {
  if (!llvm::is_contained({"auto", "library", "products"},
                          StringRef(attention))) {
    getOperation().emitError("expected --attention auto, library or products, "
                             "found ")
        << attention;
    return signalPassFailure();
  }
  if (attention == "products")
    return markAllAnalysesPreserved();
  const TargetInfo target = getTarget(getOperation());
  hasFailed = false;
  SmallVector<Placed> placed;
  SmallVector<AttentionGradOp> gradients;
  getOperation().walk([&](Operation *op) {
    if (auto gradient = dyn_cast<AttentionGradOp>(op))
      gradients.push_back(gradient);
    if (auto forward = dyn_cast<AttentionOp>(op))
      if (isPlaced(forward, findAttentionObstacle(forward, target)))
        placed.push_back({forward, {}, {}});
  });
  // The gradient compares its operands with those of the forward op, so erase
  // ops at the end.
  for (Placed &each : placed)
    each = placeForward(each.op);
  for (AttentionGradOp gradient : gradients) {
    auto forward = llvm::find_if(placed, [&](const Placed &each) {
      return isForwardOf(each.op, gradient);
    });
    const bool isPaired = forward != placed.end();
    if ((!isPaired && hasFailed) ||
        !isPlaced(gradient, isPaired ? findAttentionObstacle(gradient)
                                     : "its forward pass is elsewhere"))
      continue;
    placeGradient(gradient, *forward);
    gradient.erase();
  }
  for (const Placed &each : placed)
    each.op->erase();
  if (hasFailed)
    signalPassFailure();
}
