// Tests convolutions and their gradients on an emulated GPU against float64
// loops. The device's calls of cuDNN must give the plan's result. The emulated
// cuDNN refuses what the real one would.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/dnn/DNNABI.h"
#include "test/runtime/ConvCase.h"
#include "test/runtime/cuda/Emulated.h"

#include <algorithm>
#include <cmath>

using namespace mpc::runtime;
using namespace mpc::runtime::test;
using mpc::runtime::cuda::DNNStatus;

namespace {

/// An artifact of one step, whose result is the output `result`.
ArtifactBuilder artifact(const Conv &conv, const std::string &kind) {
  ArtifactBuilder builder;
  builder.forGPU("sm_80", ".version 8.0\n.target sm_80\n.address_size 64\n");
  FunctionBuilder f = builder.function("step");
  conv.addTo(f, kind);
  return builder;
}

void expectCorrect(const ConvCase &c) {
  Conv conv(c);
  for (const char *kind : {"forward", "input_grad", "weight_grad"}) {
    SCOPED_TRACE(std::string(kind) + " " + std::string(nameOf(c.type)));
    auto session = openOnGPU(artifact(conv, kind));
    ASSERT_TRUE(session);
    for (int i = 0; i < 3; ++i) { // eager, recorded, replayed
      Status status = session->run("step");
      ASSERT_TRUE(status.ok()) << status.message();
    }
    auto result = session->output("step", "result");
    ASSERT_TRUE(result.ok()) << result.status().message();
    expectClose(*result, conv.reference(kind));
  }
}

ConvCase onGPU(ConvCase c) {
  c.filterLayout = "OHWI";
  return c;
}

ConvCase small(DType type) {
  return onGPU(
      {2, 1, 3, 8, {7, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, type, type});
}

TEST(CUDAConv, ConvolvesInEveryType) {
  emulated({}, [] {
    for (DType type : {DType::F32, DType::F16, DType::BF16})
      expectCorrect(small(type));
    ConvCase wide = small(DType::F64);
    wide.compute = "f64";
    expectCorrect(wide);
  });
}

TEST(CUDAConv, HasStridesDilationsAndUnevenPadding) {
  emulated({}, [] {
    ConvCase c = small(DType::F32);
    c.strides = {2, 3};
    c.dilations = {2, 1};
    c.padsBegin = {0, 2};
    c.padsEnd = {1, 1};
    expectCorrect(c);
  });
}

TEST(CUDAConv, ConvolvesGroups) {
  emulated({}, [] {
    ConvCase c = small(DType::F32);
    c.groups = 4;
    c.inChannels = 8;
    expectCorrect(c);
    c.groups = 8; // depthwise
    expectCorrect(c);
  });
}

TEST(CUDAConv, ConvolvesInOneAndThreeDimensions) {
  emulated({}, [] {
    expectCorrect(onGPU({2, 1, 3, 4, {9}, {3}, {2}, {1}, {1}, {0}}));
    expectCorrect(onGPU({2,
                         1,
                         3,
                         4,
                         {4, 5, 3},
                         {3, 2, 1},
                         {1, 1, 1},
                         {1, 1, 1},
                         {1, 0, 0},
                         {1, 1, 0}}));
  });
}

TEST(CUDAConv, NamesTheConvolutionWithoutAnEngine) {
  emulated({{"MPC_EMULATOR_FAULT", "cudnnBackendFinalize:7+=3000"}}, [] {
    expectMessage(
        tryOpenOnGPU(artifact(Conv(small(DType::F32)), "weight_grad")),
        StatusCode::Device,
        {"'conv1' in function 'step'", "no deterministic engine",
         "the convolution's weight gradient of x f32 2x3x7x6, w f32 8x3x3x3, "
         "y f32 2x8x7x6",
         "--device cpu"});
  });
}

/// Every call of the library fails once. Some failures mean that an engine does
/// not support the step, and another engine is taken. None ends the process.
TEST(CUDAConv, SurvivesTheFailureOfAnyCall) {
  auto train = [] {
    SessionOptions options;
    options.device = "cuda";
    auto session = Session::create(
        artifact(Conv(small(DType::F32)), "forward").open(), options);
    if (!session.ok())
      return session.status();
    for (int i = 0; i < 2; ++i)
      if (Status status = (*session)->run("step"); !status.ok())
        return status;
    return (*session)->output("step", "result").status();
  };
#define MPC_FAULT(result, member, symbol, ...)                                 \
  if (std::is_same_v<result, DNNStatus>)                                       \
    for (int which : {1, 2, 3, 6, 12, 24})                                     \
      emulated(                                                                \
          {{"MPC_EMULATOR_FAULT",                                              \
            std::string(#symbol ":") + std::to_string(which) + "=4000"}},      \
          [&] {                                                                \
            Status status = train();                                           \
            EXPECT_TRUE(status.ok() || status.getCode() == StatusCode::Device) \
                << #symbol << ": " << status.message();                        \
            bool first = which == 1 && std::string(#symbol).find("estroy") ==  \
                                           std::string::npos;                  \
            EXPECT_TRUE(!first || !status.ok()) << #symbol;                    \
          });
  MPC_CUDA_DNN_FUNCTIONS(MPC_FAULT)
#undef MPC_FAULT
}

//===----------------------------------------------------------------------===//
// Engines
//===----------------------------------------------------------------------===//

TEST(CUDAConv, LogsTheEngineOfEachStep) {
  std::string log = newLogFile();
  emulated({{"MPC_CUDA_LOG", log}}, [] { expectCorrect(small(DType::BF16)); });
  std::string text = readText(log);
  for (const char *kind :
       {"the forward convolution", "input gradient", "weight gradient"})
    EXPECT_NE(text.find(kind), std::string::npos) << text;
  EXPECT_NE(text.find("cuDNN engine 1, notes 0, workspace 1048576 bytes"),
            std::string::npos)
      << text;
}

/// A later version of the library has more notes on its engines.
TEST(CUDAConv, TakesEnginesWithNotesItDoesNotKnow) {
  std::string log = newLogFile();
  emulated({{"MPC_CUDA_LOG", log}, {"MPC_EMULATOR_NOTE", "99"}},
           [] { expectCorrect(small(DType::BF16)); });
  EXPECT_NE(readText(log).find("does not know, 99"), std::string::npos);
}

/// Negative control: mpc does not ignore a known note that breaks a promise.
TEST(CUDAConv, PassesOverEnginesThatBreakAPromise) {
  std::string log = newLogFile();
  emulated({{"MPC_CUDA_LOG", log}, {"MPC_EMULATOR_NOTE", "4"}},
           [] { expectCorrect(small(DType::BF16)); });
  std::string text = readText(log);
  EXPECT_EQ(text.find("engine 1,"), std::string::npos) << text;
  EXPECT_NE(text.find("engine 0, notes none"), std::string::npos) << text;
}

//===----------------------------------------------------------------------===//
// Engines that round without a note
//===----------------------------------------------------------------------===//

/// LeNet's first convolution.
ConvCase lenet() {
  return onGPU({4, 1, 1, 6, {32, 32}, {5, 5}, {1, 1}, {1, 1}, {0, 0}, {0, 0}});
}

/// The result of the step of the plan's only function.
Tensor resultOf(const ConvCase &c, const std::string &kind) {
  auto session = openOnGPU(artifact(Conv(c), kind));
  if (!session)
    return {};
  Status status = session->run("step");
  EXPECT_TRUE(status.ok()) << status.message();
  auto result = session->output("step", "result");
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *result : Tensor{};
}

/// The relative error of a whole tensor. f32 sums of thousands of products have
/// errors far below their bound.
double errorOf(const Tensor &result, const std::vector<DotProduct> &expected) {
  double off = 0, all = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    off += std::pow(result.as<float>()[i] - expected[i].value, 2);
    all += std::pow(expected[i].value, 2);
  }
  return std::sqrt(off / all);
}

/// Negative control: the emulated engine does round. Steps that allow tf32 get
/// it, and without the trial run steps in f32 would get it too.
TEST(CUDAConv, RoundsToTF32OnlyWhereAsked) {
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_ROUNDING", "1"}, {"MPC_CUDA_LOG", log}}, [] {
    for (const char *kind : {"forward", "input_grad", "weight_grad"}) {
      SCOPED_TRACE(kind);
      ConvCase c = lenet();
      std::vector<DotProduct> expected = Conv(c).reference(kind);
      EXPECT_LT(errorOf(resultOf(c, kind), expected), 1e-5);
      c.compute = "tf32";
      double rounded = errorOf(resultOf(c, kind), expected);
      EXPECT_GT(rounded, 1e-4);
      EXPECT_LT(rounded, 2e-3);
    }
  });
  std::string text = readText(log);
  EXPECT_NE(text.find("cuDNN engine 1, notes none"), std::string::npos) << text;
}

TEST(CUDAConv, PassesOverEnginesThatRoundWithoutANote) {
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_ROUNDING", "1"}, {"MPC_CUDA_LOG", log}}, [] {
    expectCorrect(lenet());
    // The first tap or the first output lies in the padding, or the filters
    // have ONNX's layout.
    ConvCase c = small(DType::F32);
    c.strides = {2, 3};
    c.dilations = {2, 1};
    c.padsBegin = {5, 2};
    c.padsEnd = {1, 7};
    expectCorrect(c);
    c.groups = 4;
    c.inChannels = 8;
    c.filterLayout = "OIHW";
    expectCorrect(c);
    expectCorrect(onGPU({2, 1, 3, 4, {9}, {3}, {2}, {1}, {1}, {0}}));
  });
  std::string text = readText(log);
  EXPECT_EQ(text.find("cuDNN engine 1, "), std::string::npos) << text;
  EXPECT_NE(text.find("cuDNN engine 1 rounds its operands: a product of f32 is "
                      "off by 4.9e-04, relative; passed over for the "
                      "convolution's weight gradient of x f32 4x1x32x32"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("cuDNN engine 0, notes none"), std::string::npos) << text;
}

TEST(CUDAConv, NamesTheConvolutionThatAllEnginesRound) {
  emulated({{"MPC_EMULATOR_ROUNDING", "0,1"}}, [] {
    expectMessage(tryOpenOnGPU(artifact(Conv(lenet()), "weight_grad")),
                  StatusCode::Device,
                  {"'conv1' in function 'step'", "no deterministic engine",
                   "the convolution's weight gradient of x f32 4x1x32x32",
                   "2 would round their operands to tf32", "--tf32",
                   "--device cpu"});
  });
}

/// No window meets an input element: every engine gives zero.
TEST(CUDAConv, TriesNoEngineWhereAllWindowsLieInThePadding) {
  emulated({{"MPC_EMULATOR_ROUNDING", "0,1"}}, [] {
    expectCorrect(
        onGPU({2, 1, 3, 4, {1, 1}, {1, 1}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}));
  });
}

/// Equal steps share one trial run, and another step has its own.
TEST(CUDAConv, TriesAnEngineOnceForEachConvolution) {
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_LOG", log}, {"MPC_EMULATOR_ROUNDING", "1"}}, [] {
    ArtifactBuilder builder;
    builder.forGPU("sm_80", ".version 8.0\n.target sm_80\n.address_size 64\n");
    FunctionBuilder f = builder.function("step");
    Conv conv(lenet());
    conv.addTo(f, "weight_grad");
    Json again = conv.step("weight_grad");
    again["name"] = "conv2";
    for (const char *name : {"x", "y"})
      again[name] = f.constant(conv.operand(name));
    again["w"] = f.arena(DType::F32, conv.operand("w").shape);
    f.step(again);
    EXPECT_TRUE(tryOpenOnGPU(builder).ok());
  });
  // Engine 1, which is rejected, and engine 0.
  EXPECT_EQ(countCalls(readLog(log), "cudnnBackendExecute"), 2u);
}

