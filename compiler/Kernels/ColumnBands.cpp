// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/ColumnBands.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace mpc;

/// Rows of fewer elements are not read in bands: reading 64 adjacent columns at
/// a time is as fast for short rows.
static constexpr int64_t kWideRow = 768;
/// Limits the bytes of the totals that a slice keeps in scratch memory, one
/// total per column and reduction.
static constexpr int64_t kMaxTotalBytes = 16 << 10;

int64_t mpc::getColumnsOfSlice(const ReductionSpace &space, int64_t sums) {
  if (space.inner < kWideRow || space.reduced < 2 * kBandRows)
    return std::min(space.inner, kColumnBlock);
  int64_t most = std::max(kMaxTotalBytes / (sums * kTotalBytes), kColumnBlock);
  return divideEvenly(space.inner, most, kColumnBlock);
}

// True if one pass over the rows gives all results of a kernel whose result has
// `results` elements. No reduction may depend on another reduction, and no
// value computed from a reduction may have more than `results` elements.
static bool takesOnePass(Block &body, int64_t results) {
  llvm::SmallPtrSet<Operation *, 8> after;
  for (Operation &op : body.without_terminator()) {
    bool follows = llvm::any_of(op.getOperands(), [&](Value operand) {
      return after.contains(operand.getDefiningOp());
    });
    bool reduces = isa<ReductionOpInterface>(op);
    if (follows &&
        (reduces || typeOf(op.getResult(0)).getNumElements() > results))
      return false;
    if (follows || reduces)
      after.insert(&op);
  }
  return true;
}

int64_t mpc::countReductions(func::FuncOp kernel) {
  return llvm::count_if(kernel.getBody().front(), [](Operation &op) {
    return isa<ReductionOpInterface>(op);
  });
}

std::optional<int64_t> mpc::getBandColumns(func::FuncOp kernel) {
  ReductionSpace space = getReductionSpace(kernel);
  int64_t columns = getColumnsOfSlice(space, countReductions(kernel));
  if (columns <= kColumnBlock ||
      !takesOnePass(kernel.getBody().front(), space.outer * space.inner))
    return std::nullopt;
  return columns;
}
