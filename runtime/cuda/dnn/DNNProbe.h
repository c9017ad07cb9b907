// Finds out whether a cuDNN plan computes in float32, by running the plan.
//
// The library's notes on its engines are not enough: an engine of cuDNN 9 for
// weight gradients computes in tf32 and has no numerical note.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_DNNPROBE_H
#define MPC_RUNTIME_CUDA_DNNPROBE_H

#include "runtime/cuda/DeviceMemory.h"

#include <array>
#include <functional>
#include <optional>

namespace mpc::runtime::cuda {

/// The largest accepted relative error of a product in float32. It is six bits
/// above a rounding of float32 (2^-24), since some algorithms add other terms
/// to the product and subtract them again. tf32 errs by 2^-12 or more.
inline constexpr double kMaxRounding = 0x1p-18;

/// Both factors of the tested product: 4/3 in float32, binary 1.010101...
/// Rounded to any number of bits, the factor is off by a third of the last
/// place. Both factors are off in the same direction, rounded or truncated, so
/// their errors add up.
inline constexpr float kProbeFactor = 0x1.555556p0F;

/// One product of a convolution: offsets of an element of x and of w, and of
/// the element of y that gets their product. A gradient multiplies two of the
/// three elements and adds to the third.
struct ConvProduct {
  size_t x = 0, w = 0, y = 0;
};

/// Finds a product of the first image and the first channels, near the middle.
/// nullopt if all windows lie in the padding; then all results are zero.
std::optional<ConvProduct> findProduct(const ConvStep &step);

/// Enqueues a plan on the stream, with x, w and y at the addresses `operands`.
using RunPlan = std::function<Status(const std::array<void *, 3> &operands,
                                     void *workspace)>;

/// Runs a plan for `step`, with f32 operands, once, on memory of its own, and
/// waits for the result. All elements are zero except the two factors of one
/// product. Only one product is tested, since it is exact in any order of sums.
/// A sum of many equal products is not exact: float32 itself rounds 2^14 + 1 +
/// 2^-13 to 2^14 + 1.
///
/// Returns the relative error of the product, which may be NaN; 0 if there is
/// no product. A Device error if memory is short or a call fails.
StatusOr<double> measureRounding(const DeviceMemory &memory, Stream stream,
                                 const ConvStep &step, size_t workspaceBytes,
                                 const RunPlan &run);

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_DNNPROBE_H
