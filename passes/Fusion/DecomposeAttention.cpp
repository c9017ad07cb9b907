// Rewrites attention and its gradient into matrix products and elementwise ops.
// Runs before mpc-tile-products, which computes the scores part by part.
// Scores, softmax and their gradients are f32; products read the types of the
// attention's operands.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/AMP/TF32.h"
#include "passes/Fusion/Attentions.h"
#include "passes/Fusion/Decompose.h"
#include "passes/Fusion/Passes.h"

namespace mpc {
#define GEN_PASS_DEF_DECOMPOSEATTENTIONPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// Values of the forward pass that the gradient of an attention reads.
struct AttentionWeights {
  /// tanh(scores / cap); null if the attention has no softcap.
  Value capped;
  /// The softmax before dropout, in the type in which the product with the
  /// values reads the softmax.
  Value softmax;
};

/// Emits the ops of an attention or of its gradient.
template <typename Op>
class AttentionEmitter {
public:
  explicit AttentionEmitter(Op op)
      : op(op), e(op), scores(op.getScoresShape()) {}

  /// Emits the scores, applies softcap and mask, and emits the softmax.
  AttentionWeights computeWeights();
  /// Applies the dropout of the attention to `value`, the softmax or its
  /// gradient.
  Value drop(Value value);
  /// Emits a matrix product with factor `alpha` and element type `element`.
  /// `factor` names the transposed factor.
  Value multiply(Value lhs, Value rhs, TransposedFactor factor, double alpha,
                 Type element);
  /// Backpropagate through the softcap or the mask: take the gradient of the
  /// result and return the gradient of the operand.
  Value passSoftcap(Value gradient, const AttentionWeights &weights);
  Value passMask(Value gradient);
  /// Sums `gradient` over the axes along which a tensor of `shape` was
  /// broadcast.
  Value sumTo(Value gradient, ArrayRef<int64_t> shape);

  Op op;
  Emitter e;

private:
  Value maskScores(Value value);
  Value findSeen();
  Value iota(int64_t axis, int64_t first);

  SmallVector<int64_t> scores;
};

struct DecomposeAttentionPass
    : public mpc::impl::DecomposeAttentionPassBase<DecomposeAttentionPass> {
  void runOnOperation() override;
};
} // namespace

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

template <typename Op>
Value AttentionEmitter<Op>::multiply(Value lhs, Value rhs,
                                     TransposedFactor factor, double alpha,
                                     Type element) {
  const bool transA = factor == TransposedFactor::Lhs;
  const bool transB = factor == TransposedFactor::Rhs;
  auto rows = [](Value value, bool isTransposed) {
    return shapeOf(value).end()[isTransposed ? -1 : -2];
  };
  SmallVector<int64_t> shape =
      *broadcastShapes(shapeOf(lhs).drop_back(2), shapeOf(rhs).drop_back(2));
  shape.append({rows(lhs, transA), rows(rhs, !transB)});
  auto product =
      MatMulOp::create(e.builder, RankedTensorType::get(shape, element), lhs,
                       rhs, transA, transB, APFloat(alpha));
  amp::copyTF32(op, product);
  return e.finish(product);
}

// Returns the numbers first, first + 1, ... along `axis` of the scores.
template <typename Op>
Value AttentionEmitter<Op>::iota(int64_t axis, int64_t first) {
  SmallVector<int64_t> shape(scores.size(), 1), values;
  shape[axis] = scores[axis];
  for (int64_t i = 0; i < scores[axis]; ++i)
    values.push_back(first + i);
  auto type = RankedTensorType::get(shape, e.builder.getI64Type());
  return e.constant(DenseElementsAttr::get(type, ArrayRef<int64_t>(values)));
}

