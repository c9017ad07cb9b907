// Matrix products with AMX for small results of great depth. Example: the
// gradient of a one-tap filter has 64 x 256 elements, each a sum over all
// 50,176 pixels of a batch. Tiles of such a result would pack both operands
// many times.
//
// Phases:
//
//   parts  Divides the depth into parts. Each part packs its operands chunk by
//          chunk, and multiplies them into its own partial result.
//   sum    Adds the partial results in the order of the parts. A slice adds a
//          few rows.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/amx/AMXOperands.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"

namespace mpc::runtime {
namespace {

/// Limits the number of parts into which the depth is divided. Threads share
/// the parts.
constexpr int64_t kMaxParts = 16;
/// The depth of each part is a multiple of this.
constexpr int64_t kPartDepth = 512;
/// Limit on the elements of a partial result, which stays in a worker's cache.
constexpr int64_t kMaxElements = 1 << 17;
/// Elements of the partial results that one slice adds up.
constexpr int64_t kSumElements = 1 << 14;

class DepthParts : public Contraction {
public:
  DepthParts(const MatMulStep &step, MatMulOperands operands,
             const OneDNNConfig &config)
      : step(step), isPortable(!config.hasAMX), terms(termsOf(operands.a.type)),
        a(leftMatrix(step, operands.a)), b(rightMatrix(step, operands.b)),
        c(step, operands.c, std::move(operands.epilogue)) {
    // Partial results are shared; packed chunks and sums belong to a worker.
    phaseSlices = {depthParts(), (step.m + rowsPerSum() - 1) / rowsPerSum()};
    sharedSize = size_t(depthParts() * partialElements()) * sizeof(float);
    scratchSize = std::max(ChunkScratch(step.m, step.n, step.k, terms).bytes(),
                           size_t(rowsPerSum() * leading()) * sizeof(float));
  }

  Status runSlice(size_t phase, int64_t slice,
                  const SliceContext &context) override {
    phase == 0 ? runPart(slice, context) : sumRows(slice, context);
    return Status();
  }
  std::vector<void **> addresses() override {
    return addressesOf({&a.source, &b.source, &c.operand}, c.epilogue);
  }

private:
  void runPart(int64_t part, const SliceContext &context) const;
  void sumRows(int64_t slice, const SliceContext &context) const;

  /// Leading dimension of a partial result, which consists of whole panels.
  int64_t leading() const { return wholePanels(step.n); }
  int64_t partialElements() const { return wholePanels(step.m) * leading(); }
  int64_t depthPerPart() const {
    const int64_t units = (step.k + kPartDepth - 1) / kPartDepth;
    return (units + kMaxParts - 1) / kMaxParts * kPartDepth;
  }
  int64_t depthParts() const {
    return (step.k + depthPerPart() - 1) / depthPerPart();
  }
  int64_t rowsPerSum() const {
    return std::max<int64_t>(1, kSumElements / leading());
  }
  float *partial(int64_t part, std::byte *shared) const {
    return reinterpret_cast<float *>(shared) + part * partialElements();
  }

  const MatMulStep step;
  const bool isPortable;
  const int64_t terms; ///< bf16 terms of an operand's element
  MatMulOperand a, b;
  ProductResult c;
};

} // namespace

void DepthParts::runPart(int64_t part, const SliceContext &context) const {
  const ProductSums sums{partial(part, context.shared), leading(), step.m,
                         step.n};
  const int64_t first = part * depthPerPart();
  const int64_t depth = std::min(depthPerPart(), step.k - first);
  const ChunkScratch scratch(step.m, step.n, step.k, terms);
  multiplyByChunks({sourceAt(a, 0, 0, first), sourceAt(b, 0, first, 0)}, depth,
                   scratch, context.scratch, isPortable, sums);
}

void DepthParts::sumRows(int64_t slice, const SliceContext &context) const {
  const int64_t row = slice * rowsPerSum();
  const int64_t rows = std::min(rowsPerSum(), step.m - row);
  const int64_t elements = rows * leading();
  auto *sums = reinterpret_cast<float *>(context.scratch);
  std::copy_n(partial(0, context.shared) + row * leading(), elements, sums);
  for (int64_t part = 1; part < depthParts(); ++part) {
    const float *from = partial(part, context.shared) + row * leading();
    for (int64_t i = 0; i < elements; ++i)
      sums[i] += from[i];
  }
  c.finish(sums, leading(), 0, row, rows, 0, step.n);
}

std::unique_ptr<Contraction> prepareAMXDepthParts(const MatMulStep &step,
                                                  MatMulOperands &operands,
                                                  const OneDNNConfig &config) {
  const bool fits = canMultiplyByAMX(step, operands, config) &&
                    countMatrices(step) == 1 && step.outer.extents.empty() &&
                    step.m * step.n <= kMaxElements &&
                    step.k >= kMaxParts * kPartDepth;
  if (!fits)
    return nullptr;
  return std::make_unique<DepthParts>(step, std::move(operands), config);
}

} // namespace mpc::runtime
