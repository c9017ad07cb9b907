// Convolutions and their gradients on an emulated GPU against float64 loops:
// what the device tells cuDNN, which refuses what the real one would, gives the
// result that the plan describes.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/DNNABI.h"
#include "test/runtime/ConvCase.h"
#include "test/runtime/cuda/Emulated.h"

#include <fstream>
#include <iterator>

using namespace mpc::runtime;
using namespace mpc::runtime::test;
using mpc::runtime::cuda::DNNStatus;

namespace {

/// An artifact of one step, with the result as output `result`.
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

/// Every call of the library fails once. Some failures mean that an engine
/// cannot do it, and another is taken; none ends the process.
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

std::string textOf(const std::string &path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(CUDAConv, LogsTheEngineOfEachStep) {
  std::string log = newLogFile();
  emulated({{"MPC_CUDA_LOG", log}}, [] { expectCorrect(small(DType::BF16)); });
  std::string text = textOf(log);
  for (const char *kind :
       {"the forward convolution", "input gradient", "weight gradient"})
    EXPECT_NE(text.find(kind), std::string::npos) << text;
  EXPECT_NE(text.find("cuDNN engine 1, notes 0, workspace 1048576 bytes"),
            std::string::npos)
      << text;
}

/// A later version of the library says more of its engines.
TEST(CUDAConv, TakesEnginesWithNotesItDoesNotKnow) {
  std::string log = newLogFile();
  emulated({{"MPC_CUDA_LOG", log}, {"MPC_EMULATOR_NOTE", "99"}},
           [] { expectCorrect(small(DType::BF16)); });
  EXPECT_NE(textOf(log).find("does not know, 99"), std::string::npos);
}

/// The negative control: a known note that breaks a promise is not passed over.
TEST(CUDAConv, PassesOverEnginesThatBreakAPromise) {
  std::string log = newLogFile();
  emulated({{"MPC_CUDA_LOG", log}, {"MPC_EMULATOR_NOTE", "4"}},
           [] { expectCorrect(small(DType::BF16)); });
  std::string text = textOf(log);
  EXPECT_EQ(text.find("engine 1,"), std::string::npos) << text;
  EXPECT_NE(text.find("engine 0, notes none"), std::string::npos) << text;
}

} // namespace
