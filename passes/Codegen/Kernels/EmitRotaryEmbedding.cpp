// Emits the elements of a rotary embedding, which rotates pairs of elements in
// a row. Each element needs its partner in the pair, and the cosine and sine of
// the pair's angle.
//
// If pairs are not interleaved, an element and its partner are half a row
// apart. A vector within one half loads adjacent elements, and adjacent
// partners. If pairs are interleaved, a vector of whole pairs loads adjacent
// elements, and reorders its lanes to get the partners. If a vector spans both
// halves, or rotated and unrotated elements, each lane is computed separately.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/EmitRotaryEmbedding.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/Kernels/Loops/Loops.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <numeric>

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace {
/// Describes the pair of an element: the distance from the element to its
/// partner, and the number of the pair. `isFirst` is true for the first element
/// of a pair. `isTurned` is true for elements that are rotated; null if all
/// are.
struct PairPlace {
  Value distance, pair, isFirst, isTurned;
};

class RotaryEmitter {
public:
  RotaryEmitter(FragmentEmitter &fragments, Lanes &lanes, const Scope &scope,
                const Node &node)
      : fragments(fragments), l(lanes), b(lanes.getBuilder()), scope(scope),
        node(node), op(cast<RotaryEmbeddingOp>(node.op)),
        pairs(op.getNumPairs()), size(shapeOf(op.getInput()).back()) {}

  Value run();

private:
  bool canLoadVectors(int64_t width);
  PairPlace findPair(Value index);
  Value loadAngle(unsigned operand, Value pair, int64_t width);
  Value emitElements(Value index, Value own, int64_t width, int64_t lane);
  Value emitPairs(Value index, Value own, int64_t width);
  Value turn(Value own, Value partner, Value cosine, Value sine, Value sign,
             Value isTurned);

  FragmentEmitter &fragments;
  Lanes &l;
  ImplicitLocOpBuilder &b;
  const Scope &scope;
  const Node &node;
  RotaryEmbeddingOp op;
  int64_t pairs, size;
};
} // namespace

static Value compareIndices(ImplicitLocOpBuilder &b, Value index,
                            int64_t bound) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, index,
                               createIndex(b, bound));
}

static Value choose(ImplicitLocOpBuilder &b, Value condition, Value onTrue,
                    Value onFalse) {
  return condition ? arith::SelectOp::create(b, condition, onTrue, onFalse)
                   : onTrue;
}

// True if a vector of `width` elements can be computed at once. Its first index
// is a multiple of `width`. The vector must be in one half, or hold whole pairs
// if pairs are interleaved. Its elements must be either all rotated or all not.
bool RotaryEmitter::canLoadVectors(int64_t width) {
  if (width == 1)
    return true;
  if (!op.getInterleaved())
    return pairs % width == 0;
  return width % 2 == 0 && (2 * pairs == size || 2 * pairs % width == 0);
}

PairPlace RotaryEmitter::findPair(Value index) {
  PairPlace place;
  Value zero = createIndex(b, 0), one = createIndex(b, 1);
  if (2 * pairs < size)
    place.isTurned = compareIndices(b, index, 2 * pairs);
  Value forth, back;
  if (op.getInterleaved()) {
    Value odd = arith::AndIOp::create(b, index, one);
    place.isFirst =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, odd, zero);
    place.pair = arith::ShRUIOp::create(b, index, one);
    forth = one, back = createIndex(b, -1);
  } else {
    place.isFirst = compareIndices(b, index, pairs);
    place.pair = choose(b, place.isFirst, index, addIndex(b, index, -pairs));
    forth = createIndex(b, pairs), back = createIndex(b, -pairs);
  }
  // An element that is not rotated is its own partner, and reads the angle of
  // pair 0. Its rotation is computed but not used.
  place.distance =
      choose(b, place.isTurned, choose(b, place.isFirst, forth, back), zero);
  place.pair = choose(b, place.isTurned, place.pair, zero);
  return place;
}

