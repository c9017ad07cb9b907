// Imports ops that only move elements: Transpose, Concat, Expand, Slice, Split,
// Pad.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Importer/ShapeArguments.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

static SmallVector<int64_t> firstAxes(size_t count) {
  return llvm::to_vector(llvm::seq<int64_t>(0, count));
}

FailureOr<SmallVector<int64_t>>
mpc::onnx_frontend::readPermutation(NodeImporter &node) {
  int64_t rank = node.operandShape(0).size();
  if (node.hasFailed())
    return failure();
  SmallVector<int64_t> reversed = firstAxes(rank);
  std::reverse(reversed.begin(), reversed.end());
  auto perm = node.integerList("perm").value_or(reversed);
  SmallVector<int64_t> sorted(perm);
  llvm::sort(sorted);
  if (sorted != firstAxes(rank))
    return node.invalid("attribute 'perm' is no permutation of the " +
                        Twine(rank) + " axes, found " + printShape(perm));
  return perm;
}

static LogicalResult importTranspose(NodeImporter &node) {
  auto perm = readPermutation(node);
  if (failed(perm))
    return failure();
  return node.define(0,
                     node.emit<TransposeOp>(
                         {node.operand(0)},
                         {node.attribute("perm", ArrayRef<int64_t>(*perm))}));
}

FailureOr<int64_t> mpc::onnx_frontend::readConcatAxis(NodeImporter &node) {
  if (!node.hasAttribute("axis"))
    return node.invalid("attribute 'axis' is missing");
  return node.normalizeAxis(node.integer("axis", 0),
                            node.operandShape(0).size());
}

LogicalResult mpc::onnx_frontend::defineLengths(NodeImporter &node,
                                                int64_t axis) {
  SmallVector<int64_t> lengths;
  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    lengths.push_back(node.operandShape(i)[axis]);
  return node.define(1, HostTensor::fromIntegers(
                            node.getContext(),
                            {static_cast<int64_t>(lengths.size())}, lengths));
}

// Expands `part`, an input of a Concat, along the batch axis: for an export
// with a batch of 1, the part may have one row for all samples, while the other
// parts now have the batch size of the import.
static Value spreadOverBatch(NodeImporter &node, Value part, unsigned input,
                             int64_t axis) {
  Rebatch *rebatch = node.getFunction().getModule().getRebatch();
  SmallVector<int64_t> shape(NodeImporter::shapeOf(part));
  for (int64_t i = 0, rank = shape.size(); rebatch && i < rank; ++i) {
    auto extent = rebatch->getConcatExtent(node, input, i);
    if (i != axis && shape[i] == 1 && extent)
      shape[i] = *extent;
  }
  auto type = NodeImporter::typeOf(part).clone(shape);
  if (type == part.getType())
    return part;
  auto op = node.create<ExpandOp>({part}, {}, cast<RankedTensorType>(type));
  return op ? op.getOutput() : Value();
}

static LogicalResult importConcat(NodeImporter &node) {
  FailureOr<int64_t> axis = readConcatAxis(node);
  if (failed(axis))
    return failure();
  SmallVector<Value> parts = node.operands();
  for (auto [i, part] : llvm::enumerate(parts)) {
    if (part && elementOf(part) != elementOf(parts.front()))
      return node.refuseTypes(elementOf(parts.front()), elementOf(part));
    part = spreadOverBatch(node, part, i, *axis);
  }
  if (failed(node.define(
          0, node.emit<ConcatOp>(parts, {node.attribute("axis", *axis)}))))
    return failure();
  return node.hasOutput(1) ? defineLengths(node, *axis) : success();
}

// True if all elements of the constant `name`, or of the constant that it is a
// slice of, are equal. A constant of a Constant node is state of role frozen.
static bool isSplat(NodeImporter &node, StringRef name) {
  FunctionImporter &function = node.getFunction();
  const proto::NodeProto *producer = function.getGraph().getProducer(name);
  while (producer && producer->op_type() == "Slice" && producer->input_size()) {
    name = producer->input(0);
    producer = function.getGraph().getProducer(name);
  }
  const ImportedValue &entry = function.lookup(name);
  bool isConstant = !entry.stateRole || entry.stateRole == Role::Frozen;
  return entry.constant && isConstant && entry.constant->isSplat();
}

