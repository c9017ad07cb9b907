// Finds out by a run whether a plan of cuDNN computes in float32.
//
// What the library says of its engines is not enough: an engine of cuDNN 9 for
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

/// How far, relative, one product may be off that is computed in float32. Six
/// bits more than a rounding of float32 (2^-24), for algorithms that add and
/// subtract around it; tf32 is off by 2^-12 or more.
inline constexpr double kMaxRounding = 0x1p-18;

/// What the probe multiplies: binary 1.010101..., which is a third of its last
/// place off in any number of bits, so that the errors of two rounded factors
/// add up, whether they are rounded or cut off.
inline constexpr float kProbeFactor = 0x1.555556p0F;

/// One product of a convolution: the elements of x and w that it multiplies
/// and the one of y that it is added to, as offsets. A gradient multiplies two
/// of the same three and adds to the third.
struct ConvProduct {
  size_t x = 0, w = 0, y = 0;
};

/// A product of the first image and the first channels, near the middle. None
/// where all windows lie in the padding: all results are zero then.
std::optional<ConvProduct> findProduct(const ConvStep &step);

/// Puts a plan on the stream, with x, w and y at these addresses.
using RunPlan = std::function<Status(const std::array<void *, 3> &operands,
                                     void *workspace)>;

/// Runs a plan for `step`, of f32 operands, once on memory of its own, where
/// all elements are zero but the two of one product, and waits for it. One
/// product alone is exact in any order of sums; of many equal ones float32
/// itself loses bits (2^14 + 1 + 2^-13 is 2^14 + 1).
///
/// The relative error of that product; 0 where there is none, and possibly NaN.
/// Device where there is no memory for the operands or a call fails.
StatusOr<double> measureRounding(const DeviceMemory &memory, Stream stream,
                                 const ConvStep &step, size_t workspaceBytes,
                                 const RunPlan &run);

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_DNNPROBE_H
