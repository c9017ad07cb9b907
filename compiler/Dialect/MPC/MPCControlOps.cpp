// Verification and canonicalization of ops that hold lists of ops.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace mpc;

RankedTensorType ScanOp::getPartType(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return RankedTensorType::get(tensor.getShape().drop_front(),
                               tensor.getElementType());
}

RankedTensorType ScanOp::getStackType(Type part, int64_t length) {
  auto tensor = cast<RankedTensorType>(part);
  SmallVector<int64_t> shape = {length};
  llvm::append_range(shape, tensor.getShape());
  return RankedTensorType::get(shape, tensor.getElementType());
}

void ScanOp::build(OpBuilder &builder, OperationState &state, int64_t length,
                   ValueRange carried, ValueRange scanned, ValueRange invariant,
                   TypeRange stacked, ArrayRef<bool> reversedInputs,
                   ArrayRef<bool> reversedOutputs) {
  Properties &properties = state.getOrAddProperties<Properties>();
  properties.length = builder.getI64IntegerAttr(length);
  properties.reversed_inputs = builder.getDenseBoolArrayAttr(reversedInputs);
  properties.reversed_outputs = builder.getDenseBoolArrayAttr(reversedOutputs);
  properties.operandSegmentSizes = {static_cast<int32_t>(carried.size()),
                                    static_cast<int32_t>(scanned.size()),
                                    static_cast<int32_t>(invariant.size())};
  for (ValueRange values : {carried, scanned, invariant})
    state.addOperands(values);
  state.addTypes(carried.getTypes());
  state.addTypes(stacked);
  Block &block = state.addRegion()->emplaceBlock();
  for (Value value : carried)
    block.addArgument(value.getType(), value.getLoc());
  for (Value value : scanned)
    block.addArgument(getPartType(value.getType()), value.getLoc());
  for (Value value : invariant)
    block.addArgument(value.getType(), value.getLoc());
}

ArrayRef<BlockArgument> ScanOp::getCarriedArguments() {
  return getBody().front().getArguments().take_front(getNumCarried());
}

ArrayRef<BlockArgument> ScanOp::getScannedArguments() {
  return getBody().front().getArguments().slice(getNumCarried(),
                                                getScanned().size());
}

ArrayRef<BlockArgument> ScanOp::getInvariantArguments() {
  return getBody().front().getArguments().take_back(getInvariant().size());
}

OpOperand &ScanOp::getTiedOperand(BlockArgument argument) {
  assert(argument.getOwner() == &getBody().front() && "not of this scan");
  return getOperation()->getOpOperand(argument.getArgNumber());
}

BlockArgument ScanOp::addScanned(Value value, bool reversed) {
  for (auto [index, operand] : llvm::enumerate(getScanned()))
    if (operand == value && getReversedInputs()[index] == reversed)
      return getScannedArguments()[index];
  SmallVector<bool> directions(getReversedInputs());
  directions.push_back(reversed);
  getScannedMutable().append(value);
  setReversedInputs(directions);
  unsigned index = getNumCarried() + getScanned().size() - 1;
  return getBody().front().insertArgument(index, getPartType(value.getType()),
                                          value.getLoc());
}

BlockArgument ScanOp::addInvariant(Value value) {
  for (auto [operand, argument] :
       llvm::zip(getInvariant(), getInvariantArguments()))
    if (operand == value)
      return argument;
  getInvariantMutable().append(value);
  return getBody().front().addArgument(value.getType(), value.getLoc());
}

