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
// Arguments of bodies
//===----------------------------------------------------------------------===//

// Gives the uses of `arguments` in `body`, which stand for `operands`, to an
// earlier argument for the same operand, or to a constant within the body,
// where kernels take it in. Whether anything changed.
static bool simplifyArguments(ValueRange operands,
                              ArrayRef<BlockArgument> arguments, Block &body,
                              PatternRewriter &rewriter) {
  llvm::SmallDenseMap<Value, BlockArgument> first;
  bool changed = false;
  for (auto [operand, argument] : llvm::zip(operands, arguments)) {
    // An argument that is not in use counts too: the branches of a condition
    // must agree on the one that stays.
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

// Those elements of `range` whose bits are not set; the bit of its first one is
// `begin`.
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
/// Drops operands that the body does not read, results that nobody reads, and
/// invariant operands that are constants or given twice.
struct SimplifyScan : OpRewritePattern<ScanOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ScanOp op,
                                PatternRewriter &rewriter) const override;
};

/// What a loop can do without: a bit for each argument of its body, and one for
/// each of its results.
struct Dropped {
  llvm::BitVector arguments, results;
};
} // namespace

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
    // Every other value is as much in use as what it is computed from.
    if (Operation *producer = value.getDefiningOp())
      llvm::append_range(worklist, producer->getOperands());
  }
  return used;
}

// Carried values go with their results; of the rest, arguments that the body
// does not read and results that nobody reads. What only unused values are
// computed from is found in the next round.
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

// A loop like `op` without what is dropped; its body has arguments alone.
static ScanOp createSmaller(ScanOp op, const Dropped &dropped,
                            PatternRewriter &rewriter) {
  unsigned carried = op.getNumCarried();
  // Behind the carried values come the scanned inputs among the arguments, and
  // the stacked outputs among the results; each of both has a flag.
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
  // What is dropped counts the arguments of the whole body.
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

// Moves the ops of a loop into one without what is dropped.
static void moveBody(ScanOp op, ScanOp smaller, const Dropped &dropped,
                     PatternRewriter &rewriter) {
  // The body yields what is still a result.
  Operation *yield = op.getYield();
  rewriter.modifyOpInPlace(yield, [&] {
    yield->setOperands(keep(yield->getOperands(), dropped.results));
  });
  // What still reads a dropped argument computes nothing that is in use.
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
  // First what changes no types.
  bool changed =
      simplifyArguments(op.getInvariant(), op.getInvariantArguments(),
                        op.getBody().front(), rewriter);
  Dropped dropped = findDropped(op);
  if (dropped.arguments.none() && dropped.results.none())
    return changed ? success()
                   : rewriter.notifyMatchFailure(op, "all of it is in use");
  // Then a smaller loop takes over the body and the results that are read.
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

LogicalResult SimplifyIf::matchAndRewrite(IfOp op,
                                          PatternRewriter &rewriter) const {
  // First what changes no types.
  bool changed = false;
  for (Region &body : op->getRegions())
    changed |= simplifyArguments(op.getCaptured(), body.getArguments(),
                                 body.front(), rewriter);
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
