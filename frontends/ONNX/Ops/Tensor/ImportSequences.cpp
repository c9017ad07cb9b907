// Imports sequences of tensors, whose length and positions must be known at
// import. No sequence remains in the function: SequenceAt(SplitToSequence(x),
// 1) is a slice.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

using Sequence = std::vector<ImportedValue>;

//===----------------------------------------------------------------------===//
// Whole sequences
//===----------------------------------------------------------------------===//

static LogicalResult importSequenceEmpty(NodeImporter &node) {
  node.ignore("dtype"); // an empty sequence has no type
  return node.define(0, Sequence());
}

static LogicalResult importSequenceConstruct(NodeImporter &node) {
  Sequence sequence;
  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    sequence.push_back(node.element(i));
  return node.define(0, std::move(sequence));
}

static LogicalResult importSequenceLength(NodeImporter &node) {
  FailureOr<Sequence> sequence = node.sequence(0);
  if (failed(sequence))
    return failure();
  return node.define(
      0, integerConstant(node, {}, static_cast<int64_t>(sequence->size())));
}

//===----------------------------------------------------------------------===//
// Tensors of a sequence
//===----------------------------------------------------------------------===//

// Reads a position in [0, last] from input `index`. A negative position counts
// from `length`. Returns `last` if the input is absent.
static FailureOr<int64_t> readPosition(NodeImporter &node, unsigned index,
                                       int64_t length, int64_t last) {
  if (!node.hasInput(index))
    return last;
  auto given = node.integers(index, "the position");
  if (failed(given))
    return failure();
  if (given->size() != 1)
    return node.invalid("expected one position, found " + Twine(given->size()));
  int64_t position = given->front() + (given->front() < 0 ? length : 0);
  if (position < 0 || position > last)
    return node.invalid("position " + Twine(given->front()) +
                        " is outside a sequence of " + Twine(length));
  return position;
}

namespace {
/// A sequence of tensors and a position in the sequence.
struct Placed {
  Sequence sequence;
  int64_t position;
};
} // namespace

// Reads a sequence from input 0 and a position from input `index`. The position
// is that of an element or, if `mayAppend`, also the one behind the last
// element.
static FailureOr<Placed> readPlaced(NodeImporter &node, unsigned index,
                                    bool mayAppend = false) {
  FailureOr<Sequence> sequence = node.sequence(0);
  if (failed(sequence))
    return failure();
  int64_t length = sequence->size();
  auto position =
      readPosition(node, index, length, mayAppend ? length : length - 1);
  if (failed(position))
    return failure();
  return Placed{std::move(*sequence), *position};
}

static LogicalResult importSequenceAt(NodeImporter &node) {
  FailureOr<Placed> placed = readPlaced(node, 1);
  if (failed(placed))
    return failure();
  const ImportedValue &element = placed->sequence[placed->position];
  return element.value ? node.define(0, element.value)
                       : node.define(0, *element.constant);
}

static LogicalResult importSequenceInsert(NodeImporter &node) {
  FailureOr<Placed> placed = readPlaced(node, 2, /*mayAppend=*/true);
  if (failed(placed))
    return failure();
  auto &[sequence, position] = *placed;
  sequence.insert(sequence.begin() + position, node.element(1));
  return node.define(0, std::move(sequence));
}

static LogicalResult importSequenceErase(NodeImporter &node) {
  FailureOr<Placed> placed = readPlaced(node, 1);
  if (failed(placed))
    return failure();
  auto &[sequence, position] = *placed;
  if (sequence.empty())
    return node.invalid(
        "expected a sequence with tensors, found an empty sequence '" +
        node.getInputName(0) + "'");
  sequence.erase(sequence.begin() + position);
  return node.define(0, std::move(sequence));
}

//===----------------------------------------------------------------------===//
// To a tensor and back
//===----------------------------------------------------------------------===//

