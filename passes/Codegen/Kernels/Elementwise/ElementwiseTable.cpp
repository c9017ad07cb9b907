// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Elementwise/ElementwiseTable.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

ElementwiseTable::ElementwiseTable() {
  addFormulas(*this);
  addIntegerFormulas(*this);
  addMathFormulas(*this);
  addRemainderFormulas(*this);
  addGradientFormulas(*this);
  addQuantizeFormulas(*this);
  addOptimizerFormulas(*this);
  addConversionFormulas(*this);
  addIndexedFormulas(*this);
}

const ElementwiseTable &ElementwiseTable::get() {
  static const ElementwiseTable table;
  return table;
}

const ElementwiseTable::Formula *ElementwiseTable::find(StringRef name) const {
  auto entry = entries.find(name);
  if (entry != entries.end())
    return &entry->second;
  auto integer = integerEntries.find(name);
  return integer == integerEntries.end() ? nullptr : &integer->second;
}

const ElementwiseTable::Formula *ElementwiseTable::find(Operation *op) const {
  StringRef name = op->getName().getStringRef();
  bool isInteger = op->getNumOperands() > 0 &&
                   isa<IntegerType>(getElementTypeOrSelf(op->getOperand(0)));
  auto integer = integerEntries.find(name);
  return isInteger && integer != integerEntries.end() ? &integer->second
                                                      : find(name);
}
