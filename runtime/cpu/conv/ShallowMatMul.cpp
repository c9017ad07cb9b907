// Computes bf16 matrix products of few terms per sum. Writing the result takes
// longer than the products. oneDNN rounds and writes such a result at half the
// speed of memory.
//
// Phase 0 packs b. A slice of phase 1 multiplies some rows of a by all columns,
// and rounds the sums in registers.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/onednn/OneDNN.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"

#include <cstring>
#include <immintrin.h>

namespace mpc::runtime {
namespace {

#define MPC_SHALLOW                                                            \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

/// Limits the terms of a sum.
constexpr int64_t kMostTerms = 8;
/// The columns whose sums become one vector of bf16.
constexpr int64_t kColumnsAtOnce = 32;
/// With fewer columns, vectors are mostly empty.
constexpr int64_t kFewestColumns = 16;
/// Approximate number of elements of the result per slice. A smaller result is
/// not worth a phase of its own to pack b.
constexpr int64_t kElementsPerSlice = 1 << 16;
/// Slices are rows, and one worker packs the right operand before. A product of
/// few rows would run on few workers, so the library computes it.
constexpr int64_t kFewestRows = 64;

/// Some rows of a product.
struct ShallowRows {
  const uint16_t *a, *packedB;
  uint16_t *c;
  int64_t rows, columns, terms;
};

/// Multiplies rows of a by b. `packedB` is [block of columns][pair of
/// terms][column][2].
template <int kPairs>
MPC_SHALLOW void multiplyRows(const ShallowRows &product) {
  const int64_t terms = product.terms, columns = product.columns;
  const uint16_t *a = product.a;
  uint16_t *c = product.c;
  for (int64_t row = 0; row < product.rows; ++row, a += terms, c += columns) {
    __m512bh left[kPairs];
    for (int pair = 0; pair < kPairs; ++pair) {
      // The element behind the last row must not be read.
      int32_t both = a[2 * pair];
      if (2 * pair + 1 < terms)
        std::memcpy(&both, a + 2 * pair, sizeof(both));
      left[pair] = reinterpret_cast<__m512bh>(_mm512_set1_epi32(both));
    }
    const uint16_t *b = product.packedB;
    for (int64_t column = 0; column < columns; column += kColumnsAtOnce) {
      __m512 sums[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
      for (__m512bh pair : left)
        for (__m512 &sum : sums) {
          sum = _mm512_dpbf16_ps(
              sum, pair, reinterpret_cast<__m512bh>(_mm512_loadu_si512(b)));
          b += kColumnsAtOnce;
        }
      const auto rounded =
          reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(sums[1], sums[0]));
      const int64_t rest = columns - column;
      if (rest >= kColumnsAtOnce)
        _mm512_storeu_si512(c + column, rounded);
      else
        _mm512_mask_storeu_epi16(c + column, (__mmask32(1) << rest) - 1,
                                 rounded);
    }
  }
}

class ShallowMatMul : public Contraction {
public:
  ShallowMatMul(const MatMulStep &step, const MatMulOperands &operands)
      : step(step), a(operands.a), b(operands.b), c(operands.c),
        pairs((step.k + 1) / 2),
        blocks((step.n + kColumnsAtOnce - 1) / kColumnsAtOnce),
        rowsPerSlice(std::max<int64_t>(1, kElementsPerSlice / step.n)) {
    phaseSlices = {1, (step.m + rowsPerSlice - 1) / rowsPerSlice};
    sharedSize = alignScratch(size_t(blocks * pairs * 2 * kColumnsAtOnce) *
                              sizeof(uint16_t));
  }

  Status runSlice(size_t phase, int64_t slice,
                  const SliceContext &context) override {
    auto *packed = reinterpret_cast<uint16_t *>(context.shared);
    if (phase == 0)
      pack(packed);
    else
      multiply(slice, packed);
    return Status();
  }
  std::vector<void **> addresses() override {
    return {&a.data, &b.data, &c.data};
  }

private:
  void pack(uint16_t *packed) const {
    std::memset(packed, 0, sharedSize);
    const auto *from = static_cast<const uint16_t *>(b.data);
    for (int64_t term = 0; term < step.k; ++term)
      for (int64_t column = 0; column < step.n; ++column) {
        const int64_t block = column / kColumnsAtOnce;
        const int64_t pair = block * pairs + term / 2;
        const int64_t place = pair * kColumnsAtOnce + column % kColumnsAtOnce;
        packed[place * 2 + term % 2] =
            from[step.transB ? column * step.ldb + term
                             : term * step.ldb + column];
      }
  }

  void multiply(int64_t slice, const uint16_t *packed) const {
    constexpr void (*kMultiply[])(const ShallowRows &) = {
        multiplyRows<1>, multiplyRows<2>, multiplyRows<3>, multiplyRows<4>};
    const int64_t row = slice * rowsPerSlice;
    kMultiply[pairs - 1](
        {static_cast<const uint16_t *>(a.data) + row * step.k, packed,
         static_cast<uint16_t *>(c.data) + row * step.n,
         std::min(rowsPerSlice, step.m - row), step.n, step.k});
  }

  const MatMulStep step;
  Operand a, b, c;
  const int64_t pairs, blocks;
  const int64_t rowsPerSlice;
};

} // namespace

std::unique_ptr<Contraction>
prepareShallowMatMul(const MatMulStep &step, const MatMulOperands &operands,
                     const OneDNNConfig &config) {
  auto isBF16 = [](const Operand &operand) {
    return operand.type == DType::BF16;
  };
  if (!config.nativeBF16 || operands.epilogue || !isDenseProduct(step) ||
      !isBF16(operands.a) || !isBF16(operands.b) || !isBF16(operands.c) ||
      step.k > kMostTerms || step.n < kFewestColumns || step.m < kFewestRows ||
      step.m * step.n < kElementsPerSlice)
    return nullptr;
  return std::make_unique<ShallowMatMul>(step, operands);
}

} // namespace mpc::runtime
