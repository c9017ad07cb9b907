// Events on both sides of each step, from which the time of each is read.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_STEPEVENTS_H
#define MPC_RUNTIME_CUDA_STEPEVENTS_H

#include "runtime/Status.h"
#include "runtime/cuda/Driver.h"

#include <memory>
#include <vector>

namespace mpc::runtime::cuda {

/// Event i lies in front of step i, the last one behind the last step. Made and
/// destroyed in the context of the stream.
class StepEvents {
public:
  static StatusOr<std::unique_ptr<StepEvents>> create(const Driver &driver,
                                                      size_t steps);
  ~StepEvents();

  /// Puts event `index` on the stream. With `intoGraph` the stream is being
  /// captured, and each launch of the graph records the event anew.
  Status record(size_t index, Stream stream, bool intoGraph);

  /// Seconds that step `index` took, after the stream was waited for.
  StatusOr<double> secondsOf(size_t index) const;

private:
  explicit StepEvents(const Driver &driver) : driver(driver) {}

  const Driver &driver;
  std::vector<Event> events;
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_STEPEVENTS_H
