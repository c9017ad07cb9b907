// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/NN/Sampling.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Arithmetic of places
//===----------------------------------------------------------------------===//

static Value place(NodeImporter &node, double value) {
  return numberConstant(node, value, node.attributes().getF64Type());
}

Value mpc::onnx_frontend::toPlace(NodeImporter &node, Value x) {
  return castTo(node, x, node.attributes().getF64Type());
}

Value mpc::onnx_frontend::scalePlace(NodeImporter &node, Value x, double factor,
                                     double offset) {
  Value scaled = node.emit<MulOp>({x, place(node, factor)});
  return node.emit<AddOp>({scaled, place(node, offset)});
}

Value mpc::onnx_frontend::clampPlace(NodeImporter &node, Value x, double low,
                                     double high) {
  return node.emit<ClipOp>(
      {x}, {node.attribute("min", low), node.attribute("max", high)});
}

// A cast rounds toward zero; subtract 1 if the result is above x.
std::pair<Value, Value> mpc::onnx_frontend::splitPlace(NodeImporter &node,
                                                       Value x) {
  Type whole = node.attributes().getI64Type();
  Value truncated = castTo(node, x, whole);
  Value isAbove = node.emit<LessOp>({x, toPlace(node, truncated)});
  Value below = node.emit<SubOp>({truncated, castTo(node, isAbove, whole)});
  return {below, node.emit<SubOp>({x, toPlace(node, below)})};
}

Value mpc::onnx_frontend::roundPlace(NodeImporter &node, Value x) {
  auto [below, rest] = splitPlace(node, x);
  Value half = place(node, 0.5);
  Value isOdd =
      castTo(node, node.emit<AndOp>({below, integerConstant(node, {}, 1)}),
             node.attributes().getI1Type());
  Value isTie = node.emit<AndOp>({node.emit<EqualOp>({rest, half}), isOdd});
  Value goesUp = node.emit<OrOp>({node.emit<LessOp>({half, rest}), isTie});
  return node.emit<AddOp>(
      {below, castTo(node, goesUp, node.attributes().getI64Type())});
}

SmallVector<Tap> mpc::onnx_frontend::linearTaps(NodeImporter &node, Value x) {
  auto [below, rest] = splitPlace(node, x);
  Value above = node.emit<AddOp>({below, integerConstant(node, {}, 1)});
  Value share = node.emit<SubOp>({place(node, 1), rest});
  return {{below, share}, {above, rest}};
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {
/// One element of an image to interpolate from, chosen by one tap along every
/// axis. `number` is the index in the flattened image. `exists` is false
/// outside the image; null if always inside. `weight` is the product of the
/// taps' weights.
struct Element {
  Value number, exists, weight;
};
} // namespace

static Value conjoin(NodeImporter &node, Value a, Value b) {
  return a && b ? node.emit<AndOp>({a, b}) : a ? a : b;
}

static Value multiply(NodeImporter &node, Value a, Value b) {
  return a && b ? node.emit<MulOp>({a, b}) : a ? a : b;
}

// Extends `element` by a tap along one more axis, which varies fastest in
// memory.
static Element addTap(NodeImporter &node, const Element &element,
                      const SampledAxis &axis, const Tap &tap) {
  Value zero = integerConstant(node, {}, 0);
  Value size = integerConstant(node, {}, axis.size);
  Element result = element;
  // Outside the image, read the edge element or contribute zero.
  Value at = tap.place;
  if (axis.outside == Outside::Edge) {
    Value last = integerConstant(node, {}, axis.size - 1);
    at = node.emit<MinimumOp>({node.emit<MaximumOp>({at, zero}), last});
  } else {
    Value exists = node.emit<AndOp>(
        {node.emit<LessOrEqualOp>({zero, at}), node.emit<LessOp>({at, size})});
    result.exists = conjoin(node, element.exists, exists);
  }
  result.number =
      element.number
          ? node.emit<AddOp>({node.emit<MulOp>({element.number, size}), at})
          : at;
  result.weight = multiply(node, element.weight, tap.weight);
  return result;
}

static SmallVector<Element> combineTaps(NodeImporter &node,
                                        ArrayRef<SampledAxis> axes) {
  SmallVector<Element> elements = {Element()};
  for (const SampledAxis &axis : axes) {
    SmallVector<Element> next;
    for (const Element &element : elements)
      for (const Tap &tap : axis.taps)
        next.push_back(addTap(node, element, axis, tap));
    elements = std::move(next);
  }
  return elements;
}

SmallVector<Value> mpc::onnx_frontend::readTaps(NodeImporter &node, Value data,
                                                int64_t batchDims,
                                                ArrayRef<SampledAxis> axes) {
  if (!data)
    return {Value()};
  SmallVector<int64_t> shape(NodeImporter::shapeOf(data));
  assert(shape.size() == size_t(batchDims) + 1 + axes.size() &&
         llvm::equal(
             ArrayRef(shape).take_back(axes.size()),
             llvm::map_range(
                 axes, [](const SampledAxis &axis) { return axis.size; })) &&
         "the data has shape (batch..., C, extents...)");
  int64_t count = 1;
  for (const SampledAxis &axis : axes) {
    count *= axis.size;
    shape.pop_back();
  }
  int64_t axis = shape.size();
  shape.push_back(count);
  Value line = node.reshape(data, shape);
  Type type = elementTypeOf(data);
  Type wide = type.isF64() ? type : node.attributes().getF32Type();
  SmallVector<Value> values;
  for (const Element &element : combineTaps(node, axes)) {
    // Elements outside the image get the index `count`, which is out of range:
    // the gather returns 0.
    Value number = element.number;
    if (element.exists)
      number = node.emit<SelectOp>(
          {element.exists, number, integerConstant(node, {}, count)});
    Value value = gather(node, line, number, axis, batchDims);
    if (value && element.weight) {
      // All channels share the weights: broadcast along them.
      SmallVector<int64_t> spread(NodeImporter::shapeOf(element.weight));
      spread.insert(spread.begin() + batchDims, 1);
      Value weight = node.reshape(castTo(node, element.weight, wide), spread);
      value = node.emit<MulOp>({castTo(node, value, wide), weight});
    }
    values.push_back(value);
  }
  return values;
}

Value mpc::onnx_frontend::sumTaps(NodeImporter &node, Value data,
                                  int64_t batchDims,
                                  ArrayRef<SampledAxis> axes) {
  Value sum;
  for (Value value : readTaps(node, data, batchDims, axes))
    sum = sum ? node.emit<AddOp>({sum, value}) : value;
  return sum ? castTo(node, sum, elementTypeOf(data)) : Value();
}
