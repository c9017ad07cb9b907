// Tests that the real cuBLASLt accepts the runtime's product descriptors. It
// refuses unknown attributes and wrong sizes of values. Skipped without
// cuBLASLt.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/BLASLt.h"
#include "test/runtime/cuda/CountedWorkspace.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <string_view>

using namespace mpc::runtime;
using namespace mpc::runtime::cuda;

namespace {

class BLASLtDescriptors : public testing::Test {
protected:
  void SetUp() override {
    if (std::string_view(MPC_TEST_DEVICELESS_BLASLT_FOLDER).empty())
      GTEST_SKIP() << "this machine has no libcublasLt.so.13";
    setenv("MPC_CUDA_LIBRARY_PATH", MPC_TEST_DEVICELESS_BLASLT_FOLDER, 1);
    auto opened = BLASLt::open(counted.get());
    unsetenv("MPC_CUDA_LIBRARY_PATH");
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    blas = std::move(*opened);
  }

  /// 24 x 40 x 16.
  void expectTaken(DType type, Compute compute, int64_t batch,
                   std::optional<Fused> fused = std::nullopt) {
    MatMulStep step;
    step.batch = batch;
    step.m = 24;
    step.n = step.ldb = step.ldc = 40;
    step.k = step.lda = 16;
    step.strideA = 24 * 16;
    step.strideC = 24 * 40;
    step.compute = compute;
    step.fused = fused;
    DeviceOperand operand{type, reinterpret_cast<void *>(uintptr_t(1) << 20)};
    auto prepared = blas->prepare(
        step, {operand, operand, operand, operand, operand, operand});
    EXPECT_TRUE(prepared.ok()) << prepared.status().message();
  }

  test::CountedWorkspace counted;
  std::unique_ptr<BLASLt> blas;
};

TEST_F(BLASLtDescriptors, ofTypesAndBatches) {
  for (int64_t batch : {1, 3}) {
    expectTaken(DType::F32, Compute::F32, batch);
    expectTaken(DType::F32, Compute::TF32, batch);
    expectTaken(DType::F16, Compute::F32, batch);
    expectTaken(DType::BF16, Compute::F32, batch);
    expectTaken(DType::F64, Compute::F64, batch);
  }
}

TEST_F(BLASLtDescriptors, ofEveryEpilogue) {
  using Kind = FusedKind;
  for (Kind kind : {Kind::Bias, Kind::ReluBias})
    expectTaken(DType::F32, Compute::F32, 1, Fused{kind, 0, {}, {}});
  expectTaken(DType::F32, Compute::F32, 1, Fused{Kind::ReluAuxBias, 0, 1, {}});
  expectTaken(DType::F32, Compute::F32, 1, Fused{Kind::DRelu, {}, 1, {}});
  for (Kind kind : {Kind::DReluBGrad, Kind::BGradA, Kind::BGradB})
    expectTaken(DType::F32, Compute::F32, 1, Fused{kind, {}, 1, 2});
}

/// Negative control: the library checks the number of bytes.
TEST_F(BLASLtDescriptors, ofAnotherSizeAreRefused) {
  BLASMatMul product = nullptr;
  ASSERT_EQ(blas->call.matMulCreate(&product, BLASCompute::F32, BLASType::F32),
            BLASStatus::Success);
  int64_t value = 1;
  EXPECT_NE(blas->call.matMulSetAttribute(product, BLASMatMulAttribute::TransA,
                                          &value, sizeof(value)),
            BLASStatus::Success);
  EXPECT_EQ(blas->call.matMulDestroy(product), BLASStatus::Success);
}

} // namespace
