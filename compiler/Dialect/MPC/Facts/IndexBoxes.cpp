// Tracks which operand elements become the indices of a table: maps boxes of
// index elements from an op's result to its operands. Also converts boxes to
// and from attributes.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Facts/IndexBoxes.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpc;

using Origins = std::optional<IndexOrigins>;

IndexBox mpc::createWholeBox(ArrayRef<int64_t> shape, int64_t size) {
  return {std::vector<int64_t>(shape.size(), 0), shape.vec(), size};
}

bool mpc::isEmpty(const IndexBox &box) {
  return llvm::any_of(llvm::zip_equal(box.begin, box.end), [](auto axis) {
    return std::get<0>(axis) >= std::get<1>(axis);
  });
}

//===----------------------------------------------------------------------===//
// From result to operand
//===----------------------------------------------------------------------===//

/// Returns the row-major positions [begin, end) of `box` if its elements are
/// contiguous. Contiguous boxes have extent 1 in the outer axes, and the
/// tensor's whole extent in the inner axes. nullopt otherwise.
static std::optional<std::pair<int64_t, int64_t>>
flatten(const IndexBox &box, ArrayRef<int64_t> shape) {
  assert(box.begin.size() == shape.size() && "a box of the tensor");
  int64_t begin = 0, end = 0;
  bool isPartial = false;
  for (auto [low, high, extent] : llvm::zip_equal(box.begin, box.end, shape)) {
    if (isPartial && (low != 0 || high != extent))
      return std::nullopt;
    isPartial |= high - low != 1;
    begin = begin * extent + low;
    end = end * extent + high - 1;
  }
  return std::pair(begin, end + 1);
}

/// Returns the box at the row-major positions [begin, end); nullopt if these
/// elements form no box.
static std::optional<IndexBox>
unflatten(int64_t begin, int64_t end, ArrayRef<int64_t> shape, int64_t size) {
  assert(begin < end && "a box has elements");
  IndexBox box = createWholeBox(shape, size);
  int64_t inner = 1;
  for (int64_t extent : shape)
    inner *= extent;
  for (auto [axis, extent] : llvm::enumerate(shape)) {
    inner /= extent;
    const int64_t first = begin / inner, last = (end - 1) / inner;
    box.begin[axis] = first;
    box.end[axis] = last + 1;
    if (first != last) {
      // Positions that span several indices of this axis form a box only if
      // they cover all later axes entirely.
      if (begin % inner != 0 || end % inner != 0)
        return std::nullopt;
      return box;
    }
    begin -= first * inner;
    end -= first * inner;
  }
  return box;
}

/// Maps a box through a reshape, which keeps the row-major order of elements.
/// Ranges along the leading and trailing axes that both shapes share stay as
/// they are. The axes between are mapped through row-major positions.
static Origins throughReshape(ReshapeOp op, const IndexBox &box) {
  ArrayRef<int64_t> from = shapeOf(op.getInput()), to = shapeOf(op.getOutput());
  // Count the equal axes at the start and at the end of both shapes.
  const size_t most = std::min(from.size(), to.size());
  size_t head = 0, tail = 0;
  while (head < most && from[head] == to[head])
    ++head;
  while (tail < most - head &&
         from[from.size() - 1 - tail] == to[to.size() - 1 - tail])
    ++tail;
  auto middle = [&](ArrayRef<int64_t> of) {
    return of.drop_front(head).drop_back(tail);
  };
  const IndexBox inside{middle(box.begin).vec(), middle(box.end).vec(),
                        box.size};
  const auto places = flatten(inside, middle(to));
  if (!places)
    return std::nullopt;
  std::optional<IndexBox> origin =
      unflatten(places->first, places->second, middle(from), box.size);
  if (!origin)
    return std::nullopt;
  auto surround = [&](std::vector<int64_t> &of, ArrayRef<int64_t> by) {
    of.insert(of.begin(), by.begin(), by.begin() + head);
    llvm::append_range(of, by.take_back(tail));
  };
  surround(origin->begin, box.begin);
  surround(origin->end, box.end);
  return IndexOrigins{{op.getInput(), *origin}};
}

