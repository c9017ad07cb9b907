// Tracks the place of the batch (Rebatch::Place: an axis, and the batch's
// position in it) through a model. Adapts the constants that hold the batch
// size.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Rebatch.h"

#include "frontends/ONNX/Importer/Importer.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

std::optional<Rebatch::Place> Rebatch::findPlace(StringRef name) const {
  auto it = places.find(name);
  return it == places.end() ? std::nullopt : std::optional(it->second);
}

// Finds the place of the batch after a reshape of shape `from` to shape `to`. A
// reshape keeps the order of elements. So the number of batches in the tensor
// is unchanged: the product of the axes before the batch axis, times `outer`.
// Example: [2, batch, 8] to [2 * batch, 8] moves the batch to axis 0 with
// `outer` = 2.
std::optional<Rebatch::Place>
Rebatch::moveThroughReshape(ArrayRef<int64_t> from, Place place,
                            ArrayRef<int64_t> to) const {
  int64_t outside =
      ShapedType::getNumElements(from.take_front(place.axis)) * place.outer;
  std::optional<Place> whole, merged;
  int64_t before = 1;
  for (auto [axis, extent] : llvm::enumerate(to)) {
    if (before == 0 || outside % before != 0)
      break;
    int64_t outer = outside / before;
    before *= extent;
    if (extent == 0 || outer == 0 || extent % (outer * exported) != 0)
      continue;
    Place found = {static_cast<int64_t>(axis), outer};
    // Prefer an axis that is exactly the batch, then an axis such as batch *
    // time, then an axis such as time * batch.
    if (outer == 1 && extent == exported)
      return found;
    if (outer == 1 && !whole)
      whole = found;
    if (!merged)
      merged = found;
  }
  // If [time, 1, width] becomes [time, width], the batch of 1 is in axis 0,
  // merged with the rows, not in the last axis, merged with the features.
  bool isLast = whole && whole->axis + 1 == static_cast<int64_t>(to.size());
  return whole && !isLast ? whole : merged;
}