ScanOp ScanOp::addStacked(RewriterBase &rewriter, ValueRange parts,
                          ArrayRef<bool> reversed) {
  SmallVector<Type> types(getStacked().getTypes());
  SmallVector<bool> directions(getReversedOutputs());
  for (Value part : parts)
    types.push_back(getStackType(part.getType(), getLength()));
  llvm::append_range(directions, reversed);
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(*this);
  auto larger = ScanOp::create(rewriter, getLoc(), getLength(), getCarried(),
                               getScanned(), getInvariant(), types,
                               getReversedInputs(), directions);
  larger->setDiscardableAttrs((*this)->getDiscardableAttrDictionary());
  Operation *yield = getYield();
  rewriter.modifyOpInPlace(
      yield, [&] { yield->insertOperands(yield->getNumOperands(), parts); });
  rewriter.eraseBlock(&larger.getBody().front());
  rewriter.inlineRegionBefore(getBody(), larger.getBody(),
                              larger.getBody().end());
  rewriter.replaceOp(*this, larger->getResults().take_front(getNumResults()));
  return larger;
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

// `whole` is `length` of `part`.
static LogicalResult verifyStack(ScanOp op, Type whole, Type part,
                                 const Twine &what) {
  if (whole == ScanOp::getStackType(part, op.getLength()))
    return success();
  return op.emitOpError("expected ") << what << " to be " << op.getLength()
                                     << " of " << part << ", found " << whole;
}

LogicalResult ScanOp::verify() {
  if (static_cast<int64_t>(getLength()) < 1)
    return emitOpError("expected a length of 1 at least, found ")
           << static_cast<int64_t>(getLength());
  Block &block = getBody().front();
  if (block.getNumArguments() != getNumOperands())
    return emitOpError("expected one block argument per operand");
  if (getReversedInputs().size() != getScanned().size())
    return emitOpError("expected one element of reversed_inputs per scanned "
                       "operand");
  Operation *yield = getYield();
  if (getNumResults() < getNumCarried() ||
      yield->getNumOperands() != getNumResults())
    return emitOpError("expected to yield one value per result, the carried "
                       "values first");
  if (getReversedOutputs().size() != getNumStacked())
    return emitOpError("expected one element of reversed_outputs per stacked "
                       "result");
  for (unsigned i = 0; i < getNumCarried(); ++i) {
    Type type = getCarried()[i].getType();
    if (block.getArgument(i).getType() != type ||
        yield->getOperand(i).getType() != type ||
        getLast()[i].getType() != type)
      return emitOpError("expected carried value ")
             << i << " to keep its type " << type;
  }
  for (auto [operand, argument] :
       llvm::zip(getScanned(), getScannedArguments()))
    if (failed(verifyStack(*this, operand.getType(), argument.getType(),
                           "a scanned operand")))
      return failure();
  for (auto [operand, argument] :
       llvm::zip(getInvariant(), getInvariantArguments()))
    if (operand.getType() != argument.getType())
      return emitOpError("expected an invariant operand of type ")
             << argument.getType() << ", found " << operand.getType();
  for (auto [result, part] : llvm::zip(
           getStacked(), yield->getOperands().drop_front(getNumCarried())))
    if (failed(verifyStack(*this, result.getType(), part.getType(),
                           "a stacked result")))
      return failure();
  return success();
}

// The function has the arguments and results of a body.
LogicalResult ScanCallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto function = symbols.lookupNearestSymbolFrom<FunctionOpInterface>(
      *this, getFunctionAttr());
  if (!function)
    return emitOpError("no function ") << getFunctionAttr();
  unsigned carried = getCarried().size();
  if (getNumResults() < carried ||
      getReversedInputs().size() != getScanned().size() ||
      getReversedOutputs().size() != getNumResults() - carried)
    return emitOpError("expected one direction per scanned operand and per "
                       "stacked result");
  auto length = static_cast<int64_t>(getLength());
  SmallVector<Type> arguments, results;
  for (auto [index, type] : llvm::enumerate(getOperandTypes())) {
    bool isScanned = carried <= index && index < carried + getScanned().size();
    arguments.push_back(isScanned ? ScanOp::getPartType(type) : type);
  }
  for (auto [index, type] : llvm::enumerate(getResultTypes()))
    results.push_back(index < carried ? type : ScanOp::getPartType(type));
  if (function.getArgumentTypes() != ArrayRef<Type>(arguments) ||
      function.getResultTypes() != ArrayRef<Type>(results))
    return emitOpError("expected @")
           << getFunction() << " to take and give what an iteration does";
  for (Type type : TypeRange(getScanned().getTypes()))
    if (cast<RankedTensorType>(type).getDimSize(0) != length)
      return emitOpError("expected ") << length << " parts, found " << type;
  return success();
}

//===----------------------------------------------------------------------===//
// Canonicalization
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
  SmallVector<Value> worklist;
  for (OpOperand &yielded : op.getYield()->getOpOperands()) {
    unsigned index = yielded.getOperandNumber();
    if (op->getResult(index).use_empty())
      continue;
    if (index < carried)
      used.set(index);
    worklist.push_back(yielded.get());
  }
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
