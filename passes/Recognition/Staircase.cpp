// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/Staircase.h"

#include "compiler/Dialect/MPC/Fold/ConstantElements.h"
#include "compiler/Interfaces/IndexedOpInterface.h"
#include "compiler/Interfaces/RegionOpInterface.h"
#include "passes/Recognition/KnownElements.h"
#include "passes/Recognition/Match.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cstring>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Structures of a value
//===----------------------------------------------------------------------===//

namespace {
/// A matrix of integers in which element (i, j) is row * i + column * j +
/// first. Models compare such matrices, of row and column numbers, to build
/// masks.
struct Places {
  int64_t row = 0, column = 0, first = 0;
};

/// The known structure of all matrices of a value: a staircase, numbers of rows
/// and columns, or unknown.
struct Structure {
  std::optional<Staircase> stairs;
  std::optional<Places> places;
};

/// The last two axes of a shape. Missing axes have size 1.
struct MatrixShape {
  explicit MatrixShape(ArrayRef<int64_t> shape)
      : rows(shape.size() < 2 ? 1 : shape[shape.size() - 2]),
        columns(shape.empty() ? 1 : shape.back()) {}
  bool operator==(const MatrixShape &other) const {
    return rows == other.rows && columns == other.columns;
  }
  int64_t rows, columns;
};

/// Finds the structure of a value from the structures of operands, back to
/// constants. Visits each op once.
class StaircaseFinder {
public:
  Structure find(Value value);

private:
  Structure follow(Operation *op);
  Structure followElementwise(Operation *op);
  Structure followView(Operation *op);
  Structure followSlice(SliceOp op);
  Structure followTranspose(TransposeOp op);

  DenseMap<Value, Structure> found;
};
} // namespace

static Structure makeStructure(Staircase stairs) {
  return {std::move(stairs), std::nullopt};
}

static Structure makeStructure(Places places) { return {std::nullopt, places}; }

// Returns the structure as numbers of rows and columns. A matrix with one
// integer everywhere counts as such. nullopt for other structures.
static std::optional<Places> asPlaces(const Structure &pattern) {
  if (pattern.places)
    return pattern.places;
  auto number = pattern.stairs && !pattern.stairs->offset
                    ? dyn_cast<IntegerAttr>(pattern.stairs->near)
                    : IntegerAttr();
  if (!number || number.getValue().getBitWidth() > 64)
    return std::nullopt;
  return Places{0, 0, number.getValue().getSExtValue()};
}

//===----------------------------------------------------------------------===//
// Known elements
//===----------------------------------------------------------------------===//

namespace {
/// The matrices (last two axes) of a constant, whose elements are read as bits
/// in place.
class MatrixBatch {
public:
  /// Returns the matrices of a constant; nullopt for a splat, or if the
  /// elements are not in memory.
  static std::optional<MatrixBatch> read(ElementsAttr elements);

  /// Returns the bits of the element at `position`, in row-major order.
  uint64_t at(int64_t position) const {
    if (booleans)
      return booleans.getValues<bool>()[position];
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + position * width, width);
    return bits;
  }
  Attribute getAttribute(int64_t position) const;

  /// True if `expect` is true for every element (i, j) of every matrix.
  bool are(llvm::function_ref<bool(int64_t, int64_t, uint64_t)> expect) const;

  RankedTensorType type;
  MatrixShape shape = MatrixShape({});

private:
  DenseIntElementsAttr booleans;
  ArrayRef<char> bytes;
  size_t width = 0;
};
} // namespace

std::optional<MatrixBatch> MatrixBatch::read(ElementsAttr elements) {
  auto type = dyn_cast<RankedTensorType>(elements.getShapedType());
  if (!type || !type.getElementType().isIntOrFloat() ||
      type.getNumElements() == 0 || elements.isSplat())
    return std::nullopt;
  MatrixBatch result;
  result.type = type;
  result.shape = MatrixShape(type.getShape());
  result.width = type.getElementTypeBitWidth() / 8;
  // The bytes of booleans may be packed, so read them through the attribute.
  if (type.getElementType().isInteger(1)) {
    result.booleans = dyn_cast<DenseIntElementsAttr>(elements);
    return result.booleans ? std::optional(std::move(result)) : std::nullopt;
  }
  result.bytes = getDenseBytes(elements);
  bool isWhole = result.width > 0 &&
                 result.bytes.size() == type.getNumElements() * result.width;
  return isWhole ? std::optional(std::move(result)) : std::nullopt;
}

