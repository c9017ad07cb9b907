// Verifies plan.all_reduce, plan.reduce_scatter and plan.all_gather, the steps
// that exchange data with other ranks.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/Plan/Plan.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::plan;

SmallVector<Value> plan::AllReduceOp::getWrittenBuffers() {
  return {getBuffer()};
}

SmallVector<Value> plan::ReduceScatterOp::getWrittenBuffers() {
  return llvm::to_vector_of<Value>(getParts());
}

SmallVector<Value> plan::AllGatherOp::getWrittenBuffers() {
  return llvm::to_vector_of<Value>(getParts());
}

LogicalResult plan::AllReduceOp::verify() {
  Type element = cast<MemRefType>(getBuffer().getType()).getElementType();
  if (element.isInteger(1) ||
      (getKind() == Reduce::Mean && !isa<FloatType>(element)))
    return emitOpError("expected ")
           << (getKind() == Reduce::Mean ? "floats" : "numbers") << ", found "
           << getBuffer().getType();
  const auto row = static_cast<int64_t>(getRowElements());
  const int64_t count =
      cast<MemRefType>(getBuffer().getType()).getNumElements();
  if (row < 0 || (row > 0 && count % row != 0))
    return emitOpError("expected rows that fill the buffer, found rows of ")
           << row << " elements in " << count;
  return verifyWrites(*this);
}

// Verifies that each of several parts has an owner, and that all ranks run
// `step`.
static LogicalResult verifyParts(Operation *step, ValueRange parts,
                                 ArrayAttr owners) {
  if (parts.empty() || parts.size() != owners.size())
    return step->emitOpError("expected parts with an owner each, found ")
           << parts.size() << " parts and " << owners.size() << " owners";
  if (getOwner(step))
    return step->emitOpError("expected a step of all ranks, found the owner ")
           << getOwner(step);
  return verifyWrites(step);
}

LogicalResult plan::ReduceScatterOp::verify() {
  for (Value part : getParts()) {
    Type element = cast<MemRefType>(part.getType()).getElementType();
    Type first =
        cast<MemRefType>(getParts().front().getType()).getElementType();
    if (element != first || element.isInteger(1) ||
        (getKind() == Reduce::Mean && !isa<FloatType>(element)))
      return emitOpError("expected ")
             << (getKind() == Reduce::Mean ? "floats" : "numbers")
             << " of one type, found " << part.getType();
  }
  return verifyParts(*this, getParts(), getOwners());
}

LogicalResult plan::AllGatherOp::verify() {
  return verifyParts(*this, getParts(), getOwners());
}
