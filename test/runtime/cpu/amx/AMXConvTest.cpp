// Tests convolutions by tile registers: with AMX if the CPU has it, and on
// every CPU with a portable substitute.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/ConvCase.h"
#include "test/runtime/cpu/RunContraction.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

class AMXConv : public OnTiles {
protected:
  std::unique_ptr<Contraction> prepare(const Conv &conv, ConvKind kind,
                                       ConvOperands &operands) const {
    return prepareAMXConv(stepOf(conv, kind), operands, configOf(2));
  }
  Tensor run(const Conv &conv, ConvKind kind) const {
    Tensor result = Tensor::zeros(
        conv.c.result, kind == ConvKind::Forward ? conv.yShape : conv.xShape);
    ConvOperands operands = operandsOf(conv, kind, result);
    auto made = prepare(conv, kind, operands);
    EXPECT_TRUE(made);
    if (made)
      runAll(*made);
    return result;
  }
  void expectBothCorrect(ConvCase c) const {
    for (DType type : {DType::F32, DType::F16}) {
      SCOPED_TRACE(nameOf(type));
      c.type = c.result = type;
      Conv conv(c);
      expectClose(run(conv, ConvKind::Forward), conv.reference("forward"));
      expectClose(run(conv, ConvKind::InputGrad), conv.reference("input_grad"));
    }
  }
};

TEST_P(AMXConv, ImagesWithZerosAround) {
  expectBothCorrect(
      {3, 1, 32, 64, {9, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
}

/// Rows longer than a panel, in bands, and several groups of channels.
TEST_P(AMXConv, BandsOfLargeImages) {
  expectBothCorrect(
      {1, 1, 160, 64, {21, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
}

/// A gradient's padding differs on each side.
TEST_P(AMXConv, DilationsAndUnevenZeros) {
  expectBothCorrect(
      {2, 1, 32, 32, {11, 10}, {3, 2}, {1, 1}, {2, 3}, {0, 1}, {3, 2}});
  expectBothCorrect(
      {2, 1, 64, 32, {5, 6}, {2, 3}, {1, 1}, {1, 1}, {3, 0}, {0, 4}});
  expectBothCorrect(
      {2, 1, 32, 96, {6, 6}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}});
}

TEST_P(AMXConv, OneDimension) {
  expectBothCorrect({3, 1, 32, 32, {70}, {5}, {1}, {1}, {2}, {2}});
}

/// A slice covers several images. The last slice covers fewer.
TEST_P(AMXConv, BatchesThatDoNotDivide) {
  expectBothCorrect(
      {37, 1, 32, 32, {4, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
}

/// Infinite, huge and tiny pixels and filters are not sums of terms. Products
/// with them are computed in f32 and leave all others unaffected.
TEST_P(AMXConv, ElementsWithoutTerms) {
  const float infinity = std::numeric_limits<float>::infinity();
  ConvCase c{2, 1, 64, 32, {8, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  Conv plain(c), changed(c);
  auto set = [](const Tensor &tensor, size_t element, float value) {
    std::memcpy(const_cast<std::byte *>(tensor.bytes.data()) + element * 4,
                &value, 4);
  };
  // A pixel of the first image, one of the second, and a filter.
  set(changed.x, 20 * 64 + 5, infinity);
  set(changed.x, (72 + 40) * 64 + 60, 1e37f);
  set(changed.w, (7 * 64 + 3) * 9 + 4, 0x1p-120f);
  const std::vector<double> before = toDoubles(run(plain, ConvKind::Forward));
  const std::vector<double> after = toDoubles(run(changed, ConvKind::Forward));
  int64_t infinite = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const size_t pixel = i / 32 % 72, image = i / 32 / 72, filter = i % 32;
    // Pixels of the result that depend on a changed pixel: its neighbours.
    const size_t centre = image == 0 ? 20 : 40;
    const bool meets = std::abs(int(pixel / 9) - int(centre / 9)) <= 1 &&
                       std::abs(int(pixel % 9) - int(centre % 9)) <= 1;
    if (meets) {
      infinite += std::isinf(after[i]);
      EXPECT_FALSE(std::isnan(after[i])) << i;
    } else if (filter != 7) {
      ASSERT_NEAR(after[i], before[i], 1e-4) << i;
    } else {
      ASSERT_NEAR(after[i], before[i], 4.0) << i;
    }
  }
  EXPECT_EQ(infinite, 9 * 32);
}

TEST_P(AMXConv, EpilogueSeesEveryElementOnce) {
  Conv conv({3, 1, 32, 40, {9, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
  Tensor result = Tensor::zeros(DType::F32, conv.yShape);
  int64_t columns = conv.c.outChannels;
  ConvOperands operands = operandsOf(conv, ConvKind::Forward, result);
  operands.epilogue.function = addToBuffer;
  operands.epilogue.args = {result.bytes.data(), &columns};
  auto made = prepare(conv, ConvKind::Forward, operands);
  ASSERT_TRUE(made);
  runAll(*made);
  expectClose(result, conv.reference("forward"));
}

/// AMX leaves other convolutions to the library and does not touch their
/// operands.
TEST_P(AMXConv, LeavesOthersToTheLibrary) {
  const ConvCase fits{1,      1,      32,     32,     {6, 6},
                      {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  ConvCase strided = fits, grouped = fits, narrow = fits, low = fits;
  strided.strides = {2, 1};
  grouped.groups = 2;
  narrow.inChannels = 16;
  low.type = DType::BF16;
  for (const ConvCase &c : {strided, grouped, narrow, low}) {
    Conv conv(c);
    Tensor result = Tensor::zeros(DType::F32, conv.yShape);
    ConvOperands operands = operandsOf(conv, ConvKind::Forward, result);
    EXPECT_FALSE(prepare(conv, ConvKind::Forward, operands));
    EXPECT_EQ(operands.x.data, conv.x.bytes.data());
  }
  Conv conv(fits);
  ConvOperands operands = operandsOf(conv, ConvKind::Forward, conv.y);
  EXPECT_FALSE(prepare(conv, ConvKind::WeightGrad, operands));
}

INSTANTIATE_TEST_SUITE_P(Kernels, AMXConv, testing::Bool(), nameOfTiles);

} // namespace