// Returns a boolean for each pair of query and key: true if the query may see
// the key, by the mask and by the causal offset. Null if every query sees all
// keys.
template <typename Op>
Value AttentionEmitter<Op>::findSeen() {
  Value seen = op.getMask();
  std::optional<int64_t> offset = op.getCausalOffset();
  if (!offset)
    return seen;
  int64_t rank = scores.size();
  Type boolean = e.builder.getI1Type();
  Value keys = iota(rank - 1, 0), last = iota(rank - 2, *offset);
  Value causal = e.emitAs<LessOrEqualOp>(boolean, keys, last);
  return seen ? e.emitAs<AndOp>(boolean, seen, causal) : causal;
}

template <typename Op>
Value AttentionEmitter<Op>::maskScores(Value value) {
  for (Value bias : op.getBiases())
    value = e.emit<AddOp>(value, bias);
  Value seen = findSeen();
  return seen ? e.emit<SelectOp>(seen, value,
                                 e.scalar(op.getHidden().convertToDouble()))
              : value;
}

template <typename Op>
AttentionWeights AttentionEmitter<Op>::computeWeights() {
  AttentionWeights weights;
  // With a softcap, scores are cap * tanh(q k^T * scale / cap).
  double cap = op.getSoftcap().convertToDouble();
  double scale = op.getScale().convertToDouble();
  Value value = multiply(op.getQuery(), op.getKey(), TransposedFactor::Rhs,
                         cap == 0 ? scale : scale / cap, e.compute);
  if (cap != 0) {
    weights.capped = e.emit<TanhOp>(value);
    value = e.emit<MulOp>(weights.capped, e.scalar(cap));
  }
  value = maskScores(value);
  // The product with the values reads the softmax in the type of the values.
  Type element = elementOf(op.getValue());
  int64_t last = scores.size() - 1;
  weights.softmax = e.finish(SoftmaxOp::create(
      e.builder, RankedTensorType::get(scores, element), value, last));
  // A query that sees no key has a softmax over -inf alone, which is NaN. Set
  // the weights of such queries to 0.
  if (op.getZeroEmptyRows()) {
    Value isNaN = e.emitAs<IsNaNOp>(e.builder.getI1Type(), weights.softmax);
    Value zero = e.convert(e.scalar(0), element);
    weights.softmax = e.emitAs<SelectOp>(element, isNaN, zero, weights.softmax);
  }
  return weights;
}

template <typename Op>
Value AttentionEmitter<Op>::drop(Value value) {
  if (op.getDropout().isZero())
    return value;
  return e.finish(DropoutOp::create(e.builder, value.getType(), value,
                                    op.getSeed(), op.getMicroStep(), Value(),
                                    op.getDropoutAttr(), op.getDropoutIdAttr(),
                                    DenseI64ArrayAttr()));
}

// d/ds of c * tanh(s / c) is 1 - tanh(s / c)^2.
template <typename Op>
Value AttentionEmitter<Op>::passSoftcap(Value gradient,
                                        const AttentionWeights &weights) {
  if (!weights.capped)
    return gradient;
  Value square = e.emit<MulOp>(weights.capped, weights.capped);
  return e.emit<MulOp>(gradient, e.emit<SubOp>(e.scalar(1), square));
}

// Backpropagates through the mask: hidden scores have gradient 0. If hidden
// scores are minus infinity, their softmax and so their gradient are 0 already.
template <typename Op>
Value AttentionEmitter<Op>::passMask(Value gradient) {
  if (op.getHidden().isInfinity())
    return gradient;
  Value seen = findSeen();
  return seen ? e.emit<SelectOp>(seen, gradient, e.scalar(0)) : gradient;
}

template <typename Op>
Value AttentionEmitter<Op>::sumTo(Value gradient, ArrayRef<int64_t> shape) {
  ArrayRef<int64_t> whole = shapeOf(gradient);
  size_t missing = whole.size() - shape.size();
  SmallVector<int64_t> axes;
  for (size_t i = 0; i < whole.size(); ++i)
    if (i < missing || shape[i - missing] != whole[i])
      axes.push_back(i);
  if (axes.empty())
    return gradient;
  return e.reshape(e.reduce<ReduceSumOp>(gradient, axes), shape);
}