static Origins throughTranspose(TransposeOp op, const IndexBox &box) {
  IndexBox origin = box;
  for (auto [axis, operandAxis] : llvm::enumerate(op.getPerm())) {
    origin.begin[operandAxis] = box.begin[axis];
    origin.end[operandAxis] = box.end[axis];
  }
  return IndexOrigins{{op.getInput(), origin}};
}

static Origins throughExpand(ExpandOp op, const IndexBox &box) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  IndexBox origin{ArrayRef(box.begin).take_back(shape.size()).vec(),
                  ArrayRef(box.end).take_back(shape.size()).vec(), box.size};
  for (auto [axis, extent] : llvm::enumerate(shape))
    if (extent == 1)
      origin.begin[axis] = 0, origin.end[axis] = 1;
  return IndexOrigins{{op.getInput(), origin}};
}

/// Maps a box through a slice. If the stride along an axis is neither 1 nor -1,
/// the selected elements are not adjacent in the operand, and form a box only
/// if there is just one.
static Origins throughSlice(SliceOp op, const IndexBox &box) {
  SmallVector<int64_t> strides =
      fillStrides(op.getStrides(), op.getSizes().size());
  IndexBox origin = box;
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    const int64_t count = box.end[axis] - box.begin[axis];
    const int64_t stride = strides[axis], offset = op.getOffsets()[axis];
    if (std::abs(stride) != 1 && count != 1)
      return std::nullopt;
    const int64_t first = offset + box.begin[axis] * stride;
    origin.begin[axis] = stride > 0 ? first : first - (count - 1);
    origin.end[axis] = origin.begin[axis] + count;
  }
  return IndexOrigins{{op.getInput(), origin}};
}

static Origins throughConcat(ConcatOp op, const IndexBox &box) {
  IndexOrigins origins;
  const int64_t axis = op.getAxis();
  int64_t offset = 0;
  for (Value input : op.getInputs()) {
    const int64_t extent = shapeOf(input)[axis];
    IndexBox origin = box;
    origin.begin[axis] = std::max<int64_t>(box.begin[axis] - offset, 0);
    origin.end[axis] = std::min(box.end[axis] - offset, extent);
    if (!isEmpty(origin))
      origins.emplace_back(input, origin);
    offset += extent;
  }
  return origins;
}

static Origins findPlaces(Operation *op, const IndexBox &box) {
  if (isEmpty(box))
    return IndexOrigins();
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return throughReshape(reshape, box);
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return throughTranspose(transpose, box);
  if (auto expand = dyn_cast<ExpandOp>(op))
    return throughExpand(expand, box);
  if (auto slice = dyn_cast<SliceOp>(op))
    return throughSlice(slice, box);
  if (auto concat = dyn_cast<ConcatOp>(op))
    return throughConcat(concat, box);
  // A cast from i32 to i64 changes no value, so indices stay indices.
  if (auto cast = dyn_cast<mpc::CastOp>(op))
    if (elementOf(cast.getInput()).isInteger(32) &&
        elementOf(cast.getOutput()).isInteger(64))
      return IndexOrigins{{cast.getInput(), box}};
  return std::nullopt;
}

