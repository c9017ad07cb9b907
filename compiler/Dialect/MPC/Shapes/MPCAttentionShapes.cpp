// Result shapes of attention, its gradient and rotary embeddings.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Shapes/ShapeInference.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace mpc;

// The shape of the scores: the leading axes of query and key together, then
// queries and keys.
static FailureOr<Shape> inferScores(std::optional<Location> loc, Value query,
                                    Value key, Value value) {
  ArrayRef<int64_t> q = shapeOf(query), k = shapeOf(key), v = shapeOf(value);
  size_t rank = q.size();
  // [..., queries, size], [..., keys, size] and [..., keys, columns].
  if (rank < 2 || k.size() != rank || v.size() != rank)
    return emitOptionalError(loc, "expected query, key and value of one rank "
                                  "of 2 or more");
  if (q.back() != k.back() || k[rank - 2] != v[rank - 2])
    return emitOptionalError(loc, "query [", q, "], key [", k, "] and value [",
                             v, "] do not fit each other");
  if (k.drop_back(2) != v.drop_back(2))
    return emitOptionalError(loc, "expected key and value of the same leading "
                                  "axes");
  // Heads of queries may share one of keys: [2, 8, 5, 64] and [2, 1, 7, 64]
  // have scores [2, 8, 5, 7].
  FailureOr<Shape> shape = broadcastShapes(q.drop_back(2), k.drop_back(2));
  if (failed(shape))
    return emitOptionalError(loc, "leading axes of [", q, "] and [", k,
                             "] do not broadcast together");
  shape->append({q[rank - 2], k[rank - 2]});
  return shape;
}

// What is added to the scores, or says which are seen, broadcasts to them;
// a dropout has all that it takes.
template <typename Adaptor>
static LogicalResult verifyRest(std::optional<Location> loc, Adaptor adaptor,
                                ArrayRef<int64_t> scores) {
  // Biases, and the mask of what is seen, broadcast to the scores and add no
  // axis to them.
  SmallVector<Value> spread(adaptor.getBiases());
  if (adaptor.getMask())
    spread.push_back(adaptor.getMask());
  for (Value value : spread) {
    FailureOr<Shape> whole = broadcastShapes(scores, shapeOf(value));
    if (failed(whole) || ArrayRef<int64_t>(*whole) != scores)
      return emitOptionalError(loc, "shape [", shapeOf(value),
                               "] does not broadcast to the scores' [", scores,
                               "]");
  }
  // NaN is no ratio either, hence the negation.
  double ratio = adaptor.getDropout().convertToDouble();
  if (!(ratio >= 0 && ratio <= 1))
    return emitOptionalError(loc, "expected a dropout between 0 and 1");
  // Masks of a dropout follow from its id, the seed and the number of the micro
  // step.
  bool drops = ratio != 0;
  if (drops != bool(adaptor.getSeed()) ||
      drops != bool(adaptor.getMicroStep()) ||
      drops != adaptor.getDropoutId().has_value())
    return emitOptionalError(loc, "expected a dropout with its id, seed and "
                                  "micro step, or none of them");
  return success();
}

INFER(AttentionOp) {
  FailureOr<Shape> shape = inferScores(loc, adaptor.getQuery(),
                                       adaptor.getKey(), adaptor.getValue());
  if (failed(shape) || failed(verifyRest(loc, adaptor, *shape)))
    return failure();
  shape->back() = shapeOf(adaptor.getValue()).back();
  return infer(results, *shape, elementOf(adaptor.getQuery()));
}

INFER(AttentionGradOp) {
  FailureOr<Shape> shape = inferScores(loc, adaptor.getQuery(),
                                       adaptor.getKey(), adaptor.getValue());
  if (failed(shape) || failed(verifyRest(loc, adaptor, *shape)))
    return failure();
  shape->back() = shapeOf(adaptor.getValue()).back();
  if (shapeOf(adaptor.getDOutput()) != ArrayRef<int64_t>(*shape))
    return emitOptionalError(loc, "expected a gradient of shape [",
                             ArrayRef<int64_t>(*shape), "], found [",
                             shapeOf(adaptor.getDOutput()), "]");
  SmallVector<Value> values = {adaptor.getQuery(), adaptor.getKey(),
                               adaptor.getValue()};
  llvm::append_range(values, adaptor.getBiases());
  for (Value each : values)
    (void)infer(results, shapeOf(each), elementOf(adaptor.getDOutput()));
  return success();
}

