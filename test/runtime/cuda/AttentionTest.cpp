// Tests attention and its gradients on an emulated GPU against float64. The
// emulated cuDNN executes the device's graphs operation by operation.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/dnn/DNNABI.h"
#include "test/runtime/AttentionCase.h"
#include "test/runtime/cpu/Reference.h"
#include "test/runtime/cuda/Emulated.h"

#include <cmath>

using namespace mpc::runtime;
using namespace mpc::runtime::test;
using mpc::runtime::cuda::DNNStatus;

namespace {

ArtifactBuilder artifact(const Attention &attention, bool hasGradient = true) {
  ArtifactBuilder builder;
  builder.forGPU("sm_80", ".version 8.0\n.target sm_80\n.address_size 64\n");
  FunctionBuilder f = builder.function("step");
  attention.addTo(f, hasGradient);
  return builder;
}

/// The norm of the difference from `expected`, relative.
double errorOf(const std::vector<double> &found,
               const std::vector<double> &expected) {
  EXPECT_EQ(found.size(), expected.size());
  if (found.size() != expected.size())
    return INFINITY;
  double off = 0, all = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    off += std::pow(found[i] - expected[i], 2);
    all += std::pow(expected[i], 2);
  }
  return std::sqrt(off / all);
}

/// The results of a third run, which replays the graph, by their names. Every
/// run must give equal bits.
std::map<std::string, Tensor> resultsOf(const Attention &attention) {
  std::map<std::string, Tensor> results;
  auto session = openOnGPU(artifact(attention));
  if (!session)
    return results;
  for (int i = 0; i < 3; ++i) {
    Status status = session->run("step");
    EXPECT_TRUE(status.ok()) << status.message();
    for (const char *name :
         {"output", "statistics", "d_query", "d_key", "d_value"}) {
      auto result = session->output("step", name);
      EXPECT_TRUE(result.ok()) << result.status().message();
      if (!result.ok())
        return {};
      if (i > 0) {
        EXPECT_EQ(results[name].bytes, result->bytes) << name << ", run " << i;
      }
      results[name] = *result;
    }
  }
  return results;
}

struct ResultErrors {
  double output, statistics, dQuery, dKey, dValue;
};

ResultErrors errorsOf(const Attention &attention,
                      const AttentionValues &expected) {
  using Operand = AttentionOperand;
  std::map<std::string, Tensor> results = resultsOf(attention);
  if (results.empty())
    return {INFINITY, INFINITY, INFINITY, INFINITY, INFINITY};
  auto error = [&](Operand operand, const std::vector<double> &values) {
    return errorOf(attention.gather(results[nameOf(operand)], operand), values);
  };
  return {error(Operand::Output, expected.output),
          errorOf(toDoubles(results["statistics"]), expected.statistics),
          error(Operand::DQuery, expected.dQuery),
          error(Operand::DKey, expected.dKey),
          error(Operand::DValue, expected.dValue)};
}

void expectCorrect(const AttentionCase &c) {
  const Attention attention(c);
  const ResultErrors errors = errorsOf(attention, attention.reference());
  // Probabilities and the output are rounded before the gradients.
  const double bound = 2 * unitRoundoff(c.type);
  EXPECT_LT(errors.output, bound);
  EXPECT_LT(errors.statistics, 1e-5);
  EXPECT_LT(errors.dQuery, bound);
  EXPECT_LT(errors.dKey, bound);
  EXPECT_LT(errors.dValue, bound);
}

AttentionCase withTokens(int64_t tokens) {
  AttentionCase c;
  c.queries = c.keys = tokens;
  return c;
}

TEST(CUDAAttention, MixesTokensInBothTypes) {
  emulated({}, [] {
    for (DType type : {DType::BF16, DType::F16})
      for (int64_t tokens : {8, 17, 40}) {
        SCOPED_TRACE(std::string(nameOf(type)) + " " + std::to_string(tokens));
        AttentionCase c = withTokens(tokens);
        c.type = type;
        expectCorrect(c);
      }
  });
}

TEST(CUDAAttention, ReadsAndWritesColumnsOfAProjection) {
  emulated({}, [] {
    AttentionCase c = withTokens(24);
    c.heads = c.keyHeads = 3;
    c.isJoined = true;
    expectCorrect(c);
    c.causalOffset = 0;
    expectCorrect(c);
  });
}

TEST(CUDAAttention, TakesHeadsBeforeTokens) {
  emulated({}, [] {
    AttentionCase c = withTokens(16);
    c.headsFirst = true;
    expectCorrect(c);
  });
}

TEST(CUDAAttention, HidesLaterTokens) {
  emulated({}, [] {
    AttentionCase c = withTokens(24);
    c.causalOffset = 0;
    expectCorrect(c);
    c.keys = 40;
    expectCorrect(c);
    c.causalOffset = 16; // the last query sees all keys
    expectCorrect(c);
    c.causalOffset = 39; // so does each query
    expectCorrect(c);
  });
}

