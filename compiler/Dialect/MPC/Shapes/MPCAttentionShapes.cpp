// Infers the result shapes of attention, its gradient and rotary embeddings,
// verifies attention of a library, and counts the flops of attention.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Shapes/ShapeInference.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace mpc;

// Returns the shape of the scores: the leading axes of query and key, broadcast
// together, then [queries, keys].
static FailureOr<Shape> inferScores(std::optional<Location> loc, Value query,
                                    Value key, Value value) {
  ArrayRef<int64_t> q = shapeOf(query), k = shapeOf(key), v = shapeOf(value);
  size_t rank = q.size();
  // Shapes: query [..., queries, size], key [..., keys, size], value [...,
  // keys, columns].
  if (rank < 2 || k.size() != rank || v.size() != rank)
    return emitOptionalError(
        loc, "expected query, key and value of equal rank, 2 or more, found [",
        q, "], [", k, "] and [", v, "]");
  if (q.back() != k.back() || k[rank - 2] != v[rank - 2])
    return emitOptionalError(loc, "query [", q, "], key [", k, "] and value [",
                             v, "] do not fit each other");
  if (k.drop_back(2) != v.drop_back(2))
    return emitOptionalError(
        loc, "expected key and value of equal leading axes, found [", k,
        "] and [", v, "]");
  // Several query heads may share a key head: [2, 8, 5, 64] and [2, 1, 7, 64]
  // have scores [2, 8, 5, 7].
  FailureOr<Shape> shape = broadcastShapes(q.drop_back(2), k.drop_back(2));
  if (failed(shape))
    return emitOptionalError(loc, "leading axes of [", q, "] and [", k,
                             "] do not broadcast together");
  shape->append({q[rank - 2], k[rank - 2]});
  return shape;
}

