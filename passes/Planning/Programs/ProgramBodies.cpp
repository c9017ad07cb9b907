// Adds loops (plan.for) and conditions (plan.if) to a program, with the steps
// of their bodies inside.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Programs/ProgramBuilder.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

// Returns the part of the stacked tensor `whole` that the current iteration
// reads or writes: iteration i takes index i of axis 0. With `reversed`, the
// first iteration takes the last index.
Value ProgramBuilder::newPart(Value whole, Type part, bool reversed,
                              Location location) {
  MemRefType type = getBufferType(part);
  assert(cast<MemRefType>(whole.getType()).getRank() == type.getRank() + 1 &&
         "a stack has one axis more than its parts");
  int64_t bytes = plan::getBufferBytes(type);
  int64_t count = cast<MemRefType>(whole.getType()).getDimSize(0);
  return plan::PartOp::create(builder, location, type, whole,
                              reversed ? (count - 1) * bytes : 0,
                              reversed ? -bytes : bytes);
}

// True if kernels can use one index of a stacked tensor in place. On GPUs, the
// size must be a multiple of kGPUAlignment, so that each part is aligned.
bool ProgramBuilder::isAligned(Value part) const {
  int64_t bytes = plan::getBufferBytes(cast<MemRefType>(part.getType()));
  return !target.isGPU() || bytes % TargetInfo::kGPUAlignment == 0;
}

// Makes the op that computes the yielded `value` write to `place`, the memory
// of a result of the loop or branch. If `value` is a view, places the viewed
// value.
void ProgramBuilder::placeYielded(Value value, Value place) {
  assert(place && "results have memory before bodies are added");
  yielded.emplace_back(value, place);
  Value made = Liveness::root(value);
  if (isa<BlockArgument>(made) || !isAligned(place))
    return;
  if (getBufferType(made.getType()) != place.getType())
    place = plan::ViewOp::create(builder, place.getLoc(),
                                 getBufferType(made.getType()), place);
  places.try_emplace(made, place);
}

void ProgramBuilder::placeStacked(ScanCallOp scan, ArrayRef<Value> results) {
  assert(results.size() == block.getTerminator()->getNumOperands() &&
         "the body yields a value per result");
  unsigned carried = scan.getCarried().size();
  ValueRange values = block.getTerminator()->getOperands();
  for (auto [index, value] : llvm::enumerate(values.drop_front(carried)))
    placeYielded(value,
                 newPart(results[carried + index], value.getType(),
                         scan.getReversedOutputs()[index], scan.getLoc()));
}

// Adds the steps of one iteration. `operands` and `results` are the buffers of
// the scan's operands and results, in order.
LogicalResult ProgramBuilder::addBody(ScanCallOp scan, ArrayRef<Value> operands,
                                      ArrayRef<Value> results) {
  unsigned carried = scan.getCarried().size();
  unsigned scanned = scan.getScanned().size();
  // The body's arguments are the carried values, then the scanned values, then
  // the invariants.
  for (auto [index, argument] : llvm::enumerate(block.getArguments())) {
    if (index < carried) {
      // A carried value lies in the memory of the scan's result, and the body
      // updates the value there.
      Attribute number = builder.getI64IntegerAttr(index);
      buffers[argument] = states[number] = results[index];
      oldValues[number] = argument;
      noteUpdate(block.getTerminator()->getOpOperand(index), number);
    } else if (index < carried + scanned) {
      // Kernels expect aligned addresses. If the elements of this iteration are
      // not aligned, copy them to a buffer first.
      bool reversed = scan.getReversedInputs()[index - carried];
      Value part =
          newPart(operands[index], argument.getType(), reversed, scan.getLoc());
      buffers[argument] = part;
      if (!isAligned(part)) {
        buffers[argument] = newArena(argument.getType(), scan.getLoc());
        plan::CopyOp::create(builder, scan.getLoc(), part, buffers[argument]);
      }
    } else {
      buffers[argument] = operands[index];
    }
  }
  placeStacked(scan, results);
  return addOps();
}

LogicalResult ProgramBuilder::addScan(ScanCallOp scan) {
  SmallVector<Value> operands = buffersOf(scan.getOperands());
  SmallVector<Value> results = placeResults(scan, Reads());
  for (unsigned i = 0; i < scan.getCarried().size(); ++i)
    plan::CopyOp::create(builder, scan.getLoc(), operands[i], results[i]);
  // Without carried values, iterations are independent and can run in parallel.
  // A GPU runs them in sequence, in one captured graph.
  bool isParallel = scan.getCarried().empty() && !target.isGPU();
  auto loop =
      plan::ForOp::create(builder, scan.getLoc(), scan.getLength(), isParallel);
  ProgramBuilder body(symbols.lookup<func::FuncOp>(scan.getFunction()), symbols,
                      target);
  body.builder.setInsertionPointToStart(&loop.getBody().emplaceBlock());
  return body.addBody(scan, operands, results);
}

//===----------------------------------------------------------------------===//
// Conditions
//===----------------------------------------------------------------------===//

// Adds the steps of one branch. `operands` and `results` are the buffers of the
// captured values and of the condition's results.
LogicalResult ProgramBuilder::addBranch(ArrayRef<Value> operands,
                                        ArrayRef<Value> results) {
  assert(block.getNumArguments() == operands.size() &&
         block.getTerminator()->getNumOperands() == results.size() &&
         "a branch takes the captured values, and yields the results");
  for (auto [argument, operand] : llvm::zip(block.getArguments(), operands))
    buffers[argument] = operand;
  for (auto [value, result] :
       llvm::zip(block.getTerminator()->getOperands(), results))
    placeYielded(value, result);
  return addOps();
}

LogicalResult ProgramBuilder::addIf(IfCallOp op) {
  Value condition = buffers.lookup(op.getCondition());
  SmallVector<Value> operands = buffersOf(op.getCaptured());
  SmallVector<Value> results = placeResults(op, Reads());
  auto step = plan::IfOp::create(builder, op.getLoc(), condition);
  StringRef functions[] = {op.getThenFunction(), op.getElseFunction()};
  for (auto [body, name] : llvm::zip(step->getRegions(), functions)) {
    ProgramBuilder branch(symbols.lookup<func::FuncOp>(name), symbols, target);
    branch.builder.setInsertionPointToStart(&body.emplaceBlock());
    if (failed(branch.addBranch(operands, results)))
      return failure();
  }
  return success();
}