Attribute MatrixBatch::getAttribute(int64_t position) const {
  Type element = type.getElementType();
  llvm::APInt bits(type.getElementTypeBitWidth(), at(position));
  if (auto real = dyn_cast<FloatType>(element))
    return FloatAttr::get(real, llvm::APFloat(real.getFloatSemantics(), bits));
  return IntegerAttr::get(element, bits);
}

bool MatrixBatch::are(
    llvm::function_ref<bool(int64_t, int64_t, uint64_t)> expect) const {
  const int64_t rows = type.getNumElements() / shape.columns;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t j = 0; j < shape.columns; ++j)
      if (!expect(row % shape.rows, j, at(row * shape.columns + j)))
        return false;
  return true;
}

// Returns `row`, `column` and `first` if the constant has elements row * i +
// column * j + first, in signless integers of 32 or 64 bits; nullopt for other
// constants.
static std::optional<Places> readPlaces(const MatrixBatch &matrices) {
  const unsigned width = matrices.type.getElementTypeBitWidth();
  if (!matrices.type.getElementType().isSignlessInteger() || width < 32)
    return std::nullopt;
  auto at = [&](int64_t i, int64_t j) {
    return llvm::SignExtend64(matrices.at(i * matrices.shape.columns + j),
                              width);
  };
  // Elements (0, 0), (1, 0) and (0, 1) determine the three numbers. All sums
  // wrap around.
  Places places{0, 0, at(0, 0)};
  if (matrices.shape.rows > 1)
    places.row = at(1, 0) - places.first;
  if (matrices.shape.columns > 1)
    places.column = at(0, 1) - places.first;
  bool doCount = matrices.are([&](int64_t i, int64_t j, uint64_t bits) {
    return llvm::SignExtend64(bits, width) ==
           places.row * i + places.column * j + places.first;
  });
  return doCount ? std::optional(places) : std::nullopt;
}

// Returns the staircase of a constant; nullopt if there is none. Finds the
// offset along the border of the first matrix: from the bottom left corner up
// to (0, 0), then right to the top right corner. `near` elements come first,
// then `far` elements.
static std::optional<Staircase> readStaircase(const MatrixBatch &matrices) {
  const auto [rows, columns] =
      std::pair(matrices.shape.rows, matrices.shape.columns);
  auto positionOf = [columns = columns](int64_t difference) {
    return difference < 0 ? -difference * columns : difference;
  };
  const uint64_t near = matrices.at(positionOf(1 - rows));
  const uint64_t far = matrices.at(positionOf(columns - 1));
  int64_t offset = -rows;
  while (offset + 1 < columns && matrices.at(positionOf(offset + 1)) == near)
    ++offset;
  bool isStaircase =
      near != far && matrices.are([&](int64_t i, int64_t j, uint64_t bits) {
        return bits == (j <= i + offset ? near : far);
      });
  if (!isStaircase)
    return std::nullopt;
  return Staircase{offset, matrices.getAttribute(positionOf(1 - rows)),
                   matrices.getAttribute(positionOf(columns - 1))};
}

static Structure readElements(ElementsAttr elements) {
  // A splat has one element, whatever its shape.
  if (auto splat = ConstantElements::read(elements);
      splat && splat->isSplat()) {
    auto one = RankedTensorType::get({}, splat->getElementType());
    return makeStructure(Staircase{
        std::nullopt,
        makeElements(one, splat->getBits(0)).getSplatValue<Attribute>(),
        Attribute()});
  }
  std::optional<MatrixBatch> matrices = MatrixBatch::read(elements);
  if (!matrices)
    return {};
  if (std::optional<Places> places = readPlaces(*matrices))
    return makeStructure(*places);
  return {readStaircase(*matrices), std::nullopt};
}

//===----------------------------------------------------------------------===//
// Element by element
//===----------------------------------------------------------------------===//