/// mpc skips an engine whose scratch memory does not fit.
TEST(CUDAConv, TakesAnEngineThatThereIsRoomFor) {
  std::string log = newLogFile();
  const ArtifactBuilder builder = artifact(Conv(small(DType::BF16)), "forward");
  emulated({{"MPC_EMULATOR_LOG", log}},
           [&] { EXPECT_TRUE(tryOpenOnGPU(builder).ok()); });
  const auto allocations = countCalls(readLog(log), "cuMemAlloc_v2");
  const std::string last = "cuMemAlloc_v2:" + std::to_string(allocations);
  log = newLogFile();
  emulated({{"MPC_CUDA_LOG", log}, {"MPC_EMULATOR_FAULT", last + "=2"}}, [&] {
    auto session = openOnGPU(builder);
    ASSERT_TRUE(session && session->run("step").ok());
    auto result = session->output("step", "result");
    ASSERT_TRUE(result.ok());
    expectClose(*result, Conv(small(DType::BF16)).reference("forward"));
  });
  const std::string choices = readText(log);
  EXPECT_NE(choices.find("engine 1 is passed over, as there is no room"),
            std::string::npos)
      << choices;
  EXPECT_NE(choices.find("cuDNN engine 0, "), std::string::npos) << choices;
  // If no engine is left, the message says what did not fit.
  emulated({{"MPC_EMULATOR_FAULT", last + "=2,cudnnBackendFinalize:9+=3000"}},
           [&] {
             expectMessage(tryOpenOnGPU(builder), StatusCode::Device,
                           {"no room for 1048576 more bytes"});
           });
}

