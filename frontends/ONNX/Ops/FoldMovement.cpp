// Folding of ops that move elements.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/FoldElements.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

static LogicalResult foldGather(NodeImporter &node) {
  HostTensor source = *node.constant(0), indices = *node.constant(1);
  ArrayRef<int64_t> shape = source.getShape();
  auto axis = node.normalizeAxis(node.integer("axis", 0), shape.size());
  if (failed(axis))
    return failure();
  if (indices.isFloat())
    return node.invalid("expected integers as indices, found floats");
  // Negative indices count from the end.
  int64_t extent = shape[*axis];
  Integers rows = indices.getIntegers();
  for (int64_t &row : rows) {
    if (row < -extent || row >= extent)
      return node.invalid("index " + Twine(row) + " is outside an axis of " +
                          Twine(extent));
    row = row < 0 ? row + extent : row;
  }
  // The indices' axes take the place of the axis.
  Integers result(shape.take_front(*axis));
  llvm::append_range(result, indices.getShape());
  llvm::append_range(result, shape.drop_front(*axis + 1));
  if (failed(checkFoldedSize(node, result)))
    return failure();
  size_t rank = indices.getShape().size();
  return node.define(
      0, pick(source, result, [&](ArrayRef<int64_t> index) {
        int64_t row =
            rows[getPosition(index.slice(*axis, rank), indices.getShape())];
        Integers at(index.take_front(*axis));
        at.push_back(row);
        llvm::append_range(at, index.drop_front(*axis + rank));
        return getPosition(at, shape);
      }));
}

static LogicalResult foldConcat(NodeImporter &node) {
  FailureOr<int64_t> axis = readConcatAxis(node);
  if (failed(axis))
    return failure();
  // Inputs agree but along the axis, whose sizes add up.
  HostTensor first = *node.constant(0);
  Integers shape(first.getShape());
  shape[*axis] = 0;
  SmallVector<HostTensor> parts;
  for (unsigned i = 0; i < node.getNumInputs(); ++i) {
    parts.push_back(*node.constant(i));
    const HostTensor &part = parts.back();
    if (part.getShape().size() != shape.size() ||
        part.type.getElementType() != first.type.getElementType())
      return node.invalid("expected inputs of one rank and element type");
    for (auto [d, extent] : llvm::enumerate(part.getShape())) {
      if (static_cast<int64_t>(d) == *axis)
        shape[d] += extent;
      else if (extent != shape[d])
        return node.invalid("expected inputs that differ along the axis alone");
    }
  }
  if (failed(checkFoldedSize(node, shape)))
    return failure();
  // Row by row of the axes before, a piece of each input.
  auto [tensor, data] = HostTensor::allocate(
      RankedTensorType::get(shape, first.type.getElementType()));
  int64_t outer =
      ShapedType::getNumElements(ArrayRef<int64_t>(shape).take_front(*axis));
  char *to = data;
  for (int64_t row = 0; row < outer; ++row)
    for (const HostTensor &part : parts) {
      int64_t bytes = part.data.size() / outer;
      to = std::copy_n(part.data.data() + row * bytes, bytes, to);
    }
  if (failed(node.define(0, tensor)))
    return failure();
  return node.hasOutput(1) ? defineLengths(node, *axis) : success();
}

// The elements of `source` within some ranges of its axes.
static HostTensor slice(const HostTensor &source, ArrayRef<SliceRange> ranges) {
  Integers shape(source.getShape()), offsets(shape.size(), 0);
  Integers steps(shape.size(), 1);
  for (const SliceRange &range : ranges) {
    shape[range.axis] = range.count;
    offsets[range.axis] = range.offset;
    steps[range.axis] = range.step;
  }
  return pick(source, shape, [&](ArrayRef<int64_t> index) {
    Integers at(index);
    for (auto [i, position] : llvm::enumerate(at))
      position = offsets[i] + position * steps[i];
    return getPosition(at, source.getShape());
  });
}

static LogicalResult foldSlice(NodeImporter &node) {
  auto ranges = readSliceRanges(node);
  if (failed(ranges))
    return failure();
  return node.define(0, slice(*node.constant(0), *ranges));
}

static LogicalResult foldSplit(NodeImporter &node) {
  FailureOr<SplitParts> parts = readSplitParts(node);
  if (failed(parts))
    return failure();
  HostTensor source = *node.constant(0);
  int64_t offset = 0;
  for (auto [i, length] : llvm::enumerate(parts->lengths)) {
    if (failed(node.define(
            i, slice(source, SliceRange{parts->axis, offset, length, 1}))))
      return failure();
    offset += length;
  }
  return success();
}

