// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/ElementwiseTable.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

ElementwiseTable::ElementwiseTable() {
  addFormulas(*this);
  addMathFormulas(*this);
  addGradientFormulas(*this);
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
  return entry == entries.end() ? nullptr : &entry->second;
}
