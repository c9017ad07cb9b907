// Builds and verifies mpc.scan (a loop) and mpc.if, the ops with bodies, and
// the ops that replace both once bodies are functions. In an mpc.scan, carried
// values go from iteration to iteration, a scanned operand gives each iteration
// one part along axis 0, invariant operands stay the same, and a stacked result
// has one part from each iteration.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

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
  // Operands are in the order carried, scanned, invariant; results in the order
  // carried, stacked.
  for (ValueRange values : {carried, scanned, invariant})
    state.addOperands(values);
  state.addTypes(carried.getTypes());
  state.addTypes(stacked);
  // An iteration gets one part of each scanned operand, and the whole of each
  // other operand.
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

unsigned ScanOp::getNumCarried() { return getCarried().size(); }

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
  // Move the body into the larger loop, and yield `parts` as well.
  Operation *yield = getYield();
  rewriter.modifyOpInPlace(
      yield, [&] { yield->insertOperands(yield->getNumOperands(), parts); });
  rewriter.eraseBlock(&larger.getBody().front());
  rewriter.inlineRegionBefore(getBody(), larger.getBody(),
                              larger.getBody().end());
  rewriter.replaceOp(*this, larger->getResults().take_front(getNumResults()));
  return larger;
}

void IfOp::build(OpBuilder &builder, OperationState &state, TypeRange outputs,
                 Value condition, ValueRange captured) {
  state.addOperands(condition);
  state.addOperands(captured);
  state.addTypes(outputs);
  for (int body = 0; body < 2; ++body) {
    Block &block = state.addRegion()->emplaceBlock();
    for (Value value : captured)
      block.addArgument(value.getType(), value.getLoc());
  }
}

OpOperand &IfOp::getTiedOperand(BlockArgument argument) {
  assert(argument.getOwner()->getParentOp() == getOperation() && "not of this");
  return getOperation()->getOpOperand(1 + argument.getArgNumber());
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

// Checks that the type `whole` is a stack of `length` parts of type `part`:
// [length, ...part].
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
  // First check the numbers of arguments, results and directions, since the
  // checks below index these lists.
  Block &block = getBody().front();
  if (block.getNumArguments() != getNumOperands())
    return emitOpError("expected one block argument per operand, found ")
           << block.getNumArguments() << " for " << getNumOperands()
           << " operands";
  if (getReversedInputs().size() != getScanned().size())
    return emitOpError("expected one element of reversed_inputs per scanned "
                       "operand, found ")
           << getReversedInputs().size() << " for " << getScanned().size()
           << " scanned operands";
  Operation *yield = getYield();
  if (getNumResults() < getNumCarried() ||
      yield->getNumOperands() != getNumResults())
    return emitOpError("expected to yield one value per result, the carried "
                       "values first, found ")
           << yield->getNumOperands() << " values for " << getNumResults()
           << " results, " << getNumCarried() << " of them carried";
  if (getReversedOutputs().size() != getNumStacked())
    return emitOpError("expected one element of reversed_outputs per stacked "
                       "result, found ")
           << getReversedOutputs().size() << " for " << getNumStacked()
           << " stacked results";
  // A carried value must have one type as operand, block argument, yielded
  // value and result.
  for (unsigned i = 0; i < getNumCarried(); ++i) {
    Type type = getCarried()[i].getType();
    if (block.getArgument(i).getType() != type ||
        yield->getOperand(i).getType() != type ||
        getLast()[i].getType() != type)
      return emitOpError("expected carried value ")
             << i << " to keep its type " << type << ", found "
             << block.getArgument(i).getType() << " as argument, "
             << yield->getOperand(i).getType() << " as yielded value and "
             << getLast()[i].getType() << " as result";
  }
  // Each part must have the type of its stack without axis 0.
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

// Checks that the called function takes and returns the values of one
// iteration.
LogicalResult ScanCallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto function = symbols.lookupNearestSymbolFrom<FunctionOpInterface>(
      *this, getFunctionAttr());
  if (!function)
    return emitOpError("no function ") << getFunctionAttr();
  // First check the numbers of operands and results, since the loops below
  // index the types.
  unsigned carried = getCarried().size();
  if (getNumResults() < carried ||
      getReversedInputs().size() != getScanned().size() ||
      getReversedOutputs().size() != getNumResults() - carried)
    return emitOpError("expected one direction per scanned operand and per "
                       "stacked result, found ")
           << getReversedInputs().size() << " for " << getScanned().size()
           << " scanned operands and " << getReversedOutputs().size() << " for "
           << getNumResults() << " results, " << carried << " of them carried";
  // Compute the argument and result types of one iteration, in which scanned
  // and stacked values are parts.
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
           << getFunction() << " to have type "
           << FunctionType::get(getContext(), arguments, results)
           << " as an iteration has, found " << function.getFunctionType();
  // Each stack must have one part per iteration.
  for (Type type : TypeRange(getScanned().getTypes()))
    if (cast<RankedTensorType>(type).getDimSize(0) != length)
      return emitOpError("expected ") << length << " parts, found " << type;
  return success();
}

LogicalResult IfOp::verify() {
  for (Region &body : (*this)->getRegions()) {
    Block &block = body.front();
    if (block.getArgumentTypes() != getCaptured().getTypes())
      return emitOpError("expected one block argument per captured operand, of "
                         "its type, found ")
             << block.getArgumentTypes() << " for " << getCaptured().getTypes();
    if (block.getTerminator()->getOperandTypes() != getResultTypes())
      return emitOpError("expected both branches to yield values of the "
                         "results' types, found ")
             << block.getTerminator()->getOperandTypes() << " for "
             << getResultTypes();
  }
  return success();
}

LogicalResult IfCallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (FlatSymbolRefAttr name :
       {getThenFunctionAttr(), getElseFunctionAttr()}) {
    auto function =
        symbols.lookupNearestSymbolFrom<FunctionOpInterface>(*this, name);
    if (!function)
      return emitOpError("no function ") << name;
    if (!llvm::equal(function.getArgumentTypes(), getCaptured().getTypes()) ||
        !llvm::equal(function.getResultTypes(), getResultTypes()))
      return emitOpError("expected ")
             << name << " to have type "
             << FunctionType::get(getContext(), getCaptured().getTypes(),
                                  getResultTypes())
             << " as a branch has, found " << function.getFunctionType();
  }
  return success();
}
