// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/onednn/OperandSums.h"
#include "runtime/cpu/CPUFeatures.h"
#include "runtime/cpu/Convert.h"

#include <algorithm>
#include <immintrin.h>

namespace mpc::runtime {

/// kBand rows are summed in f32 before the sum is added in f64. A pass sums
/// kColumns columns.
static constexpr int64_t kBand = 32, kColumns = 512;
/// Elements per vector.
static constexpr int64_t kLanes = 16;
/// Columns per slice, if the sums are a separate phase.
static constexpr int64_t kSliceColumns = 256;

//===----------------------------------------------------------------------===//
// Bands
//===----------------------------------------------------------------------===//

/// Adds `rows` rows to `sums`, one sum per column. At most kColumns columns.
static void addRows(DType type, const std::byte *matrix, int64_t leading,
                    int64_t rows, int64_t columns, float *sums) {
  alignas(64) float row[kColumns];
  const int64_t bytes = leading * int64_t(sizeOf(type));
  for (int64_t i = 0; i < rows; ++i) {
    widen(type, matrix + i * bytes, row, columns);
    for (int64_t column = 0; column < columns; ++column)
      sums[column] += row[column];
  }
}

/// Like addRows, for bf16 with AVX-512. The columns must be a multiple of
/// kLanes.
__attribute__((target("avx512f"))) static void
addWideRows(const std::byte *matrix, int64_t leading, int64_t rows,
            int64_t columns, float *sums) {
  for (int64_t i = 0; i < rows; ++i, matrix += leading * 2)
    for (int64_t column = 0; column < columns; column += kLanes) {
      // The upper half of an f32 number is a bf16 number.
      const __m256i low = _mm256_loadu_si256(
          reinterpret_cast<const __m256i *>(matrix + column * 2));
      const __m512i wide = _mm512_slli_epi32(_mm512_cvtepu16_epi32(low), 16);
      const __m512 sum = _mm512_loadu_ps(sums + column);
      _mm512_storeu_ps(sums + column,
                       _mm512_add_ps(sum, _mm512_castsi512_ps(wide)));
    }
}

void sumRows(DType type, const std::byte *matrix, int64_t leading, int64_t rows,
             int64_t columns, float *result) {
  alignas(64) float band[kColumns];
  double totals[kColumns];
  const int64_t size = int64_t(sizeOf(type));
  for (int64_t first = 0; first < columns; first += kColumns) {
    const int64_t count = std::min(kColumns, columns - first);
    const bool hasVectors = type == DType::BF16 && hostHasAVX512();
    const int64_t wide = hasVectors ? count / kLanes * kLanes : 0;
    std::fill_n(totals, count, 0.0);
    for (int64_t row = 0; row < rows; row += kBand) {
      // Sum each band from zero in f32, then add it to the f64 totals.
      const int64_t few = std::min(kBand, rows - row);
      const std::byte *from = matrix + (row * leading + first) * size;
      std::fill_n(band, count, 0.0f);
      if (wide > 0)
        addWideRows(from, leading, few, wide, band);
      addRows(type, from + wide * size, leading, few, count - wide,
              band + wide);
      for (int64_t column = 0; column < count; ++column)
        totals[column] += double(band[column]);
    }
    for (int64_t column = 0; column < count; ++column)
      result[first + column] = float(totals[column]);
  }
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

OperandSums::OperandSums(const MatMulStep &step,
                         const MatMulOperands &operands) {
  if (!step.fused)
    return;
  ofLeft = step.fused->kind == FusedKind::BGradA;
  source = ofLeft ? operands.a : operands.b;
  offset = ofLeft ? step.offsetA : step.offsetB;
  result = operands.sums;
  leading = ofLeft ? step.lda : step.ldb;
  depth = step.k;
  columns = ofLeft ? step.m : step.n;
}

void OperandSums::sum(int64_t first, int64_t count) const {
  sumRows(source.type, source.at(offset + first), leading, depth, count,
          reinterpret_cast<float *>(result.at(first)));
}

namespace {
class WithOperandSums : public Contraction {
public:
  WithOperandSums(std::unique_ptr<Contraction> product, OperandSums sums)
      : product(std::move(product)), sums(sums) {
    phaseSlices = this->product->phases();
    phaseSlices.push_back((sums.columns + kSliceColumns - 1) / kSliceColumns);
    sharedSize = this->product->sharedBytes();
    scratchSize = this->product->scratchBytes();
  }

  Status runSlice(size_t phase, int64_t slice,
                  const SliceContext &context) override {
    if (phase + 1 < phaseSlices.size())
      return product->runSlice(phase, slice, context);
    const int64_t first = slice * kSliceColumns;
    sums.sum(first, std::min(kSliceColumns, sums.columns - first));
    return Status();
  }
  std::vector<void **> addresses() override {
    std::vector<void **> result = product->addresses();
    sums.addAddresses(result);
    return result;
  }

private:
  std::unique_ptr<Contraction> product;
  OperandSums sums;
};
} // namespace

std::unique_ptr<Contraction>
addOperandSums(std::unique_ptr<Contraction> contraction, OperandSums sums) {
  if (!sums)
    return contraction;
  return std::make_unique<WithOperandSums>(std::move(contraction), sums);
}

} // namespace mpc::runtime
