// Runs matrix products and convolutions by a provider, without an artifact.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_CPU_RUNCONTRACTION_H
#define MPC_TEST_RUNTIME_CPU_RUNCONTRACTION_H

#include "runtime/cpu/CPUFeatures.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"
#include "test/runtime/ConvCase.h"
#include "test/runtime/MatMulCase.h"

#include <cstdlib>
#include <memory>

namespace mpc::runtime::test {

/// The step of a case, for a direct call of a provider.
inline MatMulStep stepOf(const MatMul &matmul) {
  const MatMulCase &c = matmul.c;
  MatMulStep step;
  step.c = 2;
  step.batch = c.batch;
  step.m = c.m;
  step.n = c.n;
  step.k = c.k;
  step.alpha = c.alpha;
  step.transA = c.transA;
  step.transB = c.transB;
  step.lda = matmul.lda;
  step.ldb = matmul.ldb;
  step.ldc = c.n;
  step.strideA = matmul.rowsA * matmul.lda;
  step.strideB = c.repeatB ? 0 : matmul.rowsB * matmul.ldb;
  step.strideC = c.m * c.n;
  step.tileM = c.tileM;
  step.tileN = c.tileN;
  return step;
}

inline ConvStep stepOf(const Conv &conv, ConvKind kind) {
  const ConvCase &c = conv.c;
  ConvStep step;
  step.kind = kind;
  step.batch = c.batch;
  step.groups = c.groups;
  step.inChannels = c.inChannels;
  step.outChannels = c.outChannels;
  step.inSpatial = c.inSpatial;
  step.outSpatial = conv.outSpatial;
  step.kernel = c.kernel;
  step.strides = c.strides;
  step.dilations = c.dilations;
  step.padsBegin = c.padsBegin;
  step.padsEnd = c.padsEnd;
  return step;
}

inline Operand operandOf(const Tensor &tensor) {
  return {tensor.type, const_cast<std::byte *>(tensor.bytes.data())};
}

inline MatMulOperands operandsOf(const MatMul &matmul, const Tensor &result) {
  return {operandOf(matmul.a), operandOf(matmul.b), operandOf(result), {}};
}

inline ConvOperands operandsOf(const Conv &conv, ConvKind kind,
                               const Tensor &result) {
  ConvOperands operands{
      operandOf(conv.x), operandOf(conv.w), operandOf(conv.y), {}};
  (kind == ConvKind::Forward ? operands.y : operands.x) = operandOf(result);
  return operands;
}

/// Runs every slice of every phase, the last first and by two workers in turn:
/// the result must depend on neither. Returns the number of phases.
inline size_t runAll(Contraction &contraction) {
  const size_t phases = contraction.phases().size();
  constexpr size_t kAlignment = 64;
  auto room = [](size_t bytes) {
    bytes = (bytes + kAlignment) & ~(kAlignment - 1);
    return std::unique_ptr<void, decltype(&std::free)>(
        std::aligned_alloc(kAlignment, bytes), &std::free);
  };
  auto shared = room(contraction.sharedBytes());
  decltype(shared) scratch[] = {room(contraction.scratchBytes()),
                                room(contraction.scratchBytes())};
  for (size_t phase = 0; phase < phases; ++phase)
    for (int64_t slice = contraction.phases()[phase]; slice-- > 0;) {
      const int worker = static_cast<int>(slice % 2);
      Status status = contraction.runSlice(
          phase, slice,
          {worker, static_cast<std::byte *>(shared.get()),
           static_cast<std::byte *>(scratch[worker].get())});
      EXPECT_TRUE(status.ok()) << status.message();
    }
  return phases;
}

/// An epilogue that adds its input to the buffer in argument 1. Argument 2 is
/// the buffer's number of columns.
inline void addToBuffer(void *const *args, int64_t rowBegin, int64_t rowEnd,
                        int64_t columnBegin, int64_t columnEnd,
                        int64_t leading) {
  const auto *sums = static_cast<const float *>(args[0]);
  auto *buffer = static_cast<float *>(args[1]);
  const int64_t columns = *static_cast<const int64_t *>(args[2]);
  for (int64_t i = rowBegin; i < rowEnd; ++i)
    for (int64_t j = columnBegin; j < columnEnd; ++j)
      buffer[i * columns + j] +=
          sums[(i - rowBegin) * leading + (j - columnBegin)];
}

inline Tensor emptyResult(const MatMul &matmul) {
  const MatMulCase &c = matmul.c;
  return Tensor::zeros(c.c, {c.batch, c.m, c.n});
}

/// Tests contractions by AMX's tile registers if the parameter is true, which
/// needs a CPU with AMX, and else by other instructions.
class OnTiles : public testing::TestWithParam<bool> {
protected:
  void SetUp() override {
    if (!GetParam())
      return;
    if (!hostHasFeature("amx-bf16") || !requestAMXPermission().ok())
      GTEST_SKIP() << "the CPU has no AMX";
  }
  OneDNNConfig configOf(int workers) const {
    OneDNNConfig config;
    config.workers = workers;
    config.hasAMX = GetParam();
    config.emulatesAMX = true;
    return config;
  }
};

/// "AMX" or "Portable".
inline std::string nameOfTiles(const testing::TestParamInfo<bool> &param) {
  return param.param ? "AMX" : "Portable";
}

} // namespace mpc::runtime::test

#endif // MPC_TEST_RUNTIME_CPU_RUNCONTRACTION_H
