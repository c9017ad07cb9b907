// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/ScanCasts.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "passes/Precision/FloatTypes.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

static bool narrows(amp::CastOp op) {
  assert(getFloatType(op) && getFloatType(op.getInput()) && "casts of floats");
  return getFloatType(op).getWidth() < getFloatType(op.getInput()).getWidth();
}

// Casts operands of the loop before the loop, instead of casting arguments in
// the body. Casts a scanned operand outside only if the cast narrows: a wider
// stack would take more memory.
static bool hoistCasts(ScanOp scan, RewriterBase &rewriter) {
  bool changed = false;
  unsigned carried = scan.getNumCarried();
  for (auto op : llvm::make_early_inc_range(
           scan.getBody().front().getOps<amp::CastOp>())) {
    // Carried values differ in each iteration, so their casts stay.
    auto argument = dyn_cast<BlockArgument>(op.getInput());
    if (!argument || argument.getArgNumber() < carried)
      continue;
    unsigned index = argument.getArgNumber() - carried;
    bool isScanned = index < scan.getScanned().size();
    if (isScanned && !narrows(op))
      continue;
    // Cast the whole operand before the loop, and pass the result to the body.
    Value whole = scan.getTiedOperand(argument).get();
    rewriter.setInsertionPoint(scan);
    Value outside = amp::CastOp::create(
        rewriter, op.getLoc(),
        withElementType(whole.getType(), getFloatType(op)), whole);
    Value inside =
        isScanned ? scan.addScanned(outside, scan.getReversedInputs()[index])
                  : scan.addInvariant(outside);
    rewriter.replaceOp(op, inside);
    changed = true;
  }
  return changed;
}

// stack(cast(x)) -> cast(stack(x)) for widening casts: the loop stacks the
// narrow type, which takes less memory.
static bool sinkCasts(ScanOp scan, RewriterBase &rewriter) {
  // Find stacked results that come from a widening cast.
  SmallVector<std::pair<unsigned, amp::CastOp>> found;
  SmallVector<Value> parts;
  SmallVector<bool> reversed;
  for (OpResult result : scan.getStacked()) {
    unsigned index = result.getResultNumber();
    auto op = scan.getYield()->getOperand(index).getDefiningOp<amp::CastOp>();
    if (!op || narrows(op) || result.use_empty())
      continue;
    found.emplace_back(index, op);
    parts.push_back(op.getInput());
    reversed.push_back(scan.getReversedOutputs()[index - scan.getNumCarried()]);
  }
  if (found.empty())
    return false;
  // Stack the operands of the casts, and cast the stacks after the loop.
  unsigned first = scan.getNumResults();
  scan = scan.addStacked(rewriter, parts, reversed);
  rewriter.setInsertionPointAfter(scan);
  for (auto [position, entry] : llvm::enumerate(found)) {
    Value result = scan->getResult(entry.first);
    rewriter.replaceAllUsesWith(
        result, amp::CastOp::create(rewriter, entry.second.getLoc(),
                                    cast<RankedTensorType>(result.getType()),
                                    scan->getResult(first + position)));
  }
  return true;
}

bool amp::moveCastsOut(ScanOp scan, RewriterBase &rewriter) {
  bool hoisted = hoistCasts(scan, rewriter);
  return sinkCasts(scan, rewriter) || hoisted;
}
