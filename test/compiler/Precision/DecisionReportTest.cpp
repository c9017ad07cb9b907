// What the views say of records that stand in the IR.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/DecisionReport.h"

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/JSON.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

static constexpr llvm::StringLiteral source = R"mlir(
module attributes {amp.mode = "bf16-mixed", amp.loss_scale = "none"} {
  func.func @step(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = amp.cast %x : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %1 = mpc.matmul %0, %0 {amp.decision = #amp.decision<
        compute = bf16, accumulate = f32, storage = f32, class = allow,
        rule = "default:matmul", why = "exact products", reason = allow_list,
        path = ["fc"], evidence = assumed, native = false, casts_in = 2,
        casts_out = 0, casts_fused = 0, cost_low = 3, cost_high = 5,
        flip = "--keep-fp32=^fc$">}
        : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xf32> loc("fc")
    %2 = mpc.softmax %1 {axis = 1 : i64, mpc.phase = "backward", amp.decision = #amp.decision<
        compute = f32, accumulate = f32, storage = f32, class = fixed,
        rule = "default:softmax", why = "", reason = after_denied,
        path = ["exp", "fc#dx"], evidence = proved, native = true, casts_in = 0,
        casts_out = 0, casts_fused = 0, cost_low = 3, cost_high = 5>}
        : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("fc#dx")
    return %2 : tensor<4x4xf32>
  }
  func.func @eval(%x: tensor<4x4xf32>) -> tensor<4x4xbf16> {
    %0 = amp.cast %x : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    return %0 : tensor<4x4xbf16>
  }
}
)mlir";

namespace {
struct DecisionReportTest : testing::Test {
  DecisionReportTest() {
    context.loadDialect<MPCDialect, amp::AMPDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(source, &context);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};
} // namespace

TEST_F(DecisionReportTest, SummaryCountsWhatTrains) {
  ASSERT_TRUE(module);
  EXPECT_EQ(DecisionReport(*module).getSummary(),
            "bf16-mixed: 1 of 2 ops low (1 of 1 contractions), 1 cast, loss "
            "scale none; the target has no fast kernel for 1 ops");
}

TEST_F(DecisionReportTest, EveryLineOfJSONLIsARecord) {
  ASSERT_TRUE(module);
  std::string text;
  llvm::raw_string_ostream os(text);
  DecisionReport(*module).printJSONL(os);
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(text).split(lines, '\n', -1, /*KeepEmpty=*/false);
  ASSERT_EQ(lines.size(), 2u);

  auto first = llvm::json::parse(lines[0]);
  ASSERT_TRUE(static_cast<bool>(first));
  const llvm::json::Object &fc = *first->getAsObject();
  for (const char *key :
       {"schema", "id", "node", "op", "phase", "operands", "results", "compute",
        "accumulate", "class", "rule", "reason", "path", "evidence", "casts_in",
        "casts_out", "cost_low", "cost_high", "flip"})
    EXPECT_NE(fc.get(key), nullptr) << key;
  EXPECT_EQ(fc.getInteger("schema"), 1);
  EXPECT_EQ(fc.getString("phase"), "forward");
  EXPECT_EQ(fc.getString("compute"), "bf16");
  EXPECT_EQ(fc.getString("flip"), "--keep-fp32=^fc$");
  EXPECT_EQ(fc.getObject("evidence")->getString("kernel"), "missing");

  auto second = llvm::json::parse(lines[1]);
  ASSERT_TRUE(static_cast<bool>(second));
  EXPECT_EQ(second->getAsObject()->getString("id"), "fc#dx");
  EXPECT_EQ(second->getAsObject()->getString("node"), "fc");
  EXPECT_TRUE(second->getAsObject()->get("flip")->getAsNull().has_value());
}

TEST_F(DecisionReportTest, ANodeStandsForItsBackwardOps) {
  ASSERT_TRUE(module);
  DecisionReport report(*module);
  std::string text;
  llvm::raw_string_ostream os(text);
  EXPECT_TRUE(report.explainNode("fc", os));
  EXPECT_NE(text.find("fc: matmul, forward"), std::string::npos);
  EXPECT_NE(text.find("fc#dx: softmax, backward"), std::string::npos);
  EXPECT_NE(text.find("path      exp -> fc#dx"), std::string::npos);
  EXPECT_NE(text.find("nothing: a hard constraint"), std::string::npos);

  text.clear();
  EXPECT_TRUE(report.explainNode("fc#dx", os));
  EXPECT_EQ(text.find("matmul"), std::string::npos);
  EXPECT_FALSE(report.explainNode("fc9", os));
}

TEST_F(DecisionReportTest, CountsHaveAColumnPerType) {
  ASSERT_TRUE(module);
  std::string text;
  llvm::raw_string_ostream os(text);
  DecisionReport(*module).printCounts(os);
  EXPECT_NE(text.find("matmul                                 1"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("total                                  2"),
            std::string::npos)
      << text;
}