// Shrinks the input of an Expand to one row if the input is a constant with
// equal rows. PyTorch's older exporter writes an LSTM's initial state as zeros
// of [1, 4, 8] for a batch of 4, and expands the zeros to the input's batch.
// For another batch size, one row stands for all.
static Value takeRowOfAll(NodeImporter &node, Rebatch &rebatch,
                          ArrayRef<int64_t> requested) {
  Value input = node.operand(0);
  std::optional<int64_t> axis = rebatch.findSpreadAxis(node, requested);
  if (!input || !axis || !isSplat(node, node.getInputName(0)))
    return input;
  SmallVector<int64_t> sizes(NodeImporter::shapeOf(input));
  SmallVector<int64_t> offsets(sizes.size(), 0);
  sizes[*axis] = 1;
  return slice(node, input, offsets, sizes);
}

static LogicalResult importExpand(NodeImporter &node) {
  auto requested = node.integers(1, "the shape");
  if (failed(requested))
    return failure();
  Value input = node.operand(0);
  if (Rebatch *rebatch = node.getFunction().getModule().getRebatch()) {
    requested = rebatch->adaptExpand(node, *requested);
    input = takeRowOfAll(node, *rebatch, *requested);
  }
  if (!input)
    return failure();
  auto type = NodeImporter::typeOf(input);
  if (!getCheckedBytes(*requested, type.getElementType()))
    return node.invalid("the shape " + printShape(*requested) +
                        " has a negative extent or overflows");
  // Both shapes broadcast: where the requested shape has 1, the input's extent
  // stays.
  auto shape = broadcastShapes(type.getShape(), *requested);
  if (failed(shape))
    return node.invalid("the input does not broadcast to the shape " +
                        printShape(*requested) + ", found " +
                        printTensorType(type));
  return node.define(
      0,
      node.emit<ExpandOp>(
          {input}, {}, RankedTensorType::get(*shape, type.getElementType())));
}

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

// Returns elements [offset, offset + size) of `value` along `axis`.
static Value sliceAxis(NodeImporter &node, Value value, int64_t axis,
                       int64_t offset, int64_t size) {
  if (!value)
    return {};
  SmallVector<int64_t> sizes(NodeImporter::shapeOf(value));
  SmallVector<int64_t> offsets(sizes.size(), 0);
  offsets[axis] = offset;
  sizes[axis] = size;
  return slice(node, value, offsets, sizes);
}

// Reads the equally long lists of Slice: starts, ends, axes and steps. The
// lists are inputs from input `first` on, or attributes if `first` is nullopt.
static FailureOr<std::array<SmallVector<int64_t>, 4>>
readSliceLists(NodeImporter &node, std::optional<unsigned> first) {
  std::array<SmallVector<int64_t>, 4> lists;
  auto &[starts, ends, axes, steps] = lists;
  if (!first) {
    auto from = node.integerList("starts"), to = node.integerList("ends");
    if (!from || !to)
      return node.invalid("attributes 'starts' and 'ends' are missing");
    starts = *from;
    ends = *to;
    axes = node.integerList("axes").value_or(firstAxes(starts.size()));
    steps.assign(starts.size(), 1);
    return lists;
  }
  StringRef names[] = {"starts", "ends", "axes", "steps"};
  for (unsigned i = 0; i < 4; ++i) {
    if (i >= 2 && !node.hasInput(*first + i)) {
      lists[i] = i == 2 ? firstAxes(starts.size())
                        : SmallVector<int64_t>(starts.size(), 1);
      continue;
    }
    auto given = node.integers(*first + i, names[i]);
    if (failed(given))
      return failure();
    lists[i] = *given;
  }
  return lists;
}

