// Computes elementwise values again in the kernels that use them, instead of
// keeping them in memory, where a minimum cut says so
// (compiler/Regions/KeptValues.h).
//
// Results are the same bits in every precision: the same ops on the same
// operands, each rounded to the type that it was given, in a kernel as in
// memory. A value that is no longer stored keeps that type: it says how the
// value is rounded.
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
/// Computes again in kernels what they read of others. Their own ops change in
/// the end: until then they are what is copied.
class Recomputer {
public:
  Recomputer(const KeptValues &kept, const RegionAnalysis &analysis)
      : kept(kept), analysis(analysis) {}
  void run();

private:
  /// What one kernel computes again, and reads for that.
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
  /// What operands are to be.
  SmallVector<std::pair<OpOperand *, Value>> changes;
};

struct RecomputeElementwisePass
    : public mpc::impl::RecomputeElementwisePassBase<RecomputeElementwisePass> {
  void runOnOperation() override;
};
} // namespace

// `value` as `user` is to read it: itself, or what computes it right before.
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
  // It is part of what uses it: of the backward pass, say.
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
  // Of its own, or else kernels that read the same might be joined by it.
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

// Erases what computed values that all their users now compute themselves.
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
  // Kernels are formed anew around what they compute now: no less would be
  // stored and loaded where one did not take it.
  if (countTraffic(block, RegionAnalysis(block)) > before)
    function.getBody().takeBody(original.getBody());
  original.erase();
}