// Checks that the biases and the mask broadcast to the scores, and that the
// operands of a dropout are all present or all absent.
template <typename Adaptor>
static LogicalResult verifyRest(std::optional<Location> loc, Adaptor adaptor,
                                ArrayRef<int64_t> scores) {
  // The broadcast must give exactly the scores' shape: a bias must not add or
  // enlarge an axis.
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
    return emitOptionalError(loc, "expected a dropout between 0 and 1, found ",
                             ratio);
  // A dropout computes its mask from its id, the seed and the micro-step, so
  // all three must be present.
  bool drops = ratio != 0;
  if (drops != bool(adaptor.getSeed()) ||
      drops != bool(adaptor.getMicroStep()) ||
      drops != adaptor.getDropoutId().has_value())
    return emitOptionalError(loc,
                             "expected a dropout with dropout_id, seed and "
                             "micro_step, or none of them, found a dropout of ",
                             ratio);
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

// Counts the flops of the matrix products of attention. Each product has 2 *
// queries * keys * n flops per leading index. n is the size of a query in
// `ofSize` products, and the columns of a value in `ofColumns` products.
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

// The gradient has three products over the query size: for the scores, computed
// again, for d_query and for d_key. It has two over the value columns: for
// d_value and for the gradient of the softmax.
double AttentionGradOp::countFlops() { return countFlopsOfScores(*this, 3, 2); }

//===----------------------------------------------------------------------===//
// Attention of a library
//===----------------------------------------------------------------------===//

// Verifies one value of a library's attention: its shape and element type.
static LogicalResult verifyValue(Operation *op, StringRef name, Value value,
                                 ArrayRef<int64_t> shape, Type element) {
  if (shapeOf(value) == shape && elementOf(value) == element)
    return success();
  return op->emitOpError("expected ")
         << name << " of type " << RankedTensorType::get(shape, element)
         << ", found " << value.getType();
}

// Verifies the values that attention of a library and its gradient share.
template <typename Op>
static LogicalResult verifyLibraryAttention(Op op) {
  ArrayRef<int64_t> q = shapeOf(op.getQuery()), k = shapeOf(op.getKey()),
                    v = shapeOf(op.getValue());
  Type element = elementOf(op.getQuery());
  if (!element.isF16() && !element.isBF16())
    return op.emitOpError("expected a query of f16 or bf16, found ") << element;
  if (q.size() != 4 || k.size() != 4 || v.size() != 4)
    return op.emitOpError("expected query, key and value of 4 axes, found [")
           << q << "], [" << k << "] and [" << v << "]";
  if (k[1] == 0 || q[1] % k[1] != 0)
    return op.emitOpError("expected as many query heads for each key head, "
                          "found ")
           << q[1] << " and " << k[1];
  const int64_t key[] = {q[0], k[1], k[2], q[3]};
  const int64_t value[] = {q[0], k[1], k[2], v[3]};
  const int64_t output[] = {q[0], q[1], q[2], v[3]};
  if (failed(verifyValue(op, "a key", op.getKey(), key, element)) ||
      failed(verifyValue(op, "a value", op.getValue(), value, element)) ||
      failed(verifyValue(op, "an output", op.getOutput(), output, element)) ||
      failed(verifyValue(op, "statistics", op.getStatistics(),
                         ArrayRef(output).drop_back(),
                         Float32Type::get(op.getContext()))))
    return failure();
  const std::optional<int64_t> offset = op.getCausalOffset();
  if (offset && *offset < 0)
    return op.emitOpError("expected a causal offset of 0 or more, found ")
           << *offset;
  const SmallVector<int64_t> scores = op.getScoresShape();
  if (!op.getBias())
    return success();
  FailureOr<Shape> whole = broadcastShapes(scores, shapeOf(op.getBias()));
  if (succeeded(whole) && *whole == scores && shapeOf(op.getBias()).size() == 4)
    return success();
  return op.emitOpError("expected a bias of 4 axes that broadcasts to the "
                        "scores' [")
         << ArrayRef(scores) << "], found [" << shapeOf(op.getBias()) << "]";
}

LogicalResult LibraryAttentionOp::verify() {
  return verifyLibraryAttention(*this);
}

LogicalResult LibraryAttentionGradOp::verify() {
  if (failed(verifyLibraryAttention(*this)))
    return failure();
  Type element = elementOf(getQuery());
  const std::tuple<StringRef, Value, Value> gradients[] = {
      {"a gradient of the output", getDOutput(), getOutput()},
      {"a gradient of the query", getDQuery(), getQuery()},
      {"a gradient of the key", getDKey(), getKey()},
      {"a gradient of the value", getDValue(), getValue()}};
  for (auto [name, gradient, of] : gradients)
    if (failed(verifyValue(*this, name, gradient, shapeOf(of), element)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Rotary embeddings
//===----------------------------------------------------------------------===//

// Cosines and sines must have one shape. The last axis has one element per
// pair; the other axes broadcast to the rows of the input.
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
  // Tables of [..., 3] rotate the first 6 elements of a row and keep the
  // others.
  if (table.back() < 1 || 2 * table.back() > x.back())
    return emitOptionalError(loc, "expected tables of 1 to ", x.back() / 2,
                             " pairs, found ", table.back());
  // Tables may lack leading axes: without a batch axis, all samples share a
  // table.
  FailureOr<Shape> rows = broadcastShapes(x.drop_back(), table.drop_back());
  if (failed(rows) || ArrayRef<int64_t>(*rows) != x.drop_back())
    return emitOptionalError(loc, "tables [", table,
                             "] do not broadcast to the rows of [", x, "]");
  return infer(results, x, elementOf(adaptor.getInput()));
}

int64_t RotaryEmbeddingOp::getNumPairs() { return shapeOf(getCosine()).back(); }

// An operand's axes align with the last axes of the result. The last axis of a
// table does not align: the kernel computes the pair from the position in the
// row.
SmallVector<int64_t> RotaryEmbeddingOp::getOperandAxes(unsigned operand) {
  int64_t rank = shapeOf(getOutput()).size();
  int64_t first = rank - shapeOf(getOperand(operand)).size();
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq(first, rank));
  if (operand != 0)
    axes.back() = kOwnAxis;
  return axes;
}

// A kernel loads the other element of a pair, and the angles, at computed
// positions, so all operands must be in memory.
bool RotaryEmbeddingOp::readsMemory(unsigned) { return true; }

SmallVector<int64_t> RotaryEmbeddingOp::getIndexedAxes() {
  return {static_cast<int64_t>(shapeOf(getOutput()).size()) - 1};
}