//===----------------------------------------------------------------------===//
// The ops
//===----------------------------------------------------------------------===//

static AttentionWeights decomposeForward(AttentionOp op) {
  AttentionEmitter<AttentionOp> attention(op);
  AttentionWeights weights = attention.computeWeights();
  Value output = attention.multiply(attention.drop(weights.softmax),
                                    op.getValue(), TransposedFactor::None, 1.0,
                                    elementOf(op.getOutput()));
  op.replaceAllUsesWith(output);
  return weights;
}

// Casts `value` to element type `element`, unless `value` has this type.
static Value roundTo(Type element, Value value, Emitter &e) {
  return elementOf(value) == element ? value
                                     : e.emitAs<amp::CastOp>(element, value);
}

static void decomposeGradient(AttentionGradOp op,
                              const AttentionWeights *forward) {
  AttentionEmitter<AttentionGradOp> attention(op);
  Emitter &e = attention.e;
  AttentionWeights weights = forward ? *forward : attention.computeWeights();
  auto replace = [&](Value result, Value gradient) {
    result.replaceAllUsesWith(roundTo(
        elementOf(result), attention.sumTo(gradient, shapeOf(result)), e));
  };
  // Skip a gradient that nothing reads. A useless product would read the whole
  // matrix of scores, which then could not be computed in parts.
  auto replaceByProduct = [&](Value result, Value lhs, Value rhs,
                              TransposedFactor factor, double alpha) {
    if (!result.use_empty())
      replace(result, attention.multiply(lhs, rhs, factor, alpha, e.compute));
  };
  double scale = op.getScale().convertToDouble();

  // Backpropagate through softmax(scores) * V and through the dropout.
  Value dy = op.getDOutput();
  replaceByProduct(op.getDValue(), attention.drop(weights.softmax), dy,
                   TransposedFactor::Lhs, 1.0);
  Value gradient = attention.drop(attention.multiply(
      dy, op.getValue(), TransposedFactor::Rhs, 1.0, e.compute));

  // Backpropagate through the softmax, the mask and the softcap.
  auto type = typeOf(gradient);
  gradient = e.finish(SoftmaxGradOp::create(
      e.builder, type, gradient, weights.softmax, type.getRank() - 1));
  gradient = attention.passMask(gradient);
  for (Value dBias : op.getDBiases())
    if (!dBias.use_empty())
      replace(dBias, gradient);
  gradient = attention.passSoftcap(gradient, weights);

  // Backpropagate through the scores Q K^T.
  gradient = roundTo(elementOf(op.getQuery()), gradient, e);
  replaceByProduct(op.getDQuery(), gradient, op.getKey(),
                   TransposedFactor::None, scale);
  replaceByProduct(op.getDKey(), gradient, op.getQuery(), TransposedFactor::Lhs,
                   scale);
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

void DecomposeAttentionPass::runOnOperation() {
  // Collect all ops first, because each gradient looks for its forward op.
  SmallVector<AttentionOp> attentions;
  SmallVector<AttentionGradOp> gradients;
  getOperation().walk([&](Operation *op) {
    if (auto attention = dyn_cast<AttentionOp>(op))
      attentions.push_back(attention);
    if (auto gradient = dyn_cast<AttentionGradOp>(op))
      gradients.push_back(gradient);
  });
  // In one block, a gradient reuses the softmax of its forward op. Otherwise
  // the gradient recomputes the softmax.
  llvm::DenseMap<Operation *, AttentionWeights> weights;
  for (AttentionOp op : attentions)
    weights[op] = decomposeForward(op);
  for (AttentionGradOp op : gradients) {
    auto forward = llvm::find_if(
        attentions, [&](AttentionOp each) { return isForwardOf(each, op); });
    decomposeGradient(op, forward == attentions.end() ? nullptr
                                                      : &weights[*forward]);
    op.erase();
  }
  for (AttentionOp op : attentions)
    op.erase();
}
