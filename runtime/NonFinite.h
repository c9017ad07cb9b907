// Where NaN and infinities come from.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_NONFINITE_H
#define MPC_RUNTIME_NONFINITE_H

#include "runtime/Device.h"
#include "runtime/Plan.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mpc::runtime {

/// The index of the first of `count` elements that is NaN or infinite; nothing
/// where all are finite, or the type has no such values.
std::optional<int64_t> findNonFinite(DType type, const std::byte *elements,
                                     int64_t count);

/// "nan at [3, 17]": element `index` of a tensor and its place.
std::string describeElement(DType type, const Shape &shape,
                            const std::byte *elements, int64_t index);

/// Where NaN or infinity in a result began: the first step that gave one
/// although all its operands were finite, or a parameter that already had one.
struct NonFiniteOrigin {
  /// "node 'conv1' gives inf at [3, 17, 0, 0] of f16 8x32x8x8", or "parameter
  /// 'w' is nan at [0, 1]".
  std::string text;
  /// Whether it was computed as float16, which ends at 65504.
  bool isFloat16 = false;
  /// The row of the first axis, where the tensor has one for each sample.
  std::optional<int64_t> row;
  int64_t rows = 0;
};

/// Follows values that are not finite from step to step of one run. Looks at
/// memory before and after each step, so it needs no help of the kernels: an
/// element that a step changed to NaN or infinity comes from that step, unless
/// the step read such a value, whose origin it then shares.
class NonFiniteTrace : public StepObserver {
public:
  /// `buffers` are the addresses of the function's buffers on `device`. Notes
  /// which inputs and state variables are not finite to begin with.
  static StatusOr<NonFiniteTrace> start(const Plan &plan,
                                        const Function &function,
                                        const std::vector<void *> &buffers,
                                        const std::vector<void *> &state,
                                        Device &device);

  void move(size_t buffer, int64_t bytes) override;
  Status before(const Step &step) override;
  Status after(const Step &step) override;

  /// After the last step: the origin of what is not finite in the loss, in
  /// another output or in the state; else, where the run found its gradients
  /// not to be finite, of what was written last. Nothing where all is well.
  StatusOr<std::optional<NonFiniteOrigin>> origin();

private:
  /// Device memory that holds values which are not finite.
  struct Region {
    const std::byte *begin, *end;
    size_t origin; ///< index in `origins`
  };

  NonFiniteTrace(const Function &function, const std::vector<void *> &buffers,
                 Device &device)
      : function(function), buffers(buffers), device(device) {}

  Status noteInitial(const std::string &what, const Buffer &buffer,
                     const void *address);
  StatusOr<std::vector<std::byte>> read(const Buffer &buffer,
                                        const void *address) const;
  const Region *regionAt(const void *address, int64_t bytes) const;
  void forget(const void *address, int64_t bytes);
  std::vector<size_t> floatsOf(const Step &step) const;

  const Function &function;
  std::vector<void *> buffers; ///< where they are in this iteration of loops
  Device &device;
  std::vector<NonFiniteOrigin> origins;
  std::vector<Region> regions;
  std::optional<size_t> lastWritten; ///< origin of the last such value
  /// The bytes of the step's buffers before it ran, and the origin of the
  /// non-finite values that it reads.
  std::vector<std::vector<std::byte>> snapshots;
  std::optional<size_t> readOrigin;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_NONFINITE_H