// Returns the lengths of the parts into which SplitToSequence cuts an axis of
// `extent` elements. Input 'split' gives a length for each part, or one length
// for all parts (the last may be shorter). Without the input, all lengths are
// 1.
static FailureOr<SmallVector<int64_t>> readLengths(NodeImporter &node,
                                                   int64_t extent) {
  SmallVector<int64_t> lengths;
  bool isScalar = !node.hasInput(1) || node.operandShape(1).empty();
  if (node.hasInput(1)) {
    auto given = node.integers(1, "split");
    if (failed(given))
      return failure();
    lengths = *given;
  } else {
    lengths.push_back(1);
  }
  if (isScalar) {
    int64_t length = lengths.pop_back_val();
    if (length < 1)
      return node.invalid("expected parts of at least 1 element, found " +
                          Twine(length));
    // Each part becomes an op, so limit the number of parts.
    constexpr int64_t kMostParts = int64_t(1) << 16;
    if ((extent - 1) / length >= kMostParts)
      return node.unsupported("an axis of " + Twine(extent) +
                              " elements has too many parts, expected " +
                              Twine(kMostParts) + " at most");
    for (int64_t left = extent; left > 0; left -= length)
      lengths.push_back(std::min(length, left));
  }
  int64_t left = extent;
  for (int64_t length : lengths) {
    if (length < 0 || length > left)
      return node.invalid("the parts do not add up to the " + Twine(extent) +
                          " elements of the axis, found lengths " +
                          printShape(lengths));
    left -= length;
  }
  if (left != 0)
    return node.invalid("the parts do not add up to the " + Twine(extent) +
                        " elements of the axis, found lengths " +
                        printShape(lengths));
  return lengths;
}

static LogicalResult importSplitToSequence(NodeImporter &node) {
  SmallVector<int64_t> sizes(node.operandShape(0));
  auto axis = node.normalizeAxis(node.integer("axis", 0), sizes.size());
  if (failed(axis))
    return failure();
  int64_t extent = sizes[*axis];
  auto lengths = readLengths(node, extent);
  if (failed(lengths) || !canList(node, lengths->size()))
    return failure();
  // Parts of one element drop the axis if attribute 'keepdims' is 0.
  bool dropsAxis = node.integer("keepdims", 1) == 0 && !node.hasInput(1);
  SmallVector<int64_t> offsets(sizes.size(), 0), dropped(sizes);
  dropped.erase(dropped.begin() + *axis);
  Sequence sequence;
  for (int64_t length : *lengths) {
    sizes[*axis] = length;
    Value part = slice(node, node.operand(0), offsets, sizes);
    if (dropsAxis)
      part = node.reshape(part, dropped);
    if (!part)
      return failure();
    sequence.emplace_back().value = part;
    offsets[*axis] += length;
  }
  return node.define(0, std::move(sequence));
}

static LogicalResult importConcatFromSequence(NodeImporter &node) {
  FailureOr<Sequence> sequence = node.sequence(0);
  if (failed(sequence))
    return failure();
  if (sequence->empty())
    return node.invalid("expected a sequence of at least one tensor, found an "
                        "empty sequence '" +
                        node.getInputName(0) + "'");
  bool isNew = node.integer("new_axis", 0) != 0;
  SmallVector<Value> parts;
  for (const ImportedValue &element : *sequence) {
    Value part =
        element.value ? element.value : createConstant(node, *element.constant);
    if (!part)
      return failure();
    parts.push_back(part);
  }
  int64_t rank = NodeImporter::shapeOf(parts.front()).size();
  auto axis = node.normalizeAxis(node.integer("axis", 0), rank + isNew);
  if (failed(axis))
    return failure();
  for (Value &part : parts) {
    SmallVector<int64_t> shape(NodeImporter::shapeOf(part));
    if (static_cast<int64_t>(shape.size()) != rank)
      return node.invalid("the tensors of the sequence differ in rank, found " +
                          Twine(rank) + " and " + Twine(shape.size()));
    if (isNew)
      shape.insert(shape.begin() + *axis, 1);
    part = node.reshape(part, shape);
  }
  return node.define(0, concatenate(node, parts, *axis));
}

ArrayRef<OpEntry> mpc::onnx_frontend::getSequenceOps() {
  static const OpEntry entries[] = {
      {"", "ConcatFromSequence", 11, kNoEnd, 1, 1, 1, importConcatFromSequence},
      {"", "SequenceAt", 11, kNoEnd, 2, 2, 1, importSequenceAt},
      {"", "SequenceConstruct", 11, kNoEnd, 1, kAnyNumber, 1,
       importSequenceConstruct},
      {"", "SequenceEmpty", 11, kNoEnd, 0, 0, 1, importSequenceEmpty},
      {"", "SequenceErase", 11, kNoEnd, 1, 2, 1, importSequenceErase},
      {"", "SequenceInsert", 11, kNoEnd, 2, 3, 1, importSequenceInsert},
      {"", "SequenceLength", 11, kNoEnd, 1, 1, 1, importSequenceLength},
      {"", "SplitToSequence", 11, kNoEnd, 1, 2, 1, importSplitToSequence},
  };
  return entries;
}