/// Negative control: without the mask, results are far from those expected.
TEST(CUDAAttention, DiffersWithoutTheMask) {
  emulated({}, [] {
    AttentionCase c = withTokens(24);
    c.causalOffset = 0;
    const AttentionValues masked = Attention(c).reference();
    c.causalOffset.reset();
    const ResultErrors errors = errorsOf(Attention(c), masked);
    for (double error : {errors.output, errors.statistics, errors.dQuery,
                         errors.dKey, errors.dValue})
      EXPECT_GT(error, 0.1);
  });
}

TEST(CUDAAttention, SharesKeysAmongHeads) {
  emulated({}, [] {
    AttentionCase c = withTokens(16);
    c.heads = 8;
    c.keyHeads = 2;
    expectCorrect(c);
    c.causalOffset = 0;
    c.keyHeads = 1;
    expectCorrect(c);
  });
}

TEST(CUDAAttention, AddsABiasOfAnyAxes) {
  emulated({}, [] {
    for (const Shape &bias : std::initializer_list<Shape>{
             {2, 1, 1, 16}, {1, 1, 16, 16}, {1, 2, 16, 16}, {2, 2, 16, 16}})
      for (DType type : {DType::F32, DType::BF16}) {
        SCOPED_TRACE(toString(bias) + " " + std::string(nameOf(type)));
        AttentionCase c;
        c.bias = bias;
        c.biasType = type;
        expectCorrect(c);
        c.causalOffset = 0;
        expectCorrect(c);
      }
  });
}

TEST(CUDAAttention, HasValuesOfAnotherWidth) {
  emulated({}, [] {
    AttentionCase c = withTokens(16);
    c.size = 24;
    c.columns = 16;
    expectCorrect(c);
  });
}

/// An evaluation keeps no statistics.
TEST(CUDAAttention, NeedsNoStatisticsWithoutAGradient) {
  emulated({}, [] {
    const Attention attention((AttentionCase()));
    auto session = openOnGPU(artifact(attention, /*hasGradient=*/false));
    ASSERT_TRUE(session);
    Status status = session->run("step");
    ASSERT_TRUE(status.ok()) << status.message();
    auto output = session->output("step", "output");
    ASSERT_TRUE(output.ok()) << output.status().message();
    EXPECT_LT(errorOf(attention.gather(*output, AttentionOperand::Output),
                      attention.reference().output),
              2 * unitRoundoff(DType::BF16));
  });
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

/// Equal attentions share a plan, and another scale is no other plan.
TEST(CUDAAttention, CompilesOnePlanForEqualLayers) {
  std::string log = newLogFile(), choices = newLogFile();
  emulated({{"MPC_EMULATOR_LOG", log}, {"MPC_CUDA_LOG", choices}}, [] {
    ArtifactBuilder builder;
    builder.forGPU("sm_80", ".version 8.0\n.target sm_80\n.address_size 64\n");
    for (double scale : {0.5, 0.25}) {
      FunctionBuilder f = builder.function("step" + std::to_string(scale));
      AttentionCase c;
      c.scale = scale;
      Attention(c).addTo(f, /*hasGradient=*/false);
    }
    EXPECT_TRUE(tryOpenOnGPU(builder).ok());
  });
  const std::string text = readText(choices);
  const size_t first = text.find("cuDNN engine");
  EXPECT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("cuDNN engine", first + 1), std::string::npos) << text;
}

