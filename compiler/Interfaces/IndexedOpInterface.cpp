// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/IndexedOpInterface.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"

#include "compiler/Interfaces/IndexedOpInterface.cpp.inc"

using namespace mlir;
using namespace mpc;

SmallVector<int64_t> mpc::getOperandAxes(OpOperand &operand) {
  Operation *op = operand.getOwner();
  if (auto indexed = dyn_cast<IndexedOpInterface>(op))
    return indexed.getOperandAxes(operand.getOperandNumber());
  int64_t rank = cast<ShapedType>(operand.get().getType()).getRank();
  int64_t all = cast<ShapedType>(op->getResult(0).getType()).getRank();
  return llvm::to_vector(llvm::seq(all - rank, all));
}

bool mpc::readsMemory(OpOperand &operand) {
  auto indexed = dyn_cast<IndexedOpInterface>(operand.getOwner());
  return indexed && indexed.readsMemory(operand.getOperandNumber());
}

bool mpc::readsMemory(Operation *op) {
  return llvm::any_of(op->getOpOperands(),
                      [](OpOperand &operand) { return readsMemory(operand); });
}

bool mpc::isTable(OpOperand &operand) {
  auto indexed = dyn_cast<IndexedOpInterface>(operand.getOwner());
  return readsMemory(operand) && indexed.getIndexedAxes().empty() &&
         llvm::is_contained(getOperandAxes(operand), kOwnAxis);
}

OpOperand *mpc::findTable(Operation *op) {
  for (OpOperand &operand : op->getOpOperands())
    if (isTable(operand))
      return &operand;
  return nullptr;
}

bool mpc::dependsOnPlace(Operation *op) { return isa<IndexedOpInterface>(op); }
