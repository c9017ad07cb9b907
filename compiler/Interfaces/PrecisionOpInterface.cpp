// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/PrecisionOpInterface.h"

#include "compiler/Interfaces/PrecisionOpInterface.cpp.inc"

#include "compiler/Interfaces/PrecisionClass.cpp.inc"

#include <cmath>

using namespace mlir;

double mpc::countFlopsOfProduct(Operation *op) {
  if (cast<PrecisionOpInterface>(op).getNumContractedOperands() == 0)
    return 0;
  double product = 1;
  for (Value value : std::initializer_list<Value>{
           op->getOperand(0), op->getOperand(1), op->getResult(0)})
    product *= static_cast<double>(
        cast<RankedTensorType>(value.getType()).getNumElements());
  return 2 * std::sqrt(product);
}
