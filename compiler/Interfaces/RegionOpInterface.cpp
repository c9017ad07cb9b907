// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/RegionOpInterface.h"

#include "compiler/Interfaces/RegionOpInterface.cpp.inc"

using namespace mlir;
using namespace mpc;

StringRef mpc::stringifyRegionRole(RegionRole role) {
  // As errors and dumps of regions name a role.
  switch (role) {
  case RegionRole::Constant:
    return "constant";
  case RegionRole::Elementwise:
    return "elementwise op";
  case RegionRole::Reduction:
    return "reduction";
  case RegionRole::Contraction:
    return "contraction";
  case RegionRole::View:
    return "view";
  case RegionRole::Movement:
    return "movement";
  case RegionRole::Window:
    return "window";
  case RegionRole::Scatter:
    return "scatter";
  case RegionRole::Cumulative:
    return "cumulative sum";
  case RegionRole::Composite:
    return "composite op";
  }
  llvm_unreachable("an unknown role");
}

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
