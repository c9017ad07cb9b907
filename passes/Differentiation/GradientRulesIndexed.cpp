// Gradient rules of ops that read or write elements at given indices. The
// gradient of reading is writing, and vice versa.
//
// A slope is the derivative of a result element with respect to one data
// element or one update of a scatter.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/GradientRules.h"

using namespace mlir;
using namespace mpc;

// Creates zeros of the shape of `data`. A scatter then adds gradients at the
// indices that the forward op has read.
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
/// The elements at the indices of a scatter op. `gather` reads these elements
/// from a tensor of the data's shape; `scatter` writes updates to these
/// elements.
struct ElementPlaces {
  GradientBuilder &g;
  Location loc;
  Operation *op;

  Value gather(Value data) const;
  Value scatter(Value data, Value updates, ScatterReduction reduction) const;
};
} // namespace

Value ElementPlaces::gather(Value data) const {
  if (auto parts = dyn_cast<ScatterOp>(op))
    return GatherOp::create(
        g.ops(), loc, parts.getUpdates().getType().clone(elementOf(data)), data,
        parts.getIndices(), parts.getAxis(), parts.getBatchDims());
  auto elements = cast<ScatterElementsOp>(op);
  return GatherElementsOp::create(
      g.ops(), loc, elements.getUpdates().getType().clone(elementOf(data)),
      data, elements.getIndices(), elements.getAxis());
}

Value ElementPlaces::scatter(Value data, Value updates,
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

// Returns `value` where `condition` holds, and `otherwise` elsewhere.
static Value choose(const ElementPlaces &at, Value condition, Value value,
                    double otherwise) {
  return SelectOp::create(at.g.ops(), at.loc, value.getType(), condition, value,
                          at.g.constant(at.loc, otherwise, value));
}

static Value areEqual(const ElementPlaces &at, Value lhs, Value rhs) {
  return EqualOp::create(at.g.ops(), at.loc, lhs, rhs);
}

// Returns ones of the type of `like` where `condition` holds, zeros elsewhere.
static Value mark(const ElementPlaces &at, Value condition, Value like) {
  Value one = at.g.constant(at.loc, 1.0, like);
  return SelectOp::create(at.g.ops(), at.loc, like.getType(), condition, one,
                          at.g.constant(at.loc, 0.0, like));
}

// Returns the slopes of data and updates for a scatter with reduction max or
// min. All elements equal to the result share the gradient evenly.
static std::pair<Value, Value>
findSlopesOfExtremum(const ElementPlaces &at, Value x, Value updates, Value y) {
  Value ofData = mark(at, areEqual(at, x, y), x);
  Value ofUpdates = mark(at, areEqual(at, updates, at.gather(y)), updates);
  Value count = at.scatter(ofData, ofUpdates, ScatterReduction::Add);
  auto divide = [&](Value marks, Value counts) {
    return DivOp::create(at.g.ops(), at.loc, marks.getType(), marks, counts);
  };
  return {divide(ofData, count), divide(ofUpdates, at.gather(count))};
}

// Returns the slopes of data and updates for a scatter with reduction mul. A
// slope is the product of all other factors of the result element. Let p be the
// product with zeros replaced by 1. If one factor is 0, the slope of the zero
// is p and the slope of other factors is 0. With two zeros, all slopes are 0.
static std::pair<Value, Value> findSlopesOfProduct(const ElementPlaces &at,
                                                   Value x, Value updates) {
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
  // The slope is 0 if any other factor is zero, otherwise p / factor. `own` is
  // 1 if this factor is zero.
  auto slope = [&](Value products, Value counts, Value factors, Value own) {
    Value rest =
        DivOp::create(at.g.ops(), at.loc, factors.getType(), products, factors);
    return choose(at, areEqual(at, counts, own), rest, 0.0);
  };
  return {
      slope(product, count, filled, zeros),
      slope(at.gather(product), at.gather(count), filledUpdates, zeroUpdates)};
}

// Builds the gradients of data and updates of a scatter. An overwritten data
// element has no gradient. With reduction add, data and updates receive dy;
// with mul, max and min, dy times a slope.
template <typename OpTy>
static void gradScatterLike(OpTy op, GradientBuilder &g) {
  const ElementPlaces at{g, g.at("dx"), op};
  const ScatterReduction reduction = op.getReduction();
  // Without a reduction, set dx to zero at the overwritten elements.
  Value dx = g.dy();
  std::pair<Value, Value> slopes;
  if (reduction == ScatterReduction::None)
    dx = at.scatter(dx, zerosLike(g, at.loc, op.getUpdates()), reduction);
  else if (reduction == ScatterReduction::Mul)
    slopes = findSlopesOfProduct(at, op.getData(), op.getUpdates());
  else if (reduction != ScatterReduction::Add)
    slopes =
        findSlopesOfExtremum(at, op.getData(), op.getUpdates(), op.getOutput());
  // A null slope stands for 1, as for a reduction by add.
  auto scale = [&](Value gradient, Value slope) {
    return slope ? g.mul(at.loc, gradient, slope) : gradient;
  };
  // The gradient of data has the shape of dy. The gradient of an update is the
  // element of dy at the index of the update.
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
