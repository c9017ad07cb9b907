// Sums of matrix products.
//
// Where the right operand's rows are contiguous, vectors lie along the result's
// columns; where both operands are contiguous along the depth, vectors lie
// along the depth and their lanes are added at the end.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/ContractionHero.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace {
/// One operand as a stack of matrices, with the axes of the result's batch.
struct Matrix {
  Value argument;
  SmallVector<int64_t> batchStrides;
  /// Along the result's rows or columns, and along the depth.
  int64_t outerStride, depthStride;
};

class MatMulHero : public ContractionHero {
public:
  MatMulHero(KernelContext &context, Operation *op, Value lhs, Value rhs,
             bool transA, bool transB, double alpha);

  void emitRow(Value row, Sink sink) override;

private:
  SmallVector<Value> sumAlongColumns(Value left, Value right, Chunk chunk);
  Value sumAlongDepth(Value left, Value right);
  Value batchOffset(const Matrix &matrix, ArrayRef<Value> indices);

  Matrix lhs, rhs;
  int64_t columns;
  /// Sizes of the result's batch axes, then its rows.
  SmallVector<int64_t> rowSizes;
  int64_t depth;
  double alpha;
};
} // namespace

SmallVector<int64_t> codegen::getBatchStrides(ArrayRef<int64_t> shape,
                                              size_t batchRank) {
  SmallVector<int64_t> strides(batchRank, 0);
  int64_t stride = shape[shape.size() - 1] * shape[shape.size() - 2];
  size_t missing = batchRank - (shape.size() - 2);
  for (size_t axis = shape.size() - 2; axis-- > 0; stride *= shape[axis])
    if (shape[axis] != 1)
      strides[missing + axis] = stride;
  return strides;
}

MatMulHero::MatMulHero(KernelContext &context, Operation *op, Value left,
                       Value right, bool transA, bool transB, double alpha)
    : ContractionHero(context, op), alpha(alpha) {
  ArrayRef<int64_t> result =
      cast<RankedTensorType>(op->getResult(0).getType()).getShape();
  ArrayRef<int64_t> a = cast<RankedTensorType>(left.getType()).getShape();
  ArrayRef<int64_t> c = cast<RankedTensorType>(right.getType()).getShape();
  rowSizes.assign(result.begin(), result.end() - 1);
  columns = result.back();
  depth = a[a.size() - (transA ? 2 : 1)];
  lhs = {left, getBatchStrides(a, result.size() - 2), transA ? 1 : a.back(),
         transA ? a.back() : 1};
  rhs = {right, getBatchStrides(c, result.size() - 2), transB ? c.back() : 1,
         transB ? 1 : c.back()};
}

Value MatMulHero::batchOffset(const Matrix &matrix, ArrayRef<Value> indices) {
  Value offset = createIndex(b, 0);
  for (auto [index, stride] : llvm::zip_equal(indices, matrix.batchStrides))
    if (stride != 0)
      offset = addIndex(b, offset, mulIndex(b, index, stride));
  return offset;
}

SmallVector<Value> MatMulHero::sumAlongColumns(Value left, Value right,
                                               Chunk chunk) {
  SmallVector<Value> init(chunk.count, zeros(chunk.width));
  return emitLoop(
      b, createIndex(b, 0), createIndex(b, depth), 1, init,
      [&](Value k, ValueRange sums) {
        Value x = load(lhs.argument,
                       addIndex(b, left, mulIndex(b, k, lhs.depthStride)));
        Value start = addIndex(b, right, mulIndex(b, k, rhs.depthStride));
        Carried next;
        for (auto [i, sum] : llvm::enumerate(sums)) {
          Value from = addIndex(b, start, i * chunk.stride * rhs.outerStride);
          next.push_back(
              multiplyAdd(x, load(rhs.argument, from, chunk.width), sum));
        }
        return next;
      });
}

Value MatMulHero::sumAlongDepth(Value left, Value right) {
  int64_t width = context.getVectorWidth();
  constexpr int64_t vectors = 4;
  SmallVector<Value> init(vectors, zeros(width));
  init.push_back(zeros(1));
  Carried sums = emitChunks(
      b, depth, width, vectors, init, [&](Chunk chunk, ValueRange carried) {
        Carried next(carried);
        for (int64_t i = 0; i < chunk.count; ++i) {
          int64_t shift = i * chunk.width;
          Value k = addIndex(b, chunk.index, shift);
          Value x = load(lhs.argument, addIndex(b, left, k), chunk.width);
          Value y = load(rhs.argument, addIndex(b, right, k), chunk.width);
          if (chunk.width == width)
            next[i] = multiplyAdd(x, y, next[i]);
          else if (chunk.width == 1)
            next.back() = multiplyAdd(x, y, next.back());
          else
            next.back() = vector::ReductionOp::create(
                b, vector::CombiningKind::ADD, lanes.mul(x, y), next.back());
        }
        return next;
      });
  Value pairs =
      lanes.add(lanes.add(sums[0], sums[1]), lanes.add(sums[2], sums[3]));
  if (width == 1)
    return lanes.add(pairs, sums.back());
  return vector::ReductionOp::create(b, vector::CombiningKind::ADD, pairs,
                                     sums.back());
}

void MatMulHero::emitRow(Value row, Sink sink) {
  SmallVector<Value> indices = splitIndex(b, row, rowSizes);
  Value rowIndex = indices.pop_back_val();
  Value left = addIndex(b, batchOffset(lhs, indices),
                        mulIndex(b, rowIndex, lhs.outerStride));
  Value matrix = batchOffset(rhs, indices);
  bool alongColumns = rhs.outerStride == 1;
  bool alongDepth =
      !alongColumns && lhs.depthStride == 1 && rhs.depthStride == 1;
  int64_t width = alongColumns ? context.getVectorWidth() : 1;
  emitChunks(
      b, columns, width, alongDepth ? 1 : 4, {},
      [&](Chunk chunk, ValueRange) {
        Value right =
            addIndex(b, matrix, mulIndex(b, chunk.index, rhs.outerStride));
        SmallVector<Value> sums;
        if (alongDepth)
          sums.push_back(sumAlongDepth(left, right));
        else
          sums = sumAlongColumns(left, right, chunk);
        for (auto [i, sum] : llvm::enumerate(sums))
          sink(chunk.getVector(b, i),
               alpha == 1 ? sum : lanes.mul(sum, lanes.constant(alpha)));
        return Carried();
      },
      context.columns);
}

std::unique_ptr<ContractionHero>
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
