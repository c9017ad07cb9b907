// Recomputes elementwise values in the kernels that use them, instead of
// storing the values. A minimum cut decides which values to store
// (compiler/Regions/KeptValues.h).
//
// Results keep their bits in every precision: the copies run the same ops on
// the same operands, and each op rounds to its type in a register as in memory.
// So a value keeps its type even if it is no longer stored.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Passes.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Regions/KeptValues.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

namespace mpc {
#define GEN_PASS_DEF_RECOMPUTEELEMENTWISEPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// Adds to each kernel copies of the ops whose values it recomputes. The
/// operands of existing ops change only at the end, because existing ops serve
/// as originals to copy.
class Recomputer {
public:
  Recomputer(const KeptValues &kept, const RegionAnalysis &analysis)
      : kept(kept), analysis(analysis) {}
  void run();

private:
  /// The copies of ops in one kernel, and the stored values that the copies
  /// read.
  struct Copies {
    const KernelRegion *kernel;
    IRMapping mapping;
    SmallVector<Operation *> ops;
    llvm::SmallMapVector<Value, Value, 4> inputs;
  };
  void recomputeIn(const KernelRegion &kernel);
  Value get(Value value, Operation *user, Copies &copies);

  const KeptValues &kept;
  const RegionAnalysis &analysis;
  /// Operands to change at the end, each with its new value.
  SmallVector<std::pair<OpOperand *, Value>> changes;
};

struct RecomputeElementwisePass
    : public mpc::impl::RecomputeElementwisePassBase<RecomputeElementwisePass> {
  void runOnOperation() override;
};
} // namespace

// Returns the value that `user` will read instead of `value`: a copy of the
// producer, inserted before `user`, if the producer is recomputed; otherwise
// `value`.
Value Recomputer::get(Value value, Operation *user, Copies &copies) {
  Operation *op = value.getDefiningOp();
  if (!op || !kept.isRecomputed(op) || analysis.getRegion(op) == copies.kernel)
    return value;
  if (Value copied = copies.mapping.lookupOrNull(value))
    return copied;
  for (Value operand : op->getOperands()) {
    Value read = get(operand, user, copies);
    if (read != operand)
      copies.mapping.map(operand, read);
    else if (Operation *producer = operand.getDefiningOp();
             producer && analysis.getRegion(producer))
      copies.inputs[operand] = {};
  }
  Operation *copy = OpBuilder(user).clone(*op, copies.mapping);
  copies.ops.push_back(copy);
  // A copy gets the phase of its user: a forward op copied for the backward
  // pass belongs to the backward phase.
  copy->removeAttr(kPhaseAttr);
  copyPhase(user, copy);
  return copy->getResult(0);
}

void Recomputer::recomputeIn(const KernelRegion &kernel) {
  Copies copies;
  copies.kernel = &kernel;
  for (Operation *op : kernel.ops)
    for (OpOperand &operand : op->getOpOperands())
      if (Value read = get(operand.get(), op, copies); read != operand.get())
        changes.push_back({&operand, read});
  // Read stored values through mpc.kept, which separates kernels. Each kernel
  // gets mpc.kept ops of its own: a shared op would join the kernels that read
  // it.
  for (auto &[value, read] : copies.inputs) {
    OpBuilder builder(value.getDefiningOp()->getNextNode());
    read = KeptOp::create(builder, value.getLoc(), value);
  }
  auto readKept = [&](Operation *op) {
    for (OpOperand &operand : op->getOpOperands())
      if (auto input = copies.inputs.find(operand.get());
          input != copies.inputs.end())
        changes.push_back({&operand, input->second});
  };
  llvm::for_each(copies.ops, readKept);
  llvm::for_each(kernel.ops, readKept);
}

void Recomputer::run() {
  for (const KernelRegion &kernel : analysis.getRegions())
    recomputeIn(kernel);
  for (auto [operand, value] : changes)
    operand->set(value);
}

// Erases ops without users: all former users have their own copies.
static void eraseUnused(ArrayRef<Operation *> ops) {
  for (Operation *op : llvm::reverse(ops))
    if (op->use_empty())
      op->erase();
}

void RecomputeElementwisePass::runOnOperation() {
  func::FuncOp function = getOperation();
  Block &block = function.getBody().front();
  RegionAnalysis analysis(block);
  KeptValues kept(block, analysis);
  if (!kept.isAnyRecomputed())
    return;
  SmallVector<Operation *> candidates;
  for (Operation &op : block)
    if (kept.isRecomputed(&op))
      candidates.push_back(&op);
  int64_t before = countTraffic(block, analysis);
  func::FuncOp original = function.clone();
  Recomputer(kept, analysis).run();
  eraseUnused(candidates);
  // Kernels are formed anew after this pass, and may join fewer ops than the
  // cut assumed. Restore the original if the kernels would then store and load
  // more.
  if (countTraffic(block, RegionAnalysis(block)) > before)
    function.getBody().takeBody(original.getBody());
  original.erase();
}