// Loads the cosines or sines of `width` pairs from `pair` on.
Value RotaryEmitter::loadAngle(unsigned operand, Value pair, int64_t width) {
  const Node &table = fragments.getOperandNode(node, operand);
  int64_t multiple =
      std::gcd(width, fragments.getMultiple(scope, *table.strides));
  Value offset = addIndex(b, fragments.getOffset(scope, *table.strides), pair);
  return l.convert(
      fragments.loadElements(table, offset, width, std::gcd(multiple, pairs)),
      l.getComputeType());
}

// Returns own * cosine + sign * partner * sine; `own` where `isTurned` is
// false.
Value RotaryEmitter::turn(Value own, Value partner, Value cosine, Value sine,
                          Value sign, Value isTurned) {
  Value turned = l.multiplyAdd(partner, l.mul(sine, sign), l.mul(own, cosine));
  return isTurned ? l.select(isTurned, turned, own) : turned;
}

// Computes `width` elements of a row, from `lane` elements after the position
// of `scope` on. The elements lie within one half of the row, so that their
// partners are adjacent too.
Value RotaryEmitter::emitElements(Value index, Value own, int64_t width,
                                  int64_t lane) {
  const Node &input = fragments.getOperandNode(node, 0);
  PairPlace place = findPair(index);
  int64_t multiple =
      std::gcd(fragments.getMultiple(scope, *input.strides), pairs);
  Value offset = addIndex(b, fragments.getOffset(scope, *input.strides), lane);
  Value partner = fragments.loadElements(
      input, addIndex(b, offset, place.distance), width, multiple);
  double back = op.getTransposed() ? 1 : -1;
  Value sign = l.select(place.isFirst, l.constant(back), l.constant(-back));
  return turn(own, l.convert(partner, l.getComputeType()),
              loadAngle(1, place.pair, width), loadAngle(2, place.pair, width),
              sign, place.isTurned);
}

// Computes a vector of whole pairs, each with both its elements in the vector.
Value RotaryEmitter::emitPairs(Value index, Value own, int64_t width) {
  PairPlace place = findPair(index);
  // Lanes 0 1 2 3 have partners 1 0 3 2 and angles 0 0 1 1. The first element
  // of a pair subtracts its partner; it adds the partner if the op is
  // transposed, which undoes a rotation.
  SmallVector<int64_t> swapped, doubled;
  SmallVector<Attribute> signs;
  double back = op.getTransposed() ? 1 : -1;
  for (int64_t lane = 0; lane < width; ++lane) {
    swapped.push_back(lane ^ 1);
    doubled.push_back(lane / 2);
    signs.push_back(
        b.getFloatAttr(l.getComputeType(), lane % 2 == 0 ? back : -back));
  }
  // Repeat each angle for the two lanes of its pair.
  auto spread = [&](Value angle) -> Value {
    if (width == 2)
      return angle;
    return vector::ShuffleOp::create(b, angle, angle, doubled);
  };
  auto type = VectorType::get(width, l.getComputeType());
  Value sign =
      arith::ConstantOp::create(b, type, DenseElementsAttr::get(type, signs));
  Value partner = vector::ShuffleOp::create(b, own, own, swapped);
  return turn(own, partner, spread(loadAngle(1, place.pair, width / 2)),
              spread(loadAngle(2, place.pair, width / 2)), sign,
              place.isTurned);
}

Value RotaryEmitter::run() {
  Value own = fragments.getOperand(scope, node.operands[0], l.getComputeType());
  Value index = fragments.getOffset(scope, *node.strides);
  int64_t width = fragments.isVector(scope, *node.strides) ? scope.width : 1;
  if (canLoadVectors(width))
    return width > 1 && op.getInterleaved()
               ? emitPairs(index, own, width)
               : emitElements(index, own, width, /*lane=*/0);
  SmallVector<Value> lanes;
  for (int64_t lane = 0; lane < width; ++lane)
    lanes.push_back(emitElements(addIndex(b, index, lane),
                                 vector::ExtractOp::create(b, own, lane),
                                 /*width=*/1, lane));
  return vector::FromElementsOp::create(
      b, VectorType::get(width, l.getComputeType()), lanes);
}

Value codegen::emitRotaryEmbedding(FragmentEmitter &fragments, Lanes &lanes,
                                   const Scope &scope, const Node &node) {
  return RotaryEmitter(fragments, lanes, scope, node).run();
}
