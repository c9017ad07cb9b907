// Tests the roles of ops in kernels.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/RegionOpInterface.h"
#include "test/compiler/OneOp.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

TEST(RegionOpInterfaceTest, RolesAreThoseOfTheOp) {
  OneOp view("%x: tensor<4xf32>",
             "%r = mpc.reshape %x : (tensor<4xf32>) -> tensor<2x2xf32>");
  EXPECT_TRUE(hasRole(view.get(), RegionRole::View));
  EXPECT_FALSE(hasRole(view.get(), RegionRole::Movement));
  // Ops of other dialects have no role.
  EXPECT_FALSE(hasRole(view->getParentOp(), RegionRole::View));
}

TEST(RegionOpInterfaceTest, TheContractionOfABodyIsFound) {
  OneOp relu("%x: tensor<4x8xf32>, %y: tensor<8x6xf32>",
             "%p = mpc.matmul %x, %y : (tensor<4x8xf32>, tensor<8x6xf32>) -> "
             "tensor<4x6xf32>\n"
             "%r = mpc.relu %p : (tensor<4x6xf32>) -> tensor<4x6xf32>");
  Operation *product = relu->getPrevNode();
  EXPECT_EQ(findContraction(*relu->getBlock()), product);
  OneOp alone("%x: tensor<4xf32>",
              "%r = mpc.relu %x : (tensor<4xf32>) -> tensor<4xf32>");
  EXPECT_EQ(findContraction(*alone->getBlock()), nullptr);
}
