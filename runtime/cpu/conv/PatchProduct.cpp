// Computes convolutions with few pixels of results, and gradients of their
// filters, as matrix products of patches. oneDNN reorders filters before or
// after each convolution, which takes longer than the convolution of a few
// pixels. The product uses filters as they are stored.
//
// A patch is the part of the image that a window covers, in the order of a
// filter: [channel][tap]. Phase 0 copies the patches, one per pixel of the
// result. The other phases are those of the product.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/CPUFeatures.h"
#include "runtime/cpu/Transpose.h"
#include "runtime/cpu/onednn/OneDNN.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"

#include <cstring>

namespace mpc::runtime {
namespace {

/// Limits the pixels of the result, and the elements of all patches.
constexpr int64_t kMostPatches = 64, kMostPatchElements = int64_t(1) << 22;
/// Filters with fewer elements stay in the cache when they are reordered.
constexpr int64_t kFewestFilterElements = int64_t(1) << 18;
/// Rows and columns of the product's tiles.
constexpr int64_t kPatchTile = 256;

class PatchProduct : public Contraction {
public:
  PatchProduct(const ConvStep &step, const Operand &x,
               std::unique_ptr<Contraction> product)
      : step(step), x(x), product(std::move(product)),
        taps(numElements(step.kernel)), pixels(numElements(step.outSpatial)) {
    phaseSlices = {step.batch * pixels};
    const std::vector<int64_t> &phases = this->product->phases();
    phaseSlices.insert(phaseSlices.end(), phases.begin(), phases.end());
    patchBytes = alignScratch(
        size_t(step.batch * pixels * step.inChannels * taps) * sizeOf(x.type));
    sharedSize = patchBytes + this->product->sharedBytes();
    scratchSize = this->product->scratchBytes();
  }

  Status runSlice(size_t phase, int64_t slice,
                  const SliceContext &context) override {
    if (phase > 0)
      return product->runSlice(
          phase - 1, slice,
          {context.worker, context.shared + patchBytes, context.scratch});
    // Only one slice may write the address. The product's phases read the
    // address later.
    if (slice == 0)
      *product->addresses()[isForward() ? 0 : 1] = context.shared;
    copyPatch(slice, context.shared);
    return Status();
  }
  std::vector<void **> addresses() override {
    std::vector<void **> result = product->addresses();
    if (isForward())
      result[0] = &x.data;
    else
      result = {&x.data, result[2], result[0]};
    return result;
  }

private:
  bool isForward() const { return step.kind == ConvKind::Forward; }
  void copyPatch(int64_t patch, std::byte *patches) const;
  template <typename T>
  void copyTaps(int64_t image, const std::vector<int64_t> &starts,
                T *patch) const;

  const ConvStep step;
  Operand x;
  const std::unique_ptr<Contraction> product;
  const int64_t taps, pixels;
  size_t patchBytes = 0;
};

} // namespace

void PatchProduct::copyPatch(int64_t patch, std::byte *patches) const {
  // The image's pixel, possibly in the padding, that the first tap multiplies.
  std::vector<int64_t> starts(step.kernel.size());
  int64_t rest = patch % pixels;
  for (size_t axis = starts.size(); axis-- > 0;) {
    starts[axis] = rest % step.outSpatial[axis] * step.strides[axis] -
                   step.padsBegin[axis];
    rest /= step.outSpatial[axis];
  }
  const int64_t bytes = step.inChannels * taps * sizeOf(x.type);
  std::byte *to = patches + patch * bytes;
  std::memset(to, 0, size_t(bytes));
  if (x.type == DType::F32)
    copyTaps(patch / pixels, starts, reinterpret_cast<uint32_t *>(to));
  else
    copyTaps(patch / pixels, starts, reinterpret_cast<uint16_t *>(to));
}

/// Copies the pixels that a window covers, a row of taps at a time. Pixels in
/// the padding stay zeros.
template <typename T>
void PatchProduct::copyTaps(int64_t image, const std::vector<int64_t> &starts,
                            T *patch) const {
  const size_t inner = step.kernel.size() - 1;
  const int64_t width = step.kernel[inner], dilation = step.dilations[inner];
  const int64_t start = starts[inner], extent = step.inSpatial[inner];
  // Taps [first, last) of each row lie within the image.
  const int64_t first =
      std::min(width, start < 0 ? (dilation - 1 - start) / dilation : 0);
  const int64_t last = std::clamp<int64_t>(
      extent > start ? (extent - start - 1) / dilation + 1 : 0, first, width);
  for (int64_t row = 0; row < taps / width; ++row) {
    int64_t pixel = 0, rest = row;
    bool isInside = first < last;
    std::vector<int64_t> tap(inner);
    for (size_t axis = inner; axis-- > 0; rest /= step.kernel[axis])
      tap[axis] = rest % step.kernel[axis];
    for (size_t axis = 0; axis < inner; ++axis) {
      const int64_t at = starts[axis] + tap[axis] * step.dilations[axis];
      isInside = isInside && at >= 0 && at < step.inSpatial[axis];
      pixel = pixel * step.inSpatial[axis] + at;
    }
    if (!isInside)
      continue;
    pixel = (image * numElements(step.inSpatial)) + pixel * extent + start +
            first * dilation;
    transpose(reinterpret_cast<const T *>(x.at(pixel * step.inChannels)),
              dilation * step.inChannels, patch + row * width + first, taps,
              last - first, step.inChannels);
  }
}

StatusOr<std::unique_ptr<Contraction>>
preparePatchProduct(const ConvStep &step, const ConvOperands &operands,
                    const OneDNNConfig &config) {
  const int64_t elements = step.batch * numElements(step.outSpatial) *
                           step.inChannels * numElements(step.kernel);
  if (step.groups != 1 || step.kind == ConvKind::InputGrad ||
      elements > kMostPatchElements)
    return std::unique_ptr<Contraction>();
  const bool isForward = step.kind == ConvKind::Forward;
  const Operand patches{operands.x.type, nullptr};
  const int64_t filter = step.inChannels * numElements(step.kernel);
  MatMulStep product;
  product.k = step.batch * numElements(step.outSpatial);
  product.m = step.outChannels;
  product.n = filter;
  product.transA = !isForward;
  product.transB = isForward;
  if (isForward) {
    std::swap(product.m, product.k); // pixels x filters, of whole filters
    std::swap(product.n, product.k);
  }
  product.lda = isForward ? product.k : product.m;
  product.ldb = isForward ? product.k : product.n;
  product.ldc = product.n;
  product.tileM = product.tileN = kPatchTile;
  auto made = prepareOneDNNMatMul(
      product,
      isForward
          ? MatMulOperands{patches, operands.w, operands.y, operands.epilogue}
          : MatMulOperands{operands.y, patches, operands.w, {}},
      config);
  if (!made.ok())
    return made;
  return std::unique_ptr<Contraction>(
      std::make_unique<PatchProduct>(step, operands.x, std::move(*made)));
}

StatusOr<std::unique_ptr<Contraction>>
prepareFasterPatchProduct(const ConvStep &step, const ConvOperands &operands,
                          const OneDNNConfig &config) {
  const int64_t taps = numElements(step.kernel);
  // Measured faster on AVX2 only, where all types are multiplied as f32.
  if (hostHasAVX512() || taps == 1 ||
      step.batch * numElements(step.outSpatial) > kMostPatches ||
      step.inChannels * taps * step.outChannels < kFewestFilterElements)
    return std::unique_ptr<Contraction>();
  return preparePatchProduct(step, operands, config);
}

} // namespace mpc::runtime
