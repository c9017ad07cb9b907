// Tests the operands and reductions of scatters.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/ScatterOpInterface.h"
#include "test/compiler/OneOp.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
OneOp makeScatter(const std::string &attributes) {
  return OneOp("%x: tensor<4x9xf32>, %i: tensor<4x2xi64>, %u: tensor<4x2xf32>",
               "%r = mpc.scatter %x, %i, %u {axis = 1 : i64, batch_dims = 1 : "
               "i64, " +
                   attributes +
                   "} : (tensor<4x9xf32>, tensor<4x2xi64>, tensor<4x2xf32>) "
                   "-> tensor<4x9xf32>");
}
} // namespace

TEST(ScatterOpInterfaceTest, OperandsAreNamed) {
  OneOp op = makeScatter("reduction = #mpc.scatter<none>");
  auto scatter = cast<ScatterOpInterface>(op.get());
  EXPECT_EQ(&scatter.getDataOperand(), &op->getOpOperand(0));
  EXPECT_EQ(&scatter.getIndicesOperand(), &op->getOpOperand(1));
  EXPECT_EQ(&scatter.getUpdatesOperand(), &op->getOpOperand(2));
  EXPECT_EQ(scatter.getScatteredAxis(), 1);
  EXPECT_EQ(scatter.getIndexAxes(), (SmallVector<int64_t>{0, 1}));
}

TEST(ScatterOpInterfaceTest, SumsAndProductsAccumulate) {
  const std::pair<const char *, bool> accumulating[] = {
      {"none", false}, {"add", true}, {"mul", true}, {"max", false}};
  for (auto [name, accumulates] : accumulating) {
    OneOp op = makeScatter("reduction = #mpc.scatter<" + std::string(name) +
                           ">, unique_indices = true");
    auto scatter = cast<ScatterOpInterface>(op.get());
    EXPECT_EQ(scatter.accumulates(), accumulates) << name;
    EXPECT_EQ(scatter.multiplies(), name == StringRef("mul"));
    EXPECT_TRUE(scatter.hasUniqueIndices());
  }
  OneOp op = makeScatter("reduction = #mpc.scatter<add>");
  EXPECT_FALSE(cast<ScatterOpInterface>(op.get()).hasUniqueIndices());
}
