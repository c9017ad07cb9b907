// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/CastCounts.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Interfaces/BodyOpInterface.h"
#include "compiler/Regions/RegionAnalysis.h"

using namespace mlir;
using namespace mpc;

static CastCounts countCasts(Operation *op, const RegionAnalysis &regions) {
  // A cast that shares a kernel with other ops counts as fused, since the
  // kernel casts in registers.
  auto isFused = [&](Operation *cast) {
    const KernelRegion *region = regions.getRegion(cast);
    return region && region->ops.size() > 1;
  };
  CastCounts counts;
  for (Value operand : op->getOperands())
    if (auto cast = operand.getDefiningOp<amp::CastOp>()) {
      ++counts.in;
      counts.fused += isFused(cast);
    }
  for (Operation *user : op->getUsers())
    if (isa<amp::CastOp>(user)) {
      ++counts.out;
      counts.fused += isFused(user);
    }
  return counts;
}

static void countCasts(Block &block,
                       llvm::DenseMap<Operation *, CastCounts> &counts) {
  RegionAnalysis regions(block);
  for (Operation &op : block) {
    if (isa<BodyOpInterface>(op))
      for (Region &body : op.getRegions())
        countCasts(body.front(), counts);
    else if (amp::DecisionAttr::of(&op))
      counts[&op] = countCasts(&op, regions);
  }
}

llvm::DenseMap<Operation *, CastCounts>
mpc::countCasts(FunctionOpInterface function) {
  llvm::DenseMap<Operation *, CastCounts> counts;
  if (!function.isExternal())
    ::countCasts(function.getFunctionBody().front(), counts);
  return counts;
}
