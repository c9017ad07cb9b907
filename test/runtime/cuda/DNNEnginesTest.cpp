// Tests that the real cuDNN has engines for the convolutions of plans, on
// described GPUs: descriptors, numerical promises and plans, without a GPU.
// Skipped without cuDNN.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/dnn/DNN.h"
#include "test/runtime/cuda/CountedWorkspace.h"
#include "test/runtime/cuda/DescribedGPU.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <string_view>

using namespace mpc::runtime;
using namespace mpc::runtime::cuda;

/// Under AddressSanitizer: NVIDIA's libraries keep memory until the process
/// ends.
extern "C" const char *__asan_default_options() { return "detect_leaks=0"; }

namespace {

constexpr test::DescribedGPU kGPUs[] = {test::kSM80, test::kSM90};

class DNNEngines : public testing::TestWithParam<test::DescribedGPU> {
protected:
  void SetUp() override {
    if (std::string_view(MPC_TEST_DEVICELESS_FOLDER).empty())
      GTEST_SKIP() << "this machine has no libcudnn.so.9";
    const test::DescribedGPU &gpu = GetParam();
    setenv("MPC_TEST_DNN_GPU", gpu.describe().c_str(), 1);
    setenv("MPC_CUDA_LIBRARY_PATH", MPC_TEST_DEVICELESS_FOLDER, 1);
    auto opened = DNN::open(nullptr, counted.get(), gpu.capability);
    unsetenv("MPC_CUDA_LIBRARY_PATH");
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    dnn = std::move(*opened);
  }

  /// A square convolution whose padding keeps its extent at stride 1.
  static ConvStep square(int64_t batch, int64_t extent, int64_t in, int64_t out,
                         int64_t window, int64_t stride = 1,
                         int64_t groups = 1) {
    ConvStep step;
    int64_t pad = window / 2;
    step.filterLayout = FilterLayout::OHWI;
    step.batch = batch;
    step.groups = groups;
    step.inChannels = in;
    step.outChannels = out;
    step.inSpatial = {extent, extent};
    int64_t result = (extent + 2 * pad - window) / stride + 1;
    step.outSpatial = {result, result};
    step.kernel = {window, window};
    step.strides = {stride, stride};
    step.dilations = {1, 1};
    step.padsBegin = step.padsEnd = {pad, pad};
    return step;
  }

  /// Expects engines for all three kinds of a convolution.
  void expectEngines(ConvStep step, DType type,
                     Compute compute = Compute::F32) {
    step.compute = compute;
    auto *memory = reinterpret_cast<void *>(uintptr_t(1) << 20);
    for (ConvKind kind :
         {ConvKind::Forward, ConvKind::InputGrad, ConvKind::WeightGrad}) {
      step.kind = kind;
      DeviceOperand operand{type, memory};
      auto prepared = dnn->prepare(step, {operand, operand, operand});
      EXPECT_TRUE(prepared.ok()) << prepared.status().message();
    }
  }

