// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/MatrixOperand.h"

#include "compiler/Kernels/Access.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// From an argument to its product
//===----------------------------------------------------------------------===//

bool mpc::movesOperand(Operation *op) {
  return Access::canFollow(op) && !op->use_empty() &&
         llvm::all_of(op->getUsers(), [](Operation *user) {
           return isa<MatMulOp>(user) || movesOperand(user);
         });
}

namespace {
/// A value `source` that was moved to become an operand, and the operand's
/// offset and strides in the memory of `source`.
struct OperandOrigin {
  Value source;
  Access access;
};
} // namespace

/// Follows the reshapes, transposes, slices and expands that lead to `operand`
/// back to the first value. nullopt if no strides describe the operand in the
/// memory of the first value.
static std::optional<OperandOrigin> findOrigin(Value operand) {
  SmallVector<Operation *> path;
  Value source = operand;
  while (Access::canFollow(source.getDefiningOp())) {
    path.push_back(source.getDefiningOp());
    source = path.back()->getOperand(0);
  }
  // Apply the movements in order, from the source to the operand.
  OperandOrigin origin{source, Access(shapeOf(source))};
  for (Operation *op : llvm::reverse(path))
    if (!origin.access.follow(op))
      return std::nullopt;
  return origin;
}

//===----------------------------------------------------------------------===//
// Matrices
//===----------------------------------------------------------------------===//

static MatrixOperand toMatrices(const OperandOrigin &origin, size_t batchRank) {
  const auto &[offset, shape, strides] = origin.access;
  assert(shape.size() >= 2 && shape.size() - 2 <= batchRank &&
         "a matrix, with no more batch axes than the result");
  assert(strides.size() == shape.size() && "a stride per axis");
  size_t axes = shape.size() - 2, missing = batchRank - axes;
  MatrixOperand operand{origin.source, offset,
                        SmallVector<int64_t>(batchRank, 0), strides[axes],
                        strides[axes + 1]};
  // Batch axes of size 1, like batch axes that the operand lacks, keep stride
  // 0: the same matrix is multiplied at every position.
  for (size_t axis = 0; axis < axes; ++axis)
    if (shape[axis] != 1)
      operand.batchStrides[missing + axis] = strides[axis];
  return operand;
}

std::optional<MatrixOperand> mpc::getMatrixOperand(Value operand,
                                                   size_t batchRank) {
  std::optional<OperandOrigin> origin = findOrigin(operand);
  if (!origin)
    return std::nullopt;
  return toMatrices(*origin, batchRank);
}

/// Returns `operand` as one matrix of all its rows; nullopt if the rows are not
/// equally far apart.
static std::optional<MatrixOperand> joinRows(Value operand) {
  std::optional<OperandOrigin> origin = findOrigin(operand);
  ArrayRef<int64_t> shape = shapeOf(operand);
  int64_t rows = ShapedType::getNumElements(shape.drop_back());
  if (!origin || !origin->access.reshape({rows, shape.back()}))
    return std::nullopt;
  return toMatrices(*origin, /*batchRank=*/0);
}

bool mpc::hasJoinedRows(Value operand) { return joinRows(operand).has_value(); }

std::optional<MatrixOperands>
mpc::getMatrixOperands(MatMulOp matmul, const ProductExtents &extents) {
  // The batch of the lhs may have become rows of a single matrix
  // (ProductExtents).
  ArrayRef<int64_t> batch = shapeOf(matmul).drop_back(2);
  bool isJoined = ShapedType::getNumElements(batch) != extents.batch;
  assert((!isJoined || extents.batch == 1) &&
         "only a whole batch becomes rows of one product");
  std::optional<MatrixOperand> lhs =
      isJoined ? joinRows(matmul.getLhs())
               : getMatrixOperand(matmul.getLhs(), batch.size());
  std::optional<MatrixOperand> rhs =
      getMatrixOperand(matmul.getRhs(), batch.size());
  if (!lhs || !rhs)
    return std::nullopt;
  MatrixOperands operands{*lhs, *rhs};
  if (extents.batch == 1)
    for (MatrixOperand *operand : {&operands.lhs, &operands.rhs})
      operand->batchStrides.clear();
  return operands;
}
