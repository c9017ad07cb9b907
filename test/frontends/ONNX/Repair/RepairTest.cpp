// Tests that a repair that leaves an invalid graph is an error, and that no
// repair of a checked graph sees an invalid file.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/Repair.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"

#include <fstream>
#include <gtest/gtest.h>

using namespace mpc::onnx_frontend;

namespace {

/// The number of repairs that have run.
int runs;

llvm::Error keepGraph(RepairContext &context) {
  ++runs;
  return llvm::Error::success();
}

llvm::Error loseProducer(RepairContext &context) {
  ++runs;
  context.getGraph().mutable_node()->RemoveLast();
  return llvm::Error::success();
}

RepairInfo makeRow(RepairTime time, llvm::Error (*rewrite)(RepairContext &)) {
  return {"row", "", "", "", "", time, rewrite, nullptr};
}

/// A file with a node `op` that reads `input`, and its repaired model.
class CheckedRepairs : public ::testing::Test {
protected:
  void SetUp() override { runs = 0; }
  void TearDown() override {
    if (!path.empty())
      llvm::sys::fs::remove(path);
  }

  /// Returns the findings of running `row` on a graph whose node reads `input`.
  Findings run(const RepairInfo &row, const char *input,
               llvm::ArrayRef<std::string> skipped = {}) {
    proto::ModelProto proto;
    proto.set_ir_version(8);
    proto.add_opset_import()->set_version(17);
    proto::GraphProto &graph = *proto.mutable_graph();
    graph.add_input()->set_name("x");
    graph.add_output()->set_name("y");
    proto::NodeProto &node = *graph.add_node();
    node.set_op_type("Relu");
    node.add_input(input);
    node.add_output("y");
    EXPECT_FALSE(
        llvm::sys::fs::createTemporaryFile("mpc-repair", "onnx", path));
    std::ofstream(path.c_str(), std::ios::binary) << proto.SerializeAsString();
    llvm::Expected<std::shared_ptr<Model>> model = Model::read(path, &context);
    if (!model)
      return takeFindings(model.takeError());
    (*model)->skipRepairs(skipped);
    return takeFindings(repair(**model, row));
  }

  llvm::SmallString<128> path;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
};

TEST_F(CheckedRepairs, MayKeepTheGraph) {
  Findings found = run(makeRow(RepairTime::AfterCheck, keepGraph), "x");
  EXPECT_EQ(found.exitCode, 0);
  EXPECT_EQ(runs, 1);
}

TEST_F(CheckedRepairs, AreBlamedForAnInvalidGraph) {
  Findings found = run(makeRow(RepairTime::AfterCheck, loseProducer), "x");
  EXPECT_EQ(found.exitCode, int(ErrorKind::Internal));
  ASSERT_EQ(found.messages.size(), 2u);
  EXPECT_NE(found.messages[0].find("the repair row has made the file invalid; "
                                   "--no-repair row"),
            std::string::npos)
      << found.messages[0];
  EXPECT_NE(found.messages[1].find("graph output 'y' is never defined"),
            std::string::npos)
      << found.messages[1];
}

TEST_F(CheckedRepairs, CanBeSkipped) {
  Findings found = run(makeRow(RepairTime::AfterCheck, loseProducer), "x",
                       {std::string("row")});
  EXPECT_EQ(found.exitCode, 0);
  EXPECT_EQ(runs, 0);
}

TEST_F(CheckedRepairs, DoNotRunOnAnInvalidFile) {
  Findings found = run(makeRow(RepairTime::AfterCheck, keepGraph), "z");
  EXPECT_EQ(found.exitCode, int(ErrorKind::InvalidInput));
  EXPECT_EQ(runs, 0);
}

TEST_F(CheckedRepairs, RunBeforeTheCheckIfTheRowSaysSo) {
  Findings found = run(makeRow(RepairTime::BeforeCheck, keepGraph), "z");
  EXPECT_EQ(found.exitCode, int(ErrorKind::InvalidInput));
  EXPECT_EQ(runs, 1);
}

} // namespace
