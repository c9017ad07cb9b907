// Runs a cuDNN plan on a single product whose result needs all bits of float32.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/dnn/DNNProbe.h"

#include "runtime/Tensor.h"

#include <algorithm>
#include <cmath>

namespace mpc::runtime::cuda {
namespace {

/// Along one dimension, an output position, a tap, and the input position that
/// the output reads through this tap.
struct Meeting {
  int64_t out, tap, in;
};

/// Device memory that its destructor releases.
class ScopedMemory {
public:
  explicit ScopedMemory(const DeviceMemory &memory) : memory(memory) {}
  ~ScopedMemory() { memory.release(address); }
  ScopedMemory(const ScopedMemory &) = delete;
  ScopedMemory &operator=(const ScopedMemory &) = delete;

  Status allocate(size_t bytes) {
    StatusOr<DevicePointer> allocated = memory.allocate(bytes);
    if (!allocated.ok())
      return allocated.status();
    address = *allocated;
    return Status();
  }

  DevicePointer address = 0;

private:
  const DeviceMemory &memory;
};

} // namespace

/// Finds the tap nearest the middle that reads inside the input for some
/// output, and the output nearest the middle for that tap. nullopt if there is
/// none.
static std::optional<Meeting> findMeeting(const ConvStep &step, size_t d) {
  const int64_t stride = step.strides[d];
  for (int64_t i = 0; i < step.kernel[d]; ++i) {
    const int64_t tap = (step.kernel[d] / 2 + i) % step.kernel[d];
    // `start` is the input position of this tap for the first output. The
    // outputs from `first` to `last` read inside the input.
    const int64_t start = tap * step.dilations[d] - step.padsBegin[d];
    const int64_t room = step.inSpatial[d] - 1 - start;
    if (room < 0)
      continue;
    const int64_t first = start < 0 ? (-start + stride - 1) / stride : 0;
    const int64_t last = std::min(room / stride, step.outSpatial[d] - 1);
    if (first > last)
      continue;
    const int64_t out = std::clamp(step.outSpatial[d] / 2, first, last);
    return Meeting{out, tap, start + out * stride};
  }
  return std::nullopt;
}

std::optional<ConvProduct> findProduct(const ConvStep &step) {
  if (step.batch == 0 || step.inChannels == 0 || step.outChannels == 0)
    return std::nullopt;
  // Offsets within one channel of the first image and of the first filter.
  int64_t x = 0, w = 0, y = 0;
  for (size_t d = 0; d < step.kernel.size(); ++d) {
    std::optional<Meeting> meeting = findMeeting(step, d);
    if (!meeting)
      return std::nullopt;
    x = x * step.inSpatial[d] + meeting->in;
    w = w * step.kernel[d] + meeting->tap;
    y = y * step.outSpatial[d] + meeting->out;
  }
  // x and y have their channels innermost in memory, so neighbouring positions
  // are as far apart as there are channels. Channels of filters are innermost
  // only in the layout OHWI.
  x *= step.inChannels;
  y *= step.outChannels;
  if (step.filterLayout == FilterLayout::OHWI)
    w *= step.inChannels / step.groups;
  return ConvProduct{static_cast<size_t>(x), static_cast<size_t>(w),
                     static_cast<size_t>(y)};
}

/// Returns the numbers of elements of x, w and y.
static std::array<size_t, 3> sizesOf(const ConvStep &step) {
  const int64_t x = step.batch * step.inChannels * numElements(step.inSpatial);
  const int64_t w = step.outChannels * (step.inChannels / step.groups) *
                    numElements(step.kernel);
  const int64_t y =
      step.batch * step.outChannels * numElements(step.outSpatial);
  return {static_cast<size_t>(x), static_cast<size_t>(w),
          static_cast<size_t>(y)};
}

StatusOr<double> measureRounding(const DeviceMemory &memory, Stream stream,
                                 const ConvStep &step, size_t workspaceBytes,
                                 const RunPlan &run) {
  const std::optional<ConvProduct> product = findProduct(step);
  if (!product)
    return 0.0;
  // One block holds the aligned operands and the workspace.
  constexpr size_t kAlignment = 256;
  std::array<size_t, 4> begins = {};
  const std::array<size_t, 3> sizes = sizesOf(step);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const size_t bytes = sizes[i] * sizeof(float);
    begins[i + 1] =
        begins[i] + (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  ScopedMemory block(memory);
  if (Status status = block.allocate(begins[3] + workspaceBytes); !status.ok())
    return Status(status.getCode(), "cannot find out whether cuDNN computes a "
                                    "convolution in float32: " +
                                        status.message());
  // All elements are zero except the factors. `sum` is the operand that the
  // step's kind writes.
  const CUDADriver &driver = memory.getDriver();
  const auto sum = static_cast<size_t>(step.kind == ConvKind::Forward     ? 2
                                       : step.kind == ConvKind::InputGrad ? 0
                                                                          : 1);
  const std::array<size_t, 3> offsets = {product->x, product->w, product->y};
  std::array<DevicePointer, 3> elements = {};
  std::array<void *, 3> operands = {};
  Status status = driver.check(
      driver.call.memsetD8Async(block.address, 0, begins[3], stream),
      "clear memory");
  for (size_t i = 0; i < operands.size() && status.ok(); ++i) {
    operands[i] = toHostPointer(block.address + begins[i]);
    elements[i] = block.address + begins[i] + offsets[i] * sizeof(float);
    if (i != sum)
      status =
          driver.check(driver.call.memcpyHtoDAsync(elements[i], &kProbeFactor,
                                                   sizeof(float), stream),
                       "upload");
  }
  // Run the plan, and read its only nonzero result.
  if (status.ok())
    status = run(operands, toHostPointer(block.address + begins[3]));
  float result = 0;
  if (status.ok())
    status = driver.check(driver.call.memcpyDtoHAsync(&result, elements[sum],
                                                      sizeof(float), stream),
                          "download");
  if (status.ok())
    status = driver.check(driver.call.streamSynchronize(stream),
                          "finish a convolution");
  if (!status.ok())
    return status;
  const double exact = double(kProbeFactor) * double(kProbeFactor);
  return std::abs(double(result) - exact) / exact;
}

} // namespace mpc::runtime::cuda