// Finds the place of the batch after a reshape of shape `from` to shape `to`,
// if the batch is known to be on axis `axis` of `to`. moveThroughReshape cannot
// find the axis of a batch of 1: any axis of length 1 would do. nullopt if the
// batch cannot be on this axis.
std::optional<Rebatch::Place> Rebatch::moveToAxis(ArrayRef<int64_t> from,
                                                  Place place,
                                                  ArrayRef<int64_t> to,
                                                  int64_t axis) const {
  int64_t outside =
      ShapedType::getNumElements(from.take_front(place.axis)) * place.outer;
  int64_t before = ShapedType::getNumElements(to.take_front(axis));
  if (before == 0 || outside % before != 0)
    return std::nullopt;
  int64_t outer = outside / before;
  if (outer == 0 || to[axis] % (outer * exported) != 0)
    return std::nullopt;
  return Place{axis, outer};
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

// The shape of a value; nullopt if unknown here.
static std::optional<Rebatch::Shape> getKnownShape(NodeImporter &node,
                                                   StringRef name) {
  const ImportedValue &entry = node.getFunction().lookup(name);
  if (entry.value)
    return Rebatch::Shape(NodeImporter::shapeOf(entry.value));
  if (entry.constant)
    return Rebatch::Shape(entry.constant->getShape());
  return std::nullopt;
}

static bool isReshape(NodeImporter &node) {
  return llvm::is_contained({StringRef("Reshape"), StringRef("Flatten"),
                             StringRef("Squeeze"), StringRef("Unsqueeze")},
                            node.getOpType());
}

// Finds the place of the batch in an output, on axis `axis`, which has `extent`
// elements as exported. If an input has its batch on an axis of the same
// length, the output has the same `outer`. Otherwise the axis must be exactly
// one batch, or several batches that a Concat joined.
FailureOr<Rebatch::Place> Rebatch::inherit(NodeImporter &node, int64_t axis,
                                           int64_t extent) {
  std::optional<int64_t> outer;
  int64_t joined = 0;
  for (unsigned i = 0; i < node.getNumInputs(); ++i) {
    StringRef name = node.getInputName(i);
    std::optional<Place> place = findPlace(name);
    if (!place)
      continue;
    int64_t length = shapes.lookup(name)[place->axis];
    // Count the whole batches that a Concat joins along the batch axis.
    if (node.getOpType() == "Concat" && place->axis == axis &&
        place->outer == 1 && length == exported)
      ++joined;
    if (length != extent)
      continue;
    if (outer && *outer != place->outer)
      return node.unsupported("the batch is merged with other axes in "
                              "different orders in its inputs");
    outer = place->outer;
  }
  if (outer)
    return Place{axis, *outer};
  if (extent == exported)
    return Place{axis, 1};
  if (joined > 0 && extent == joined * exported)
    return Place{axis, joined};
  return node.unsupported(
      "the batch axis of its result is unclear: axis " + Twine(axis) + " had " +
      Twine(extent) + " elements for the exported batch of " + Twine(exported));
}

// True if a batch of 1 was merged into an axis with other rows, as [1, time, 8]
// reshaped to [time, 8]. Such an axis is ambiguous: a later computation along
// it may be meant for the rows of each sample, or for the rows of all samples.
bool Rebatch::isAmbiguous(StringRef name) const {
  std::optional<Place> place = findPlace(name);
  return exported == 1 && place && shapes.lookup(name)[place->axis] != 1;
}

// True if the node is a softmax along an axis that contains an exported batch
// of 1.
bool Rebatch::normalizesSamples(NodeImporter &node) {
  StringRef op = node.getOpType();
  bool isSoftmax = op == "Softmax" || op == "LogSoftmax";
  std::optional<Place> place =
      isSoftmax ? findPlace(node.getInputName(0)) : std::nullopt;
  if (!place || exported != 1)
    return false;
  // Before opset 13, softmax normalizes over all axes from `axis` on.
  bool isFlattened = node.getOpset() < 13;
  int64_t axis = node.integer("axis", isFlattened ? 1 : -1);
  if (axis < 0)
    axis += shapes.lookup(node.getInputName(0)).size();
  return isFlattened ? place->axis >= axis : place->axis == axis;
}

static bool isIndexed(StringRef op) {
  return op.starts_with("Gather") || op.starts_with("Scatter");
}

// True if the node is a Gather or Scatter whose indices are numbers of samples,
// as exported. With an exported batch of 1 all such indices are 0; for more
// samples they would all name the first. False for indices that the model
// computes from Shape, as they follow the wanted batch.
bool Rebatch::namesSamples(NodeImporter &node) {
  StringRef op = node.getOpType();
  std::optional<Place> place = findPlace(node.getInputName(0));
  if (!isIndexed(op) || !place)
    return false;
  // Indices that NonZero found in data number samples of the wanted batch.
  if (node.getFunction().lookup(node.getInputName(1)).selected)
    return false;
  std::optional<HostTensor> indices = node.constant(1);
  auto before = integers.find(node.getInputName(1));
  if (indices && !indices->isFloat() && before != integers.end() &&
      before->second != indices->getIntegers())
    return false;
  if (!op.ends_with("ND")) {
    int64_t rank = shapes.lookup(node.getInputName(0)).size();
    int64_t axis = node.integer("axis", 0);
    return place->axis == (axis < 0 ? axis + rank : axis);
  }
  int64_t first = op == "GatherND" ? node.integer("batch_dims", 0) : 0;
  return place->axis >= first &&
         place->axis < first + node.operandShape(1).back();
}

// True if the node divides a sum over all samples by the exported batch size,
// as in `x.sum(0) / x.shape[0]`. The import then fails, because the number may
// also have another meaning: with a batch of 2, half of a sum may be the mean
// of a pair.
bool Rebatch::averagesSum(NodeImporter &node) {
  StringRef op = node.getOpType();
  if (op != "Div" && op != "Mul")
    return false;
  double factor = op == "Div" ? exported : 1.0 / exported;
  auto isFactor = [&](unsigned input) {
    std::optional<HostTensor> constant = node.constant(input);
    return constant && constant->isFloat() && constant->getNumElements() == 1 &&
           std::abs(constant->getDouble(0) - factor) <= 1e-3 * factor;
  };
  return (sums.contains(node.getInputName(0)) && isFactor(1)) ||
         (op == "Mul" && sums.contains(node.getInputName(1)) && isFactor(0));
}

// Records whether the node's outputs depend on the elements of samples, or on
// shapes alone. Shape and Size read only the shape of a sample.
void Rebatch::followSources(NodeImporter &node) {
  StringRef op = node.getOpType();
  bool readsShape = op == "Shape" || op == "Size";
  bool ofSamples = false, ofShapes = readsShape;
  for (const std::string &input : node.getNode().input()) {
    ofSamples |= findPlace(input) || fromSamples.contains(input);
    ofShapes |= fromShapes.contains(input);
  }
  // An output that depends on both samples and shapes counts as depending on
  // samples.
  for (const std::string &output : node.getNode().output()) {
    if (ofSamples && !readsShape)
      fromSamples.insert(output);
    else if (ofShapes)
      fromShapes.insert(output);
    if (op == "MatMul" || op == "Gemm")
      if (auto shape = getKnownShape(node, node.getInputName(0));
          shape && !shape->empty())
        terms[output] = op == "Gemm" && node.integer("transA", 0)
                            ? shape->front()
                            : shape->back();
  }
}

// True if the input is a number of the file that equals the exported batch
// size, or its inverse as a factor, and probably means the batch. A likely
// other meaning is a root: attention divides products of 64 terms, or their
// operands, by 8. Such an operand may be a query of 128 elements that is split
// into two heads of 64 later.
bool Rebatch::isExportedBatch(NodeImporter &node, unsigned input) const {
  StringRef name = node.getInputName(input),
            other = node.getInputName(1 - input);
  std::optional<HostTensor> number = node.constant(input);
  if (!number || number->getNumElements() != 1 || node.isState(input) ||
      fromShapes.contains(name))
    return false;
  double value = number->isFloat() ? number->getDouble(0)
                                   : double(number->getIntegers().front());
  bool isShare =
      node.getOpType() == "Mul" && std::abs(value * exported - 1) <= 1e-3;
  auto hasRoot = [&](int64_t terms) {
    return terms > 0 && terms % (exported * exported) == 0;
  };
  bool isRoot = (isShare || node.getOpType() == "Div") &&
                (llvm::any_of(node.operandShape(1 - input), hasRoot) ||
                 hasRoot(terms.lookup(other)));
  return (isShare || value == exported) && !isRoot;
}

// Records a node that combines samples with a number equal to the exported
// batch size. Ignores batches of 1 and 2: ones and twos are in every model.
void Rebatch::noteNumber(NodeImporter &node) {
  bool isArithmetic = llvm::is_contained(
      {StringRef("Add"), StringRef("Sub"), StringRef("Mul"), StringRef("Div")},
      node.getOpType());
  if (!isArithmetic || exported <= 2)
    return;
  for (unsigned input : {0, 1}) {
    StringRef other = node.getInputName(1 - input);
    bool ofSamples = findPlace(other) || fromSamples.contains(other);
    if (ofSamples && isExportedBatch(node, input))
      numbers.push_back(node.describe());
  }
}

// Tracks a result without a batch axis. Records results that combine all
// samples, such as a loss, in `joined` and `sums`. They are correct for any
// batch size, unless a later node combines them with samples again.
LogicalResult Rebatch::followJoined(NodeImporter &node, StringRef name,
                                    ArrayRef<int64_t> shape) {
  StringRef op = node.getOpType();
  if (op == "Shape" || op == "Size" || op == "BatchNormalization")
    return success();
  for (unsigned i = 0; i < node.getNumInputs(); ++i) {
    StringRef input = node.getInputName(i);
    if (isAmbiguous(input) && ShapedType::getNumElements(shape) > 1)
      return node.unsupported("with a batch of 1 it joins the rows of one "
                              "sample, with more it would join the rows of "
                              "all samples");
    if (isAmbiguous(input) || joined.contains(input))
      joined.insert(name);
    bool isSum = op.starts_with("ReduceSum") && findPlace(input);
    if (isSum || sums.contains(input))
      sums.insert(name);
  }
  return success();
}

// True if a result for one sample has as many rows as the exported batch: the
// sample was combined with a constant of so many rows. For example, x was [3,
// 4] as exported and is [1, 4] now; x plus a constant of [3, 1] still has three
// rows.
bool Rebatch::spreadsSample(NodeImporter &node, ArrayRef<int64_t> shape) const {
  if (wanted != 1 || exported == 1)
    return false;
  for (unsigned i = 0; i < node.getNumInputs(); ++i) {
    StringRef name = node.getInputName(i);
    std::optional<Place> place = findPlace(name);
    if (!place || place->outer != 1)
      continue;
    int64_t fromEnd = shapes.lookup(name).size() - place->axis;
    int64_t axis = static_cast<int64_t>(shape.size()) - fromEnd;
    if (axis >= 0 && node.operandShape(i)[place->axis] == 1 &&
        shape[axis] == exported)
      return true;
  }
  return false;
}

// Handles a result whose shape is the same for both batch sizes: the node has
// summed over the batch, or no operand depends on the batch.
LogicalResult Rebatch::followUnchanged(NodeImporter &node, StringRef name,
                                       ArrayRef<int64_t> shape,
                                       std::optional<Place> from) {
  StringRef op = node.getOpType();
  if (spreadsSample(node, shape))
    return node.unsupported(
        "it combines one sample with a constant of the exported batch size");
  // A Slice, Split or Gather may take as many rows as the exported batch has.
  // Refuse it: the program may mean a part of the batch or the whole batch.
  bool isPart = op == "Slice" || op == "Split" || op == "Gather";
  if (from && isPart && !isReshape(node))
    return node.unsupported(
        "it takes a part of the batch, found a result of shape " +
        printShape(shape) + " for both batch sizes");
  for (const std::string &input : node.getNode().input())
    if (isIndexed(op) && findPlace(input))
      return node.unsupported("its result covers a part of the batch, or only "
                              "the exported batch, found shape " +
                              printShape(shape) + " for both batch sizes");
  if (averagesSum(node))
    return node.unsupported(
        "it divides a sum over all samples by the exported batch size");
  return followJoined(node, name, shape);
}

LogicalResult Rebatch::followOutput(NodeImporter &node, StringRef name,
                                    ArrayRef<int64_t> shape) {
  auto known = shapes.find(name);
  if (known == shapes.end())
    return success();
  const Shape &before = known->second;
  std::optional<int64_t> changed;
  for (int64_t axis = 0, rank = shape.size(); axis < rank; ++axis) {
    if (before.size() != shape.size() ||
        (shape[axis] != before[axis] && changed))
      return node.unsupported(
          "the batch is on several axes of its result, found shape " +
          printShape(before) + " as exported and " + printShape(shape) +
          " now");
    if (shape[axis] != before[axis])
      changed = axis;
  }
  std::optional<Place> from =
      node.hasInput(0) ? findPlace(node.getInputName(0)) : std::nullopt;
  if (!changed)
    return followUnchanged(node, name, shape, from);
  // Refuse computations that would mix the samples of the wanted batch.
  if (namesSamples(node))
    return node.unsupported(
        "its indices are positions of samples in the exported batch");
  for (const std::string &input : node.getNode().input())
    if (joined.contains(input))
      return node.unsupported("it combines single samples with a value "
                              "computed from the rows of all samples");
  if (normalizesSamples(node))
    return node.unsupported("with a batch of 1 it reads the rows of one "
                            "sample, with more it would read the rows of all "
                            "samples");
  int64_t extent = before[*changed];
  if (extent % exported != 0 || shape[*changed] != scale(extent))
    return node.unsupported("axis " + Twine(*changed) + " of its result has " +
                            Twine(extent) + " elements as exported and " +
                            Twine(shape[*changed]) +
                            " now, which is not the same number per sample");
  FailureOr<Place> place = failure();
  if (isReshape(node) && from) {
    auto moved = moveToAxis(shapes.lookup(node.getInputName(0)), *from, before,
                            *changed);
    if (!moved)
      return node.unsupported("its shape " + printShape(before) +
                              " would mix elements of different samples");
    place = *moved;
  } else {
    place = inherit(node, *changed, extent);
  }
  if (failed(place))
    return failure();
  assert(place->axis == *changed && place->outer > 0 &&
         extent % (place->outer * exported) == 0 &&
         "the axis runs over outer * batch * rest elements");
  places[name] = *place;
  return success();
}

static bool isElementwise(StringRef op) {
  return llvm::is_contained(
      {StringRef("Add"), StringRef("Sub"), StringRef("Mul"), StringRef("Div"),
       StringRef("Min"), StringRef("Max"), StringRef("Neg"), StringRef("And"),
       StringRef("Or"), StringRef("Not"), StringRef("Where"), StringRef("Cast"),
       StringRef("CastLike"), StringRef("Identity"), StringRef("Trilu")},
      op);
}

// Records masks whose axis 0 has the exported batch size, but is not the batch.
// For example, the exported batch was 4, and a mask of [4, 4] is added to
// scores of [4, 4, 4]: the mask has four positions, not four samples. A mask
// whose triangle is taken (Trilu) has no batch either.
void Rebatch::noteBeside(NodeImporter &node) {
  StringRef op = node.getOpType(), output = node.getOutputName(0);
  std::optional<Shape> shape = getKnownShape(node, output);
  if (!shape || shape->size() < 2)
    return;
  // Record the result of an Expand that adaptExpand might take for a batch.
  if (op == "Expand" && exported > 1 && shape->front() == exported)
    expanded[output] = output.str();
  if (!isElementwise(op))
    return;
  for (unsigned i = 0; i < node.getNumInputs(); ++i) {
    auto from = expanded.find(node.getInputName(i));
    if (from == expanded.end())
      continue;
    const std::string root = from->second;
    const Shape &before = shapes.find(root)->second;
    if (op == "Trilu" && before.size() == 2)
      partners.try_emplace(root, Partner{"", -1});
    if (*shape == before)
      expanded[output] = root;
    // An operand of higher rank broadcasts the value: [batch, n] + [n].
    for (const std::string &other : node.getNode().input())
      if (shape->size() > before.size() &&
          shapes.lookup(other).size() == shape->size())
        partners.try_emplace(
            root, Partner{other, int64_t(shape->size() - before.size())});
  }
}

bool Rebatch::liesBesideBatch(StringRef name) const {
  auto it = partners.find(name);
  if (it == partners.end())
    return false;
  const Partner &partner = it->second;
  if (partner.axis < 0)
    return true;
  // If the place of the batch in the partner is unknown, assume axis 0.
  if (std::optional<Place> place = findPlace(partner.name))
    return place->axis != partner.axis;
  return shapes.lookup(partner.name).front() == exported;
}

LogicalResult Rebatch::follow(NodeImporter &node) {
  if (!recording) {
    followSources(node);
    noteNumber(node);
  }
  for (const std::string &name : node.getNode().output()) {
    std::optional<Shape> shape =
        name.empty() ? std::nullopt : getKnownShape(node, name);
    if (!shape)
      continue;
    if (!recording) {
      if (failed(followOutput(node, name, *shape)))
        return failure();
      continue;
    }
    shapes[name] = *shape;
    // An integer list is probably a shape, which may hold the batch size.
    auto constant = node.getFunction().lookup(name).constant;
    if (constant && !constant->isFloat() && shape->size() == 1)
      integers[name] = constant->getIntegers();
  }
  // Also record the shapes of values that no node computes, such as
  // initializers.
  for (const std::string &name : node.getNode().input())
    if (recording && !name.empty() && !shapes.contains(name))
      if (std::optional<Shape> shape = getKnownShape(node, name))
        shapes[name] = *shape;
  if (recording)
    noteBeside(node);
  return success();
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

FailureOr<Rebatch::Shape> Rebatch::adaptReshape(NodeImporter &node,
                                                ArrayRef<int64_t> requested) {
  Shape result(requested);
  auto output = shapes.find(node.getOutputName(0));
  std::optional<Place> from = findPlace(node.getInputName(0));
  if (recording || !from || output == shapes.end())
    return result;
  // A shape that the model computes from Shape already has the wanted batch.
  auto before = integers.find(node.getInputName(1));
  if (before != integers.end() && before->second != result)
    return result;
  const Shape &shape = output->second;
  auto place =
      moveThroughReshape(shapes.lookup(node.getInputName(0)), *from, shape);
  bool isBatch = place && place->outer == 1 && shape[place->axis] == exported;
  if (!isBatch && llvm::is_contained(result, -1))
    return result;
  if (!place)
    return node.unsupported("its shape " + printShape(shape) +
                            " contains the exported batch size, but it is "
                            "unclear which number is the batch");
  result = shape;
  result[place->axis] = scale(shape[place->axis]);
  return result;
}

Rebatch::Shape Rebatch::adaptExpand(NodeImporter &node,
                                    ArrayRef<int64_t> requested) {
  Shape result(requested);
  if (recording || result.empty())
    return result;
  auto before = integers.find(node.getInputName(1));
  if (before != integers.end() && before->second != result)
    return result;
  std::optional<Place> from = findPlace(node.getInputName(0));
  if (from) {
    Shape shape = shapes.lookup(node.getInputName(0));
    int64_t axis = from->axis + result.size() - shape.size();
    if (axis >= 0 && result[axis] == shape[from->axis])
      result[axis] = scale(result[axis]);
  } else if (exported > 1 && result.size() > 1 && result[0] == exported &&
             !liesBesideBatch(node.getOutputName(0))) {
    result[0] = wanted; // one row for all samples, such as a class token
  }
  return result;
}

std::optional<int64_t> Rebatch::findSpreadAxis(NodeImporter &node,
                                               ArrayRef<int64_t> requested) {
  auto before = integers.find(node.getInputName(1));
  ArrayRef<int64_t> shape = node.operandShape(0);
  if (recording || exported == 1 || before == integers.end() ||
      before->second.size() != requested.size() ||
      shape.size() != requested.size())
    return std::nullopt;
  // The batch axis of the constant is the only axis whose requested extent
  // differs between the two imports.
  std::optional<int64_t> found;
  for (int64_t axis = 0, rank = shape.size(); axis < rank; ++axis) {
    if (requested[axis] == before->second[axis])
      continue;
    if (found || before->second[axis] != exported ||
        requested[axis] != wanted || shape[axis] != exported)
      return std::nullopt;
    found = axis;
  }
  return found;
}

std::optional<int64_t> Rebatch::getConcatExtent(NodeImporter &node,
                                                unsigned input, int64_t axis) {
  if (recording || exported != 1 || findPlace(node.getInputName(input)))
    return std::nullopt;
  for (unsigned i = 0; i < node.getNumInputs(); ++i) {
    std::optional<Place> place = findPlace(node.getInputName(i));
    if (place && place->axis == axis)
      return node.operandShape(i)[axis];
  }
  return std::nullopt;
}