/// Without memory for the operands, an engine cannot be tried, which is an
/// error. All allocated memory is freed.
TEST(CUDAConv, SaysThatThereIsNoMemoryToTryAnEngine) {
  std::string log = newLogFile();
  auto open = [] { return tryOpenOnGPU(artifact(Conv(lenet()), "forward")); };
  emulated({{"MPC_EMULATOR_LOG", log}}, [&] { EXPECT_TRUE(open().ok()); });
  std::vector<std::string> calls = readLog(log);
  auto run = std::find(calls.begin(), calls.end(), "cudnnBackendExecute");
  ASSERT_NE(run, calls.end());
  auto allocations = std::count(calls.begin(), run, "cuMemAlloc_v2");
  log = newLogFile();
  emulated({{"MPC_EMULATOR_LOG", log},
            {"MPC_EMULATOR_FAULT",
             "cuMemAlloc_v2:" + std::to_string(allocations) + "=2"}},
           [&] {
             expectMessage(open(), StatusCode::Device,
                           {"'conv1' in function 'step'",
                            "cannot find out whether cuDNN computes a "
                            "convolution in float32",
                            "more bytes", "--device cpu"});
           });
  for (const char *fault : {"cudnnBackendExecute:1=5000", "cuMemsetD8Async=1",
                            "cuMemcpyHtoDAsync_v2=1"}) {
    log = newLogFile();
    emulated({{"MPC_EMULATOR_LOG", log}, {"MPC_EMULATOR_FAULT", fault}},
             [&] { EXPECT_EQ(open().getCode(), StatusCode::Device) << fault; });
    calls = readLog(log);
    EXPECT_EQ(countCalls(calls, "cuMemAlloc_v2"),
              countCalls(calls, "cuMemFree_v2"))
        << fault;
  }
}

} // namespace
