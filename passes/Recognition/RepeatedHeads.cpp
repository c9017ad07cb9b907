// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/RepeatedHeads.h"

using namespace mlir;
using namespace mpc;

static int64_t countHead(Value value) {
  return ShapedType::getNumElements(shapeOf(value).take_back(2));
}

// True if `op` is a transpose that only exchanges the last two axes.
static bool exchangesLastAxes(Operation *op) {
  auto transpose = dyn_cast<TransposeOp>(op);
  if (!transpose || transpose.getPerm().size() < 2)
    return false;
  SmallVector<int64_t> perm(transpose.getPerm());
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return llvm::is_sorted(perm);
}

// Returns the operand that `op` multiplies by a scalar; null for other ops.
static OpOperand *findMultiplied(Operation *op) {
  if (!isa<MulOp>(op))
    return nullptr;
  for (OpOperand &operand : op->getOpOperands()) {
    Value factor = op->getOperand(1 - operand.getOperandNumber());
    if (operand.get().getType() == op->getResult(0).getType() &&
        typeOf(factor).getNumElements() == 1 && typeOf(factor).getRank() <= 3)
      return &operand;
  }
  return nullptr;
}

// Returns n if the expand repeats each run of `run` consecutive elements n
// times, as an expand of [heads, 1, rows, columns] to [heads, n, rows, columns]
// repeats each head; nullopt for other expands.
static std::optional<int64_t> findCopies(ExpandOp expand, int64_t run) {
  ArrayRef<int64_t> from = shapeOf(expand.getInput()),
                    to = shapeOf(expand.getOutput());
  if (from.size() != to.size())
    return std::nullopt;
  auto [one, copies] =
      std::mismatch(from.begin(), from.end(), to.begin(), to.end());
  if (one == from.end() ||
      !std::equal(one + 1, from.end(), copies + 1, to.end()) ||
      ShapedType::getNumElements(ArrayRef(copies + 1, to.end())) != run)
    return std::nullopt;
  return *copies;
}

std::optional<RepeatedHeads> mpc::findRepeatedHeads(Value value) {
  const int64_t head = countHead(value),
                heads = shapeOf(value).drop_back(2).back();
  if (head == 0)
    return std::nullopt;
  // Walk back from the value to the expand, over reshapes, transposes and
  // scaling.
  RepeatedHeads found;
  for (found.source = value; Operation *op = found.source.getDefiningOp();) {
    if (auto expand = dyn_cast<ExpandOp>(op)) {
      std::optional<int64_t> copies = findCopies(expand, head);
      if (!copies || heads % *copies != 0)
        return std::nullopt;
      found.source = expand.getInput();
      found.n = *copies;
      return found;
    }
    OpOperand *moved = findMultiplied(op);
    if (!moved && (isa<ReshapeOp>(op) || exchangesLastAxes(op)))
      moved = &op->getOpOperand(0);
    if (!moved)
      return std::nullopt;
    // Reshapes may change all axes. Other ops must work on the matrix [rows,
    // columns] of each head.
    if (!isa<ReshapeOp>(op)) {
      if (typeOf(moved->get()).getRank() < 2 || countHead(moved->get()) != head)
        return std::nullopt;
      found.path.push_back(op);
    }
    found.source = moved->get();
  }
  return std::nullopt;
}

static Value reshapeTo(Value value, ArrayRef<int64_t> shape,
                       OpBuilder &builder) {
  RankedTensorType type = typeOf(value).clone(shape);
  return value.getType() == type
             ? value
             : ReshapeOp::create(builder, value.getLoc(), type, value)
                   .getOutput();
}

Value mpc::takeOnce(Value value, const RepeatedHeads &repeated,
                    OpBuilder &builder) {
  const int64_t count =
      typeOf(repeated.source).getNumElements() / countHead(value);
  Value once = repeated.source;
  // Repeat the ops of the path on [heads, rows, columns], without the copies of
  // heads.
  for (Operation *op : llvm::reverse(repeated.path)) {
    OpOperand *factor = findMultiplied(op);
    OpOperand &moved = factor ? *factor : op->getOpOperand(0);
    SmallVector<int64_t> shape(shapeOf(moved.get()).take_back(2));
    shape.insert(shape.begin(), count);
    Value matrices = reshapeTo(once, shape, builder);
    Operation *again = builder.clone(*op);
    again->setOperand(moved.getOperandNumber(), matrices);
    if (auto transpose = dyn_cast<TransposeOp>(again)) {
      std::swap(shape[1], shape[2]);
      transpose.setPerm({0, 2, 1});
    }
    again->getResult(0).setType(typeOf(op->getResult(0)).clone(shape));
    once = again->getResult(0);
  }
  // The axis of the n copies gets size 1, and broadcasts.
  SmallVector<int64_t> shape(shapeOf(value));
  shape[shape.size() - 3] /= repeated.n;
  shape.insert(shape.end() - 2, 1);
  return reshapeTo(once, shape, builder);
}
