// Canonicalizes mpc.scan and mpc.if, the ops with bodies: drops unused operands
// and results, and inlines known branches. In an mpc.scan, carried values go
// from iteration to iteration, a scanned operand gives each iteration one part,
// and invariant operands stay the same.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Arguments of bodies
//===----------------------------------------------------------------------===//

// Simplifies the block arguments of a body, each of which stands for the
// operand at its position. If two arguments stand for one operand, users read
// the first. If an operand is constant, users read a copy of the constant in
// the body, so that kernels can fuse it. Returns true if anything changed.
static bool simplifyArguments(ValueRange operands,
                              ArrayRef<BlockArgument> arguments, Block &body,
                              PatternRewriter &rewriter) {
  llvm::SmallDenseMap<Value, BlockArgument> first;
  bool changed = false;
  for (auto [operand, argument] : llvm::zip(operands, arguments)) {
    // Enter unused arguments too. Both branches of an mpc.if share one list of
    // operands, so they must choose the same argument.
    auto [entry, isNew] = first.try_emplace(operand, argument);
    if (argument.use_empty())
      continue;
    Value replacement;
    if (auto constant = operand.getDefiningOp<ConstantOp>()) {
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointToStart(&body);
      replacement = rewriter.clone(*constant)->getResult(0);
    } else if (!isNew) {
      replacement = entry->second;
    }
    if (!replacement)
      continue;
    rewriter.replaceAllUsesWith(argument, replacement);
    changed = true;
  }
  return changed;
}

// Returns the elements of `range` that are not dropped. Bit `begin` + i of
// `dropped` belongs to element i.
static SmallVector<Value> keep(ValueRange range, const llvm::BitVector &dropped,
                               unsigned begin = 0) {
  SmallVector<Value> kept;
  for (auto [index, value] : llvm::enumerate(range))
    if (!dropped.test(begin + index))
      kept.push_back(value);
  return kept;
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

namespace {
/// Simplifies an mpc.scan: drops operands that the body does not read and
/// results without users. In the body, replaces arguments for constants and for
/// duplicate invariant operands.
struct SimplifyScan : OpRewritePattern<ScanOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ScanOp op,
                                PatternRewriter &rewriter) const override;
};

/// The arguments and results of a loop that can be dropped: one bit for each
/// argument of the body, and one for each result.
struct Dropped {
  llvm::BitVector arguments, results;
};
} // namespace

// Finds the carried values that are in use. A carried value is in use if its
// result has users, or if another value in use is computed from its argument.
static llvm::BitVector findUsedCarried(ScanOp op) {
  unsigned carried = op.getNumCarried();
  Block &block = op.getBody().front();
  llvm::BitVector used(carried);
  // Start at the yielded values of results that have users.
  SmallVector<Value> worklist;
  for (OpOperand &yielded : op.getYield()->getOpOperands()) {
    unsigned index = yielded.getOperandNumber();
    if (op->getResult(index).use_empty())
      continue;
    if (index < carried)
      used.set(index);
    worklist.push_back(yielded.get());
  }
  // Walk from used values back to the arguments. A used carried argument holds
  // the value yielded by the previous iteration, so continue from there.
  llvm::SmallDenseSet<Value> seen;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    if (auto argument = dyn_cast<BlockArgument>(value);
        argument && argument.getOwner() == &block) {
      unsigned index = argument.getArgNumber();
      if (index < carried) {
        used.set(index);
        worklist.push_back(op.getYield()->getOperand(index));
      }
      continue;
    }
    if (Operation *producer = value.getDefiningOp())
      llvm::append_range(worklist, producer->getOperands());
  }
  return used;
}

// Finds what a loop can drop. A carried value is dropped as argument and result
// together. Any other argument is dropped if the body does not read it, any
// other result if it has no users. Arguments that only dropped values read
// become unused in the next run of the pattern.
static Dropped findDropped(ScanOp op) {
  unsigned carried = op.getNumCarried();
  llvm::BitVector used = findUsedCarried(op);
  Dropped dropped = {llvm::BitVector(op.getBody().front().getNumArguments()),
                     llvm::BitVector(op.getNumResults())};
  for (unsigned i = 0; i < carried; ++i)
    dropped.arguments[i] = dropped.results[i] = !used.test(i);
  for (ArrayRef<BlockArgument> arguments :
       {op.getScannedArguments(), op.getInvariantArguments()})
    for (BlockArgument argument : arguments)
      if (argument.use_empty())
        dropped.arguments.set(argument.getArgNumber());
  for (unsigned i = carried; i < op.getNumResults(); ++i)
    dropped.results[i] = op->getResult(i).use_empty();
  return dropped;
}

// Creates a loop like `op` without the dropped arguments and results. The new
// body has arguments but no ops.
static ScanOp createSmaller(ScanOp op, const Dropped &dropped,
                            PatternRewriter &rewriter) {
  unsigned carried = op.getNumCarried();
  // Each scanned argument and each stacked result has a direction flag. Both
  // follow the carried values in their lists.
  SmallVector<bool> reversedInputs, reversedOutputs;
  SmallVector<Type> stacked;
  for (auto [index, reversed] : llvm::enumerate(op.getReversedInputs()))
    if (!dropped.arguments.test(carried + index))
      reversedInputs.push_back(reversed);
  for (auto [index, reversed] : llvm::enumerate(op.getReversedOutputs()))
    if (!dropped.results.test(carried + index)) {
      reversedOutputs.push_back(reversed);
      stacked.push_back(op->getResult(carried + index).getType());
    }
  // Bits of `dropped.arguments` are in the order carried, scanned, invariant.
  unsigned firstInvariant = carried + op.getScanned().size();
  auto smaller =
      ScanOp::create(rewriter, op.getLoc(), op.getLength(),
                     keep(op.getCarried(), dropped.arguments),
                     keep(op.getScanned(), dropped.arguments, carried),
                     keep(op.getInvariant(), dropped.arguments, firstInvariant),
                     stacked, reversedInputs, reversedOutputs);
  smaller->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  return smaller;
}

