// Updates only the rows of an embedding table that a step has looked up.
//
// The gradient of an embedding table is zero except for the rows of the batch's
// words. If the optimizer leaves a row with zero gradient unchanged, only the
// other rows need an update:
//
//   slots[i] = the first place where ids has the word ids[i]
//   sums[slots[i]] += rows[i]
//   table[ids[i]] = update(table[ids[i]], sums[i])   if slots[i] is i
//
// The gradients of a row are added in the order of the full gradient, so every
// row keeps its bits.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Passes.h"

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"

namespace mpc {
#define GEN_PASS_DEF_UPDATEROWSPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct UpdateRowsPass : public mpc::impl::UpdateRowsPassBase<UpdateRowsPass> {
  void runOnOperation() override;
};

/// Rewrites the update of one embedding table.
class RowUpdate {
public:
  RowUpdate(OptimizerOpInterface update, ScatterOp gradient)
      : update(update), gradient(gradient), table(typeOf(gradient.getOutput())),
        count(typeOf(gradient.getIndices()).getNumElements()),
        b(update.getLoc(), update) {}

  void rewrite();

private:
  bool isTable(OpOperand &operand) {
    return operand.get().getType() == table &&
           &operand != &update.getGradOperand();
  }
  RankedTensorType rowsType(Type element);
  Value indices(ArrayRef<int64_t> values);
  Value number(int64_t value) { return fill({}, value); }
  Value fill(ArrayRef<int64_t> shape, int64_t value);
  Value findSlots(Value ids);
  Value sumRows(Value slots);
  Operation *updateRows(Value ids, Value sums);

  OptimizerOpInterface update;
  ScatterOp gradient;
  RankedTensorType table;
  int64_t count;
  ImplicitLocOpBuilder b;
};
} // namespace

RankedTensorType RowUpdate::rowsType(Type element) {
  SmallVector<int64_t> shape(table.getShape());
  shape.front() = count;
  return RankedTensorType::get(shape, element);
}

Value RowUpdate::indices(ArrayRef<int64_t> values) {
  auto type = RankedTensorType::get({static_cast<int64_t>(values.size())},
                                    b.getI64Type());
  return ConstantOp::create(b, DenseElementsAttr::get(type, values));
}

Value RowUpdate::fill(ArrayRef<int64_t> shape, int64_t value) {
  auto type = RankedTensorType::get(shape, b.getI64Type());
  return ConstantOp::create(b, DenseElementsAttr::get(type, value));
}

// Returns a slot for each index: the first position in `ids` with the same row.
// ids [7, 3, 7] gives [0, 1, 0]. An index outside the table gets `count`, which
// is no position.
Value RowUpdate::findSlots(Value ids) {
  // A gather outside the table gives 0, so count positions from 1 here.
  Value places = indices(llvm::to_vector(llvm::seq<int64_t>(1, count + 1)));
  Value firsts =
      ScatterOp::create(b, fill(table.getDimSize(0), count + 1), ids, places,
                        /*axis=*/0, /*batch_dims=*/0, ScatterReduction::Min);
  Value found = GatherOp::create(b, firsts, ids, /*axis=*/0, /*batch_dims=*/0);
  Value isNone = EqualOp::create(b, found, number(0));
  return SelectOp::create(b, isNone, number(count),
                          SubOp::create(b, found, number(1)));
}

// Adds up the gradients of equal rows: each gradient is added at its slot. Like
// the full gradient, the scatter may read 16-bit values, so the scatter has the
// location of the gradient.
Value RowUpdate::sumRows(Value slots) {
  RankedTensorType type = rowsType(table.getElementType());
  Value zeros = ConstantOp::create(
      b, DenseElementsAttr::get(type, b.getZeroAttr(type.getElementType())));
  Value updates = gradient.getUpdates();
  auto flat = rowsType(elementOf(updates));
  if (updates.getType() != flat)
    updates = ReshapeOp::create(b, flat, updates);
  return ScatterOp::create(b, gradient.getLoc(), zeros, slots, updates,
                           /*axis=*/0, /*batch_dims=*/0, ScatterReduction::Add);
}

// Applies the optimizer to the rows that `ids` name. `sums` has their
// gradients.
Operation *RowUpdate::updateRows(Value ids, Value sums) {
  IRMapping mapping;
  mapping.map(gradient.getOutput(), sums);
  for (OpOperand &operand : update->getOpOperands())
    if (isTable(operand) && !mapping.contains(operand.get()))
      mapping.map(operand.get(), GatherOp::create(b, operand.get(), ids,
                                                  /*axis=*/0, /*batch_dims=*/0)
                                     .getOutput());
  Operation *rows = b.clone(*update, mapping);
  for (Value result : rows->getResults())
    result.setType(rowsType(table.getElementType()));
  return rows;
}

void RowUpdate::rewrite() {
  Value ids = gradient.getIndices();
  auto flat = RankedTensorType::get(count, elementOf(ids));
  if (ids.getType() != flat)
    ids = ReshapeOp::create(b, flat, ids);
  if (!elementOf(ids).isInteger(64))
    ids = mpc::CastOp::create(b, flat.clone(b.getI64Type()), ids);
  Value slots = findSlots(ids);
  Operation *rows = updateRows(ids, sumRows(slots));
  // If several indices name a row, only the first writes the row. The others
  // get an index outside the table, and write nothing.
  Value places = indices(llvm::to_vector(llvm::seq<int64_t>(0, count)));
  Value isFirst = EqualOp::create(b, slots, places);
  Value names = SelectOp::create(b, isFirst, ids, number(table.getDimSize(0)));
  unsigned next = 0;
  SmallVector<Value> results;
  for (OpOperand &operand : update->getOpOperands())
    if (isTable(operand))
      results.push_back(ScatterOp::create(
          b, operand.get(), names, rows->getResult(next++), /*axis=*/0,
          /*batch_dims=*/0, ScatterReduction::None, /*unique_indices=*/true));
  update->replaceAllUsesWith(results);
}

// Returns the scatter that makes the gradient of `update`, if the gradient is
// zero except for few rows; null otherwise.
static ScatterOp findRowGradient(OptimizerOpInterface update) {
  if (!update.keepsWithoutGradient())
    return {};
  auto gradient = update.getGradOperand().get().getDefiningOp<ScatterOp>();
  if (!gradient || !gradient->hasOneUse() || gradient.getAxis() != 0 ||
      gradient.getBatchDims() != 0 ||
      gradient.getReduction() != ScatterReduction::Add ||
      !matchPattern(gradient.getData(), m_AnyZeroFloat()))
    return {};
  auto isTable = [&](Value value) {
    return value.getType() == gradient.getType() && value != gradient;
  };
  bool updatesTables =
      llvm::all_of(update->getResults(), isTable) &&
      llvm::count_if(update->getOperands(), isTable) == update->getNumResults();
  // Finding the slots takes a pass over one number per row of the table, so the
  // batch must name at most a quarter of the rows.
  int64_t rows = shapeOf(gradient.getOutput()).front();
  int64_t count = typeOf(gradient.getIndices()).getNumElements();
  return updatesTables && count > 0 && count <= rows / 4 ? gradient
                                                         : ScatterOp();
}

void UpdateRowsPass::runOnOperation() {
  SmallVector<OptimizerOpInterface> updates;
  getOperation().walk(
      [&](OptimizerOpInterface update) { updates.push_back(update); });
  for (OptimizerOpInterface update : updates) {
    ScatterOp gradient = findRowGradient(update);
    if (!gradient)
      continue;
    RowUpdate(update, gradient).rewrite();
    update->erase();
    gradient->erase();
  }
}
