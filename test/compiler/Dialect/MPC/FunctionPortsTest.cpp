// Tests ports: they are found by name and role, and a function's body, type and
// attributes agree after an edit.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/FunctionPorts.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {

constexpr char kModule[] = R"(
  mpc.variable @w : tensor<2xf32> role parameter
  mpc.variable @m : tensor<2xf32> role optimizer_state
  func.func @step(
      %x: tensor<2xf32> {mpc.input = "x", mpc.role = #mpc.role<data>},
      %w: tensor<2xf32> {mpc.state = @w})
      -> (tensor<2xf32> {mpc.updates = @w},
          tensor<2xf32> {mpc.output = "y", mpc.role = #mpc.role<output>}) {
    %y = mpc.add %x, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %y, %x : tensor<2xf32>, tensor<2xf32>
  })";

class FunctionPorts : public testing::Test {
protected:
  FunctionPorts() {
    context.loadDialect<MPCDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(kModule, &context);
    EXPECT_TRUE(module);
  }

  func::FuncOp step() { return module->lookupSymbol<func::FuncOp>("step"); }
  VariableOp variable(StringRef name) {
    return module->lookupSymbol<VariableOp>(name);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(FunctionPorts, AreFoundByNameAndRole) {
  FunctionEditor editor(step());
  Value x = step().getArgument(0), w = step().getArgument(1);
  EXPECT_EQ(editor.input("x"), x);
  EXPECT_FALSE(editor.input("w"));
  EXPECT_EQ(editor.port(x).getRole(), Role::Data);
  EXPECT_EQ(editor.variableOf(w), "w");
  EXPECT_EQ(editor.output("y"), x);
  EXPECT_EQ(editor.outputOfRole(Role::Output), x);
  EXPECT_FALSE(editor.outputOfRole(Role::Output, "x"));
  EXPECT_FALSE(editor.outputOfRole(Role::Loss));
  EXPECT_TRUE(editor.update(variable("w")));
  EXPECT_FALSE(editor.update(variable("m")));
}

TEST_F(FunctionPorts, OfOtherValuesAreEmpty) {
  Value y = getReturn(step())->getOperand(0);
  EXPECT_FALSE(getArgumentPort(y).getInput());
  EXPECT_FALSE(FunctionEditor(step()).port(y).getState());
}

TEST_F(FunctionPorts, StateIsAddedOnce) {
  FunctionEditor editor(step());
  EXPECT_EQ(editor.state(variable("w")), step().getArgument(1));
  Value m = editor.state(variable("m"));
  EXPECT_EQ(editor.state(variable("m")), m);
  editor.finish();
  EXPECT_EQ(step().getNumArguments(), 3u);
  EXPECT_EQ(getArgumentPort(m).getState().getValue(), "m");
  EXPECT_TRUE(succeeded(verify(*module)));
}

TEST_F(FunctionPorts, AddedOnesVerify) {
  FunctionEditor editor(step());
  Value rate =
      editor.addInput("rate", Role::Scalar, step().getArgument(0).getType());
  editor.addOutput("loss", Role::Loss, rate);
  editor.addUpdate(variable("m"), rate);
  editor.finish();
  EXPECT_TRUE(succeeded(verify(*module)));
  EXPECT_EQ(getResultPort(step(), 2).getRole(), Role::Loss);
  EXPECT_EQ(getResultPort(step(), 3).getUpdated().getValue(), "m");
}

TEST_F(FunctionPorts, RolesChangeAndOtherWordsStay) {
  FunctionEditor editor(step());
  Value x = editor.input("x");
  editor.setAttr(x, kBatchAxisAttr,
                 IntegerAttr::get(IntegerType::get(&context, 64), -1));
  editor.setInputRole(x, Role::Label);
  editor.finish();
  EXPECT_EQ(getArgumentPort(x).getRole(), Role::Label);
  EXPECT_EQ(getArgumentPort(x).getBatchAxis(), -1);
  EXPECT_EQ(getArgumentPort(x).getInput(), "x");
}

TEST_F(FunctionPorts, OutputsGoAndUpdatesStay) {
  FunctionEditor editor(step());
  Value next = editor.update(variable("w"));
  editor.dropOutputs();
  editor.finish();
  ASSERT_EQ(step().getNumResults(), 1u);
  EXPECT_EQ(getReturn(step())->getOperand(0), next);
  EXPECT_EQ(getResultPort(step(), 0).getUpdated().getValue(), "w");
  EXPECT_TRUE(succeeded(verify(*module)));
}

TEST_F(FunctionPorts, UpdatesGoByWhoComputesThem) {
  FunctionEditor editor(step());
  editor.addUpdate(variable("m"), editor.input("x"));
  editor.dropUpdatesBy(editor.update(variable("w")).getDefiningOp());
  EXPECT_FALSE(editor.update(variable("w")));
  EXPECT_TRUE(editor.update(variable("m")));
  editor.dropUpdate(variable("m"));
  editor.finish();
  EXPECT_EQ(step().getNumResults(), 1u);
}

TEST_F(FunctionPorts, OutputsComeFirst) {
  FunctionEditor editor(step());
  editor.putOutputsFirst();
  editor.finish();
  EXPECT_EQ(getResultPort(step(), 0).getOutput(), "y");
  EXPECT_EQ(getReturn(step())->getOperand(0), step().getArgument(0));
  EXPECT_TRUE(succeeded(verify(*module)));
}

// Replacing an op during an edit leaves no dangling result.
TEST_F(FunctionPorts, FollowReplacedValues) {
  FunctionEditor editor(step());
  Value next = editor.update(variable("w"));
  Operation *op = next.getDefiningOp();
  next.replaceAllUsesWith(editor.input("x"));
  op->erase();
  EXPECT_EQ(editor.update(variable("w")), editor.input("x"));
  editor.finish();
  EXPECT_TRUE(succeeded(verify(*module)));
}

} // namespace