Origins mpc::findOrigins(Operation *op, const IndexBox &box) {
  Origins origins = findPlaces(op, box);
  if (origins)
    for (auto &[operand, origin] : *origins) {
      origin.isLabel = box.isLabel;
      origin.ignored = box.ignored;
    }
  return origins;
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

constexpr llvm::StringLiteral kBegin = "begin", kEnd = "end", kSize = "size",
                              kLabel = "label", kIgnored = "ignored";

static IndexBox toBox(Attribute attribute) {
  auto box = cast<DictionaryAttr>(attribute);
  IndexBox result{box.getAs<DenseI64ArrayAttr>(kBegin).asArrayRef().vec(),
                  box.getAs<DenseI64ArrayAttr>(kEnd).asArrayRef().vec(),
                  box.getAs<IntegerAttr>(kSize).getInt(), box.contains(kLabel)};
  if (auto ignored = box.getAs<IntegerAttr>(kIgnored))
    result.ignored = ignored.getInt();
  return result;
}

static Attribute toAttribute(const IndexBox &box, Builder &builder) {
  NamedAttrList entries;
  entries.append(kBegin, builder.getDenseI64ArrayAttr(box.begin));
  entries.append(kEnd, builder.getDenseI64ArrayAttr(box.end));
  entries.append(kSize, builder.getI64IntegerAttr(box.size));
  if (box.isLabel)
    entries.append(kLabel, builder.getUnitAttr());
  if (box.ignored)
    entries.append(kIgnored, builder.getI64IntegerAttr(*box.ignored));
  return entries.getDictionary(builder.getContext());
}

/// Merges `next` into `box` if both hold indices of the same kind and size, and
/// `next` starts where `box` ends along one axis: [0, 2) x [0, 8) and [2, 5) x
/// [0, 8) become [0, 5) x [0, 8). Equal boxes merge too. Returns true if
/// merged.
static bool extendBox(IndexBox &box, const IndexBox &next) {
  assert(box.begin.size() == next.begin.size() && "boxes of one tensor");
  if (box.size != next.size || box.isLabel != next.isLabel ||
      box.ignored != next.ignored)
    return false;
  std::optional<size_t> differing;
  for (size_t axis = 0; axis < box.begin.size(); ++axis) {
    if (box.begin[axis] == next.begin[axis] && box.end[axis] == next.end[axis])
      continue;
    if (differing || box.end[axis] != next.begin[axis])
      return false;
    differing = axis;
  }
  if (differing)
    box.end[*differing] = next.end[*differing];
  return true;
}

ArrayAttr mpc::addBox(ArrayAttr list, const IndexBox &box, Builder &builder) {
  assert(box.begin.size() == box.end.size() && "a begin and an end per axis");
  assert((!box.ignored || box.isLabel) && "only labels are ignored");
  SmallVector<Attribute> boxes;
  if (list)
    llvm::append_range(boxes, list);
  if (!boxes.empty()) {
    IndexBox last = toBox(boxes.back());
    if (extendBox(last, box)) {
      boxes.back() = toAttribute(last, builder);
      return builder.getArrayAttr(boxes);
    }
  }
  boxes.push_back(toAttribute(box, builder));
  return builder.getArrayAttr(boxes);
}

static bool isBox(Attribute attribute, ArrayRef<int64_t> shape) {
  auto box = dyn_cast<DictionaryAttr>(attribute);
  if (!box)
    return false;
  // Compare the number of entries too, which rejects unknown keys.
  const bool isLabel = box.contains(kLabel), ignores = box.contains(kIgnored);
  auto ignored = box.getAs<IntegerAttr>(kIgnored);
  if (box.size() != 3u + isLabel + ignores ||
      (isLabel && !box.getAs<UnitAttr>(kLabel)) ||
      (ignores && (!isLabel || !ignored || !ignored.getType().isInteger(64))))
    return false;
  auto begin = box.getAs<DenseI64ArrayAttr>(kBegin);
  auto end = box.getAs<DenseI64ArrayAttr>(kEnd);
  auto size = box.getAs<IntegerAttr>(kSize);
  if (!begin || !end || !size || !size.getType().isInteger(64) ||
      size.getInt() < 0 || begin.size() != int64_t(shape.size()) ||
      end.size() != int64_t(shape.size()))
    return false;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (begin[axis] < 0 || begin[axis] > end[axis] || end[axis] > shape[axis])
      return false;
  return true;
}

bool mpc::isIndices(Attribute attribute, ShapedType type) {
  auto list = dyn_cast<ArrayAttr>(attribute);
  return list && type && type.hasStaticShape() &&
         isa<IntegerType>(type.getElementType()) &&
         llvm::all_of(
             list, [&](Attribute box) { return isBox(box, type.getShape()); });
}

std::vector<IndexBox> mpc::getBoxes(ArrayAttr list) {
  return {llvm::map_iterator(list.begin(), toBox),
          llvm::map_iterator(list.end(), toBox)};
}
