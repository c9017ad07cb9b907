// Matrix products by oneDNN whose result is small and whose depth is great,
// such as the gradient of a filter of one tap: 64 x 256 elements, each a sum
// over all 50,176 pixels of a batch. With AMX they take as long as their
// operands take to be read, and tiles of the result would read them many times
// over.
//
//   parts  a part of the depth each: some hundred rows of b at a time are
//          packed into the worker's cache, multiplied by those of a, and added
//          to a partial result of the part's own
//   sum    the partial results, in the order of the parts, a few rows of the
//          result each
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/MatrixOperands.h"
#include "runtime/cpu/OneDNNProvider.h"

#include <string_view>

namespace mpc::runtime {
namespace {

/// Parts that the depth is cut into at most: threads share them.
constexpr int64_t kMaxParts = 16;
/// Rows of the operands that are multiplied at once.
constexpr int64_t kChunk = 512;
/// Elements of a partial result, which stays in a worker's cache.
constexpr int64_t kMaxElements = 1 << 17;
/// Elements of the partial results that one slice adds up.
constexpr int64_t kSumElements = 1 << 14;

class DepthParts : public Contraction {
public:
  DepthParts(const MatMulStep &step, const MatMulOperands &operands)
      : step(step), a(operands.a), b(operands.b),
        c(step, operands.c, operands.epilogue) {}

  /// Whether the library multiplies chunks of it by tiles.
  bool prepare(const OneDNNConfig &config);
  Status runSlice(size_t phase, int64_t slice,
                  const SliceContext &context) override {
    if (phase == 0)
      return runPart(slice, context);
    sumRows(slice, context);
    return Status();
  }
  std::vector<void **> addresses() override {
    return addressesOf({&a, &b, &c.operand}, c.epilogue);
  }

private:
  bool makePrimitive(int64_t depth, const OneDNNConfig &config);
  Status runPart(int64_t part, const SliceContext &context);
  void sumRows(int64_t slice, const SliceContext &context) const;

  int64_t elements() const { return step.m * step.n; }
  int64_t rowsPerPart() const {
    const int64_t chunks = (step.k + kChunk - 1) / kChunk;
    return (chunks + kMaxParts - 1) / kMaxParts * kChunk;
  }
  int64_t parts() const { return (step.k + rowsPerPart() - 1) / rowsPerPart(); }
  int64_t rowsPerSum() const {
    return std::max<int64_t>(1, kSumElements / step.n);
  }
  float *partial(int64_t part, std::byte *shared) const {
    return reinterpret_cast<float *>(shared) + part * elements();
  }

