// Tests that the real cuDNN compiles plans for attention and its gradients on
// described GPUs, through the runtime's own graphs: sizes of models, strides
// into a projection, masks, biases and shared keys. Nothing runs. Skipped
// without cuDNN and NVRTC.
//
// A plan takes seconds, so most sizes are tried on one GPU, and on all GPUs
// with MPC_TEST_FULL=1.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/dnn/DNN.h"
#include "test/runtime/AttentionCase.h"
#include "test/runtime/cuda/CountedWorkspace.h"
#include "test/runtime/cuda/DescribedGPU.h"
#include "test/runtime/cuda/Emulated.h"

#include <cstdlib>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <iostream>
#include <string_view>

using namespace mpc::runtime;
using namespace mpc::runtime::cuda;
using test::AttentionCase;

/// Under AddressSanitizer: NVIDIA's libraries keep memory until the process
/// ends.
extern "C" const char *__asan_default_options() { return "detect_leaks=0"; }

namespace {

bool hasLibraries() { return !std::string_view(MPC_TEST_NVRTC_FOLDER).empty(); }

bool isFull() { return environmentHas("MPC_TEST_FULL", "1"); }

AttentionStep stepOf(const AttentionCase &c, AttentionKind kind) {
  AttentionStep step;
  static_cast<AttentionShape &>(step) = test::shapeOf(c);
  step.kind = kind;
  step.scale = c.scale;
  step.causalOffset = c.causalOffset;
  step.statistics = 0;
  if (!c.bias.empty())
    step.bias = 0;
  if (kind == AttentionKind::Gradient)
    step.dOutput = step.dQuery = step.dKey = step.dValue = 0;
  return step;
}

AttentionAddresses addressesOf(const AttentionCase &c) {
  auto *memory = reinterpret_cast<void *>(uintptr_t(1) << 20);
  AttentionAddresses addresses;
  addresses.operands.fill({c.type, memory});
  addresses.operands[static_cast<size_t>(AttentionOperand::Bias)].type =
      c.biasType;
  addresses.statistics = {DType::F32, memory};
  return addresses;
}

/// The bytes of the scores' gradients, 16 bits each.
size_t scoreBytes(const AttentionCase &c) {
  return static_cast<size_t>(2 * c.batch * c.heads * c.queries * c.keys);
}

/// Runs `body` with the real cuDNN for a described GPU, in a process of its
/// own: cuDNN looks for a driver and a GPU once.
template <typename Body>
void onGPU(const test::DescribedGPU &gpu, Body body) {
  const std::string folder = MPC_TEST_DEVICELESS_FOLDER;
  test::emulated(
      {{"MPC_CUDA_LIBRARY_PATH", folder + ":" + MPC_TEST_NVRTC_FOLDER},
       {"MPC_TEST_CAPABILITY", std::to_string(gpu.capability)},
       {"MPC_TEST_DNN_GPU", gpu.describe()}},
      [&] {
        // cuDNN finds the driver by its bare name, as it is in the process.
        ASSERT_NE(dlopen((folder + "/driver/libcuda.so.1").c_str(),
                         RTLD_NOW | RTLD_GLOBAL),
                  nullptr)
            << dlerror();
        test::CountedWorkspace counted;
        auto dnn = DNN::open(nullptr, counted.get(), gpu.capability);
        ASSERT_TRUE(dnn.ok()) << dnn.status().message();
        body(**dnn, counted.get());
      });
}

/// Expects a plan for both kinds. Prints the scratch memory of the gradient,
/// which holds the scores' gradients; sm_100 has an engine without them.
void expectPlans(const test::DescribedGPU &gpu, const char *name,
                 const AttentionCase &c, bool hasGradient = true) {
  SCOPED_TRACE(name);
  onGPU(gpu, [&](DNN &dnn, Workspace &workspace) {
    auto forward =
        dnn.prepare(stepOf(c, AttentionKind::Forward), addressesOf(c));
    EXPECT_TRUE(forward.ok()) << forward.status().message();
    EXPECT_LE(workspace.bytes(), size_t(1) << 20);
    auto gradient =
        dnn.prepare(stepOf(c, AttentionKind::Gradient), addressesOf(c));
    EXPECT_EQ(gradient.ok(), hasGradient) << gradient.status().message();
    if (!hasGradient) {
      EXPECT_NE(gradient.status().message().find("--attention products"),
                std::string::npos)
          << gradient.status().message();
      return;
    }
    std::cout << gpu.name << ", " << name << ": scratch of the gradient "
              << (workspace.bytes() >> 10) << " KiB\n";
    // Rows are padded to 256 keys and queries; heads that share keys need sums
    // for each head.
    auto pad = [](int64_t tokens) { return (tokens + 255) / 256 * 256; };
    AttentionCase padded = c;
    padded.queries = pad(c.queries);
    padded.keys = pad(c.keys);
    EXPECT_LE(workspace.bytes(), 2 * scoreBytes(padded) + (size_t(1) << 20));
    if (gpu.capability / 10 != 10) {
      EXPECT_GE(workspace.bytes(), scoreBytes(c));
    }
  });
}

/// GPT-2 124M, with a batch of 16.
AttentionCase gpt2() {
  AttentionCase c;
  c.batch = 16;
  c.heads = c.keyHeads = 12;
  c.queries = c.keys = 512;
  c.size = c.columns = 64;
  c.causalOffset = 0;
  c.isJoined = true;
  return c;
}

class DNNAttention : public testing::TestWithParam<test::DescribedGPU> {
protected:
  void SetUp() override {
    if (!hasLibraries())
      GTEST_SKIP() << "this machine has no libcudnn.so.9 with NVRTC";
  }
};

TEST_P(DNNAttention, CompilesThatOfGPT2) {
  expectPlans(GetParam(), "GPT-2", gpt2());
}

/// The sizes of the other models, each on one GPU unless all are asked for.
TEST_P(DNNAttention, CompilesThoseOfOtherModels) {
  const bool isChosen = GetParam().capability == 90;
  if (!isChosen && !isFull())
    GTEST_SKIP() << "MPC_TEST_FULL=1 tries all sizes on this GPU";
  AttentionCase c = gpt2();
  c.causalOffset.reset();
  c.batch = 64;
  c.queries = c.keys = 197;
  expectPlans(GetParam(), "ViT-B/16", c);
  c = gpt2();
  c.causalOffset.reset();
  c.batch = 32;
  c.bias = {32, 1, 1, 512};
  expectPlans(GetParam(), "BERT with a mask of keys", c);
  c = gpt2();
  c.isJoined = false;
  c.batch = 1;
  c.heads = 32;
  c.keyHeads = 8;
  c.queries = c.keys = 2048;
  c.size = c.columns = 128;
  expectPlans(GetParam(), "32 heads over 8", c);
}

TEST_P(DNNAttention, CompilesOddSizes) {
  if (!isFull())
    GTEST_SKIP() << "MPC_TEST_FULL=1 tries more sizes";
  AttentionCase c = gpt2();
  c.type = DType::F16;
  expectPlans(GetParam(), "f16", c);
  c.isJoined = false;
  c.headsFirst = true;
  expectPlans(GetParam(), "heads before tokens", c);
  c = gpt2();
  c.causalOffset.reset();
  expectPlans(GetParam(), "BERT", c);
  for (const Shape &bias : std::initializer_list<Shape>{
           {1, 1, 512, 512}, {16, 12, 512, 512}, {1, 12, 512, 512}})
    for (DType type : {DType::F32, DType::BF16}) {
      c.bias = bias;
      c.biasType = type;
      expectPlans(GetParam(), "a bias", c);
    }
  c = AttentionCase();
  c.batch = c.heads = c.keyHeads = c.queries = c.keys = 8;
  expectPlans(GetParam(), "8 x 8 x 8 x 8", c);
  c.size = c.columns = 40;
  expectPlans(GetParam(), "40 columns", c);
  c.queries = 64;
  c.keys = 128;
  expectPlans(GetParam(), "more keys than queries", c);
  c.causalOffset = 64;
  expectPlans(GetParam(), "the last keys", c);
  c = gpt2();
  c.size = c.columns = 256;
  expectPlans(GetParam(), "256 columns", c, GetParam().capability == 90);
}

INSTANTIATE_TEST_SUITE_P(
    , DNNAttention,
    testing::Values(test::kSM80, test::kSM89, test::kSM90, test::kSM100,
                    test::kSM120),
    [](const testing::TestParamInfo<test::DescribedGPU> &info) {
      return info.param.name;
    });

/// Negative control: the test's cuDNN does not accept any graph.
TEST(DNNAttentionGraph, IsRefusedWithoutADriver) {
  if (!hasLibraries())
    GTEST_SKIP() << "this machine has no libcudnn.so.9 with NVRTC";
  const std::string folder = MPC_TEST_DEVICELESS_FOLDER;
  const test::DescribedGPU gpu = test::kSM90;
  test::emulated(
      {{"MPC_CUDA_LIBRARY_PATH", folder + ":" + MPC_TEST_NVRTC_FOLDER},
       {"MPC_TEST_DNN_GPU", gpu.describe()}},
      [&] {
        if (void *driver = dlopen("libcuda.so.1", RTLD_NOW)) {
          dlclose(driver);
          return; // the machine has a driver, so there is nothing to refuse
        }
        test::CountedWorkspace counted;
        auto dnn = DNN::open(nullptr, counted.get(), gpu.capability);
        ASSERT_TRUE(dnn.ok()) << dnn.status().message();
        const AttentionCase c = gpt2();
        auto forward =
            (*dnn)->prepare(stepOf(c, AttentionKind::Forward), addressesOf(c));
        ASSERT_FALSE(forward.ok());
        EXPECT_NE(
            forward.status().message().find(
                "no deterministic engine for attention of bf16, batch 16"),
            std::string::npos)
            << forward.status().message();
      });
}

} // namespace
