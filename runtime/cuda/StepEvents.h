// Measures the time of each step with events between the steps.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_STEPEVENTS_H
#define MPC_RUNTIME_CUDA_STEPEVENTS_H

#include "runtime/Status.h"
#include "runtime/cuda/Driver.h"

#include <memory>
#include <vector>

namespace mpc::runtime::cuda {

/// Event i precedes step i; the last event follows the last step. Create and
/// destroy the object while the context of the stream is current.
class StepEvents {
public:
  static StatusOr<std::unique_ptr<StepEvents>> create(const CUDADriver &driver,
                                                      size_t steps);
  ~StepEvents();

  /// Records event `index` on the stream. With `intoGraph` the stream is being
  /// captured, and each launch of the graph records the event again.
  Status record(size_t index, Stream stream, bool intoGraph);

  /// Returns the seconds that step `index` took. Wait for the stream first.
  StatusOr<double> secondsOf(size_t index) const;

private:
  explicit StepEvents(const CUDADriver &driver) : driver(driver) {}

  const CUDADriver &driver;
  std::vector<Event> events;
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_STEPEVENTS_H
