// Recognises embedding bags: sums, means or maxima of groups (bags) of table
// rows. PyTorch's exporters write a loop over the bags: a gather and a
// reduction for each bag, then a concat. Bags of one length that follow each
// other become one gather of [bags, length] rows and one reduction.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/Match.h"
#include "passes/Recognition/Passes.h"

#include "compiler/Dialect/MPC/Fold/ConstantNumber.h"

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZEEMBEDDINGBAGPASS
#include "passes/Recognition/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// One bag: the reduction of rows [start, start + length) of `source`. With
/// `table`, these elements of `source` are indices, and the bag reduces the
/// rows of `table` at the indices.
struct Bag {
  /// The rows before the reduction, and the op name of the reduction.
  Value rows;
  StringRef reduction;
  /// The divisor if the bag is a sum divided by a number.
  std::optional<double> divisor;
  Value table, source;
  int64_t start = 0, length = 0;

  /// True if the bags differ only in `start`.
  bool isLike(const Bag &other) const {
    return reduction == other.reduction && table == other.table &&
           source == other.source && length == other.length;
  }
};

struct RecognizeEmbeddingBag : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op,
                                PatternRewriter &rewriter) const override;
};

struct RecognizeEmbeddingBagPass
    : public mpc::impl::RecognizeEmbeddingBagPassBase<
          RecognizeEmbeddingBagPass> {
  void runOnOperation() override {
    if (failed(applyRecognizers<RecognizeEmbeddingBag>(getOperation())))
      signalPassFailure();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// One bag
//===----------------------------------------------------------------------===//

template <typename OpTy>
static bool matchReductionBy(Value value, Bag &bag, Match &match) {
  auto op = match.take<OpTy>(value);
  if (!op || op.getAxes() != ArrayRef<int64_t>(0) || op.getParts())
    return false;
  bag.rows = op.getInput();
  bag.reduction = OpTy::getOperationName();
  return true;
}

// Matches a sum, mean or maximum over axis 0, or such a sum divided by a
// number.
static bool matchReduction(Value value, Bag &bag, Match &match) {
  if (auto quotient = match.take<DivOp>(value)) {
    bag.divisor = getConstantNumber(quotient.getRhs());
    return bag.divisor && quotient.getLhs().getType() == quotient.getType() &&
           matchReductionBy<ReduceSumOp>(quotient.getLhs(), bag, match);
  }
  return matchReductionBy<ReduceSumOp>(value, bag, match) ||
         matchReductionBy<ReduceMeanOp>(value, bag, match) ||
         matchReductionBy<ReduceMaxOp>(value, bag, match);
}

// Matches a slice of `source` along axis 0, and records start and length.
static bool matchRange(Value value, Bag &bag, Match &match) {
  auto slice = match.take<SliceOp>(value);
  if (!slice)
    return false;
  ArrayRef<int64_t> whole = shapeOf(slice.getInput());
  bool isPlain = slice.getStrides().empty() ||
                 llvm::all_of(slice.getStrides(),
                              [](int64_t stride) { return stride == 1; });
  if (!isPlain || whole.empty() ||
      slice.getSizes().drop_front() != whole.drop_front())
    return false;
  bag.source = slice.getInput();
  bag.start = slice.getOffsets().front();
  bag.length = slice.getSizes().front();
  return true;
}

static std::optional<Bag> matchBag(Value part, Match &match) {
  // Look through a reshape of the bag's result from [size] to [1, size].
  if (auto view = part.getDefiningOp<ReshapeOp>();
      view && shapeOf(view.getInput()) == shapeOf(part).drop_front())
    part = match.take<ReshapeOp>(part).getInput();
  Bag bag;
  if (!matchReduction(part, bag, match))
    return std::nullopt;
  // The rows are gathered from a table, or are rows of `source`.
  Value rows = bag.rows;
  if (auto gather = match.take<GatherOp>(rows)) {
    if (gather.getAxis() != 0 || gather.getBatchDims() != 0 ||
        shapeOf(gather.getIndices()).size() != 1)
      return std::nullopt;
    bag.table = gather.getData();
    rows = gather.getIndices();
  }
  // Rows or indices must be a range of consecutive elements.
  if (!matchRange(rows, bag, match) || bag.length == 0)
    return std::nullopt;
  // A sum divided by the number of rows is a mean. Another divisor does not
  // match.
  if (bag.divisor && *bag.divisor != static_cast<double>(bag.length))
    return std::nullopt;
  if (bag.divisor)
    bag.reduction = ReduceMeanOp::getOperationName();
  return bag;
}

//===----------------------------------------------------------------------===//
// All bags
//===----------------------------------------------------------------------===//

// Matches the operands of a concat as bags with equal table, reduction and
// length, each starting at the end of the previous bag. Returns the first bag;
// nullopt if an operand does not match.
static std::optional<Bag> matchBags(ConcatOp op, Match &match) {
  ValueRange parts = op.getInputs();
  if (parts.size() < 2 || op.getAxis() != 0)
    return std::nullopt;
  std::optional<Bag> first;
  for (auto [i, part] : llvm::enumerate(parts)) {
    if (shapeOf(part).empty() || shapeOf(part).front() != 1)
      return std::nullopt;
    std::optional<Bag> bag = matchBag(part, match);
    if (!bag)
      return std::nullopt;
    if (!first)
      first = bag;
    else if (!bag->isLike(*first) ||
             bag->start != first->start + int64_t(i) * first->length)
      return std::nullopt;
  }
  return first;
}

// Returns elements [start, start + bags * length) of the bag's source, reshaped
// to [bags, length, ...].
static Value createBags(const Bag &bag, int64_t bags, PatternRewriter &rewriter,
                        Location location) {
  RankedTensorType type = typeOf(bag.source);
  SmallVector<int64_t> shape(type.getShape());
  Value all = bag.source;
  if (shape.front() != bags * bag.length) {
    SmallVector<int64_t> offsets(shape.size(), 0);
    offsets.front() = bag.start;
    shape.front() = bags * bag.length;
    all = SliceOp::create(rewriter, location, type.clone(shape), all, offsets,
                          shape, ArrayRef<int64_t>());
  }
  shape.front() = bag.length;
  shape.insert(shape.begin(), bags);
  return ReshapeOp::create(rewriter, location, type.clone(shape), all);
}

LogicalResult
RecognizeEmbeddingBag::matchAndRewrite(ConcatOp op,
                                       PatternRewriter &rewriter) const {
  Match match(op);
  std::optional<Bag> bag = matchBags(op, match);
  if (!bag || !match.isClosed())
    return rewriter.notifyMatchFailure(
        op, "expected consecutive bags of one length, without other readers");
  // The concat must stack the bags along a new axis: the result is [bags, ...].
  int64_t bags = op.getInputs().size();
  Value reduced = bag->table ? bag->table : bag->source;
  SmallVector<int64_t> joined = {bags};
  llvm::append_range(joined, shapeOf(reduced).drop_front());
  if (shapeOf(op) != ArrayRef<int64_t>(joined))
    return rewriter.notifyMatchFailure(op,
                                       "expected bags joined along a new axis");
  // Stack all bags: indices [bags, length], or rows [bags, length, ...].
  Location location = match.getLocation();
  auto withPhase = [&](Value value) {
    copyPhase(op, value.getDefiningOp());
    return value;
  };
  Value rows = withPhase(createBags(*bag, bags, rewriter, location));
  if (bag->table) {
    SmallVector<int64_t> shape = {bags, bag->length};
    llvm::append_range(shape, shapeOf(bag->table).drop_front());
    rows = withPhase(GatherOp::create(
        rewriter, location, typeOf(bag->table).clone(shape), bag->table, rows,
        rewriter.getI64IntegerAttr(0), rewriter.getI64IntegerAttr(0)));
  }
  // Reduce axis 1, the rows of each bag.
  OperationState state(location, bag->reduction);
  state.addOperands(rows);
  state.addTypes(op.getType());
  state.addAttribute("axes", rewriter.getDenseI64ArrayAttr({1}));
  state.addAttribute("keepdims", rewriter.getBoolAttr(false));
  match.replace(rewriter.create(state), rewriter);
  return success();
}
