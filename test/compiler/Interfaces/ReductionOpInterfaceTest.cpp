// Tests that reductions make others of their kind.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

// Loss and statistics ops become a sum to a smaller shape, and a mean in parts.
TEST(ReductionOpInterfaceTest, ReductionsMakeOthersOfTheirKind) {
  MLIRContext context;
  context.loadDialect<MPCDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"(
    func.func @f(%x: tensor<4x6xf32>) -> (tensor<6xf32>, tensor<4x1xf32>) {
      %0 = mpc.sum_to_size %x : (tensor<4x6xf32>) -> tensor<6xf32>
      %1 = mpc.reduce_mean %x {axes = array<i64: 1>, keepdims = true}
          : (tensor<4x6xf32>) -> tensor<4x1xf32>
      return %0, %1 : tensor<6xf32>, tensor<4x1xf32>
    })",
                                                             &context);
  ASSERT_TRUE(module);
  SmallVector<ReductionOpInterface> reductions;
  module->walk([&](ReductionOpInterface op) { reductions.push_back(op); });
  ASSERT_EQ(reductions.size(), 2u);
  EXPECT_EQ(reductions[0].getReducedAxes(), SmallVector<int64_t>{0});
  EXPECT_EQ(reductions[1].getReducedAxes(), SmallVector<int64_t>{1});
  EXPECT_EQ(reductions[0].getReductionParts(), 1);

  // Two sums of two rows each, by either reduction.
  OpBuilder builder(reductions[0]);
  auto type = RankedTensorType::get({2, 6}, builder.getF32Type());
  for (ReductionOpInterface reduction : reductions) {
    Value input = reduction->getOperand(0);
    Value parted = reduction.reduceLike(builder, type, input, {0},
                                        builder.getI64IntegerAttr(2));
    auto made = parted.getDefiningOp<ReductionOpInterface>();
    EXPECT_EQ(made.getReductionParts(), 2);
    EXPECT_EQ(isa<ReduceMeanOp>(made), isa<ReduceMeanOp>(reduction));
    made->erase();
  }
}
