// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Contractions/LibraryEpilogues.h"

#include "compiler/Dialect/Plan/Plan.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Epilogues
//===----------------------------------------------------------------------===//

// Returns the ops of the epilogue in order, without constants.
static SmallVector<Operation *> epilogueOpsOf(RegionOp region,
                                              Operation *hero) {
  SmallVector<Operation *> epilogue;
  for (Operation &op : region.getBody().front().without_terminator())
    if (&op != hero && !isa<ConstantOp>(op))
      epilogue.push_back(&op);
  return epilogue;
}

// If `op` adds an operand to `value`, returns this operand; null otherwise.
static Value addedTo(Value value, Operation *op) {
  auto add = dyn_cast<AddOp>(op);
  if (!add)
    return Value();
  if (add.getLhs() == value)
    return add.getRhs();
  return add.getRhs() == value ? add.getLhs() : Value();
}

// True if `bias` has the element type of `result` and one element per column of
// `result`.
static bool isColumnBias(Value bias, RankedTensorType result) {
  RankedTensorType type = typeOf(bias);
  int64_t columns = result.getShape().back();
  return type.getElementType() == result.getElementType() &&
         type.getRank() > 0 && type.getShape().back() == columns &&
         type.getNumElements() == columns;
}

// True if `value` is f32 and thus not rounded yet. The library rounds only at
// the end, so the product before the epilogue must be unrounded.
static bool isExact(Value value) {
  return typeOf(value).getElementType().isF32();
}

static LibraryEpilogue biasEpilogue(RegionOp region, Operation *hero,
                                    ArrayRef<Operation *> epilogue) {
  Value product = hero->getResult(0);
  Value bias = addedTo(product, epilogue[0]);
  auto sum = typeOf(epilogue[0]->getResult(0));
  if (!bias || !isExact(product) || !region.getTiedInput(bias) ||
      !isColumnBias(bias, sum))
    return {};
  if (epilogue.size() == 1)
    return {LibraryEpilogue::Kind::Bias, region.getTiedInput(bias)};
  auto relu = dyn_cast<ReluOp>(epilogue[1]);
  if (epilogue.size() > 2 || !relu ||
      relu.getInput() != epilogue[0]->getResult(0) || relu.getType() != sum)
    return {};
  return {LibraryEpilogue::Kind::ReluBias, region.getTiedInput(bias)};
}

static LibraryEpilogue reluGradEpilogue(RegionOp region, Operation *hero,
                                        ArrayRef<Operation *> epilogue) {
  auto grad = dyn_cast<ReluGradOp>(epilogue[0]);
  if (!grad || epilogue.size() > 1 || grad.getDOutput() != hero->getResult(0))
    return {};
  Value saved = region.getTiedInput(grad.getSaved());
  // Masking commutes with rounding, so their order does not matter.
  bool oneRounding = isExact(grad.getDOutput()) ||
                     grad.getDOutput().getType() == grad.getType();
  if (!saved || !oneRounding ||
      typeOf(saved).getShape() != grad.getType().getShape())
    return {};
  return {LibraryEpilogue::Kind::ReluGrad, saved};
}

LibraryEpilogue mpc::getLibraryEpilogue(RegionOp region) {
  Operation *hero = region.getContraction();
  SmallVector<Operation *> epilogue = epilogueOpsOf(region, hero);
  if (epilogue.empty())
    return {LibraryEpilogue::Kind::None, Value()};
  Operation *yield = region.getBody().front().getTerminator();
  if (!isa<MatMulOp>(hero) || yield->getNumOperands() != 1 ||
      yield->getOperand(0) != epilogue.back()->getResult(0))
    return {};
  LibraryEpilogue bias = biasEpilogue(region, hero, epilogue);
  return bias.operand ? bias : reluGradEpilogue(region, hero, epilogue);
}

//===----------------------------------------------------------------------===//
// Sums of rows
//===----------------------------------------------------------------------===//

// Returns the result of a kernel that only sums rows of `columns` columns; null
// for any other op.
static Value sumOfRows(Operation *op, int64_t columns) {
  auto region = dyn_cast<RegionOp>(op);
  if (!region || region.getNumOperands() != 1 || region.getNumResults() != 1)
    return Value();
  Block &body = region.getBody().front();
  auto sum = dyn_cast<ReduceSumOp>(body.front());
  if (!sum || sum->getNextNode() != body.getTerminator())
    return Value();
  int64_t last = sum.getInput().getType().getRank() - 1;
  if (region.getResult(0).use_empty())
    return Value(); // Another product has taken it over.
  bool keepsColumns = !llvm::is_contained(sum.getAxes(), last) &&
                      sum.getType().getShape().back() == columns;
  return keepsColumns ? region.getResult(0) : Value();
}

Value mpc::findSumOfRows(Value matrix, int64_t columns) {
  SmallVector<Value> worklist = {matrix};
  while (!worklist.empty())
    for (Operation *user : worklist.pop_back_val().getUsers()) {
      if (auto view = dyn_cast<ReshapeOp>(user)) {
        worklist.push_back(view.getOutput());
        continue;
      }
      // A plan.product holds fallback kernels, which run only if the library
      // cannot fuse the epilogue. A sum inside such a fallback is no user of
      // the matrix.
      if (isa<plan::ProductOp>(user->getParentOp()))
        continue;
      Value sum = sumOfRows(user, columns);
      if (!sum)
        continue;
      if (typeOf(sum).getNumElements() == columns)
        return sum;
      // Sums over many rows take two kernels: the first computes partial sums,
      // the second adds the partial sums. Continue with the partial sums.
      worklist.push_back(sum);
    }
  return Value();
}