// Computes one element of the result of `op` from one element of each operand,
// by folding `op` on splats. Null if the op does not fold.
static Attribute computeElement(Operation *op, ArrayRef<Attribute> elements) {
  SmallVector<Attribute> operands;
  for (auto [operand, element] : llvm::zip_equal(op->getOperands(), elements))
    operands.push_back(
        DenseElementsAttr::get(typeOf(operand), ArrayRef<Attribute>(element)));
  // Fold a copy, since `fold` may modify the op.
  Operation *copy = op->clone();
  SmallVector<OpFoldResult> results;
  Attribute result;
  if (succeeded(copy->fold(operands, results)) && results.size() == 1) {
    if (auto attribute = dyn_cast<Attribute>(results.front())) {
      auto splat = dyn_cast<SplatElementsAttr>(attribute);
      result = splat ? splat.getSplatValue<Attribute>() : Attribute();
    } else {
      auto same = llvm::find(copy->getOperands(), cast<Value>(results.front()));
      if (same != copy->operand_end())
        result = elements[same.getIndex()];
    }
  }
  copy->destroy();
  return result;
}

// Returns the structure of lhs - rhs < bound, for two matrices of row and
// column numbers. A staircase of booleans if the difference is j - i or i - j
// plus a number; otherwise unknown.
static Structure comparePlaces(Places lhs, Places rhs, int64_t bound,
                               MLIRContext *context) {
  Places difference{lhs.row - rhs.row, lhs.column - rhs.column,
                    lhs.first - rhs.first};
  auto boolean = [&](bool value) { return BoolAttr::get(context, value); };
  // Case j - i + first < bound, then case i - j + first < bound.
  if (difference.row == -1 && difference.column == 1)
    return makeStructure(
        Staircase{bound - 1 - difference.first, boolean(true), boolean(false)});
  if (difference.row == 1 && difference.column == -1)
    return makeStructure(
        Staircase{difference.first - bound, boolean(false), boolean(true)});
  return {};
}

// Follows an op that adds, subtracts or compares matrices of row and column
// numbers. The numbers must be below 2^24, so that every type of 32 bits
// represents them exactly.
static Structure followPlaces(Operation *op, ArrayRef<Places> places) {
  constexpr int64_t kMost = int64_t(1) << 24;
  for (const Places &each : places)
    for (int64_t number : {each.row, each.column, each.first})
      if (number <= -kMost || number >= kMost)
        return {};
  auto combine = [&](int64_t sign) {
    return makeStructure(Places{places[0].row + sign * places[1].row,
                                places[0].column + sign * places[1].column,
                                places[0].first + sign * places[1].first});
  };
  return llvm::TypeSwitch<Operation *, Structure>(op)
      .Case<AddOp>([&](AddOp) { return combine(1); })
      .Case<SubOp>([&](SubOp) { return combine(-1); })
      .Case<LessOp>([&](LessOp) {
        return comparePlaces(places[0], places[1], 0, op->getContext());
      })
      .Case<LessOrEqualOp>([&](LessOrEqualOp) {
        return comparePlaces(places[0], places[1], 1, op->getContext());
      })
      .Default([](Operation *) { return Structure(); });
}

Structure StaircaseFinder::followElementwise(Operation *op) {
  SmallVector<Structure> patterns;
  for (Value operand : op->getOperands()) {
    patterns.push_back(find(operand));
    if (!patterns.back().stairs && !patterns.back().places)
      return {};
  }
  // If an operand has row and column numbers, all operands must have them.
  if (llvm::any_of(patterns, [](const Structure &p) { return p.places; })) {
    SmallVector<Places> places;
    for (const Structure &pattern : patterns)
      if (std::optional<Places> each = asPlaces(pattern))
        places.push_back(*each);
    return places.size() == patterns.size() ? followPlaces(op, places)
                                            : Structure();
  }
  // All staircases must have the step at the same offset. Then the result is a
  // staircase with this offset, or constant.
  SmallVector<Attribute> near, far;
  std::optional<int64_t> offset;
  const MatrixShape shape(shapeOf(op->getResult(0)));
  for (auto [operand, pattern] : llvm::zip(op->getOperands(), patterns)) {
    const Staircase &stairs = *pattern.stairs;
    near.push_back(stairs.near);
    far.push_back(stairs.offset ? stairs.far : stairs.near);
    if (!stairs.offset)
      continue;
    if ((offset && offset != stairs.offset) ||
        !(MatrixShape(shapeOf(operand)) == shape))
      return {};
    offset = stairs.offset;
  }
  Staircase result{offset, computeElement(op, near), Attribute()};
  if (offset)
    result.far = computeElement(op, far);
  if (!result.near || (offset && !result.far))
    return {};
  // If both sides of the step are equal, there is no step.
  if (result.near == result.far)
    result.offset.reset();
  return makeStructure(result);
}

