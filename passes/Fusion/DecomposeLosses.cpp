// Decomposes losses of class labels, their gradients, and accuracy.
//
// Scores are viewed as rows: one row per label, with the classes on the last
// axis, because row kernels reduce the last axis. Labels become one-hot rows,
// multiplied by the class weights, and by 0 for an ignored class. A label that
// is no class gives a row of zeros, and so does not count.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Decompose.h"

#include "compiler/Dialect/MPC/Target.h"

#include <limits>

using namespace mlir;
using namespace mpc;

// Transposes (N, C, d...) to (N, d..., C): classes move to the last axis.
static Value classesLast(Value value, Emitter &e) {
  const auto rank = static_cast<int64_t>(shapeOf(value).size());
  if (rank == 2)
    return value;
  SmallVector<int64_t> perm = {0};
  llvm::append_range(perm, llvm::seq<int64_t>(2, rank));
  perm.push_back(1);
  return e.transpose(value, perm);
}

namespace {
/// Labels as one-hot rows (N, d..., C), for scores of shape (N, C, d...).
class ClassRows {
public:
  template <typename OpTy>
  ClassRows(OpTy op, ArrayRef<int64_t> scores, Emitter &e)
      : e(e), rank(scores.size()), classes(scores[1]),
        reduction(op.getReduction()), labels(op.getLabels()) {
    hot = e.oneHot(labels, rank - 1, classes);
    weighted = op.getWeights() || op.getIgnoreIndex();
    if (op.getWeights())
      hotWeights = e.emit<MulOp>(hot, op.getWeights());
    else
      hotWeights = hot;
    classWeights = op.getWeights();
    if (std::optional<uint64_t> index = op.getIgnoreIndex())
      ignored = static_cast<int64_t>(*index);
    hotWeights = withoutIgnored(hotWeights);
  }

  /// `rows` transposes (N, C, d...) to (N, d..., C); `restored` transposes
  /// back.
  Value rows(Value value) { return classesLast(value, e); }
  Value restored(Value value) {
    if (rank == 2)
      return value;
    SmallVector<int64_t> perm = {0, rank - 1};
    llvm::append_range(perm, llvm::seq<int64_t>(1, rank - 1));
    return e.transpose(value, perm);
  }

  Value sum(Value value) { return e.reduce<ReduceSumOp>(value, {rank - 1}); }

  /// Returns the weight of each label; null if all weights are 1.
  Value rowWeights() { return weighted ? sum(hotWeights) : Value(); }

  /// Returns the divisor of the mean, a scalar: the sum of the weights, or the
  /// number of labels.
  Value denominator() {
    if (weighted)
      return e.reduceAll<ReduceSumOp>(rowWeights());
    int64_t count = cast<ShapedType>(labels.getType()).getNumElements();
    return e.scalar(static_cast<double>(count));
  }

  /// Returns the loss of each label. `logProb` has a row of log-probabilities
  /// per label.
  Value rowLosses(Value logProb);
  /// Returns the loss of each label from log-probabilities `scores - log`.
  /// `log` has one number per row. Subtracts `log` only from the score of the
  /// label, so the kernel that computes `log` can also pick this score.
  Value rowLosses(Value scores, Value log);

  /// Reduces the losses of all labels by the reduction of the op: none, sum or
  /// mean. If no label counts, the mean is 0 with `zeroIfEmpty`, else NaN.
  Value reduceRows(Value row, RankedTensorType type, bool zeroIfEmpty);

  /// Applies label smoothing to the losses `row`: moves the share `smoothing`
  /// of the target evenly to all classes.
  Value smooth(Value row, Value logProb, double smoothing);
  /// Returns the part of the gradient that label smoothing adds. `softmax` has
  /// the probabilities.
  Value smoothGradient(Value softmax, Value dLoss, double smoothing);

  /// Returns the gradient of the loss of each label. For a mean, divides
  /// `dLoss` by the divisor of the mean.
  Value rowGradient(Value dLoss);

  /// Returns `weights` times `gradient`, and 0 for a weight of 0. Then ignored
  /// labels have gradient 0 even if all labels are ignored and the mean divides
  /// by zero.
  Value weigh(Value weights, Value gradient, Type element) {
    Value product = e.emit<MulOp>(weights, gradient);
    Value counts = e.isNonZero(weights), zero = e.scalar(0.0);
    return e.emitAs<SelectOp>(element, counts, product, zero);
  }

  Emitter &e;
  int64_t rank, classes;
  LossReduction reduction;
  Value labels, hot, hotWeights, classWeights;
  std::optional<int64_t> ignored;
  bool weighted;

private:
  /// Returns the element of each row at the label's class; 0 if the label is no
  /// class.
  Value pickLabel(Value rows);
  /// Multiplies the loss of each label by the weight of the label.
  Value weighRows(Value row);
  Value withoutIgnored(Value rows);
  /// Returns a boolean per label: true if the label is a class and not ignored.
  Value countingRows() { return e.isNonZero(sum(withoutIgnored(hot))); }
};
} // namespace