  const MatMulStep step;
  Operand a, b;
  ProductResult c;
  /// Of whole chunks, and of the last if it has fewer rows.
  SlicedReorder reorders[2];
  WorkerPrimitive primitives[2];
  size_t padOffset = 0; ///< of the library's scratch behind packed rows of b
};

} // namespace

/// The product of `depth` rows of a, in columns as they are stored, and of b,
/// packed as the library likes, added to a partial result.
bool DepthParts::makePrimitive(int64_t depth, const OneDNNConfig &config) {
  using Tag = dnnl::memory::format_tag;
  constexpr auto kBF16 = dnnl::memory::data_type::bf16;
  const dnnl::memory::desc left({step.m, depth}, kBF16,
                                dnnl::memory::dims{1, step.lda});
  const dnnl::memory::desc stored({depth, step.n}, kBF16,
                                  dnnl::memory::dims{step.ldb, 1});
  const dnnl::memory::desc right({depth, step.n}, kBF16, Tag::any);
  const dnnl::memory::desc result({step.m, step.n},
                                  dnnl::memory::data_type::f32, Tag::ab);
  dnnl::primitive_attr attributes = dnnlAttributes();
  dnnl::post_ops add;
  add.append_sum();
  attributes.set_post_ops(add);
  const dnnl::matmul::primitive_desc desc(
      dnnl::matmul::desc(left, right, result), attributes, dnnlEngine());

  // Its general routine would copy both operands on its own.
  if (std::string_view(desc.impl_info_str()).rfind("brg", 0) != 0 ||
      !findPairedLayout(stored, desc.weights_desc()))
    return false;
  const bool isRest = depth != kChunk;
  reorders[isRest] = SlicedReorder(stored, desc.weights_desc(), config.workers);
  primitives[isRest] = WorkerPrimitive(dnnl::matmul(desc),
                                       {{DNNL_ARG_SRC, left},
                                        {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                                        {DNNL_ARG_DST, result}},
                                       desc.scratchpad_desc(), config.workers);
  padOffset = std::max(padOffset, alignScratch(desc.weights_desc().get_size()));
  return true;
}

bool DepthParts::prepare(const OneDNNConfig &config) {
  // Chunks of both sizes, or none.
  bool can = true;
  const Status status = catchDNNL("prepare a matrix product in parts", [&] {
    can = makePrimitive(kChunk, config) &&
          (step.k % kChunk == 0 || makePrimitive(step.k % kChunk, config));
  });
  if (!status.ok() || !can)
    return false;

  // Partial results are shared; packed rows, and sums, are a worker's own.
  phaseSlices = {parts(), (step.m + rowsPerSum() - 1) / rowsPerSum()};
  sharedSize = size_t(parts() * elements()) * sizeof(float);
  scratchSize = padOffset + std::max(primitives[0].scratchBytes(),
                                     primitives[1].scratchBytes());
  scratchSize =
      std::max(scratchSize, size_t(rowsPerSum() * step.n) * sizeof(float));
  return true;
}

Status DepthParts::runPart(int64_t part, const SliceContext &context) {
  float *result = partial(part, context.shared);
  std::fill_n(result, elements(), 0.0f);
  const int64_t first = part * rowsPerPart();
  const int64_t last = std::min(first + rowsPerPart(), step.k);
  for (int64_t row = first; row < last; row += kChunk) {
    const bool isRest = last - row < kChunk;
    // The rows of b, in one go: they stay in the cache.
    SlicedReorder &reorder = reorders[isRest];
    for (int64_t slice = 0; slice < reorder.slices(); ++slice)
      if (Status status = reorder.run(
              slice, context.worker, b.at(step.offsetB + row * step.ldb),
              context.scratch, context.scratch + padOffset);
          !status.ok())
        return status;
    if (Status status = primitives[isRest].run(
            context.worker,
            {a.at(step.offsetA + row * step.lda), context.scratch, result},
            context.scratch + padOffset);
        !status.ok())
      return status;
  }
  return Status();
}

void DepthParts::sumRows(int64_t slice, const SliceContext &context) const {
  const int64_t row = slice * rowsPerSum();
  const int64_t rows = std::min(rowsPerSum(), step.m - row);
  auto *sums = reinterpret_cast<float *>(context.scratch);
  const float *from = partial(0, context.shared) + row * step.n;
  std::copy_n(from, rows * step.n, sums);
  for (int64_t part = 1; part < parts(); ++part) {
    from = partial(part, context.shared) + row * step.n;
    for (int64_t i = 0; i < rows * step.n; ++i)
      sums[i] += from[i];
  }
  c.finish(sums, step.n, 0, row, rows, 0, step.n);
}

std::unique_ptr<Contraction> prepareDepthParts(const MatMulStep &step,
                                               const MatMulOperands &operands,
                                               const OneDNNConfig &config) {
  // Operands in bf16 whose rows are the depth's, and nothing else of it.
  const bool fits =
      config.hasAMX && config.multipliesBF16(step.k % kChunk) &&
      operands.a.type == DType::BF16 && operands.b.type == DType::BF16 &&
      step.transA && !step.transB && step.batches() == 1 &&
      step.outer.extents.empty() && step.m * step.n <= kMaxElements &&
      step.k >= kMaxParts * kChunk;
  if (!fits)
    return nullptr;
  auto made = std::make_unique<DepthParts>(step, operands);
  return made->prepare(config) ? std::move(made) : nullptr;
}

} // namespace mpc::runtime
