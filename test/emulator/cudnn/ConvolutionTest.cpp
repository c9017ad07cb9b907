// Tests the emulated cuDNN's convolutions and gradients against their
// definition, and the descriptors that it refuses.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cudnn/Convolution.h"
#include "test/emulator/cudnn/Descriptor.h"

#include "gtest/gtest.h"

#include <cmath>
#include <numeric>

using namespace mpc::emulator;

namespace {

/// Strides of (N, C, spatial...) with channels innermost.
std::vector<int64_t> channelsLast(const std::vector<int64_t> &dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = dims[1];
  strides[1] = 1;
  for (size_t i = dims.size(); i-- > 2;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  strides[0] = stride;
  return strides;
}

ConvTensor tensor(std::vector<int64_t> dims, int64_t id) {
  ConvTensor result;
  result.strides = channelsLast(dims);
  result.dims = std::move(dims);
  result.id = id;
  result.alignment = 4;
  return result;
}

std::vector<float> samples(const ConvTensor &tensor, int salt) {
  std::vector<float> values(tensor.bytes() / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((static_cast<int>(i) * 5 + salt) % 11 - 5);
  return values;
}

/// Two groups, a stride, a dilation and uneven padding.
Convolution example() {
  Convolution conv;
  conv.strides = {2, 1};
  conv.dilations = {1, 2};
  conv.prePaddings = {1, 2};
  conv.postPaddings = {0, 1};
  conv.x = tensor({2, 4, 6, 5}, 1);
  conv.w = tensor({6, 2, 3, 2}, 2);
  conv.y = tensor({2, 6, 3, 6}, 3);
  return conv;
}

/// Calls f with the positions in x, w and y of every product.
template <class F>
void forProducts(const Convolution &conv, F f) {
  auto at = [](const ConvTensor &t, int64_t a, int64_t b, int64_t c,
               int64_t d) {
    return static_cast<size_t>(a * t.strides[0] + b * t.strides[1] +
                               c * t.strides[2] + d * t.strides[3]);
  };
  int64_t perGroup = conv.y.dims[1] / conv.groups();
  for (int64_t n = 0; n < conv.y.dims[0]; ++n)
    for (int64_t k = 0; k < conv.y.dims[1]; ++k)
      for (int64_t p = 0; p < conv.y.dims[2]; ++p)
        for (int64_t q = 0; q < conv.y.dims[3]; ++q)
          for (int64_t c = 0; c < conv.w.dims[1]; ++c)
            for (int64_t r = 0; r < conv.w.dims[2]; ++r)
              for (int64_t s = 0; s < conv.w.dims[3]; ++s) {
                int64_t h = p * conv.strides[0] + r * conv.dilations[0] -
                            conv.prePaddings[0];
                int64_t v = q * conv.strides[1] + s * conv.dilations[1] -
                            conv.prePaddings[1];
                if (h < 0 || h >= conv.x.dims[2] || v < 0 ||
                    v >= conv.x.dims[3])
                  continue;
                int64_t channel = k / perGroup * conv.w.dims[1] + c;
                f(at(conv.x, n, channel, h, v), at(conv.w, k, c, r, s),
                  at(conv.y, n, k, p, q));
              }
}

TEST(Convolution, IsItsDefinition) {
  Convolution conv = example();
  ASSERT_EQ(checkShapes(conv), nullptr);
  ASSERT_EQ(checkSupport(conv), nullptr);
  auto x = samples(conv.x, 1), w = samples(conv.w, 2), y = samples(conv.y, 3);
  for (auto kind : {Convolution::Forward, Convolution::BackwardData,
                    Convolution::BackwardFilter}) {
    conv.kind = kind;
    auto dx = x, dw = w, dy = y;
    convolve(conv, dx.data(), dw.data(), dy.data());
    auto &result = kind == Convolution::Forward        ? dy
                   : kind == Convolution::BackwardData ? dx
                                                       : dw;
    std::vector<float> expected(result.size());
    forProducts(conv, [&](size_t i, size_t j, size_t l) {
      if (kind == Convolution::Forward)
        expected[l] += x[i] * w[j];
      else if (kind == Convolution::BackwardData)
        expected[i] += w[j] * y[l];
      else
        expected[j] += x[i] * y[l];
    });
    EXPECT_EQ(result, expected) << kind; // small integers: exact
  }
}

/// A Tensor Core clears the low 13 bits of factors, but not of sums.
TEST(Convolution, RoundsOperandsWhereAsked) {
  Convolution conv = example();
  auto x = samples(conv.x, 1), y = samples(conv.y, 3);
  std::vector<float> whole(conv.w.bytes() / sizeof(float)), low = whole;
  auto inLowBits = x;
  for (float &value : inLowBits)
    value *= 1 + 0x1p-10F + 0x1p-12F;
  auto inHighBits = x;
  for (float &value : inHighBits)
    value = static_cast<float>(std::trunc(value * 0x1p6F)) / 0x1p6F;
  conv.kind = Convolution::BackwardFilter;
  convolve(conv, inLowBits.data(), whole.data(), y.data());
  conv.roundsToTF32 = true;
  convolve(conv, inLowBits.data(), low.data(), y.data());
  EXPECT_NE(low, whole);
  for (size_t i = 0; i < low.size(); ++i)
    EXPECT_NEAR(low[i], whole[i], 0x1p-9 * 11 * 11 * 40) << i;
  // Small integers lose no bit.
  convolve(conv, inHighBits.data(), low.data(), y.data());
  conv.roundsToTF32 = false;
  convolve(conv, inHighBits.data(), whole.data(), y.data());
  EXPECT_EQ(low, whole);
}

TEST(Convolution, SaysWhatDoesNotFit) {
  auto refusal = [](auto change) -> std::string {
    Convolution conv = example();
    change(conv);
    const char *reason = checkShapes(conv);
    if (!reason)
      reason = checkSupport(conv);
    return reason ? reason : "";
  };
  EXPECT_EQ(refusal([](Convolution &) {}), "");
  EXPECT_EQ(refusal([](Convolution &c) { c.y.dims[2] = 4; }),
            "y's extent is not what x, the window and the strides give");
  EXPECT_EQ(refusal([](Convolution &c) { c.w.dims[1] = 3; }),
            "the channels do not divide into groups");
  EXPECT_EQ(refusal([](Convolution &c) { c.y.type = CUDNN_DATA_BFLOAT16; }),
            "no engine mixes element types");
  EXPECT_EQ(refusal([](Convolution &c) { c.compute = CUDNN_DATA_DOUBLE; }),
            "the compute type does not go with the element type");
}

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

TEST(Descriptor, ChecksAttributesAsTheyAreSet) {
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  int64_t dims[] = {1, 2, 3, 4}, one = 1;
  EXPECT_EQ(tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims)
                .status,
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_FLOAT, 4, dims)
                .status,
            CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  EXPECT_EQ(
      tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 2, dims).status,
      CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND);
  EXPECT_EQ(
      tensor.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_INT64, 1, &one).status,
      CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(tensor.finalize().message, "attribute 900 is not set");
}

TEST(Descriptor, IsFinalizedBeforeItIsUsed) {
  DescriptorHandle tensor{
      std::make_shared<Descriptor>(CUDNN_BACKEND_TENSOR_DESCRIPTOR)};
  DescriptorHandle *handle = &tensor;
  Descriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  EXPECT_EQ(operation
                .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle)
                .status,
            CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  int64_t count;
  EXPECT_EQ(heuristic
                .get(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr)
                .status,
            CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
}

} // namespace