// Returns `rows` with zeros for the ignored class. The ignored label may also
// be no class, such as -1; then `rows` needs no change.
Value ClassRows::withoutIgnored(Value rows) {
  if (!ignored || *ignored < 0 || *ignored >= classes)
    return rows;
  auto type = RankedTensorType::get({classes}, e.compute);
  SmallVector<Attribute> mask(classes, e.builder.getFloatAttr(e.compute, 1.0));
  mask[*ignored] = e.builder.getFloatAttr(e.compute, 0.0);
  return e.emit<MulOp>(rows, e.constant(DenseElementsAttr::get(type, mask)));
}

// A select, not a product with the one-hot row: 0 times -inf would be NaN.
Value ClassRows::pickLabel(Value rows) {
  return sum(e.emit<SelectOp>(e.isNonZero(hot), rows, e.scalar(0.0)));
}

Value ClassRows::weighRows(Value row) {
  Value weights = rowWeights();
  return weights ? e.emit<SelectOp>(e.isNonZero(weights),
                                    e.emit<MulOp>(row, weights), e.scalar(0.0))
                 : row;
}

Value ClassRows::rowLosses(Value logProb) {
  return weighRows(e.emit<NegOp>(pickLabel(logProb)));
}

Value ClassRows::rowLosses(Value scores, Value log) {
  Value row = e.emit<NegOp>(e.emit<SubOp>(pickLabel(scores), log));
  // A label that is no class has no score: make its loss 0.
  return weighted ? weighRows(row)
                  : e.emit<SelectOp>(countingRows(), row, e.scalar(0.0));
}

Value ClassRows::reduceRows(Value row, RankedTensorType type,
                            bool zeroIfEmpty) {
  Type element = type.getElementType();
  if (reduction == LossReduction::None) {
    if (element != e.compute)
      row = e.emitAs<amp::CastOp>(element, row);
    return e.reshape(row, type.getShape());
  }
  Value total = e.reduceAll<ReduceSumOp>(row);
  if (reduction == LossReduction::Mean && weighted && zeroIfEmpty) {
    Value count = denominator(), counts = e.isNonZero(count);
    Value mean = e.emit<DivOp>(total, count);
    return e.emitAs<SelectOp>(element, counts, mean, e.scalar(0.0));
  }
  if (reduction == LossReduction::Mean)
    return e.emitAs<DivOp>(element, total, denominator());
  return element == e.compute ? total : e.emitAs<amp::CastOp>(element, total);
}

Value ClassRows::rowGradient(Value dLoss) {
  if (reduction == LossReduction::None) {
    SmallVector<int64_t> shape(shapeOf(labels));
    shape.push_back(1);
    return e.reshape(dLoss, shape);
  }
  if (reduction == LossReduction::Mean)
    return e.emit<DivOp>(dLoss, denominator());
  return dLoss;
}

// (1 - s) * row + s / C * sum over all C classes of weight * -log_prob, for
// smoothing s.
Value ClassRows::smooth(Value row, Value logProb, double smoothing) {
  Value all = e.emit<NegOp>(
      sum(classWeights ? e.emit<MulOp>(logProb, classWeights) : logProb));
  Value share = e.emit<MulOp>(all, e.scalar(smoothing / double(classes)));
  share = e.emit<SelectOp>(countingRows(), share, e.scalar(0.0));
  return e.emit<AddOp>(e.emit<MulOp>(row, e.scalar(1.0 - smoothing)), share);
}

// s / C * (softmax * sum(weights) - weights) * gradient of the row, for
// smoothing s and C classes.
Value ClassRows::smoothGradient(Value softmax, Value dLoss, double smoothing) {
  Value dRow = rowGradient(dLoss);
  if (reduction == LossReduction::Mean && weighted)
    dRow = e.emit<SelectOp>(e.isNonZero(denominator()), dRow, e.scalar(0.0));
  dRow = e.emit<MulOp>(dRow, e.scalar(smoothing / double(classes)));
  dRow = e.emit<SelectOp>(countingRows(), dRow, e.scalar(0.0));
  Value total = classWeights ? e.reduceAll<ReduceSumOp>(classWeights)
                             : e.scalar(double(classes));
  Value weights = classWeights ? classWeights : e.scalar(1.0);
  Value spread = e.emit<SubOp>(e.emit<MulOp>(softmax, total), weights);
  return e.emit<MulOp>(spread, dRow);
}

SmallVector<Value> mpc::decompose(NLLLossOp op, Emitter &e) {
  ClassRows classes(op, op.getLogProb().getType().getShape(), e);
  Value row = classes.rowLosses(classes.rows(op.getLogProb()));
  return {classes.reduceRows(row, op.getLoss().getType(), op.getZeroIfEmpty())};
}

