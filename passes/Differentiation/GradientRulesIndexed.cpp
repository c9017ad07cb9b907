// Gradients of ops that read or write elements which indices name: reading and
// writing are each other's.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/GradientRules.h"

using namespace mlir;
using namespace mpc;

// Zeros of the data's shape, to which updates are added.
static Value zerosLike(GradientBuilder &g, Location loc, Value data) {
  return g.zeros(loc, cast<RankedTensorType>(getGradientType(typeOf(data))));
}

static void gradGather(GatherOp op, GradientBuilder &g) {
  Location loc = g.at("dx");
  Value zeros = zerosLike(g, loc, op.getData());
  g.add(0, "dx",
        ScatterOp::create(g.ops(), loc, zeros.getType(), zeros, op.getIndices(),
                          g.dy(), op.getAxis(), op.getBatchDims(),
                          ScatterReduction::Add));
}

static void gradGatherElements(GatherElementsOp op, GradientBuilder &g) {
  Location loc = g.at("dx");
  Value zeros = zerosLike(g, loc, op.getData());
  g.add(0, "dx",
        ScatterElementsOp::create(g.ops(), loc, zeros.getType(), zeros,
                                  op.getIndices(), g.dy(), op.getAxis(),
                                  ScatterReduction::Add));
}

namespace {
/// The elements that an op scatters to, as tensors of the updates' shape and of
/// the data's.
struct Places {
  GradientBuilder &g;
  Location loc;
  Operation *op;

  Value gather(Value data) const;
  Value scatter(Value data, Value updates, ScatterReduction reduction) const;
};
} // namespace

Value Places::gather(Value data) const {
  if (auto parts = dyn_cast<ScatterOp>(op))
    return GatherOp::create(
        g.ops(), loc, parts.getUpdates().getType().clone(elementOf(data)), data,
        parts.getIndices(), parts.getAxis(), parts.getBatchDims());
  auto elements = cast<ScatterElementsOp>(op);
  return GatherElementsOp::create(
      g.ops(), loc, elements.getUpdates().getType().clone(elementOf(data)),
      data, elements.getIndices(), elements.getAxis());
}

Value Places::scatter(Value data, Value updates,
                      ScatterReduction reduction) const {
  if (auto parts = dyn_cast<ScatterOp>(op))
    return ScatterOp::create(g.ops(), loc, data.getType(), data,
                             parts.getIndices(), updates, parts.getAxis(),
                             parts.getBatchDims(), reduction);
  auto elements = cast<ScatterElementsOp>(op);
  return ScatterElementsOp::create(g.ops(), loc, data.getType(), data,
                                   elements.getIndices(), updates,
                                   elements.getAxis(), reduction);
}

// `value` where `condition` holds, and a number elsewhere.
static Value choose(const Places &at, Value condition, Value value,
                    double otherwise) {
  return SelectOp::create(at.g.ops(), at.loc, value.getType(), condition, value,
                          at.g.constant(at.loc, otherwise, value));
}

static Value areEqual(const Places &at, Value lhs, Value rhs) {
  return EqualOp::create(at.g.ops(), at.loc, lhs, rhs);
}

// Ones of the type of `like` where `condition` holds, zeros elsewhere.
static Value mark(const Places &at, Value condition, Value like) {
  Value one = at.g.constant(at.loc, 1.0, like);
  return SelectOp::create(at.g.ops(), at.loc, like.getType(), condition, one,
                          at.g.constant(at.loc, 0.0, like));
}

// Spread evenly over the data and updates that are the extremum.
static std::pair<Value, Value> findSlopesOfExtremum(const Places &at, Value x,
                                                    Value updates, Value y) {
  Value ofData = mark(at, areEqual(at, x, y), x);
  Value ofUpdates = mark(at, areEqual(at, updates, at.gather(y)), updates);
  Value count = at.scatter(ofData, ofUpdates, ScatterReduction::Add);
  auto divide = [&](Value marks, Value counts) {
    return DivOp::create(at.g.ops(), at.loc, marks.getType(), marks, counts);
  };
  return {divide(ofData, count), divide(ofUpdates, at.gather(count))};
}

// The product of all other factors of an element, as a product's along an axis:
// zeros count as 1 in a product p of the rest. Of a single one the slope is p,
// of other factors 0, and so it is of all where there are two.
static std::pair<Value, Value> findSlopesOfProduct(const Places &at, Value x,
                                                   Value updates) {
  auto isZero = [&](Value value) {
    return areEqual(at, value, at.g.constant(at.loc, 0.0, value));
  };
  auto fill = [&](Value value) {
    return SelectOp::create(at.g.ops(), at.loc, value.getType(), isZero(value),
                            at.g.constant(at.loc, 1.0, value), value);
  };
  Value filled = fill(x), zeros = mark(at, isZero(x), x);
  Value filledUpdates = fill(updates);
  Value zeroUpdates = mark(at, isZero(updates), updates);
  Value product = at.scatter(filled, filledUpdates, ScatterReduction::Mul);
  Value count = at.scatter(zeros, zeroUpdates, ScatterReduction::Add);
  // A factor counts where the zeros of the rest are none.
  auto slope = [&](Value products, Value counts, Value factors, Value own) {
    Value rest =
        DivOp::create(at.g.ops(), at.loc, factors.getType(), products, factors);
    return choose(at, areEqual(at, counts, own), rest, 0.0);
  };
  return {
      slope(product, count, filled, zeros),
      slope(at.gather(product), at.gather(count), filledUpdates, zeroUpdates)};
}

// What an update replaced has no gradient; a sum passes it to both, a product
// and an extremum by a slope.
template <typename OpTy>
static void gradScatterLike(OpTy op, GradientBuilder &g) {
  const Places at{g, g.at("dx"), op};
  const ScatterReduction reduction = op.getReduction();
  // How much of dy reaches an element: all of it, unless the update replaced
  // it, multiplied it or was the extremum.
  Value dx = g.dy();
  std::pair<Value, Value> slopes;
  if (reduction == ScatterReduction::None)
    dx = at.scatter(dx, zerosLike(g, at.loc, op.getUpdates()), reduction);
  else if (reduction == ScatterReduction::Mul)
    slopes = findSlopesOfProduct(at, op.getData(), op.getUpdates());
  else if (reduction != ScatterReduction::Add)
    slopes =
        findSlopesOfExtremum(at, op.getData(), op.getUpdates(), op.getOutput());
  // No slope stands for 1.
  auto scale = [&](Value gradient, Value slope) {
    return slope ? g.mul(at.loc, gradient, slope) : gradient;
  };
  // The data's gradient lies where the data did; an update's is looked up at
  // its index.
  if (g.needs(0))
    g.add(0, "dx", scale(dx, slopes.first));
  if (g.needs(2))
    g.add(2, "du", scale(at.gather(g.dy()), slopes.second));
}

void mpc::addIndexedRules(GradientRules &rules) {
  rules.add(gradGather);
  rules.add(gradGatherElements);
  rules.add(gradScatterLike<ScatterOp>);
  rules.add(gradScatterLike<ScatterElementsOp>);
}
