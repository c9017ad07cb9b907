// Tests matrix products that pack their operands first, on any CPU. The
// library's reference implementation accepts an order that no fast
// implementation for a small CPU has.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/onednn/OneDNNProvider.h"
#include "test/runtime/ArtifactBuilder.h"
#include "test/runtime/cpu/RunContraction.h"

#include <array>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

/// A configuration for two workers. The library accepts its instruction limit
/// once, and the other tests' artifacts share it.
OneDNNConfig packingConfig() {
  EXPECT_TRUE(OneDNNProvider::create(testFeatures()).ok());
  OneDNNConfig config;
  config.workers = 2;
  config.packsAlways = true;
  return config;
}

Tensor run(const MatMul &matmul, size_t &phases) {
  Tensor result = emptyResult(matmul);
  auto made = prepareOneDNNMatMul(stepOf(matmul), operandsOf(matmul, result),
                                  packingConfig());
  EXPECT_TRUE(made.ok()) << made.status().message();
  if (made.ok())
    phases = runAll(**made);
  return result;
}

void expectCorrect(MatMulCase c, size_t expectedPhases) {
  SCOPED_TRACE(std::string(nameOf(c.a)) + (c.transA ? " A'" : " A") +
               (c.transB ? " B'" : " B"));
  MatMul matmul(c);
  size_t phases = 0;
  Tensor result = run(matmul, phases);
  EXPECT_EQ(phases, expectedPhases);
  expectClose(result, matmul.reference());
}

TEST(PackedMatMul, EveryTranspositionWithPaddedRows) {
  for (bool transA : {false, true})
    for (bool transB : {false, true})
      for (int64_t padding : {0, 5}) {
        MatMulCase c{70,         50,         90,     DType::F32,
                     DType::F32, DType::F32, transA, transB};
        c.padding = padding;
        c.tileM = c.tileN = 32;
        expectCorrect(c, 2);
      }
}

TEST(PackedMatMul, PacksWhatWasWidened) {
  MatMulCase c{40, 36, 70, DType::F16, DType::BF16};
  c.transA = true;
  c.tileM = c.tileN = 16;
  expectCorrect(c, 3);
}

/// Several slices along either axis transpose a left operand. The last is
/// smaller.
TEST(PackedMatMul, CutsWhatIsTurned) {
  MatMulCase c{150, 40, 1100};
  c.transA = true;
  c.tileM = 64;
  c.tileN = 32;
  expectCorrect(c, 2);
}

/// Several slices pack one panel. The last has fewer rows.
TEST(PackedMatMul, CutsLongPanels) {
  MatMulCase c{5, 70, 3000};
  c.transA = true;
  c.tileM = 3;
  c.tileN = 64;
  expectCorrect(c, 2);
}

TEST(PackedMatMul, Batches) {
  for (bool repeatB : {false, true}) {
    MatMulCase c{20, 24, 33};
    c.batch = 3;
    c.repeatB = repeatB;
    c.transA = true;
    c.tileM = c.tileN = 16;
    expectCorrect(c, 2);
  }
}

/// If one tile covers a matrix, its slice packs it: there is no packing phase.
TEST(PackedMatMul, OneTileIsPackedWhereItIsMultiplied) {
  for (bool transA : {false, true})
    for (bool transB : {false, true}) {
      MatMulCase c{70,         50,         90,     DType::F32,
                   DType::F32, DType::F32, transA, transB};
      c.batch = 3;
      c.padding = 5;
      c.tileM = 128;
      c.tileN = 64;
      expectCorrect(c, 1);
    }
}

} // namespace
