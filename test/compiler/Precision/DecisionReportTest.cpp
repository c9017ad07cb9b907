// Tests the views of decision records in IR: of @step, and in some tests only
// of @update.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/DecisionReport.h"

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SHA256.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

static constexpr llvm::StringLiteral source = R"mlir(
module attributes {amp.mode = #amp.mode<"bf16-mixed">, amp.loss_scale = #amp.loss_scale<none>,
    mpc.target = #mpc.target<"x86-64-v3">} {
  func.func @step(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = amp.cast %x : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %1 = mpc.matmul %0, %0 {amp.decision = #amp.decision<
        operands = [bf16, bf16], results = [f32], compute = bf16, class = allow,
        rule = "default:matmul", why = "exact products", reason = allow_list,
        path = ["fc"], evidence = assumed, flip = "--keep-fp32=^fc$">}
        : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xf32> loc("fc")
    %2 = mpc.softmax %1 {axis = 1 : i64, mpc.phase = #mpc.phase<backward>, amp.decision = #amp.decision<
        operands = [f32], results = [f32], compute = f32, class = fixed,
        rule = "default:softmax", why = "", reason = after_denied,
        path = ["exp", "fc#dx"], sources = [{kind = "constant", name = "c", value = 1.0e+6},
            {in_data, kind = "input", largest = 4.0, name = "x", rms = 0.5}], evidence = proved>}
        : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("fc#dx")
    return %2 : tensor<4x4xf32>
  }
  // A node that became two ops, called as no HTML, no JSON and no DOT may be.
  func.func @update(%x: tensor<4xf16>) -> tensor<4xf16> {
    %0 = mpc.neg %x {amp.decision = #amp.decision<
        operands = [f16], results = [f16], compute = f32, class = clear,
        rule = "policy.json:rules[0]", why = "<b>&\22", reason = model_type,
        path = ["</td><script>\22'\FF"], evidence = proved>}
        : (tensor<4xf16>) -> tensor<4xf16> loc("</td><script>\22'\FF")
    %1 = mpc.neg %0 {amp.decision = #amp.decision<
        operands = [f16], results = [f16], compute = f32, class = clear,
        rule = "default:neg", why = "exact", reason = model_type,
        path = ["</td><script>\22'\FF"], evidence = proved>}
        : (tensor<4xf16>) -> tensor<4xf16> loc("</td><script>\22'\FF")
    return %1 : tensor<4xf16>
  }
  func.func @eval(%x: tensor<4x4xf32>) -> tensor<4x4xbf16> {
    %0 = amp.cast %x : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    return %0 : tensor<4x4xbf16>
  }
}
)mlir";

// Two kernels of @step.
static constexpr llvm::StringLiteral reportedKernels = R"mlir(
func.func @step(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.region pointwise(%x) : (tensor<4x4xf32>) -> tensor<4x4xbf16> {
  ^bb0(%a: tensor<4x4xf32>):
    %1 = amp.cast %a : (tensor<4x4xf32>) -> tensor<4x4xbf16> loc("fc")
    mpc.yield %1 : tensor<4x4xbf16>
  }
  %2 = mpc.region pointwise(%0) : (tensor<4x4xbf16>) -> tensor<4x4xf32> {
  ^bb0(%a: tensor<4x4xbf16>):
    %1 = amp.cast %a : (tensor<4x4xbf16>) -> tensor<4x4xf32> loc("fc#dx")
    %3 = mpc.neg %1 : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("fc#dx")
    mpc.yield %3 : tensor<4x4xf32>
  }
  return %2 : tensor<4x4xf32>
}
)mlir";

namespace {
struct DecisionReportTest : testing::Test {
  DecisionReportTest() {
    context.loadDialect<MPCDialect, amp::AMPDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(source, &context);
  }

  /// A report of @step with costs, and with kernels as the Fusion stage might
  /// form them.
  DecisionReport reportKernels() {
    auto fused = parseSourceString<ModuleOp>(reportedKernels, &context);
    EXPECT_TRUE(fused);
    DecisionReport report(*module, /*showsCosts=*/true);
    report.addCasts(KernelCasts(*fused));
    return report;
  }

