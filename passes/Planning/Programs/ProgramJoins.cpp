// Lets several steps write the parts of a joined tensor, so that no step copies
// the parts. In a concat along the outermost axis, the kernel of each operand
// writes directly into the result's memory. The parts of a plan.assemble all
// have the memory of the whole result: each op writes a box there.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Programs/ProgramBuilder.h"

using namespace mlir;
using namespace mpc;

// Returns the join if `call` only joins operands that are adjacent in the
// result: all axes before the joined axis have one element. Returns null for
// other calls.
static ConcatOp findJoin(func::CallOp call, const SymbolTable &symbols) {
  auto kernel = symbols.lookup<func::FuncOp>(call.getCallee());
  if (!kernel || !getKernelKind(kernel))
    return {};
  auto join = dyn_cast<ConcatOp>(kernel.getBody().front().front());
  if (!join || join->getNextNode() != kernel.getBody().front().getTerminator())
    return {};
  ArrayRef<int64_t> shape = shapeOf(join.getOutput());
  bool isOutermost = llvm::all_of(shape.take_front(join.getAxis()),
                                  [](int64_t extent) { return extent == 1; });
  bool isWhole = llvm::all_of(join.getInputs(), [&](Value input) {
    return isa<BlockArgument>(input) &&
           elementOf(input) == elementOf(join.getOutput());
  });
  return isOutermost && isWhole && typeOf(join.getOutput()).getNumElements() > 0
             ? join
             : ConcatOp();
}

// True if the kernel that makes `value` can write into a part of the joined
// tensor: only the join reads the value, and neither a state variable nor
// another join determines the place.
bool ProgramBuilder::canPlace(Value value) const {
  auto call = value.getDefiningOp<func::CallOp>();
  if (!call || call->getBlock() != &block || !value.hasOneUse())
    return false;
  // An operand that is a join itself has memory, in which its own operands lie.
  return !joins.contains(call) && !places.contains(value) &&
         !replaces.contains(value);
}

// Finds the concats whose operands can be written in place. Gives such a concat
// memory, and gives each suitable operand a view of this memory.
void ProgramBuilder::findJoins() {
  for (auto call : block.getOps<func::CallOp>()) {
    ConcatOp join = findJoin(call, symbols);
    Value result = join ? call.getResult(0) : Value();
    if (!join || places.contains(result) || replaces.contains(result))
      continue;
    // Collect the operands with their byte offsets.
    SmallVector<std::pair<Value, int64_t>> parts;
    int64_t offset = 0;
    bool isAligned = true;
    for (Value input : join.getInputs()) {
      Value operand =
          call.getOperand(cast<BlockArgument>(input).getArgNumber());
      parts.emplace_back(operand, offset);
      isAligned &= !target.isGPU() || offset % TargetInfo::kGPUAlignment == 0;
      offset += plan::getBufferBytes(getBufferType(operand.getType()));
    }
    // If a tensor occurs twice in a join, it cannot lie in both places, so both
    // are copies.
    auto hasPlace = [&](const std::pair<Value, int64_t> &part) {
      return canPlace(part.first) &&
             llvm::count(llvm::make_first_range(parts), part.first) == 1;
    };
    SmallVector<std::pair<Value, int64_t>> placed;
    llvm::copy_if(parts, std::back_inserter(placed), hasPlace);
    if (!isAligned || placed.empty())
      continue;
    Value joined = newArena(result.getType(), call.getLoc());
    joins[call] = joined;
    for (auto [operand, begin] : placed)
      places[operand] = plan::ViewOp::create(
          builder, call.getLoc(), getBufferType(operand.getType()), joined,
          builder.getI64IntegerAttr(begin));
  }
}

// Gives each plan.assemble memory, and gives all parts a view of the whole
// memory.
void ProgramBuilder::findAssembled() {
  for (auto assembled : block.getOps<plan::AssembleOp>()) {
    Value whole = newArena(assembled.getOutput().getType(), assembled.getLoc());
    joins[assembled] = whole;
    for (Value part : assembled.getParts()) {
      MemRefType type = getBufferType(part.getType());
      places[part] =
          type == whole.getType()
              ? whole
              : plan::ViewOp::create(builder, assembled.getLoc(), type, whole);
    }
  }
}

// Copies those operands of a concat that were not written in place.
void ProgramBuilder::addJoin(func::CallOp call, Value joined) {
  buffers[call.getResult(0)] = joined;
  ConcatOp join = findJoin(call, symbols);
  int64_t offset = 0;
  for (Value input : join.getInputs()) {
    Value operand = call.getOperand(cast<BlockArgument>(input).getArgNumber());
    MemRefType type = getBufferType(operand.getType());
    Value buffer = buffers.lookup(operand);
    if (buffer != places.lookup(operand) && type.getNumElements() > 0)
      plan::CopyOp::create(
          builder, call.getLoc(), buffer,
          plan::ViewOp::create(builder, call.getLoc(), type, joined,
                               builder.getI64IntegerAttr(offset)));
    offset += plan::getBufferBytes(type);
  }
}