  test::CountedWorkspace counted;
  std::unique_ptr<DNN> dnn;
};

TEST_P(DNNEngines, convolveInEveryType) {
  ConvStep step = square(8, 28, 64, 64, 3);
  expectEngines(step, DType::F32);
  expectEngines(step, DType::F32, Compute::TF32);
  expectEngines(step, DType::F16);
  expectEngines(step, DType::BF16);
  expectEngines(step, DType::F64, Compute::F64);
}

/// Therefore plans for a GPU give all operands of a convolution one type. If
/// this fails with a later cuDNN, they need no more casts.
TEST_P(DNNEngines, refuseWiderResultsByName) {
  ConvStep step = square(8, 28, 64, 64, 3);
  auto *memory = reinterpret_cast<void *>(uintptr_t(1) << 20);
  auto prepared = dnn->prepare(
      step,
      {{DType::BF16, memory}, {DType::BF16, memory}, {DType::F32, memory}});
  ASSERT_FALSE(prepared.ok());
  EXPECT_EQ(prepared.status().getCode(), StatusCode::Device);
  EXPECT_NE(prepared.status().message().find(
                "no deterministic engine for the forward convolution of x bf16 "
                "8x64x28x28, w bf16 64x64x3x3, y f32 8x64x28x28"),
            std::string::npos)
      << prepared.status().message();
}

TEST_P(DNNEngines, convolveTheFirstLayersOfNetworks) {
  for (DType type : {DType::F32, DType::F16, DType::BF16}) {
    expectEngines(square(16, 28, 1, 6, 5), type);     // LeNet
    expectEngines(square(8, 224, 3, 64, 7, 2), type); // ResNet
    expectEngines(square(8, 32, 3, 16, 3), type);     // small ResNet
    expectEngines(square(8, 14, 6, 16, 5), type);     // LeNet's second
    expectEngines(square(8, 8, 1, 32, 3), type);      // of digits
  }
}

/// An engine without notes was found to compute LeNet's first convolution in
/// tf32. There are other engines for it.
TEST_P(DNNEngines, areMoreThanOneInFloat32) {
  ConvStep step = square(32, 32, 1, 6, 5);
  step.padsBegin = step.padsEnd = {0, 0};
  step.outSpatial = {28, 28};
  auto *memory = reinterpret_cast<void *>(uintptr_t(1) << 20);
  const DeviceOperand operand{DType::F32, memory};
  for (ConvKind kind :
       {ConvKind::Forward, ConvKind::InputGrad, ConvKind::WeightGrad}) {
    step.kind = kind;
    test::CountedWorkspace::roundedProducts = 1;
    auto prepared = dnn->prepare(step, {operand, operand, operand});
    EXPECT_TRUE(prepared.ok()) << prepared.status().message();
    EXPECT_EQ(test::CountedWorkspace::roundedProducts, 0);
  }
}

TEST_P(DNNEngines, areRefusedWhereAllRound) {
  ConvStep step = square(8, 28, 64, 64, 3);
  auto *memory = reinterpret_cast<void *>(uintptr_t(1) << 20);
  const DeviceOperand operand{DType::F32, memory};
  test::CountedWorkspace::roundedProducts = 1000;
  auto prepared = dnn->prepare(step, {operand, operand, operand});
  EXPECT_LT(test::CountedWorkspace::roundedProducts, 1000);
  test::CountedWorkspace::roundedProducts = 0;
  ASSERT_FALSE(prepared.ok());
  EXPECT_EQ(prepared.status().getCode(), StatusCode::Device);
  EXPECT_NE(prepared.status().message().find("would round their operands"),
            std::string::npos)
      << prepared.status().message();
}

TEST_P(DNNEngines, convolveWithStrideAndOnePixel) {
  for (DType type : {DType::F32, DType::F16, DType::BF16}) {
    expectEngines(square(8, 32, 16, 32, 3, 2), type);
    expectEngines(square(8, 32, 16, 32, 1, 2), type);
  }
}

TEST_P(DNNEngines, takeFiltersAsONNXHasThem) {
  ConvStep step = square(8, 28, 64, 64, 3);
  step.filterLayout = FilterLayout::OIHW;
  for (DType type : {DType::F32, DType::F16, DType::BF16})
    expectEngines(step, type);
}

TEST_P(DNNEngines, convolveGroups) {
  for (DType type : {DType::F32, DType::F16, DType::BF16}) {
    expectEngines(square(8, 28, 64, 64, 3, 1, 4), type);
    expectEngines(square(8, 28, 64, 64, 3, 1, 64), type);
  }
}

TEST_P(DNNEngines, convolveInOneAndThreeDimensions) {
  ConvStep line = square(8, 28, 64, 64, 3);
  for (auto list : {&ConvStep::inSpatial, &ConvStep::outSpatial,
                    &ConvStep::kernel, &ConvStep::strides, &ConvStep::dilations,
                    &ConvStep::padsBegin, &ConvStep::padsEnd})
    (line.*list).pop_back();
  ConvStep volume = square(2, 16, 16, 16, 3);
  for (auto list : {&ConvStep::inSpatial, &ConvStep::outSpatial,
                    &ConvStep::kernel, &ConvStep::strides, &ConvStep::dilations,
                    &ConvStep::padsBegin, &ConvStep::padsEnd})
    (volume.*list).push_back((volume.*list)[0]);
  for (DType type : {DType::F32, DType::F16, DType::BF16}) {
    expectEngines(line, type);
    expectEngines(volume, type);
  }
}

TEST_P(DNNEngines, convolveWithUnevenPadding) {
  ConvStep step = square(8, 28, 64, 64, 3, 2);
  step.padsBegin = {0, 0};
  expectEngines(step, DType::BF16);
  expectEngines(step, DType::F32);
}

INSTANTIATE_TEST_SUITE_P(
    , DNNEngines, testing::ValuesIn(kGPUs),
    [](const testing::TestParamInfo<test::DescribedGPU> &info) {
      return info.param.name;
    });

} // namespace
