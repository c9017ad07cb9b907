// Canonicalization of ops that hold lists of ops.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

namespace {
/// Drops operands that the body does not read, results that nobody reads, and
/// invariant operands that are constants or given twice.
struct SimplifyScan : OpRewritePattern<ScanOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ScanOp op,
                                PatternRewriter &rewriter) const override;
};
} // namespace

// Puts constants into the body, where kernels take them in, and joins arguments
// of one operand. Whether anything changed.
static bool simplifyInvariants(ScanOp op, PatternRewriter &rewriter) {
  llvm::SmallDenseMap<Value, BlockArgument> first;
  bool changed = false;
  for (auto [operand, argument] :
       llvm::zip(op.getInvariant(), op.getInvariantArguments())) {
    if (argument.use_empty())
      continue;
    // A constant, or an argument before this one that stands for the same
    // value.
    Value replacement;
    if (auto constant = operand.getDefiningOp<ConstantOp>()) {
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointToStart(&op.getBody().front());
      replacement = rewriter.clone(*constant)->getResult(0);
    } else if (auto [entry, isNew] = first.try_emplace(operand, argument);
               !isNew) {
      replacement = entry->second;
    }
    if (!replacement)
      continue;
    rewriter.replaceAllUsesWith(argument, replacement);
    changed = true;
  }
  return changed;
}

// The carried values that are in use: their results, or an argument that
// another yielded value in use is computed from, are.
static llvm::BitVector findUsedCarried(ScanOp op) {
  unsigned carried = op.getNumCarried();
  Block &block = op.getBody().front();
  llvm::BitVector used(carried);
  // Start with what yields results that are read.
  SmallVector<Value> worklist;
  for (OpOperand &yielded : op.getYield()->getOpOperands()) {
    unsigned index = yielded.getOperandNumber();
    if (op->getResult(index).use_empty())
      continue;
    if (index < carried)
      used.set(index);
    worklist.push_back(yielded.get());
  }
  // Go back to arguments, and from there to what yields their next values.
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

LogicalResult SimplifyScan::matchAndRewrite(ScanOp op,
                                            PatternRewriter &rewriter) const {
  bool changed = simplifyInvariants(op, rewriter);
  unsigned carried = op.getNumCarried();
  llvm::BitVector used = findUsedCarried(op);
  llvm::BitVector dropped(op.getBody().front().getNumArguments());
  for (unsigned i = 0; i < carried; ++i)
    if (!used.test(i))
      dropped.set(i);
  // What only unused values are computed from is found in the next round.
  for (ArrayRef<BlockArgument> arguments :
       {op.getScannedArguments(), op.getInvariantArguments()})
    for (BlockArgument argument : arguments)
      if (argument.use_empty())
        dropped.set(argument.getArgNumber());
  llvm::BitVector droppedResults(op.getNumResults());
  for (unsigned i = 0; i < op.getNumResults(); ++i)
    if (i < carried ? dropped.test(i) : op->getResult(i).use_empty())
      droppedResults.set(i);
  if (dropped.none() && droppedResults.none())
    return changed ? success()
                   : rewriter.notifyMatchFailure(op, "all of it is in use");

  auto keep = [&](auto range, unsigned begin, const llvm::BitVector &bits) {
    SmallVector<Value> kept;
    for (auto [index, value] : llvm::enumerate(range))
      if (!bits.test(begin + index))
        kept.push_back(value);
    return kept;
  };
  SmallVector<bool> reversedInputs, reversedOutputs;
  SmallVector<Type> stacked;
  for (auto [index, reversed] : llvm::enumerate(op.getReversedInputs()))
    if (!dropped.test(carried + index))
      reversedInputs.push_back(reversed);
  for (auto [index, reversed] : llvm::enumerate(op.getReversedOutputs()))
    if (!droppedResults.test(carried + index)) {
      reversedOutputs.push_back(reversed);
      stacked.push_back(op->getResult(carried + index).getType());
    }
  unsigned firstInvariant = carried + op.getScanned().size();
  auto smaller = ScanOp::create(
      rewriter, op.getLoc(), op.getLength(), keep(op.getCarried(), 0, dropped),
      keep(op.getScanned(), carried, dropped),
      keep(op.getInvariant(), firstInvariant, dropped), stacked, reversedInputs,
      reversedOutputs);
  smaller->setDiscardableAttrs(op->getDiscardableAttrDictionary());

  Operation *yield = op.getYield();
  rewriter.modifyOpInPlace(yield, [&] {
    for (unsigned i = op.getNumResults(); i-- > 0;)
      if (droppedResults.test(i))
        yield->eraseOperand(i);
  });
  // What still reads a dropped argument computes nothing that is in use.
  Block &body = smaller.getBody().front(), &old = op.getBody().front();
  SmallVector<Value> arguments;
  unsigned next = 0;
  for (BlockArgument argument : old.getArguments()) {
    if (!dropped.test(argument.getArgNumber())) {
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
  next = 0;
  for (OpResult result : op->getResults())
    if (!droppedResults.test(result.getResultNumber()))
      rewriter.replaceAllUsesWith(result, smaller->getResult(next++));
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
/// Replaces a branch that is known by its ops.
struct InlineKnownBranch : OpRewritePattern<IfOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(IfOp op,
                                PatternRewriter &rewriter) const override;
};

/// Drops operands that no branch reads and results that nobody reads, and
/// captures constants and values that are given twice only where they are read.
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

// Gives the uses of arguments to an earlier argument for the same operand, or
// to a constant within the branch. Whether anything changed.
static bool simplifyCaptured(IfOp op, Block &block, PatternRewriter &rewriter) {
  llvm::SmallDenseMap<Value, BlockArgument> first;
  bool changed = false;
  for (auto [operand, argument] :
       llvm::zip(op.getCaptured(), block.getArguments())) {
    auto [entry, isNew] = first.try_emplace(operand, argument);
    if (argument.use_empty())
      continue;
    // As in a loop: a constant, or an argument before this one.
    Value replacement;
    if (auto constant = operand.getDefiningOp<ConstantOp>()) {
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointToStart(&block);
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

// Those elements of `range` whose bits are not set.
static SmallVector<Value> keep(ValueRange range,
                               const llvm::BitVector &dropped) {
  SmallVector<Value> kept;
  for (auto [index, value] : llvm::enumerate(range))
    if (!dropped.test(index))
      kept.push_back(value);
  return kept;
}

LogicalResult SimplifyIf::matchAndRewrite(IfOp op,
                                          PatternRewriter &rewriter) const {
  // First what changes no types.
  bool changed = false;
  for (Region &body : op->getRegions())
    changed |= simplifyCaptured(op, body.front(), rewriter);
  // Then operands that neither branch reads, and results that nobody does.
  llvm::BitVector unread(op.getCaptured().size()), unused(op.getNumResults());
  for (unsigned i = 0; i < unread.size(); ++i)
    unread[i] = op.getThenBlock().getArgument(i).use_empty() &&
                op.getElseBlock().getArgument(i).use_empty();
  for (unsigned i = 0; i < unused.size(); ++i)
    unused[i] = op->getResult(i).use_empty();
  if (unread.none() && unused.none())
    return changed ? success()
                   : rewriter.notifyMatchFailure(op, "all of it is in use");

  // A smaller op takes over the branches.
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