// Turns the lists of Slice into ranges of a tensor of `shape`.
static FailureOr<SmallVector<SliceRange>>
readRanges(NodeImporter &node, ArrayRef<int64_t> shape,
           FailureOr<std::array<SmallVector<int64_t>, 4>> lists) {
  if (failed(lists))
    return failure();
  // readSliceLists() has filled in default axes and steps.
  auto &[starts, ends, axes, steps] = *lists;
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size())
    return node.invalid(
        "starts, ends, axes and steps have different lengths, found " +
        Twine(starts.size()) + ", " + Twine(ends.size()) + ", " +
        Twine(axes.size()) + " and " + Twine(steps.size()));
  if (failed(node.normalizeAxes(axes, shape.size())))
    return failure();
  SmallVector<SliceRange> ranges;
  // ONNX counts negative positions from the end, and clamps positions outside
  // the axis.
  for (auto [start, end, axis, step] : llvm::zip(starts, ends, axes, steps)) {
    if (step == 0)
      return node.invalid("expected steps other than 0, found " +
                          printShape(steps));
    axis = axis < 0 ? axis + shape.size() : axis;
    int64_t extent = shape[axis];
    bool backwards = step < 0;
    auto clamp = [&, extent = extent](int64_t position, int64_t lowest) {
      position =
          position < 0 ? std::max(position, -extent - 1) + extent : position;
      return std::max(std::min(position, backwards ? extent - 1 : extent),
                      lowest);
    };
    // A range with a negative step may end before element 0, at -1.
    int64_t offset = clamp(start, 0), last = clamp(end, backwards ? -1 : 0);
    int64_t length = backwards ? offset - last : last - offset;
    if (extent == 0)
      length = 0;
    // A step longer than the range acts like one of the range's length. Clamp
    // the step, so that no sum overflows.
    int64_t stride = std::clamp<int64_t>(step, -std::max<int64_t>(length, 1),
                                         std::max<int64_t>(length, 1));
    int64_t distance = std::abs(stride);
    int64_t count = length <= 0 ? 0 : (length + distance - 1) / distance;
    [[maybe_unused]] int64_t farthest = offset + (count - 1) * stride;
    assert((count == 0 || (std::min(offset, farthest) >= 0 &&
                           std::max(offset, farthest) < extent)) &&
           "a range selects elements of the axis");
    ranges.push_back({axis, count == 0 ? 0 : offset, count, stride});
  }
  return ranges;
}

FailureOr<SmallVector<SliceRange>>
mpc::onnx_frontend::readSliceRanges(NodeImporter &node) {
  return readRanges(node, node.operandShape(0),
                    readSliceLists(node, node.getOpset() < 10
                                             ? std::nullopt
                                             : std::optional<unsigned>(1)));
}

namespace {
/// The ranges of a slice along all axes. An axis without a range is taken
/// whole.
struct Box {
  Box(ArrayRef<int64_t> shape, ArrayRef<SliceRange> ranges)
      : offsets(shape.size(), 0), sizes(shape), strides(shape.size(), 1) {
    for (const SliceRange &range : ranges) {
      offsets[range.axis] = range.offset;
      sizes[range.axis] = range.count;
      // For a single element, any step will do.
      strides[range.axis] = range.count > 1 ? range.step : 1;
    }
  }

  SmallVector<int64_t> offsets, sizes, strides;
};
} // namespace

static LogicalResult importSlice(NodeImporter &node) {
  auto ranges = readSliceRanges(node);
  if (failed(ranges))
    return failure();
  Box box(node.operandShape(0), *ranges);
  return node.define(
      0, slice(node, node.operand(0), box.offsets, box.sizes, box.strides));
}

// Imports SliceGrad(dY, shape, starts, ends, axes, steps): dY at the slice's
// position, zeros elsewhere.
static LogicalResult importSliceGrad(NodeImporter &node) {
  auto shape = node.integers(1, "shape");
  if (failed(shape))
    return failure();
  auto ranges = readRanges(node, *shape, readSliceLists(node, 2));
  if (failed(ranges))
    return failure();
  Box box(*shape, *ranges);
  if (node.operandShape(0) != ArrayRef<int64_t>(box.sizes))
    return node.invalid("expected a gradient of shape " +
                        printShape(box.sizes) + ", the shape of the slice" +
                        node.found({0}));
  return node.define(
      0, node.emit<PadOp>(
             {node.operand(0)},
             {node.attribute("offsets", ArrayRef<int64_t>(box.offsets)),
              node.attribute("shape", ArrayRef<int64_t>(*shape)),
              node.attribute("value", 0.0),
              node.attribute("strides", ArrayRef<int64_t>(box.strides))}));
}

//===----------------------------------------------------------------------===//
// Split
//===----------------------------------------------------------------------===//

