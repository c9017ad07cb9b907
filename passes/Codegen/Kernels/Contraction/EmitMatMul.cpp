// Emits the sums of matrix products.
//
// If the right operand's rows are contiguous, vectors lie along the result's
// columns. Otherwise, if both operands are contiguous along the depth, vectors
// lie along the depth, and their lanes are added at the end.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/Kernels/Contraction/ContractionSums.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace {
/// One operand of the product: a matrix for each index of the result's batch
/// axes.
struct OperandView {
  MatrixOperand operand;
  /// Strides along the operand's axis of the result (rows for the left, columns
  /// for the right operand), and along the depth.
  int64_t outerStride, depthStride;
};

class MatMulHero : public ContractionSums {
public:
  MatMulHero(KernelContext &context, Operation *op, Value lhs, Value rhs,
             bool transA, bool transB, double alpha);

  void emitRows(Value row, int64_t count, Sink sink) override;
  RowBlocks getBlocks() override { return {{kRowsAtOnce, 1}, rowSizes.back()}; }

private:
  /// Emit the sums of several rows and a chunk of columns, in vectors along the
  /// columns or along the depth. `left` has the offset of each row, `right` the
  /// offset of the chunk. Both functions return all sums of the first row, then
  /// all sums of the second row, and so on.
  SmallVector<Value> sumAlongColumns(ArrayRef<Value> left, Value right,
                                     Chunk chunk);
  SmallVector<Value> sumAlongDepth(ArrayRef<Value> left, Value right,
                                   Chunk chunk);

  OperandView lhs, rhs;
  int64_t columns;
  /// Sizes of the result's batch axes, then the number of its rows.
  SmallVector<int64_t> rowSizes;
  int64_t depth;
  double alpha;
};
} // namespace

/// Returns the operand `value` of a product with `batchRank` batch axes.
/// emitContraction has checked that the operand is in the memory of an
/// argument. `alongRows` is true if the operand's matrix rows run along the
/// depth.
static OperandView getMatrix(Value value, size_t batchRank, bool alongRows) {
  MatrixOperand operand = *getMatrixOperand(value, batchRank);
  if (alongRows)
    return {operand, operand.rowStride, operand.columnStride};
  return {operand, operand.columnStride, operand.rowStride};
}

MatMulHero::MatMulHero(KernelContext &context, Operation *op, Value left,
                       Value right, bool transA, bool transB, double alpha)
    : ContractionSums(context, op), alpha(alpha) {
  ArrayRef<int64_t> result = shapeOf(op->getResult(0)), a = shapeOf(left);
  rowSizes.assign(result.begin(), result.end() - 1);
  columns = result.back();
  depth = a[a.size() - (transA ? 2 : 1)];
  lhs = getMatrix(left, result.size() - 2, /*alongRows=*/!transA);
  rhs = getMatrix(right, result.size() - 2, /*alongRows=*/transB);
}

Value codegen::matrixOffset(ImplicitLocOpBuilder &b, ArrayRef<Value> indices,
                            const MatrixOperand &operand) {
  Value offset = createIndex(b, operand.offset);
  for (auto [index, stride] : llvm::zip_equal(indices, operand.batchStrides))
    if (stride != 0)
      offset = addIndex(b, offset, mulIndex(b, index, stride));
  return offset;
}

SmallVector<Value> MatMulHero::sumAlongColumns(ArrayRef<Value> left,
                                               Value right, Chunk chunk) {
  // Carry a sum for each row and vector of columns through the loop over the
  // depth.
  SmallVector<Value> init(left.size() * chunk.count, zeros(chunk.width));
  return emitLoop(
      b, createIndex(b, 0), createIndex(b, depth), 1, init,
      [&](Value k, ValueRange sums) {
        // Load vectors of the right operand once, and use them for all rows.
        Value start = addIndex(b, right, mulIndex(b, k, rhs.depthStride));
        SmallVector<Value> vectors;
        for (int64_t i = 0; i < chunk.count; ++i)
          vectors.push_back(
              load(rhs.operand.source,
                   addIndex(b, start, i * chunk.stride * rhs.outerStride),
                   chunk.width));
        Value shift = mulIndex(b, k, lhs.depthStride);
        Carried next;
        for (Value row : left) {
          Value x = load(lhs.operand.source, addIndex(b, row, shift));
          for (Value y : vectors)
            next.push_back(lanes.multiplyAdd(x, y, sums[next.size()]));
        }
        return next;
      });
}

