// Imports MaxRoiPool: the largest elements in the bins of boxes.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/NN/Sampling.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

namespace {
/// The bins into which all boxes are cut along one axis of the images. Tensors
/// have five axes: boxes, channels, bins, and the y and x positions in some
/// order.
struct Bins {
  NodeImporter &node;
  Type number;
  int64_t count, extent;
  /// The axes of tensors along which bins and image positions are counted.
  int64_t binAxis, placeAxis;

  /// Computes the bins' limits from the first and last positions of boxes,
  /// [boxes, 1, 1, 1, 1].
  void cut(Value first, Value last);
  /// `holds` is true where a position is in a bin; `isEmpty` where a bin holds
  /// no position.
  Value holds();
  Value isEmpty();

  Value begin = {}, end = {};

private:
  Value constant(double value) { return numberConstant(node, value, number); }
};
} // namespace

// A box includes its last position and is at least 1 long. Bins overlap if the
// length is no multiple of their number.
void Bins::cut(Value first, Value last) {
  Value length =
      node.emit<AddOp>({node.emit<SubOp>({last, first}), constant(1)});
  Value size = node.emit<DivOp>(
      {node.emit<MaximumOp>({length, constant(1)}), constant(double(count))});
  Value bin = castTo(node, iota(node, 5, binAxis, count), number);
  Value next = node.emit<AddOp>({bin, constant(1)});
  begin = node.emit<AddOp>(
      {node.emit<FloorOp>({node.emit<MulOp>({bin, size})}), first});
  end = node.emit<AddOp>(
      {node.emit<CeilOp>({node.emit<MulOp>({next, size})}), first});
}

Value Bins::holds() {
  Value place = castTo(node, iota(node, 5, placeAxis, extent), number);
  return node.emit<AndOp>({node.emit<LessOrEqualOp>({begin, place}),
                           node.emit<LessOp>({place, end})});
}

Value Bins::isEmpty() {
  Value low = node.emit<MaximumOp>({begin, constant(0)});
  Value high = node.emit<MinimumOp>({end, constant(double(extent))});
  return node.emit<LessOrEqualOp>({high, low});
}

// Rounds to the closest integer, halves away from zero.
static Value roundAway(NodeImporter &node, Value x) {
  Value half = numberConstant(node, 0.5, elementTypeOf(x));
  Value size = node.emit<AddOp>({node.emit<AbsOp>({x}), half});
  return node.emit<MulOp>({node.emit<SignOp>({x}), node.emit<FloorOp>({size})});
}

// Returns the maximum of the elements of `x` along `axis` where `isSeen` is
// true.
static Value maximize(NodeImporter &node, Value x, Value isSeen, int64_t axis) {
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  Value hidden = numberConstant(node, kLowest, elementTypeOf(x));
  return reduce<ReduceMaxOp>(node, node.emit<SelectOp>({isSeen, x, hidden}),
                             {axis}, /*keepDims=*/false);
}

// Imports MaxRoiPool. Boxes are (image, x1, y1, x2, y2). Positions are computed
// as in ONNX Runtime, in the boxes' float type, but at least f32.
static LogicalResult importMaxRoiPool(NodeImporter &node) {
  ArrayRef<int64_t> shape = node.operandShape(0), boxes = node.operandShape(1);
  auto pooled = node.integerList("pooled_shape");
  if (shape.size() != 4 || boxes.size() != 2 || boxes[1] != 5)
    return node.invalid(
        "expected an input of rank 4 and boxes of shape (R, 5)" +
        node.found({0, 1}));
  constexpr int64_t kMost = int64_t(1) << 16;
  if (!pooled || pooled->size() != 2 || llvm::any_of(*pooled, [](int64_t bins) {
        return bins < 1 || bins > kMost;
      }))
    return node.invalid(
        "expected attribute 'pooled_shape' of two numbers from 1 to " +
        Twine(kMost) + ", found " + (pooled ? printShape(*pooled) : "none"));
  if (llvm::is_contained(shape, 0))
    return node.invalid("expected an input with elements to read" +
                        node.found({0}));
  if (!canList(node, shape[2]) || !canList(node, shape[3]))
    return failure();
  int64_t rois = boxes[0], channels = shape[1];
  Type number = elementTypeOf(node.operand(1));
  if (!number.isF64())
    number = node.attributes().getF32Type();
  Value all = castTo(node, node.operand(1), number);
  auto column = [&](int64_t index) {
    return node.reshape(slice(node, all, {0, index}, {rois, 1}),
                        {rois, 1, 1, 1, 1});
  };
  Value scale = numberConstant(node, node.real("spatial_scale", 1.0), number);
  auto corner = [&](int64_t index) {
    return roundAway(node, node.emit<MulOp>({column(index), scale}));
  };
  Value image = castTo(node, node.reshape(column(0), {rois}),
                       node.attributes().getI64Type());
  if (!image)
    return failure();
  markIndices(node, image, shape[0]);
  Value x = gather(node, node.operand(0), image, /*axis=*/0);
  Bins rows{node, number, (*pooled)[0], shape[2], 2, 3};
  Bins columns{node, number, (*pooled)[1], shape[3], 3, 4};
  rows.cut(corner(2), corner(4));
  columns.cut(corner(1), corner(3));
  x = node.reshape(x, {rois, channels, 1, shape[2], shape[3]});
  x = maximize(node, x, rows.holds(), 3);
  x = node.reshape(x, {rois, channels, rows.count, 1, shape[3]});
  x = maximize(node, x, columns.holds(), 4);
  // A bin that holds no position gives 0.
  Value isEmpty = node.emit<OrOp>(
      {node.reshape(rows.isEmpty(), {rois, 1, rows.count, 1}),
       node.reshape(columns.isEmpty(), {rois, 1, 1, columns.count})});
  if (!x || !isEmpty)
    return failure();
  return node.define(
      0, node.emit<SelectOp>(
             {isEmpty, numberConstant(node, 0, elementTypeOf(x)), x}));
}

ArrayRef<OpEntry> mpc::onnx_frontend::getRoiPoolingOps() {
  static const OpEntry entries[] = {
      {"", "MaxRoiPool", 1, kNoEnd, 2, 2, 1, importMaxRoiPool},
  };
  return entries;
}
