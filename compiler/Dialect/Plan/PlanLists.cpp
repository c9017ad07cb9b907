// Verifies plan.if and plan.for, the steps that contain lists of steps.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/Plan/StepAttributes.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::plan;

// Verifies that `list`, the body of a loop or branch, holds only memory and
// steps. Inputs and outputs are allowed only directly in a plan.program.
static LogicalResult verifyList(Operation *op, Block &list) {
  for (Operation &each : list)
    if (isa<OutputOp, InputOp>(each) ||
        !isa_and_present<PlanDialect>(each.getDialect()))
      return op->emitOpError("expected memory and steps, found '")
             << each.getName() << "'";
  return success();
}

LogicalResult plan::IfOp::verify() {
  auto type = cast<MemRefType>(getPredicate().getType());
  if (!type.getElementType().isInteger(1) || type.getNumElements() != 1)
    return emitOpError("expected a predicate of one i1, found ") << type;
  for (Region &body : (*this)->getRegions())
    if (!body.empty() && failed(verifyList(*this, body.front())))
      return failure();
  return success();
}

// Verifies that the steps of a parallel loop write only to parts (plan.part) of
// the loop and to memory declared in the loop. Otherwise iterations on
// different threads would write to the same memory.
static LogicalResult verifyParallel(ForOp loop) {
  auto isOwn = [&](Value buffer) {
    // Look through views. A part of an inner loop is private if its source is.
    buffer = plan::getStorage(buffer);
    while (auto part = buffer.getDefiningOp<PartOp>()) {
      if (part->getParentOp() == loop)
        return true;
      buffer = plan::getStorage(part.getSource());
    }
    Operation *memory = buffer.getDefiningOp();
    return memory && isa<ArenaOp>(memory) && loop->isProperAncestor(memory);
  };
  WalkResult result = loop.getBody().walk([&](StepOpInterface step) {
    return llvm::all_of(step.getWrittenBuffers(), isOwn)
               ? WalkResult::advance()
               : (step->emitOpError(
                      "writes what other iterations of a parallel "
                      "loop may write or read"),
                  WalkResult::interrupt());
  });
  return failure(result.wasInterrupted());
}

// Verifies that the private memory of a loop starts at a multiple of 64 bytes,
// and that all memory declared in the loop lies within.
static LogicalResult verifyPrivate(ForOp loop) {
  int64_t offset = static_cast<int64_t>(*loop.getPrivateOffset());
  int64_t bytes = static_cast<int64_t>(*loop.getPrivateBytes());
  if (offset < 0 || offset % 64 != 0 || bytes < 0)
    return loop.emitOpError("expected private memory at a multiple of 64, "
                            "found ")
           << bytes << " bytes at " << offset;
  WalkResult result = loop.getBody().walk([&](ArenaOp arena) {
    int64_t begin = static_cast<int64_t>(arena.getOffset().value_or(0));
    int64_t end =
        begin + plan::getBufferBytes(cast<MemRefType>(arena.getType()));
    if (begin >= offset && end <= offset + bytes)
      return WalkResult::advance();
    arena.emitOpError(
        "expected an allocation within the private memory of its loop, bytes ")
        << offset << " to " << offset + bytes << ", found bytes " << begin
        << " to " << end;
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult ForOp::verify() {
  runtime::ForStep step;
  readAttributes(*this, step);
  if (const char *message = runtime::findOutOfRange(step, /*isGPU=*/false))
    return emitOpError(message);
  if (getPrivateOffset().has_value() != getPrivateBytes().has_value() ||
      (getPrivateBytes() && !getParallel()))
    return emitOpError("expected private memory with an offset and a size, in "
                       "a parallel loop, found ")
           << (getPrivateOffset() ? "an" : "no") << " offset and "
           << (getPrivateBytes() ? "a" : "no") << " size in a "
           << (getParallel() ? "parallel" : "sequential") << " loop";
  if (getParallel() && failed(verifyParallel(*this)))
    return failure();
  if (getPrivateBytes() && failed(verifyPrivate(*this)))
    return failure();
  return verifyList(*this, getBody().front());
}
