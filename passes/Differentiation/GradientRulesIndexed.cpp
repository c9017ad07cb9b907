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

// What an update replaced has no gradient; a sum passes it to both.
static void gradScatter(ScatterOp op, GradientBuilder &g) {
  if (g.needs(0)) {
    Location loc = g.at("dx");
    Value dx = g.dy();
    if (op.getReduction() == ScatterReduction::None)
      dx = ScatterOp::create(g.ops(), loc, dx.getType(), dx, op.getIndices(),
                             zerosLike(g, loc, op.getUpdates()), op.getAxis(),
                             op.getBatchDims(), ScatterReduction::None);
    g.add(0, "dx", dx);
  }
  if (g.needs(2))
    g.add(2, "du",
          GatherOp::create(g.ops(), g.at("du"),
                           getGradientType(op.getUpdates().getType()), g.dy(),
                           op.getIndices(), op.getAxis(), op.getBatchDims()));
}

static void gradScatterElements(ScatterElementsOp op, GradientBuilder &g) {
  if (g.needs(0)) {
    Location loc = g.at("dx");
    Value dx = g.dy();
    if (op.getReduction() == ScatterReduction::None)
      dx = ScatterElementsOp::create(g.ops(), loc, dx.getType(), dx,
                                     op.getIndices(),
                                     zerosLike(g, loc, op.getUpdates()),
                                     op.getAxis(), ScatterReduction::None);
    g.add(0, "dx", dx);
  }
  if (g.needs(2))
    g.add(2, "du",
          GatherElementsOp::create(g.ops(), g.at("du"),
                                   getGradientType(op.getUpdates().getType()),
                                   g.dy(), op.getIndices(), op.getAxis()));
}

// Sums and replacements; of a product or an extremum the factors would have to
// be kept.
static bool hasGradient(Operation *op) {
  auto reduction = op->getAttrOfType<ScatterReductionAttr>("reduction");
  return reduction.getValue() == ScatterReduction::None ||
         reduction.getValue() == ScatterReduction::Add;
}

void mpc::addIndexedRules(GradientRules &rules) {
  rules.add(gradGather);
  rules.add(gradGatherElements);
  rules.addIf(hasGradient, gradScatter);
  rules.addIf(hasGradient, gradScatterElements);
}