//===----------------------------------------------------------------------===//
// Cost
//===----------------------------------------------------------------------===//

SmallVector<int64_t> AttentionOp::getScoresShape() {
  return *inferScores(std::nullopt, getQuery(), getKey(), getValue());
}

SmallVector<int64_t> AttentionGradOp::getScoresShape() {
  return *inferScores(std::nullopt, getQuery(), getKey(), getValue());
}

// Of products whose sums or results have the scores' shape: `ofSize` times
// along the size of a query, `ofColumns` times along the columns of a value.
template <typename Op>
static double countFlopsOfScores(Op op, double ofSize, double ofColumns) {
  double scores = 1;
  for (int64_t extent : op.getScoresShape())
    scores *= static_cast<double>(extent);
  double size = shapeOf(op.getQuery()).back();
  double columns = shapeOf(op.getValue()).back();
  return 2 * scores * (ofSize * size + ofColumns * columns);
}

double AttentionOp::countFlops() { return countFlopsOfScores(*this, 1, 1); }

// The scores again, the gradients of query, key and value, and of the softmax.
double AttentionGradOp::countFlops() { return countFlopsOfScores(*this, 3, 2); }

//===----------------------------------------------------------------------===//
// Rotary embeddings
//===----------------------------------------------------------------------===//

// Tables are of one shape, whose last axis has a pair for each two elements of
// a row, and whose others broadcast to the rows.
INFER(RotaryEmbeddingOp) {
  ArrayRef<int64_t> x = shapeOf(adaptor.getInput());
  ArrayRef<int64_t> table = shapeOf(adaptor.getCosine());
  // One table of cosines and one of sines, alike.
  if (table != shapeOf(adaptor.getSine()))
    return emitOptionalError(loc,
                             "expected cosines and sines of one shape, "
                             "found [",
                             table, "] and [", shapeOf(adaptor.getSine()), "]");
  if (table.empty() || table.size() > x.size())
    return emitOptionalError(loc, "expected tables of rank 1 to ", x.size(),
                             ", found [", table, "]");
  // [..., 3] of tables turn the first 6 elements of a row; what is behind those
  // stays.
  if (table.back() < 1 || 2 * table.back() > x.back())
    return emitOptionalError(loc, "expected tables of 1 to ", x.back() / 2,
                             " pairs, found ", table.back());
  // A table without the batch's axis serves every sample.
  FailureOr<Shape> rows = broadcastShapes(x.drop_back(), table.drop_back());
  if (failed(rows) || ArrayRef<int64_t>(*rows) != x.drop_back())
    return emitOptionalError(loc, "tables [", table,
                             "] do not broadcast to the rows of [", x, "]");
  return infer(results, x, elementOf(adaptor.getInput()));
}

int64_t RotaryEmbeddingOp::getNumPairs() { return shapeOf(getCosine()).back(); }

// Rows run with the result's. Pairs are found by the index in a row.
SmallVector<int64_t> RotaryEmbeddingOp::getOperandAxes(unsigned operand) {
  int64_t rank = shapeOf(getOutput()).size();
  int64_t first = rank - shapeOf(getOperand(operand)).size();
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq(first, rank));
  if (operand != 0)
    axes.back() = kOwnAxis;
  return axes;
}

// The other element of a pair, and angles, are read where no loop is at.
bool RotaryEmbeddingOp::readsMemory(unsigned) { return true; }

SmallVector<int64_t> RotaryEmbeddingOp::getIndexedAxes() {
  return {static_cast<int64_t>(shapeOf(getOutput()).size()) - 1};
}