// Moves the ops in the body of `op` to the body of `smaller`.
static void moveBody(ScanOp op, ScanOp smaller, const Dropped &dropped,
                     PatternRewriter &rewriter) {
  Operation *yield = op.getYield();
  rewriter.modifyOpInPlace(yield, [&] {
    yield->setOperands(keep(yield->getOperands(), dropped.results));
  });
  // An op may still read a dropped argument, but nothing uses the op's result.
  // Replace the argument by zero.
  Block &body = smaller.getBody().front(), &old = op.getBody().front();
  SmallVector<Value> arguments;
  unsigned next = 0;
  for (BlockArgument argument : old.getArguments()) {
    if (!dropped.arguments.test(argument.getArgNumber())) {
      arguments.push_back(body.getArgument(next++));
    } else if (argument.use_empty()) {
      arguments.push_back(argument);
    } else {
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointToStart(&old);
      Attribute zero = rewriter.getZeroAttr(elementOf(argument));
      arguments.push_back(
          ConstantOp::create(rewriter, op.getLoc(), typeOf(argument),
                             DenseElementsAttr::get(typeOf(argument), zero)));
    }
  }
  rewriter.mergeBlocks(&old, &body, arguments);
}

LogicalResult SimplifyScan::matchAndRewrite(ScanOp op,
                                            PatternRewriter &rewriter) const {
  // First simplify arguments, which changes no types.
  bool changed =
      simplifyArguments(op.getInvariant(), op.getInvariantArguments(),
                        op.getBody().front(), rewriter);
  Dropped dropped = findDropped(op);
  if (dropped.arguments.none() && dropped.results.none())
    return changed ? success()
                   : rewriter.notifyMatchFailure(op, "all of it is in use");
  ScanOp smaller = createSmaller(op, dropped, rewriter);
  SmallVector<Value> kept = keep(op->getResults(), dropped.results);
  moveBody(op, smaller, dropped, rewriter);
  for (auto [old, result] : llvm::zip_equal(kept, smaller->getResults()))
    rewriter.replaceAllUsesWith(old, result);
  rewriter.eraseOp(op);
  return success();
}

void ScanOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                         MLIRContext *context) {
  patterns.add<SimplifyScan>(context);
}

//===----------------------------------------------------------------------===//
// Conditions
//===----------------------------------------------------------------------===//

namespace {
/// Replaces an mpc.if by the ops of the taken branch if the condition is
/// constant.
struct InlineKnownBranch : OpRewritePattern<IfOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(IfOp op,
                                PatternRewriter &rewriter) const override;
};

/// Simplifies an mpc.if: drops operands that neither branch reads and results
/// without users. Copies constant operands into the branches, and merges
/// duplicate operands.
struct SimplifyIf : OpRewritePattern<IfOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(IfOp op,
                                PatternRewriter &rewriter) const override;
};
} // namespace

LogicalResult
InlineKnownBranch::matchAndRewrite(IfOp op, PatternRewriter &rewriter) const {
  DenseElementsAttr condition;
  if (!matchPattern(op.getCondition(), m_Constant(&condition)))
    return rewriter.notifyMatchFailure(op, "the condition depends on data");
  Block &taken =
      *condition.value_begin<bool>() ? op.getThenBlock() : op.getElseBlock();
  Operation *yield = taken.getTerminator();
  rewriter.inlineBlockBefore(&taken, op, op.getCaptured());
  SmallVector<Value> results(yield->getOperands());
  rewriter.eraseOp(yield);
  rewriter.replaceOp(op, results);
  return success();
}

LogicalResult SimplifyIf::matchAndRewrite(IfOp op,
                                          PatternRewriter &rewriter) const {
  // First simplify arguments, which changes no types.
  bool changed = false;
  for (Region &body : op->getRegions())
    changed |= simplifyArguments(op.getCaptured(), body.getArguments(),
                                 body.front(), rewriter);
  llvm::BitVector unread(op.getCaptured().size()), unused(op.getNumResults());
  for (unsigned i = 0; i < unread.size(); ++i)
    unread[i] = op.getThenBlock().getArgument(i).use_empty() &&
                op.getElseBlock().getArgument(i).use_empty();
  for (unsigned i = 0; i < unused.size(); ++i)
    unused[i] = op->getResult(i).use_empty();
  if (unread.none() && unused.none())
    return changed ? success()
                   : rewriter.notifyMatchFailure(op, "all of it is in use");

  SmallVector<Value> used = keep(op->getResults(), unused);
  auto smaller =
      IfOp::create(rewriter, op.getLoc(), TypeRange(ValueRange(used)),
                   op.getCondition(), keep(op.getCaptured(), unread));
  smaller->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  for (auto [from, to] : llvm::zip(op->getRegions(), smaller->getRegions())) {
    Operation *yield = from.front().getTerminator();
    rewriter.modifyOpInPlace(
        yield, [&] { yield->setOperands(keep(yield->getOperands(), unused)); });
    from.front().eraseArguments(unread);
    rewriter.eraseBlock(&to.front());
    rewriter.inlineRegionBefore(from, to, to.end());
  }
  for (auto [old, result] : llvm::zip(used, smaller->getResults()))
    rewriter.replaceAllUsesWith(old, result);
  rewriter.eraseOp(op);
  return success();
}

void IfOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                       MLIRContext *context) {
  patterns.add<InlineKnownBranch, SimplifyIf>(context);
}
