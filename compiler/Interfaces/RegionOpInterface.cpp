// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/RegionOpInterface.h"

#include "compiler/Interfaces/RegionOpInterface.cpp.inc"
#include "compiler/Interfaces/RegionRole.cpp.inc"

using namespace mlir;
using namespace mpc;

bool mpc::hasRole(Operation *op, RegionRole role) {
  auto candidate = dyn_cast<RegionOpInterface>(op);
  return candidate && candidate.getRegionRole() == role;
}

Operation *mpc::findContraction(Block &body) {
  for (Operation &op : body)
    if (hasRole(&op, RegionRole::Contraction))
      return &op;
  return nullptr;
}
