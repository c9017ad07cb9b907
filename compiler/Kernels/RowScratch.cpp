// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/RowScratch.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Kernels/ColumnSums.h"
#include "compiler/Kernels/ElementWork.h"
#include "compiler/Kernels/KernelSpace.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// If a value takes at least this much work per element (a division), later
/// passes read the value from scratch memory instead of computing it again.
static constexpr int64_t kLeastWork = 4;
/// Limits the bytes that a kernel keeps of one row, so that they stay in a
/// second-level cache.
static constexpr int64_t kMostBytes = 256 << 10;
static constexpr int64_t kLineBytes = 64;

namespace {
/// The passes of a row kernel over each row: one pass for each group of
/// reductions that can be computed together, in order of dependence, then one
/// pass that stores the results.
class RowPasses {
public:
  explicit RowPasses(Block &block);

  size_t size() const { return roots.size(); }
  /// Adds to `computed` the ops that `pass` evaluates per element, and to
  /// `read` the ops whose elements the pass reads from scratch memory instead.
  /// `kept` are the ops whose elements earlier passes have stored there.
  void visit(size_t pass, const DenseSet<Operation *> &kept,
             llvm::SetVector<Operation *> &computed,
             DenseSet<Operation *> &read) const;

private:
  /// For each pass, the operands of its reductions; for the last pass, the
  /// kernel's results.
  SmallVector<SmallVector<Value>> roots;
};
} // namespace

RowPasses::RowPasses(Block &block) {
  // The level of a value: the longest chain of reductions that leads to it.
  DenseMap<Value, unsigned> levels;
  for (Operation &op : block) {
    unsigned level = 0;
    for (Value operand : op.getOperands())
      level = std::max(level, levels.lookup(operand));
    bool isReduction = isa<ReductionOpInterface>(op);
    if (isReduction || op.hasTrait<OpTrait::IsTerminator>()) {
      roots.resize(std::max<size_t>(roots.size(), level + 1));
      if (isReduction)
        roots[level].push_back(op.getOperand(0));
    }
    for (Value result : op.getResults())
      levels[result] = level + isReduction;
  }
  roots.emplace_back(block.getTerminator()->getOperands());
}

void RowPasses::visit(size_t pass, const DenseSet<Operation *> &kept,
                      llvm::SetVector<Operation *> &computed,
                      DenseSet<Operation *> &read) const {
  assert(pass < roots.size() && "a pass of the kernel");
  SmallVector<Value> worklist(roots[pass]);
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().getDefiningOp();
    // The results of earlier reductions are ready when the pass begins.
    if (!op || isa<ReductionOpInterface>(op))
      continue;
    if (kept.contains(op)) {
      read.insert(op);
      continue;
    }
    if (computed.insert(op))
      llvm::append_range(worklist, op->getOperands());
  }
}

/// True if reading an element of `op` from scratch memory is cheaper than
/// computing the element again. `row` is the shape of the reduced operand; `op`
/// must have the same shape.
static bool isWorthKeeping(Operation *op, ArrayRef<int64_t> row) {
  std::optional<int64_t> work = getElementWork(op);
  return work && *work >= kLeastWork && op->getNumResults() == 1 &&
         shapeOf(op->getResult(0)) == row &&
         isa<FloatType>(elementOf(op->getResult(0)));
}

SmallVector<RowScratch> mpc::findRowScratch(func::FuncOp kernel) {
  Block &block = kernel.getBody().front();
  if (!findColumnSums(block).empty())
    return {};
  assert(findReduction(block) && "a row kernel reduces");
  ArrayRef<int64_t> shape = shapeOf(findReduction(block)->getOperand(0));
  RowPasses passes(block);

  // Count the passes that would compute each op.
  DenseMap<Operation *, int64_t> times;
  for (size_t pass = 0; pass < passes.size(); ++pass) {
    llvm::SetVector<Operation *> computed;
    DenseSet<Operation *> read;
    passes.visit(pass, {}, computed, read);
    for (Operation *op : computed)
      ++times[op];
  }

  // Find the ops that are read back, if every op worth keeping is kept.
  DenseSet<Operation *> kept, read;
  for (size_t pass = 0; pass < passes.size(); ++pass) {
    llvm::SetVector<Operation *> computed;
    passes.visit(pass, kept, computed, read);
    for (Operation *op : computed)
      if (times.lookup(op) > 1 && isWorthKeeping(op, shape))
        kept.insert(op);
  }

  // Assign places in scratch memory to the ops that are read back.
  SmallVector<RowScratch> result;
  int64_t elements = getReductionSpace(kernel).reduced, offset = 0;
  for (Operation &op : block) {
    if (!read.contains(&op))
      continue;
    int64_t bits = elementOf(op.getResult(0)).getIntOrFloatBitWidth();
    int64_t bytes = llvm::alignTo(elements * bits / 8, kLineBytes);
    result.push_back({&op, offset, bytes});
    offset += bytes;
  }
  assert(result.size() == read.size() && "every op read back has a place");
  return offset <= kMostBytes ? result : SmallVector<RowScratch>();
}

int64_t mpc::getRowScratchBytes(func::FuncOp kernel) {
  SmallVector<RowScratch> kept = findRowScratch(kernel);
  return kept.empty() ? 0 : kept.back().offset + kept.back().bytes;
}
