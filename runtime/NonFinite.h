// Finds the origin of NaN and infinity in a run.
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

/// Returns the index of the first element that is NaN or infinite. nullopt if
/// all are finite, or if the type has no such values.
std::optional<int64_t> findNonFinite(DType type, const std::byte *elements,
                                     int64_t count);

/// Describes element `index` of a tensor with its place: "nan at [3, 17]".
std::string describeElement(DType type, const Shape &shape,
                            const std::byte *elements, int64_t index);

/// The origin of NaN or infinity in a result: the first step with finite
/// operands and a non-finite result, or a parameter that was not finite before.
struct NonFiniteOrigin {
  /// "node 'conv1' gives inf at [3, 17, 0, 0] of f16 8x32x8x8", or "parameter
  /// 'w' is nan at [0, 1]".
  std::string text;
  /// True if the step received the value from another rank, where it began.
  bool isReceived = false;
  /// True if the step computed the value as float16, whose largest number is
  /// 65504.
  bool isFloat16 = false;
  /// If isFloat16: the nodes of the step, then the nodes of the later steps
  /// that read the value, or that read an operand of the step which float16
  /// cannot hold. Backward nodes have suffixes, like "conv1#dw". Each node
  /// occurs once.
  std::vector<std::string> nodes;
  /// The index along the first axis, which is the sample if the tensor has one
  /// row per sample.
  std::optional<int64_t> row;
  int64_t rows = 0;
};

/// Follows non-finite values from step to step of one run. Compares memory
/// before and after each step, so kernels need no support. A step that changes
/// an element to NaN or infinity is the origin of the value. If the step read a
/// non-finite value, it shares the origin of that value.
class NonFiniteTrace : public StepObserver {
public:
  /// Records inputs and state variables that are not finite before the run.
  /// `buffers` and `state` are the addresses of the function's buffers and of
  /// the plan's state variables on `device`.
  static StatusOr<NonFiniteTrace> start(const Plan &plan,
                                        const Function &function,
                                        const std::vector<void *> &buffers,
                                        const std::vector<void *> &state,
                                        Device &device);

  void move(size_t buffer, int64_t bytes) override;
  Status before(const Step &step) override;
  Status after(const Step &step) override;

  /// Call after the last step. Returns the origin of a non-finite value in the
  /// loss, in another output, or in the state. If the update was skipped and so
  /// kept the state finite, returns the origin of the last non-finite value
  /// written. nullopt if all values are finite.
  StatusOr<std::optional<NonFiniteOrigin>> origin();

private:
  /// Device memory that holds non-finite values.
  struct Region {
    const std::byte *begin, *end;
    size_t origin; ///< index in `origins`
  };

  NonFiniteTrace(const Plan &plan, const Function &function,
                 const std::vector<void *> &buffers, Device &device)
      : plan(plan), function(function), buffers(buffers), device(device) {}

  Status noteInitial(const std::string &what, const Buffer &buffer,
                     const void *address);
  StatusOr<std::vector<std::byte>> read(const Buffer &buffer,
                                        const void *address) const;
  const Region *regionAt(const void *address, int64_t bytes) const;
  void forget(const void *address, int64_t bytes);
  std::vector<size_t> floatsOf(const Step &step) const;
  bool reads(const Step &step, size_t buffer) const;
  void noteNodes(size_t origin, const Step &step);
  void noteReader(const Step &step, size_t buffer);
  void watchLarge(size_t origin, const std::vector<size_t> &operands);
  static void erase(std::vector<Region> &regions, const void *address,
                    int64_t bytes);

  const Plan &plan;
  const Function &function;
  /// current address of each buffer; loops move some
  std::vector<void *> buffers;
  Device &device;
  std::vector<NonFiniteOrigin> origins;
  std::vector<Region> regions;
  /// Values whose readers belong to an origin: a value that overflowed float16,
  /// and operands of its step that float16 cannot hold.
  std::vector<Region> watched;
  /// Index in `origins` for the last non-finite value that a step wrote.
  std::optional<size_t> lastWritten;
  /// Set by `before`: the contents of the step's float buffers, and the origin
  /// of a non-finite value that the step reads; nullopt if it reads none.
  std::vector<std::vector<std::byte>> snapshots;
  std::optional<size_t> readOrigin;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_NONFINITE_H
