// Result shapes of attention, its gradient and rotary embeddings.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Shapes/ShapeInference.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace mpc;

// Returns the shape of the scores: the broadcast leading axes of query and key,
// then [queries, keys].
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
  // Several query heads may share a key head: [2, 8, 5, 64] and [2, 1, 7, 64]
  // have scores [2, 8, 5, 7].
  FailureOr<Shape> shape = broadcastShapes(q.drop_back(2), k.drop_back(2));
  if (failed(shape))
    return emitOptionalError(loc, "leading axes of [", q, "] and [", k,
                             "] do not broadcast together");
  shape->append({q[rank - 2], k[rank - 2]});
  return shape;
}

// Checks that biases and mask broadcast to the scores, and that a dropout has
// all its operands.
template <typename Adaptor>
static LogicalResult verifyRest(std::optional<Location> loc, Adaptor adaptor,
                                ArrayRef<int64_t> scores) {
  // The broadcast must add no axis to the scores.
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
  // The negated comparison also rejects a ratio of NaN.
  double ratio = adaptor.getDropout().convertToDouble();
  if (!(ratio >= 0 && ratio <= 1))
    return emitOptionalError(loc, "expected a dropout between 0 and 1");
  // The mask of a dropout depends on its id, the seed and the micro-step.
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

// Counts the flops of the matrix products. `ofSize` products contract or
// produce the size of a query, `ofColumns` products the columns of a value.
// Each also has both axes of the scores.
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

// Three products of query size: the scores again, d_query and d_key. Two
// products of value columns: d_value and the gradient of the softmax.
double AttentionGradOp::countFlops() { return countFlopsOfScores(*this, 3, 2); }

//===----------------------------------------------------------------------===//
// Rotary embeddings
//===----------------------------------------------------------------------===//

// Both tables have one shape. The last axis has one element per pair of a row;
// the other axes broadcast to the rows.
INFER(RotaryEmbeddingOp) {
  ArrayRef<int64_t> x = shapeOf(adaptor.getInput());
  ArrayRef<int64_t> table = shapeOf(adaptor.getCosine());
  if (table != shapeOf(adaptor.getSine()))
    return emitOptionalError(loc,
                             "expected cosines and sines of one shape, "
                             "found [",
                             table, "] and [", shapeOf(adaptor.getSine()), "]");
  if (table.empty() || table.size() > x.size())
    return emitOptionalError(loc, "expected tables of rank 1 to ", x.size(),
                             ", found [", table, "]");
  // Tables of [..., 3] turn the first 6 elements of a row and keep the rest.
  if (table.back() < 1 || 2 * table.back() > x.back())
    return emitOptionalError(loc, "expected tables of 1 to ", x.back() / 2,
                             " pairs, found ", table.back());
  // A table without the batch axis serves every sample.
  FailureOr<Shape> rows = broadcastShapes(x.drop_back(), table.drop_back());
  if (failed(rows) || ArrayRef<int64_t>(*rows) != x.drop_back())
    return emitOptionalError(loc, "tables [", table,
                             "] do not broadcast to the rows of [", x, "]");
  return infer(results, x, elementOf(adaptor.getInput()));
}

int64_t RotaryEmbeddingOp::getNumPairs() { return shapeOf(getCosine()).back(); }

// The leading axes of the tables run with those of the result. The pair index
// comes from the index in the row.
SmallVector<int64_t> RotaryEmbeddingOp::getOperandAxes(unsigned operand) {
  int64_t rank = shapeOf(getOutput()).size();
  int64_t first = rank - shapeOf(getOperand(operand)).size();
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq(first, rank));
  if (operand != 0)
    axes.back() = kOwnAxis;
  return axes;
}

// The kernel loads the other element of the pair and the angles at computed
// indices.
bool RotaryEmbeddingOp::readsMemory(unsigned) { return true; }

SmallVector<int64_t> RotaryEmbeddingOp::getIndexedAxes() {
  return {static_cast<int64_t>(shapeOf(getOutput()).size()) - 1};
}