  /// A report of @update.
  DecisionReport reportHostile() {
    module->lookupSymbol("step")->erase();
    return DecisionReport(*module);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};
} // namespace

/// The output of a view of the report.
template <typename Print>
static std::string capture(Print print) {
  std::string text;
  llvm::raw_string_ostream os(text);
  print(os);
  return text;
}

TEST_F(DecisionReportTest, SummaryCountsWhatTrains) {
  ASSERT_TRUE(module);
  EXPECT_EQ(DecisionReport(*module).getSummary(),
            std::vector<std::string>{
                "bf16-mixed: 1 of 2 ops low (1 of 1 contractions), loss scale "
                "none; 1 op has no fast kernel in the low type on this target, "
                "and may be slower than in float32; CPUs with AVX512-BF16 have "
                "some"});
}

TEST_F(DecisionReportTest, EveryLineOfJSONLIsARecord) {
  ASSERT_TRUE(module);
  std::string text = capture([&](auto &os) { reportKernels().printJSONL(os); });
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(text).split(lines, '\n', -1, /*KeepEmpty=*/false);
  ASSERT_EQ(lines.size(), 2u);

  auto first = llvm::json::parse(lines[0]);
  ASSERT_TRUE(static_cast<bool>(first));
  const llvm::json::Object &fc = *first->getAsObject();
  for (const char *key :
       {"schema",       "id",       "node",      "op",         "phase",
        "operands",     "results",  "compute",   "accumulate", "class",
        "rule",         "reason",   "path",      "evidence",   "casts",
        "stored_bytes", "cost_low", "cost_high", "flip",       "follows"})
    EXPECT_NE(fc.get(key), nullptr) << key;
  EXPECT_EQ(fc.getInteger("schema"), 1);
  EXPECT_EQ(fc.getString("phase"), "forward");
  EXPECT_EQ(fc.getString("compute"), "bf16");
  EXPECT_EQ(fc.getString("flip"), "--keep-fp32=^fc$");
  EXPECT_EQ(fc.getObject("evidence")->getString("kernel"), "missing");
  // The report counts casts in kernels.
  const llvm::json::Object &casts = *fc.getObject("casts");
  EXPECT_EQ(casts.getInteger("weights"), 0);
  EXPECT_EQ(casts.getInteger("activations"), 1);
  EXPECT_EQ(casts.getInteger("free"), 0);
  EXPECT_EQ(casts.getInteger("kernels"), 1);
  EXPECT_EQ(casts.getInteger("bytes"), 64 + 32);
  EXPECT_EQ(fc.getObject("stored_bytes")->getInteger("bf16"), 32);
  // High costs are those of the model's types, though the operands have been
  // rounded.
  EXPECT_GT(*fc.getInteger("cost_high"), *fc.getInteger("cost_low"));

  auto second = llvm::json::parse(lines[1]);
  ASSERT_TRUE(static_cast<bool>(second));
  EXPECT_EQ(second->getAsObject()->getString("id"), "fc#dx");
  EXPECT_EQ(second->getAsObject()->getObject("casts")->getInteger("free"), 1);
  EXPECT_EQ(second->getAsObject()->getString("node"), "fc");
  EXPECT_TRUE(second->getAsObject()->get("flip")->getAsNull().has_value());
  const llvm::json::Array &sources =
      *second->getAsObject()->getObject("evidence")->getArray("sources");
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(sources[0].getAsObject()->getString("kind"), "constant");
  EXPECT_EQ(sources[0].getAsObject()->getString("name"), "c");
  EXPECT_EQ(sources[0].getAsObject()->getNumber("value"), 1e6);
  EXPECT_EQ(sources[1].getAsObject()->getNumber("rms"), 0.5);
  EXPECT_EQ(sources[1].getAsObject()->getNumber("largest"), 4.0);
  EXPECT_EQ(sources[1].getAsObject()->getBoolean("in_data"), true);
  EXPECT_TRUE(second->getAsObject()->get("follows")->getAsNull().has_value());
}

TEST_F(DecisionReportTest, EveryViewShowsTheCastsOfKernels) {
  ASSERT_TRUE(module);
  DecisionReport report = reportKernels();
  const std::vector<std::string> summary = report.getSummary();
  ASSERT_EQ(summary.size(), 2u);
  EXPECT_EQ(summary[0].find("bf16-mixed: 1 of 2 ops low (1 of 1 contractions), "
                            "2 casts (1 of activations, 1 free), 1 kernel only "
                            "casts, loss scale none"),
            0u)
      << summary[0];
  EXPECT_EQ(summary[1], "each step stores f32 64 bytes, bf16 32 bytes; casts "
                        "move 96 bytes");
  EXPECT_EQ(
      capture([&](auto &os) { report.printCounts(os); }),
      "                   compute        storage    casts\n"
      "op       ops  low      f32  bf16      f32  weights  activations  free\n"
      "matmul     1    1        0     1        1        0            1     0\n"
      "softmax    1    0        1     0        1        0            0     1\n"
      "total      2    1        1     1        2        0            1     "
      "1\n");
  EXPECT_EQ(
      capture([&](auto &os) { report.printTable(os); }),
      "node   op       phase     compute  storage  class  reason        casts  "
      "free\n"
      "fc     matmul   forward   bf16     f32      allow  allow_list        1  "
      "   0\n"
      "fc#dx  softmax  backward  f32      f32      fixed  after_denied      1  "
      "   1\n");
  const std::string reasons =
      capture([&](auto &os) { report.printReasons(os); });
  EXPECT_NE(reasons.find("casts     1 cast (1 of activations), 1 kernel only "
                         "casts; 96 bytes moved\n"
                         "  stores    bf16 32 bytes\n"),
            std::string::npos)
      << reasons;
  const std::string page =
      capture([&](auto &os) { report.printPage(os, "m"); });
  EXPECT_NE(page.find("<br>" + summary[1] + "</p>"), std::string::npos);
  EXPECT_NE(page.find("<td data-column=\"casts\">1</td><td "
                      "data-column=\"free\">0</td>"),
            std::string::npos);
  const std::string graph = capture([&](auto &os) { report.printDot(os); });
  EXPECT_NE(graph.find("\\n" + summary[1] + "\""), std::string::npos);
  EXPECT_NE(graph.find("\\nallow_list\\n1 cast (1 of activations)"),
            std::string::npos);
}

TEST_F(DecisionReportTest, CostsAreShownOnRequest) {
  ASSERT_TRUE(module);
  for (bool isShown : {false, true}) {
    DecisionReport report(*module, /*showsCosts=*/isShown);
    for (const std::string &text :
         {capture([&](auto &os) { report.printJSONL(os); }),
          capture([&](auto &os) { report.printReasons(os); }),
          capture([&](auto &os) { report.printPage(os, "m"); })})
      EXPECT_EQ(llvm::StringRef(text).contains("\"cost_low\"") ||
                    llvm::StringRef(text).contains(" ns low") ||
                    llvm::StringRef(text).contains("data-column=\"cost\">"),
                isShown)
          << text;
  }
}

TEST_F(DecisionReportTest, NoTwoOpsHaveOneId) {
  ASSERT_TRUE(module);
  DecisionReport report = reportHostile();
  std::string text = capture([&](auto &os) { report.printJSONL(os); });
  EXPECT_NE(text.find("\"id\":\"</td><script>\\\"'\xef\xbf\xbd\","),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\"id\":\"</td><script>\\\"'\xef\xbf\xbd~2\","),
            std::string::npos)
      << text;
}