SmallVector<Value> MatMulHero::sumAlongDepth(ArrayRef<Value> left, Value right,
                                             Chunk chunk) {
  // Adds the products of `width` adjacent elements along the depth, from index
  // `k` on.
  auto step = [&](Value k, int64_t width, ValueRange sums) {
    SmallVector<Value> vectors;
    for (int64_t i = 0; i < chunk.count; ++i)
      vectors.push_back(load(rhs.operand.source,
                             addIndex(b, addIndex(b, right, k),
                                      i * chunk.stride * rhs.outerStride),
                             width));
    Carried next;
    // In the loop over whole vectors, a sum is a vector with one partial sum
    // per lane. After that loop, a sum is a scalar, so the lanes of each
    // product are added first.
    for (Value row : left) {
      Value x = load(lhs.operand.source, addIndex(b, row, k), width);
      for (Value y : vectors) {
        Value sum = sums[next.size()];
        bool isWhole = sum.getType() == x.getType();
        next.push_back(isWhole ? lanes.multiplyAdd(x, y, sum)
                               : lanes.add(sum, sumLanes(lanes.mul(x, y))));
      }
    }
    return next;
  };
  // Process whole vectors of the depth first.
  int64_t width = context.getVectorWidth(), done = depth / width * width;
  Carried sums(left.size() * chunk.count, zeros(width));
  sums = emitLoop(
      b, createIndex(b, 0), createIndex(b, done), width, sums,
      [&](Value k, ValueRange carried) { return step(k, width, carried); });
  // Reduce each vector of partial sums to a scalar, before adding the rest of
  // the depth.
  for (Value &sum : sums)
    sum = sumLanes(sum);
  // Process the rest in vectors of half the width, a quarter, and so on. With
  // vectors of 8, a depth of 13 leaves a vector of 4 and one of 1.
  for (int64_t rest = width / 2; rest >= 1; rest /= 2)
    for (; depth - done >= rest; done += rest)
      sums = step(createIndex(b, done), rest, sums);
  return sums;
}

void MatMulHero::emitRows(Value row, int64_t count, Sink sink) {
  // Compute the offsets of the rows in the left operand, and of the right
  // operand's matrix for the same batch.
  SmallVector<Value> indices = splitIndex(b, row, rowSizes);
  Value rowIndex = indices.pop_back_val();
  Value first = addIndex(b, matrixOffset(b, indices, lhs.operand),
                         mulIndex(b, rowIndex, lhs.outerStride));
  SmallVector<Value> left;
  for (int64_t i = 0; i < count; ++i)
    left.push_back(addIndex(b, first, i * lhs.outerStride));
  Value matrix = matrixOffset(b, indices, rhs.operand);
  // Let vectors run along the columns if these are adjacent in the right
  // operand, else along the depth if adjacent in both operands.
  bool alongColumns = rhs.outerStride == 1;
  bool alongDepth =
      !alongColumns && lhs.depthStride == 1 && rhs.depthStride == 1;
  int64_t width = alongColumns ? context.getVectorWidth() : 1;
  // Every chunk of columns computes all rows, so each element of the right
  // matrix is loaded once per `count` rows.
  emitChunks(
      b, columns, width, getVectorsAtOnce(), {},
      [&](Chunk chunk, ValueRange) {
        Value right =
            addIndex(b, matrix, mulIndex(b, chunk.index, rhs.outerStride));
        SmallVector<Value> sums = alongDepth
                                      ? sumAlongDepth(left, right, chunk)
                                      : sumAlongColumns(left, right, chunk);
        for (auto [i, sum] : llvm::enumerate(sums))
          sink(i / chunk.count, chunk.getVector(b, i % chunk.count),
               alpha == 1 ? sum : lanes.mul(sum, lanes.constant(alpha)));
        return Carried();
      },
      context.columns);
}

std::unique_ptr<ContractionSums>
codegen::createMatMulHero(KernelContext &context, Operation *op) {
  if (auto gemm = dyn_cast<GemmOp>(op))
    return std::make_unique<MatMulHero>(context, op, gemm.getA(), gemm.getB(),
                                        gemm.getTransA(), gemm.getTransB(),
                                        gemm.getAlpha().convertToDouble());
  auto matmul = cast<MatMulOp>(op);
  return std::make_unique<MatMulHero>(
      context, op, matmul.getLhs(), matmul.getRhs(), matmul.getTransA(),
      matmul.getTransB(), matmul.getAlpha().convertToDouble());
}
