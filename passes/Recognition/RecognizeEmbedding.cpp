// Recognises a lookup written as a matrix product: one_hot(ids) @ table. The
// one-hot rows are a comparison of ids with the numbers 0, 1, 2, ...
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/KnownElements.h"
#include "passes/Recognition/Match.h"
#include "passes/Recognition/Passes.h"

#include "compiler/Dialect/MPC/Fold/ConstantElements.h"

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZEEMBEDDINGPASS
#include "passes/Recognition/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

/// The fewest rows of a table for which a lookup pays. With fewer rows, the
/// product is as fast, and computes the gradient of each row in parallel.
static constexpr int64_t kFewestRows = 16;

namespace {
struct RecognizeEmbeddingInMatMul : OpRewritePattern<MatMulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatMulOp op,
                                PatternRewriter &rewriter) const override;
};

struct RecognizeEmbeddingInGemm : OpRewritePattern<GemmOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GemmOp op,
                                PatternRewriter &rewriter) const override;
};

struct RecognizeEmbeddingPass
    : public mpc::impl::RecognizeEmbeddingPassBase<RecognizeEmbeddingPass> {
  using RecognizeEmbeddingPassBase::RecognizeEmbeddingPassBase;

  void runOnOperation() override {
    const TrainedMarks marks(getOperation(), train);
    if (failed(applyRecognizers<RecognizeEmbeddingInMatMul,
                                RecognizeEmbeddingInGemm>(getOperation())))
      signalPassFailure();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// The ids
//===----------------------------------------------------------------------===//

// True if `value` is a constant with the numbers 0 to `depth` - 1 along the
// last axis, and other axes of size 1.
static bool isCount(Value value, int64_t depth) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto type = cast<RankedTensorType>(value.getType());
  if (!constant || !isa<IntegerType>(type.getElementType()) ||
      type.getNumElements() != depth || type.getShape().back() != depth)
    return false;
  auto elements = ConstantElements::read(constant.getValue());
  return elements && llvm::all_of(llvm::seq(depth), [&](int64_t i) {
           return elements->getInteger(i) == i;
         });
}

// True if `value` is the constant `expected`, or an element of a known vector:
// ONNX's OneHot has a vector [off, on].
static bool isKnownNumber(Value value, int64_t expected) {
  if (isNumber(value, static_cast<double>(expected)))
    return true;
  if (auto view = value.getDefiningOp<ReshapeOp>())
    value = view.getInput();
  auto slice = value.getDefiningOp<SliceOp>();
  if (!slice || shapeOf(slice.getInput()).size() != 1 ||
      shapeOf(value) != ArrayRef<int64_t>(1))
    return false;
  auto elements = ConstantElements::read(findKnownElements(slice.getInput()));
  return elements && isa<FloatType>(elements->getElementType()) &&
         elements->getFloat(slice.getOffsets().front()).convertToDouble() ==
             static_cast<double>(expected);
}

// Returns the comparison if `value` is 1 where the comparison holds, and 0
// elsewhere; null for other values.
static EqualOp matchComparison(Value value) {
  if (auto select = value.getDefiningOp<SelectOp>();
      select && isKnownNumber(select.getOnTrue(), 1) &&
      isKnownNumber(select.getOnFalse(), 0))
    return select.getCondition().getDefiningOp<EqualOp>();
  // Skip casts: every type represents 0 and 1.
  while (auto cast = value.getDefiningOp<mpc::CastOp>())
    value = cast.getInput();
  return value.getDefiningOp<EqualOp>();
}

// Returns ids, of shape [..., 1], if `value` is one_hot(ids), of shape [...,
// rows]; null for other values.
static Value matchIds(Value value) {
  ArrayRef<int64_t> shape = shapeOf(value);
  EqualOp equal = matchComparison(value);
  if (!equal || shape.empty() || shape.back() < kFewestRows ||
      shapeOf(equal.getResult()) != shape)
    return {};
  Value ids;
  for (auto [one, other] : {std::pair(equal.getLhs(), equal.getRhs()),
                            std::pair(equal.getRhs(), equal.getLhs())})
    if (isCount(other, shape.back()))
      ids = one;
  auto expand = ids ? ids.getDefiningOp<ExpandOp>() : ExpandOp();
  if (expand)
    ids = expand.getInput();
  // Each one-hot row must come from one id.
  if (!ids || shapeOf(ids).size() != shape.size() ||
      shapeOf(ids).drop_back() != shape.drop_back() || shapeOf(ids).back() != 1)
    return {};
  return ids;
}

//===----------------------------------------------------------------------===//
// The rows
//===----------------------------------------------------------------------===//

// Creates the gather of the rows `ids` of `table`. As in the product, an id
// outside the table gives a row of zeros.
static Value createRows(Operation *op, Value ids, Value table,
                        PatternRewriter &rewriter) {
  Location loc = op->getLoc();
  auto finish = [&](Operation *created) {
    copyPhase(op, created);
    return created->getResult(0);
  };
  SmallVector<int64_t> shape(shapeOf(ids).drop_back());
  Type integer = rewriter.getI64Type();
  ids = finish(ReshapeOp::create(
      rewriter, loc, RankedTensorType::get(shape, elementOf(ids)), ids));
  auto type = RankedTensorType::get(shape, integer);
  if (elementOf(ids) != integer)
    ids = finish(mpc::CastOp::create(rewriter, loc, type, ids));
  // mpc.gather counts a negative id from the end of the table. Replace negative
  // ids by the number of rows: an id beyond the end gives zeros.
  auto createNumber = [&](int64_t number) {
    auto scalar = RankedTensorType::get({}, integer);
    return finish(ConstantOp::create(
        rewriter, loc,
        DenseElementsAttr::get(scalar, rewriter.getI64IntegerAttr(number))));
  };
  Value isNegative = finish(LessOp::create(
      rewriter, loc, type.clone(rewriter.getI1Type()), ids, createNumber(0)));
  ids = finish(SelectOp::create(rewriter, loc, type, isNegative,
                                createNumber(shapeOf(table).front()), ids));
  shape.push_back(shapeOf(table).back());
  return finish(GatherOp::create(rewriter, loc,
                                 RankedTensorType::get(shape, elementOf(table)),
                                 table, ids, rewriter.getI64IntegerAttr(0)));
}

static Value createTransposed(Operation *op, Value table,
                              PatternRewriter &rewriter) {
  ArrayRef<int64_t> shape = shapeOf(table);
  auto transposed = TransposeOp::create(
      rewriter, op->getLoc(),
      RankedTensorType::get({shape[1], shape[0]}, elementOf(table)), table,
      ArrayRef<int64_t>{1, 0});
  copyPhase(op, transposed);
  return transposed;
}

LogicalResult
RecognizeEmbeddingInMatMul::matchAndRewrite(MatMulOp op,
                                            PatternRewriter &rewriter) const {
  Value table = op.getRhs();
  if (op.getTransA() || op.getAlpha().convertToDouble() != 1 ||
      shapeOf(table).size() != 2 || elementOf(table) != elementOf(op))
    return rewriter.notifyMatchFailure(
        op, "expected one-hot rows times a matrix, with factors of 1 and one "
            "element type");
  Value ids = matchIds(op.getLhs());
  if (!ids)
    return rewriter.notifyMatchFailure(
        op, "the left operand is no one-hot encoding of ids");
  if (op.getTransB())
    table = createTransposed(op, table, rewriter);
  rewriter.replaceOp(op, createRows(op, ids, table, rewriter));
  return success();
}

LogicalResult
RecognizeEmbeddingInGemm::matchAndRewrite(GemmOp op,
                                          PatternRewriter &rewriter) const {
  Value table = op.getB(), bias = op.getC();
  if (op.getTransA() || op.getAlpha().convertToDouble() != 1 ||
      elementOf(table) != elementOf(op) ||
      (bias && (op.getBeta().convertToDouble() != 1 ||
                elementOf(bias) != elementOf(op))))
    return rewriter.notifyMatchFailure(
        op, "expected one-hot rows times a matrix, with factors of 1 and one "
            "element type");
  Value ids = matchIds(op.getA());
  if (!ids)
    return rewriter.notifyMatchFailure(
        op, "the left operand is no one-hot encoding of ids");
  if (op.getTransB())
    table = createTransposed(op, table, rewriter);
  Value rows = createRows(op, ids, table, rewriter);
  if (bias) {
    auto sum = AddOp::create(rewriter, op.getLoc(), op.getType(), rows, bias);
    copyPhase(op, sum);
    rows = sum;
  }
  rewriter.replaceOp(op, rows);
  return success();
}