/// The emulated library's first engine for a gradient gives other bits in each
/// run, without a note.
TEST(CUDAAttention, PassesOverEnginesThatAddUpInAnyOrder) {
  std::string log = newLogFile();
  emulated({{"MPC_CUDA_LOG", log}}, [] { expectCorrect(AttentionCase()); });
  const std::string text = readText(log);
  EXPECT_NE(text.find("cuDNN engine 0 is passed over, as it adds up gradients "
                      "in any order: attention's gradient of bf16, batch 2, "
                      "heads 2 of 8 columns, 16 queries, 16 keys"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("cuDNN engine 1, notes 0, workspace 2304 bytes: "
                      "attention's gradient"),
            std::string::npos)
      << text;
}

TEST(CUDAAttention, NamesTheOrderedEngineOfSM100) {
  std::string log = newLogFile();
  emulated({{"MPC_CUDA_LOG", log}, {"MPC_EMULATOR_DEVICE", "sm_100"}},
           [] { expectCorrect(AttentionCase()); });
  EXPECT_NE(readText(log).find("cuDNN engine 5, notes 0, workspace 0 bytes: "
                               "attention's gradient"),
            std::string::npos)
      << readText(log);
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

void expectRefused(const AttentionCase &c,
                   const std::vector<std::string> &parts) {
  std::vector<std::string> all = parts;
  all.insert(all.end(), {"'attention1' in function 'step'",
                         "compile the model with --attention products"});
  expectMessage(tryOpenOnGPU(artifact(Attention(c))), StatusCode::Device, all);
}

TEST(CUDAAttention, SaysWhichAttentionItCannotCompute) {
  emulated({}, [] {
    AttentionCase c;
    c.size = c.columns = 12;
    expectRefused(c, {"cuDNN 9.19.0 cannot compute attention of bf16, batch 2, "
                      "heads 2 of 12 columns, 16 queries, 16 keys",
                      "a multiple of 8 columns"});
    c = AttentionCase();
    c.causalOffset = 3;
    expectRefused(c, {"causal from offset 3",
                      "expected a causal offset of 0 or 0, found 3"});
    c.keys = 24;
    c.causalOffset = 8;
    c.bias = {1, 1, 16, 24};
    expectRefused(c, {"a causal offset and a bias exclude each other"});
    c = AttentionCase();
    c.size = c.columns = 136;
    expectRefused(c, {"attention's gradient", "at most 128 columns"});
    c = withTokens(1);
    expectRefused(c, {"a single query and key"});
  });
}

TEST(CUDAAttention, RefusesVersionsWithKnownFaults) {
  emulated({{"MPC_EMULATOR_DNN", "91001"}}, [] {
    expectRefused(AttentionCase(),
                  {"cuDNN 9.10.1 cannot", "needs cuDNN 9.10.2 or newer"});
  });
  emulated({{"MPC_EMULATOR_DNN", "91500"}}, [] {
    expectRefused(AttentionCase(),
                  {"attention's gradient", "not a multiple of 128",
                   "needs cuDNN 9.15.1 or newer"});
  });
  emulated(
      {{"MPC_EMULATOR_DNN", "91700"}, {"MPC_EMULATOR_DEVICE", "sm_100"}}, [] {
        expectRefused(AttentionCase(), {"on sm_100 needs cuDNN 9.18 or newer"});
      });
}

/// cuDNN compiles attention with NVRTC of its own version of CUDA.
TEST(CUDAAttention, SaysThatNVRTCIsMissing) {
  emulated({{"MPC_EMULATOR_CUDART", "99000"}}, [] {
    expectMessage(tryOpenOnGPU(artifact(Attention((AttentionCase())))),
                  StatusCode::Device,
                  {"NVRTC of CUDA 99 (for attention by cuDNN 9.19.0",
                   "--attention products", "MPC_CUDA_LIBRARY_PATH",
                   "libnvrtc.so.99"});
  });
}

/// The gradient's scratch memory grows with the square of the tokens.
TEST(CUDAAttention, SaysThatThereIsNoRoomForScratchMemory) {
  std::string log = newLogFile();
  const ArtifactBuilder builder = artifact(Attention(withTokens(40)));
  emulated({{"MPC_EMULATOR_LOG", log}},
           [&] { EXPECT_TRUE(tryOpenOnGPU(builder).ok()); });
  const auto allocations = countCalls(readLog(log), "cuMemAlloc_v2");
  emulated({{"MPC_EMULATOR_FAULT",
             "cuMemAlloc_v2:" + std::to_string(allocations) + "=2"}},
           [&] {
             expectMessage(tryOpenOnGPU(builder), StatusCode::Device,
                           {"no room for 13824 more bytes",
                            "these bytes are for attention's gradient of bf16",
                            "--attention products"});
           });
}

TEST(CUDAAttention, SaysThatNoEngineTakesTheGraph) {
  emulated({{"MPC_EMULATOR_FAULT", "cudnnBackendSetAttribute:1+=3000"}}, [] {
    expectRefused(AttentionCase(), {"cannot describe an attention"});
  });
}

/// Every call of the library fails once. Some failures mean that an engine does
/// not support the step, and another engine is taken. None ends the process.
TEST(CUDAAttention, SurvivesTheFailureOfAnyCall) {
  auto train = [] {
    SessionOptions options;
    options.device = "cuda";
    AttentionCase c;
    c.causalOffset = 0;
    auto session = Session::create(artifact(Attention(c)).open(), options);
    if (!session.ok())
      return session.status();
    for (int i = 0; i < 2; ++i)
      if (Status status = (*session)->run("step"); !status.ok())
        return status;
    return (*session)->output("step", "output").status();
  };
#define MPC_FAULT(result, member, symbol, ...)                                 \
  if (std::is_same_v<result, DNNStatus>)                                       \
    for (int which : {1, 2, 12, 40, 120})                                      \
      emulated(                                                                \
          {{"MPC_EMULATOR_FAULT",                                              \
            std::string(#symbol ":") + std::to_string(which) + "=4000"}},      \
          [&] {                                                                \
            Status status = train();                                           \
            EXPECT_TRUE(status.ok() || status.getCode() == StatusCode::Device) \
                << #symbol << ": " << status.message();                        \
          });
  MPC_CUDA_DNN_FUNCTIONS(MPC_FAULT)
#undef MPC_FAULT
}

} // namespace
