// Following the batch through a model, and the constants that hold it.
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

// A reshape keeps the order of the elements, so as many lie outside the batch
// before as after: what comes before the axis, and `outer` within it.
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
    // Best is an axis that is the batch and nothing else, then one that the
    // batch is the slowest part of, then any that it is a part of.
    if (outer == 1 && extent == exported)
      return found;
    if (outer == 1 && !whole)
      whole = found;
    if (!merged)
      merged = found;
  }
  // [time, 1, width] as [time, width]: the rows are merged, not the features.
  bool isLast = whole && whole->axis + 1 == static_cast<int64_t>(to.size());
  return whole && !isLast ? whole : merged;
}

// Where a batch at `place` of shape `from` lies in shape `to`, of which `axis`
// is known to have it: a batch of 1 could lie in any axis of length 1.
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

// The shape of a value; nothing where it has none here.
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

// The batch of an output is where that of an input was, on whatever axis of the
// same length, or that axis is the batch itself.
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
    // Concat of whole batches, one behind the other.
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
  return node.unsupported("it is not clear where the batch is in its result");
}

// Whether the axis of the value that has the batch has other rows too, and the
// batch was 1: [1, time, 8] as [time, 8]. What is then computed along that axis
// may be meant for the rows of each sample or for all.
bool Rebatch::isAmbiguous(StringRef name) const {
  std::optional<Place> place = findPlace(name);
  return exported == 1 && place && shapes.lookup(name)[place->axis] != 1;
}

// Whether the node's softmax is along an axis that had a batch of 1.
bool Rebatch::normalizesSamples(NodeImporter &node) {
  StringRef op = node.getOpType();
  bool isSoftmax = op == "Softmax" || op == "LogSoftmax";
  std::optional<Place> place =
      isSoftmax ? findPlace(node.getInputName(0)) : std::nullopt;
  if (!place || exported != 1)
    return false;
  // Before opset 13 it is over all axes from the given one on.
  bool isFlattened = node.getOpset() < 13;
  int64_t axis = node.integer("axis", isFlattened ? 1 : -1);
  if (axis < 0)
    axis += shapes.lookup(node.getInputName(0)).size();
  return isFlattened ? place->axis >= axis : place->axis == axis;
}

static bool isIndexed(StringRef op) {
  return op.starts_with("Gather") || op.starts_with("Scatter");
}