// Reads the lengths of a Split's outputs: an attribute or an input, or else
// equal lengths, of which the last may be shorter.
static FailureOr<SmallVector<int64_t>> readSplit(NodeImporter &node,
                                                 int64_t extent) {
  int64_t count = node.getNode().output_size();
  if (auto list = node.integerList("split"))
    return *list;
  if (node.hasInput(1))
    return node.integers(1, "split");
  if (node.integer("num_outputs", count) != count)
    return node.invalid("expected attribute 'num_outputs' to be " +
                        Twine(count) + ", the number of outputs, found " +
                        Twine(node.integer("num_outputs", count)));
  SmallVector<int64_t> lengths;
  int64_t length = (extent + count - 1) / count;
  for (int64_t left = extent; count-- > 0; left -= lengths.back())
    lengths.push_back(std::min(length, left));
  return lengths;
}

FailureOr<SplitParts> mpc::onnx_frontend::readSplitParts(NodeImporter &node) {
  ArrayRef<int64_t> shape = node.operandShape(0);
  auto axis = node.normalizeAxis(node.integer("axis", 0), shape.size());
  if (failed(axis))
    return failure();
  int64_t extent = shape[*axis], left = extent;
  auto lengths = readSplit(node, extent);
  if (failed(lengths))
    return failure();
  size_t outputs = node.getNode().output_size();
  if (lengths->size() != outputs)
    return node.invalid("expected the lengths of " + Twine(outputs) +
                        " parts, found " + Twine(lengths->size()));
  for (int64_t length : *lengths) {
    if (length < 0 || length > left) {
      left = -1;
      break;
    }
    left -= length;
  }
  if (left != 0)
    return node.invalid("the parts do not add up to the " + Twine(extent) +
                        " elements of the axis, found lengths " +
                        printShape(*lengths));
  return SplitParts{*axis, *lengths};
}

