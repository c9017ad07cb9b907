// Computes matrix products with few columns as convolutions (DirectConv.cpp).
// Rows of the left operand are pixels, and columns of the right operand are
// filters of one tap.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/onednn/OneDNNProvider.h"

namespace mpc::runtime {
namespace {

/// Limits the columns of the product. With more columns, oneDNN is faster.
constexpr int64_t kMostColumns = 8;

class NarrowMatMul : public Contraction {
public:
  /// `isGradient` is true if `conv` computes an image gradient.
  NarrowMatMul(std::unique_ptr<Contraction> conv, bool isGradient)
      : conv(std::move(conv)), isGradient(isGradient) {
    phaseSlices = this->conv->phases();
    sharedSize = this->conv->sharedBytes();
    scratchSize = this->conv->scratchBytes();
  }

  Status runSlice(size_t phase, int64_t slice,
                  const SliceContext &context) override {
    return conv->runSlice(phase, slice, context);
  }
  std::vector<void **> addresses() override {
    std::vector<void **> result = conv->addresses();
    if (isGradient)
      std::swap(result[0], result[2]);
    return result;
  }

private:
  const std::unique_ptr<Contraction> conv;
  const bool isGradient;
};

} // namespace

bool isDenseProduct(const MatMulStep &step) {
  return countMatrices(step) == 1 && step.alpha == 1 && !step.transA &&
         step.lda == step.k && step.ldb == (step.transB ? step.k : step.n) &&
         step.ldc == step.n && step.offsetA == 0 && step.offsetB == 0;
}

std::unique_ptr<Contraction> prepareNarrowMatMul(const MatMulStep &step,
                                                 MatMulOperands &operands,
                                                 const OneDNNConfig &config) {
  if (step.n > kMostColumns || !isDenseProduct(step))
    return nullptr;
  // The columns of the right operand are the filters. A convolution stores
  // filters as rows of the weights, an image gradient as columns. So a
  // transposed right operand becomes a convolution, any other an image
  // gradient.
  const bool isGradient = !step.transB;
  ConvStep conv;
  conv.kind = isGradient ? ConvKind::InputGrad : ConvKind::Forward;
  conv.inChannels = isGradient ? step.n : step.k;
  conv.outChannels = isGradient ? step.k : step.n;
  conv.inSpatial = conv.outSpatial = {step.m};
  conv.kernel = conv.strides = conv.dilations = {1};
  conv.padsBegin = conv.padsEnd = {0};
  ConvOperands images = {operands.a, operands.b, operands.c, operands.epilogue};
  if (isGradient)
    std::swap(images.x, images.y);
  auto made = prepareFasterDirectConv(conv, images, config);
  if (!made)
    return nullptr;
  return std::make_unique<NarrowMatMul>(std::move(made), isGradient);
}

} // namespace mpc::runtime