static LogicalResult foldTranspose(NodeImporter &node) {
  auto perm = readPermutation(node);
  if (failed(perm))
    return failure();
  HostTensor source = *node.constant(0);
  Integers shape;
  for (int64_t axis : *perm)
    shape.push_back(source.getShape()[axis]);
  return node.define(0, pick(source, shape, [&](ArrayRef<int64_t> index) {
                       Integers at(index.size());
                       for (auto [to, from] : llvm::enumerate(*perm))
                         at[from] = index[to];
                       return getPosition(at, source.getShape());
                     }));
}

static LogicalResult foldExpand(NodeImporter &node) {
  HostTensor source = *node.constant(0);
  auto requested = node.integers(1, "the shape");
  if (failed(requested))
    return failure();
  auto shape = broadcastShapes(source.getShape(), *requested);
  if (failed(shape) ||
      llvm::any_of(*requested, [](int64_t extent) { return extent < 0; }))
    return node.invalid("the input does not broadcast to the shape");
  if (source.getNumElements() == 1)
    return defineSplat(node, 0, *shape, source);
  if (failed(checkFoldedSize(node, *shape)))
    return failure();
  return node.define(0, pick(source, *shape, [&](ArrayRef<int64_t> index) {
                       return getPosition(index, source.getShape());
                     }));
}

static LogicalResult foldTile(NodeImporter &node) {
  HostTensor source = *node.constant(0);
  auto repeats = node.integers(1, "the repeats");
  if (failed(repeats))
    return failure();
  // Each axis repeats: element i is element i mod extent.
  Integers shape(source.getShape());
  if (repeats->size() != shape.size())
    return node.invalid("expected one number of repeats per axis");
  for (auto [extent, count] : llvm::zip(shape, *repeats)) {
    if (count < 0 || llvm::MulOverflow(extent, count, extent))
      return node.invalid("the repeats are negative or overflow");
  }
  if (failed(checkFoldedSize(node, shape)))
    return failure();
  return node.define(0, pick(source, shape, [&](ArrayRef<int64_t> index) {
                       Integers at(index);
                       for (auto [i, extent] :
                            llvm::enumerate(source.getShape()))
                         at[i] %= extent;
                       return getPosition(at, source.getShape());
                     }));
}

// Where the elements are that are not zero: one column each.
static LogicalResult foldNonZero(NodeImporter &node) {
  HostTensor source = *node.constant(0);
  SmallVector<Integers> found;
  forEachIndex(source.getShape(), [&](ArrayRef<int64_t> index) {
    int64_t position = getPosition(index, source.getShape());
    if (source.getDouble(position) != 0.0)
      found.emplace_back(index);
  });
  Integers values;
  for (size_t axis = 0; axis < source.getShape().size(); ++axis)
    for (const Integers &index : found)
      values.push_back(index[axis]);
  return node.define(0, HostTensor::fromIntegers(
                            node.getContext(),
                            {static_cast<int64_t>(source.getShape().size()),
                             static_cast<int64_t>(found.size())},
                            values));
}

// Ops that keep the elements in order: only the shape differs.
template <FailureOr<Integers> (*Infer)(NodeImporter &)>
static LogicalResult foldReshape(NodeImporter &node) {
  HostTensor source = *node.constant(0);
  FailureOr<Integers> shape = Infer(node);
  if (failed(shape))
    return failure();
  return node.define(
      0, HostTensor{RankedTensorType::get(*shape, source.type.getElementType()),
                    source.data, source.owner});
}

static LogicalResult foldIdentity(NodeImporter &node) {
  return node.define(0, *node.constant(0));
}

Folder mpc::onnx_frontend::getMovementFolder(StringRef op) {
  return llvm::StringSwitch<Folder>(op)
      .Cases({"Concat", "com.microsoft.ConcatTraining"}, foldConcat)
      .Case("Expand", foldExpand)
      .Case("Gather", foldGather)
      .Case("Identity", foldIdentity)
      .Case("NonZero", foldNonZero)
      .Case("Reshape", foldReshape<inferReshape>)
      .Case("Slice", foldSlice)
      .Cases({"Split", "com.microsoft.SplitTraining"}, foldSplit)
      .Case("Squeeze", foldReshape<inferSqueeze>)
      .Case("Tile", foldTile)
      .Case("Transpose", foldTranspose)
      .Case("Unsqueeze", foldReshape<inferUnsqueeze>)
      .Default(nullptr);
}