static LogicalResult importSplit(NodeImporter &node) {
  FailureOr<SplitParts> parts = readSplitParts(node);
  if (failed(parts))
    return failure();
  int64_t offset = 0;
  for (auto [i, length] : llvm::enumerate(parts->lengths)) {
    Value part = sliceAxis(node, node.operand(0), parts->axis, offset, length);
    if (failed(node.define(i, part)))
      return failure();
    offset += length;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Pad
//===----------------------------------------------------------------------===//

// Pads `axes` with the number `padding`. A negative amount removes elements.
static LogicalResult padAxes(NodeImporter &node, ArrayRef<int64_t> axes,
                             ArrayRef<int64_t> pads, double padding) {
  Value value = node.operand(0);
  if (std::abs(padding) > 0x1p53 &&
      NodeImporter::typeOf(value).getElementType().isInteger())
    return node.unsupported(
        "expected a padding value of at most 2^53 for integers, found " +
        std::to_string(padding));
  // Remove elements first. Collect the positive amounts for one PadOp.
  SmallVector<int64_t> offsets(NodeImporter::shapeOf(value).size(), 0);
  SmallVector<int64_t> shape(NodeImporter::shapeOf(value));
  for (auto [i, axis] : llvm::enumerate(axes)) {
    int64_t before = pads[i], after = pads[axes.size() + i];
    int64_t extent = NodeImporter::shapeOf(value)[axis];
    int64_t cut = std::max<int64_t>(-before, 0);
    int64_t kept = extent - cut - std::max<int64_t>(-after, 0);
    if (kept < 0)
      return node.invalid("pads of " + Twine(before) + " and " + Twine(after) +
                          " remove more than the " + Twine(extent) +
                          " elements of axis " + Twine(axis));
    value = sliceAxis(node, value, axis, cut, kept);
    if (!value)
      return failure();
    offsets[axis] = std::max<int64_t>(before, 0);
    shape[axis] = offsets[axis] + kept + std::max<int64_t>(after, 0);
  }
  if (NodeImporter::shapeOf(value) == ArrayRef<int64_t>(shape))
    return node.define(0, value);
  auto op = node.create<PadOp>(
      {value}, {node.attribute("offsets", ArrayRef<int64_t>(offsets)),
                node.attribute("shape", ArrayRef<int64_t>(shape)),
                node.attribute("value", padding)});
  return op ? node.define(0, op.getOutput()) : failure();
}

// Returns the input element to copy to `place`, a padded position that may lie
// outside [0, extent). "edge" copies the outermost element, "reflect" mirrors
// the axis, "wrap" repeats the axis.
static int64_t findInside(StringRef mode, int64_t place, int64_t extent) {
  if (mode == "edge" || extent == 1)
    return std::clamp<int64_t>(place, 0, extent - 1);
  int64_t period = mode == "wrap" ? extent : 2 * (extent - 1);
  int64_t within = (place % period + period) % period;
  return within < extent ? within : period - within;
}

// Pads each axis with copies of elements of the input.
static LogicalResult padFromInside(NodeImporter &node, ArrayRef<int64_t> axes,
                                   ArrayRef<int64_t> pads, StringRef mode) {
  Value value = node.operand(0);
  for (auto [i, axis] : llvm::enumerate(axes)) {
    int64_t before = pads[i], after = pads[axes.size() + i];
    int64_t extent = node.operandShape(0)[axis];
    int64_t size = before + extent + after;
    if (size < 0 || (extent == 0 && size > 0))
      return node.invalid("axis " + Twine(axis) + " of " + Twine(extent) +
                          " elements cannot be padded to " + Twine(size));
    if (!canList(node, size))
      return failure();
    SmallVector<int64_t> places;
    for (int64_t place = -before; place < extent + after; ++place)
      places.push_back(findInside(mode, place, extent));
    value = take(node, value, axis, places);
  }
  return node.define(0, value);
}

// Imports Pad. The amounts and the number to pad with are attributes before
// opset 11, then inputs.
static LogicalResult importPad(NodeImporter &node) {
  int64_t rank = node.operandShape(0).size();
  SmallVector<int64_t> axes = firstAxes(rank), pads;
  double padding = node.real("value", 0.0);
  if (auto list = node.integerList("pads")) {
    pads = *list;
  } else {
    auto given = node.integers(1, "pads");
    FailureOr<double> value =
        node.hasInput(2) ? node.scalar(2, "the padding") : padding;
    if (failed(given) || failed(value))
      return failure();
    pads = *given;
    padding = *value;
  }
  // From opset 18 on, input 3 selects the axes to pad.
  if (node.hasInput(3)) {
    auto given = node.integers(3, "axes");
    if (failed(given))
      return failure();
    if (failed(node.normalizeAxes(*given, rank)))
      return failure();
    // Keep the order, which the pads share.
    axes = *given;
    for (int64_t &axis : axes)
      axis = axis < 0 ? axis + rank : axis;
  }
  if (pads.size() != 2 * axes.size())
    return node.invalid("expected " + Twine(2 * axes.size()) + " pads, found " +
                        Twine(pads.size()));
  // No tensor is larger, and the sum of two pads within this limit does not
  // overflow.
  constexpr int64_t kLargest = int64_t(1) << 30;
  if (llvm::any_of(pads,
                   [](int64_t n) { return n < -kLargest || n > kLargest; }))
    return node.invalid("expected pads from -2^30 to 2^30, found " +
                        printShape(pads));
  bool changes = llvm::any_of(pads, [](int64_t count) { return count != 0; });
  std::string mode = node.string("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" &&
      mode != "wrap")
    return node.invalid("attribute 'mode' has the unknown value '" + mode +
                        "', expected constant, edge, reflect or wrap");
  if (changes && mode != "constant")
    return padFromInside(node, axes, pads, mode);
  return padAxes(node, axes, pads, padding);
}

ArrayRef<OpEntry> mpc::onnx_frontend::getMovementOps() {
  static const OpEntry entries[] = {
      {"", "Concat", 4, kNoEnd, 1, kAnyNumber, 1, importConcat},
      {"", "Expand", 8, kNoEnd, 2, 2, 1, importExpand},
      {"", "Pad", 2, kNoEnd, 1, 4, 1, importPad},
      {"", "Slice", 1, 9, 1, 1, 1, importSlice},
      {"", "Slice", 10, kNoEnd, 3, 5, 1, importSlice},
      {"", "Split", 2, kNoEnd, 1, 2, kAnyNumber, importSplit},
      {"", "Transpose", 1, kNoEnd, 1, 1, 1, importTranspose},
      {kMicrosoft, "ConcatTraining", 1, kNoEnd, 1, kAnyNumber, 2, importConcat},
      {kMicrosoft, "SliceGrad", 1, kNoEnd, 4, 6, 1, importSliceGrad},
      {kMicrosoft, "SplitTraining", 1, kNoEnd, 2, 2, kAnyNumber, importSplit},
  };
  return entries;
}