TEST_F(DecisionReportTest, ANodeStandsForItsBackwardOps) {
  ASSERT_TRUE(module);
  DecisionReport report(*module);
  EXPECT_EQ(report.select({"fc"}), std::nullopt);
  std::string text = capture([&](auto &os) { report.printReasons(os); });
  EXPECT_NE(text.find("fc: matmul, forward"), std::string::npos);
  EXPECT_NE(text.find("fc#dx: softmax, backward"), std::string::npos);
  EXPECT_NE(text.find("path      exp -> fc#dx"), std::string::npos);
  EXPECT_NE(
      text.find("evidence  proved by 1e+06 of constant 'c', and input 'x' "
                "of root mean square 0.5 and largest element 4 in the "
                "data"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("impossible: a hard constraint"), std::string::npos);
}

TEST_F(DecisionReportTest, ABackwardOpStandsForItself) {
  ASSERT_TRUE(module);
  DecisionReport report(*module);
  EXPECT_EQ(report.select({"fc#dx"}), std::nullopt);
  std::string text = capture([&](auto &os) { report.printTable(os); });
  EXPECT_EQ(text, "node   op       phase     compute  storage  class  reason\n"
                  "fc#dx  softmax  backward  f32      f32      fixed  "
                  "after_denied\n");
}

TEST_F(DecisionReportTest, AnUnknownNodeSelectsNothing) {
  ASSERT_TRUE(module);
  DecisionReport report(*module);
  EXPECT_EQ(report.select({"fc", "fc9"}), "fc9");
  EXPECT_EQ(report.suggest("fc9"), std::vector<std::string>{"fc"});
  std::string text = capture([&](auto &os) { report.printTable(os); });
  EXPECT_NE(text.find("fc#dx"), std::string::npos);
}

TEST_F(DecisionReportTest, CountsAreTheSummarysByEitherType) {
  ASSERT_TRUE(module);
  std::string text =
      capture([&](auto &os) { DecisionReport(*module).printCounts(os); });
  EXPECT_EQ(text, "                   compute        storage\n"
                  "op       ops  low      f32  bf16      f32\n"
                  "matmul     1    1        0     1        1\n"
                  "softmax    1    0        1     0        1\n"
                  "total      2    1        1     1        2\n");
}

TEST_F(DecisionReportTest, TheGraphHasCastsOnItsEdges) {
  ASSERT_TRUE(module);
  std::string text =
      capture([&](auto &os) { DecisionReport(*module).printDot(os); });
  EXPECT_NE(text.find("label=\"fc\\nmatmul f32, compute bf16\\nallow_list\""),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("label=\"f32 -> bf16\""), std::string::npos) << text;
  EXPECT_EQ(text.find("amp.cast"), std::string::npos) << text;
}

TEST_F(DecisionReportTest, NamesAreTextInTheGraph) {
  ASSERT_TRUE(module);
  DecisionReport report = reportHostile();
  std::string text = capture([&](auto &os) { report.printDot(os); });
  EXPECT_NE(text.find("label=\"</td><script>\\\"'"), std::string::npos) << text;
}

TEST_F(DecisionReportTest, NamesAreTextOnThePage) {
  ASSERT_TRUE(module);
  DecisionReport report = reportHostile();
  std::string text =
      capture([&](auto &os) { report.printPage(os, "<i>&.onnx"); });
  llvm::StringRef page(text);
  EXPECT_TRUE(page.contains("<title>Precision of &lt;i&gt;&amp;.onnx</title>"));
  EXPECT_TRUE(
      page.contains("&lt;/td&gt;&lt;script&gt;&quot;&#39;\xef\xbf\xbd~2"));
  EXPECT_TRUE(page.contains("&lt;b&gt;&amp;&quot;"));
  // The page has only its own script.
  EXPECT_EQ(page.count("<script"), 1u);
  EXPECT_FALSE(page.contains("<b>"));
}

TEST_F(DecisionReportTest, ThePageRunsItsOwnScriptAlone) {
  ASSERT_TRUE(module);
  std::string text =
      capture([&](auto &os) { DecisionReport(*module).printPage(os, "m"); });
  llvm::StringRef page(text);
  auto [before, script] = page.rsplit("<script>");
  script = script.split("</script>").first;
  auto hash = llvm::SHA256::hash(llvm::arrayRefFromStringRef(script));
  EXPECT_TRUE(
      page.contains("script-src 'sha256-" + llvm::encodeBase64(hash) + "'\">"));
  EXPECT_TRUE(page.contains("default-src 'none'"));
  EXPECT_FALSE(page.contains("http:"));
  EXPECT_FALSE(page.contains("https:"));
}

// docs/precision.md lists the codes with the texts of the reports.
TEST_F(DecisionReportTest, EveryReasonIsDocumented) {
  auto docs = llvm::MemoryBuffer::getFile(MPC_DOCS "/precision.md");
  ASSERT_TRUE(static_cast<bool>(docs));
  size_t rows = 0;
  for (int i = 0; auto reason = amp::symbolizeReason(i); ++i, ++rows) {
    std::string row = ("| `" + amp::stringifyReason(*reason) + "` | " +
                       describeReason(*reason) + " |\n")
                          .str();
    EXPECT_TRUE((*docs)->getBuffer().contains(row)) << row;
  }
  EXPECT_EQ(rows, amp::getMaxEnumValForReason() + 1u);
}
