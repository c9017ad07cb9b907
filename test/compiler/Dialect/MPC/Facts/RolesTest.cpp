// Tests the properties of ops by their roles in kernels.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

TEST(Roles, OpsAnswerTheInterfaceOfTheirRole) {
  MLIRContext context;
  context.loadDialect<MPCDialect>();
  for (RegisteredOperationName name :
       context.getRegisteredOperationsByDialect("mpc")) {
    auto *region = name.getInterface<RegionOpInterface>();
    if (!region)
      continue;
    RegionRole role = region->getRegionRole();
    EXPECT_EQ(role == RegionRole::Contraction,
              name.hasInterface<ContractionOpInterface>())
        << name.getStringRef().str();
    EXPECT_EQ(role == RegionRole::Reduction,
              name.hasInterface<ReductionOpInterface>())
        << name.getStringRef().str();
    EXPECT_EQ(llvm::is_contained(name.getAttributeNames(), "layout"),
              name.hasInterface<LayoutOpInterface>())
        << name.getStringRef().str();
  }
}