//===----------------------------------------------------------------------===//
// Views and moves
//===----------------------------------------------------------------------===//

// Follows a reshape or expand that keeps the last two axes. Row and column
// numbers may also be expanded along these axes: a repeated row has the same
// numbers, since its factor `row` is 0.
Structure StaircaseFinder::followView(Operation *op) {
  Structure pattern = find(op->getOperand(0));
  bool isWhole = pattern.stairs && !pattern.stairs->offset;
  bool repeatsPlaces = pattern.places && isa<ExpandOp>(op);
  bool keepsMatrices = MatrixShape(shapeOf(op->getOperand(0))) ==
                       MatrixShape(shapeOf(op->getResult(0)));
  return isWhole || repeatsPlaces || keepsMatrices ? pattern : Structure();
}

Structure StaircaseFinder::followSlice(SliceOp op) {
  Structure pattern = find(op.getInput());
  const size_t rank = op.getOffsets().size();
  if (!isDense(op.getStrides()) || rank < 2)
    return {};
  int64_t rows = op.getOffsets()[rank - 2], columns = op.getOffsets()[rank - 1];
  if (pattern.stairs && pattern.stairs->offset)
    *pattern.stairs->offset += rows - columns;
  // If the slice keeps a single row or column, its number is part of `first`.
  if (Places *places = pattern.places ? &*pattern.places : nullptr) {
    places->first += places->row * rows + places->column * columns;
    const MatrixShape left(op.getSizes());
    places->row = left.rows == 1 ? 0 : places->row;
    places->column = left.columns == 1 ? 0 : places->column;
  }
  return pattern;
}

// Follows a transpose of the last two axes. The condition j <= i + offset
// becomes i <= j + offset, which is the opposite of j <= i - offset - 1. So
// `near` and `far` change places.
Structure StaircaseFinder::followTranspose(TransposeOp op) {
  Structure pattern = find(op.getInput());
  ArrayRef<int64_t> perm = op.getPerm();
  const int64_t rank = perm.size();
  bool isWhole = pattern.stairs && !pattern.stairs->offset;
  if (isWhole || rank < 2 ||
      (perm[rank - 2] == rank - 2 && perm[rank - 1] == rank - 1))
    return pattern;
  if (perm[rank - 2] != rank - 1 || perm[rank - 1] != rank - 2)
    return {};
  if (Staircase *stairs = pattern.stairs ? &*pattern.stairs : nullptr) {
    stairs->offset = -*stairs->offset - 1;
    std::swap(stairs->near, stairs->far);
  }
  if (pattern.places)
    std::swap(pattern.places->row, pattern.places->column);
  return pattern;
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

Structure StaircaseFinder::follow(Operation *op) {
  return llvm::TypeSwitch<Operation *, Structure>(op)
      .Case<ReshapeOp, ExpandOp>([&](auto each) { return followView(each); })
      .Case<SliceOp>([&](SliceOp each) { return followSlice(each); })
      .Case<TransposeOp>(
          [&](TransposeOp each) { return followTranspose(each); })
      .Default([&](Operation *each) {
        bool isFormula = hasRole(each, RegionRole::Elementwise) &&
                         each->getNumResults() == 1 && !dependsOnPlace(each);
        return isFormula ? followElementwise(each) : Structure();
      });
}

Structure StaircaseFinder::find(Value value) {
  // A mask is computed from few values; give up in larger graphs.
  constexpr unsigned kMostValues = 1024;
  if (auto known = found.find(value); known != found.end())
    return known->second;
  if (found.size() >= kMostValues)
    return {};
  Structure pattern;
  found[value] = pattern;
  if (ElementsAttr elements = findKnownElements(value))
    pattern = readElements(elements);
  else if (Operation *op = value.getDefiningOp())
    pattern = follow(op);
  return found[value] = pattern;
}

std::optional<Staircase> mpc::findStaircase(Value value) {
  return StaircaseFinder().find(value).stairs;
}