SmallVector<Value> mpc::decompose(SoftmaxCrossEntropyLossOp op, Emitter &e) {
  ClassRows classes(op, op.getScores().getType().getShape(), e);
  Value scores = classes.rows(op.getScores());
  Value max = e.reduce<ReduceMaxOp>(scores, {classes.rank - 1});
  Value sub = e.emit<SubOp>(scores, max);
  Value log = e.emit<LogOp>(classes.sum(e.emit<ExpOp>(sub)));
  Type element = op.getLogProb().getType().getElementType();
  Value exact = e.emit<SubOp>(sub, log);
  Value logProb =
      element == e.compute ? exact : e.emitAs<SubOp>(element, sub, log);
  // On a GPU, the kernel that sums exp also picks the label's score, which
  // saves a pass over long rows. On a CPU, rows stay in cache, so pick from the
  // log-probabilities.
  Value row = getTarget(op).isGPU() ? classes.rowLosses(sub, log)
                                    : classes.rowLosses(exact);
  if (double smoothing = op.getLabelSmoothing().convertToDouble())
    row = classes.smooth(row, exact, smoothing);
  return {classes.reduceRows(row, op.getLoss().getType(), op.getZeroIfEmpty()),
          classes.restored(logProb)};
}

// Gradient of the scores: (exp(log_prob) - hot) * gradient of the row * weight
// of the label, plus the gradient of smoothed labels.
SmallVector<Value> mpc::decompose(SoftmaxCrossEntropyLossGradOp op,
                                  Emitter &e) {
  ClassRows classes(op, op.getLogProb().getType().getShape(), e);
  Value dRow = classes.rowGradient(op.getDLoss());
  if (Value weights = classes.rowWeights())
    dRow = classes.weigh(weights, dRow, e.compute);
  Value softmax = e.emit<ExpOp>(classes.rows(op.getLogProb()));
  Type element = op.getType().getElementType();
  Value error = e.emit<SubOp>(softmax, classes.hot);
  double smoothing = op.getLabelSmoothing().convertToDouble();
  if (smoothing == 0.0)
    return {classes.restored(e.emitAs<MulOp>(element, error, dRow))};
  Value own = e.emit<MulOp>(error, dRow);
  own = e.emit<MulOp>(own, e.scalar(1.0 - smoothing));
  Value shared = classes.smoothGradient(softmax, op.getDLoss(), smoothing);
  return {classes.restored(e.emitAs<AddOp>(element, own, shared))};
}

// Gradient of the log-probabilities: -hot * weights * gradient of the row.
SmallVector<Value> mpc::decompose(NLLLossGradOp op, Emitter &e) {
  ClassRows classes(op, op.getType().getShape(), e);
  Value dRow = e.emit<NegOp>(classes.rowGradient(op.getDLoss()));
  Type element = op.getType().getElementType();
  return {classes.restored(classes.weigh(classes.hotWeights, dRow, element))};
}

// Returns the constant [count, count - 1, ..., 1].
static DenseElementsAttr countDown(int64_t count, Emitter &e) {
  auto type = RankedTensorType::get({count}, e.compute);
  auto numbers = llvm::reverse(llvm::seq_inclusive<int64_t>(1, count));
  if (e.compute.isF64())
    return DenseElementsAttr::get(
        type, ArrayRef(SmallVector<double>(numbers.begin(), numbers.end())));
  return DenseElementsAttr::get(
      type, ArrayRef(SmallVector<float>(numbers.begin(), numbers.end())));
}

// The prediction is the first class with the greatest score. Among the greatest
// scores, the first position has the largest C - position, for C classes, so a
// maximum finds it. Compares this maximum with C - label. In a row with NaN, no
// score equals the maximum, and the result is minus infinity, which no label
// equals.
SmallVector<Value> mpc::decompose(AccuracyOp op, Emitter &e) {
  Value rows = classesLast(op.getScores(), e);
  const int64_t axis = static_cast<int64_t>(shapeOf(rows).size()) - 1;
  const int64_t classes = shapeOf(rows)[axis];
  Value fromEnd = e.constant(countDown(classes, e));

  Value max = e.reduce<ReduceMaxOp>(rows, {axis});
  Value isMax = e.emitAs<EqualOp>(e.builder.getI1Type(), rows, max);
  Value none = e.scalar(-std::numeric_limits<double>::infinity());
  Value first =
      e.reduce<ReduceMaxOp>(e.emit<SelectOp>(isMax, fromEnd, none), {axis});

  SmallVector<int64_t> rowShape(shapeOf(first));
  Value label = e.convert(e.reshape(op.getLabels(), rowShape), e.compute);
  Value wanted = e.emit<SubOp>(e.scalar(double(classes)), label);
  Value isRight = e.emitAs<EqualOp>(e.builder.getI1Type(), first, wanted);
  Value correct = e.convert(isRight, op.getType().getElementType());
  return {e.reshape(correct, op.getType().getShape())};
}
