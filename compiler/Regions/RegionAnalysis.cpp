// SPDX-License-Identifier: Apache-2.0
#include "compiler/Regions/RegionAnalysis.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Regions/RegionFormer.h"
#include "compiler/Regions/RegionSplit.h"

using namespace mlir;
using namespace mpc;

bool mpc::isSplatConstant(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue())
                           : DenseElementsAttr();
  return elements && elements.isSplat();
}

RegionAnalysis::RegionAnalysis(Block &block) {
  RegionFormer former(block);
  former.run();
  for (KernelRegion &region : former.regions) {
    if (region.ops.empty())
      continue;
    for (KernelRegion &part : splitRegion(std::move(region))) {
      for (Operation *op : part.ops)
        regionOf[op] = regions.size();
      regions.push_back(std::move(part));
    }
  }
}

const KernelRegion *RegionAnalysis::getRegion(Operation *op) const {
  auto it = regionOf.find(op);
  return it == regionOf.end() ? nullptr : &regions[it->second];
}

bool RegionAnalysis::isInternal(Value value) const {
  const KernelRegion *region =
      value.getDefiningOp() ? getRegion(value.getDefiningOp()) : nullptr;
  return region && llvm::all_of(value.getUsers(), [&](Operation *user) {
           return getRegion(user) == region;
         });
}
