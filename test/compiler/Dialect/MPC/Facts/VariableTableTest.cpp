// Tests the table of a module's variables.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Facts/VariableTable.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
OwningOpRef<ModuleOp> parseVariables(MLIRContext &context) {
  context.loadDialect<MPCDialect, func::FuncDialect>();
  return parseSourceString<ModuleOp>(R"(
    mpc.variable @w : tensor<4xf32> role parameter
    mpc.variable @m : tensor<4xf32> role statistic
    func.func @f() { return })",
                                     &context);
}
} // namespace

TEST(VariableTableTest, OnlyVariablesAreFoundAsVariables) {
  MLIRContext context;
  OwningOpRef<ModuleOp> module = parseVariables(context);
  VariableTable table(*module);
  EXPECT_EQ(table.lookupVariable("w").getSymName(), "w");
  EXPECT_FALSE(table.lookupVariable("f"));
  EXPECT_TRUE(table.lookup("f"));
  EXPECT_FALSE(table.lookup("g"));
  EXPECT_FALSE(table.lookupVariable(FlatSymbolRefAttr()));
  EXPECT_TRUE(table.lookupVariable(FlatSymbolRefAttr::get(&context, "m")));
}

TEST(VariableTableTest, NewVariablesFollowTheLast) {
  MLIRContext context;
  OwningOpRef<ModuleOp> module = parseVariables(context);
  VariableTable table(*module);
  Type type = RankedTensorType::get({}, Float32Type::get(&context));
  VariableOp scale = table.declare("scale", type, Role::Statistic, 2.5);
  VariableOp again = table.declare("w", type, Role::Statistic);
  EXPECT_EQ(scale->getPrevNode(), table.lookupVariable("m").getOperation());
  EXPECT_EQ(again->getPrevNode(), scale.getOperation());
  EXPECT_EQ(table.lookupVariable("scale"), scale);
  EXPECT_EQ(scale.getFill()->convertToDouble(), 2.5);
  EXPECT_FALSE(again.getFill());
  // The name was taken.
  EXPECT_NE(again.getSymName(), "w");
}