// Whether the node's indices name samples: with a batch of 1 all of them are 0,
// and repeated for every sample they name the first. Those that are computed
// from Shape have changed by themselves.
bool Rebatch::namesSamples(NodeImporter &node) {
  StringRef op = node.getOpType();
  std::optional<Place> place = findPlace(node.getInputName(0));
  if (!isIndexed(op) || !place)
    return false;
  // Rows that a mask of the data selects are those of today's samples.
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

// Whether the node divides a sum over all samples by the batch it was exported
// with, as `x.sum(0) / x.shape[0]` is written. So are sums of pairs by two: it
// is not clear which is meant.
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

// Notes what the node's results are computed of. Of a sample's shape follows
// nothing of the sample.
void Rebatch::followSources(NodeImporter &node) {
  StringRef op = node.getOpType();
  // From an input with a batch, or from what was computed of one.
  bool readsShape = op == "Shape" || op == "Size";
  bool ofSamples = false, ofShapes = readsShape;
  for (const std::string &input : node.getNode().input()) {
    ofSamples |= findPlace(input) || fromSamples.contains(input);
    ofShapes |= fromShapes.contains(input);
  }
  // Values that hold elements of samples differ from sample to sample; numbers
  // that were read off their shapes do not.
  for (const std::string &output : node.getNode().output()) {
    if (ofSamples && !readsShape)
      fromSamples.insert(output);
    else if (ofShapes)
      fromShapes.insert(output);
    // How many terms each sum of a product has.
    if (op == "MatMul" || op == "Gemm")
      if (auto shape = getKnownShape(node, node.getInputName(0));
          shape && !shape->empty())
        terms[output] = op == "Gemm" && node.integer("transA", 0)
                            ? shape->front()
                            : shape->back();
  }
}

// Whether the input is a number of the file that is the exported batch, or one
// that multiplies by a batch's share, and no other meaning shows: attention
// divides products of 64 terms, or their operands, by their root, 8; before a
// query's 128 elements are two heads, too.
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

// Twos and ones are in every model, and a batch of one is in no number.
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

// Follows a result without a batch of an input that may have one. It may be a
// loss, a sum over all samples, as long as it is not combined with samples
// again.
LogicalResult Rebatch::followJoined(NodeImporter &node, StringRef name,
                                    ArrayRef<int64_t> shape) {
  StringRef op = node.getOpType();
  if (op == "Shape" || op == "Size" || op == "BatchNormalization")
    return success();
  for (unsigned i = 0; i < node.getNumInputs(); ++i) {
    StringRef input = node.getInputName(i);
    if (isAmbiguous(input) && ShapedType::getNumElements(shape) > 1)
      return node.unsupported("with a batch of 1 it joined the rows of one "
                              "sample, now it would join those of all");
    if (isAmbiguous(input) || joined.contains(input))
      joined.insert(name);
    bool isSum = op.starts_with("ReduceSum") && findPlace(input);
    if (isSum || sums.contains(input))
      sums.insert(name);
  }
  return success();
}

// True if a result for one sample has the rows of the exported batch, because a
// constant with that many rows was combined with the sample. For example, x of
// [3, 4] plus a constant of [3, 1] has three rows for a batch of one, too.
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

// The batch is on none of the result's axes: it was summed over, or the result
// never had it.
LogicalResult Rebatch::followUnchanged(NodeImporter &node, StringRef name,
                                       ArrayRef<int64_t> shape,
                                       std::optional<Place> from) {
  StringRef op = node.getOpType();
  if (spreadsSample(node, shape))
    return node.unsupported("it combines one sample with a constant of the "
                            "batch it was exported with");
  // Sums over the batch have none; parts of it are of the exported size.
  bool isPart = op == "Slice" || op == "Split" || op == "Gather";
  if (from && isPart && !isReshape(node))
    return node.unsupported("it takes a part of the batch");
  for (const std::string &input : node.getNode().input())
    if (isIndexed(op) && findPlace(input))
      return node.unsupported("its result is of a part of the batch, or of "
                              "the batch it was exported with");
  if (averagesSum(node))
    return node.unsupported("it divides a sum over all samples by the batch "
                            "it was exported with");
  return followJoined(node, name, shape);
}

LogicalResult Rebatch::followOutput(NodeImporter &node, StringRef name,
                                    ArrayRef<int64_t> shape) {
  auto known = shapes.find(name);
  if (known == shapes.end())
    return success();
  // The axis that the other batch changes.
  const Shape &before = known->second;
  std::optional<int64_t> changed;
  for (int64_t axis = 0, rank = shape.size(); axis < rank; ++axis) {
    if (before.size() != shape.size() ||
        (shape[axis] != before[axis] && changed))
      return node.unsupported("the batch is on several axes of its result");
    if (shape[axis] != before[axis])
      changed = axis;
  }
  std::optional<Place> from =
      node.hasInput(0) ? findPlace(node.getInputName(0)) : std::nullopt;
  if (!changed)
    return followUnchanged(node, name, shape, from);
  // What must not be done to samples of a batch of another size.
  if (namesSamples(node))
    return node.unsupported("its indices name samples, of the batch it was "
                            "exported with");
  for (const std::string &input : node.getNode().input())
    if (joined.contains(input))
      return node.unsupported("it combines samples with what was computed of "
                              "the rows of all");
  if (normalizesSamples(node))
    return node.unsupported("with a batch of 1 it was over the rows of one "
                            "sample, now it would be over those of all");
  // Every sample has as many elements of the axis as before.
  int64_t extent = before[*changed];
  if (extent % exported != 0 || shape[*changed] != scale(extent))
    return node.unsupported("axis " + Twine(*changed) + " of its result has " +
                            Twine(extent) + " elements as exported and " +
                            Twine(shape[*changed]) +
                            " now, not as many for every sample");
  // Where in that axis the batch is.
  FailureOr<Place> place = failure();
  if (isReshape(node) && from) {
    auto moved = moveToAxis(shapes.lookup(node.getInputName(0)), *from, before,
                            *changed);
    if (!moved)
      return node.unsupported("its shape moves samples into each other");
    place = *moved;
  } else {
    place = inherit(node, *changed, extent);
  }
  if (failed(place))
    return failure();
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

// A mask of [4,4] that the model makes is of four positions and not of four
// samples, though the batch was 4, where it is added to scores of [4,4,4]; or
// where a triangle of it is taken.
void Rebatch::noteBeside(NodeImporter &node) {
  StringRef op = node.getOpType(), output = node.getOutputName(0);
  std::optional<Shape> shape = getKnownShape(node, output);
  if (!shape || shape->size() < 2)
    return;
  // An Expand that adaptExpand may take for one of samples.
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
    // An input of more axes than the value broadcasts it: [batch, n] + [n].
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
  // Where the batch of the other is not known yet, it is in front.
  if (std::optional<Place> place = findPlace(partner.name))
    return place->axis != partner.axis;
  return shapes.lookup(partner.name).front() == exported;
}

LogicalResult Rebatch::follow(NodeImporter &node) {
  // The second import: is the batch still where the first one had it?
  if (!recording) {
    followSources(node);
    noteNumber(node);
  }
  // Outputs, in the first import noted and in the second compared.
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
    // Integers in a list are likely shapes, in which the file's batch may
    // stand.
    auto constant = node.getFunction().lookup(name).constant;
    if (constant && !constant->isFloat() && shape->size() == 1)
      integers[name] = constant->getIntegers();
  }
  // What the nodes read and none of them made.
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
  // What is computed from Shape has changed by itself.
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
    return node.unsupported("its shape holds the batch it was exported with, "
                            "and it is not clear where");
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
    result[0] = wanted; // one for all samples, such as a class token
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
  // The axis of the constant that has the exported batch: the only one whose
  // extent is another now.
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
