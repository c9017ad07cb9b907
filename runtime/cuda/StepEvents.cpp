// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/StepEvents.h"

#include <cassert>

namespace mpc::runtime::cuda {

StatusOr<std::unique_ptr<StepEvents>>
StepEvents::create(const CUDADriver &driver, size_t steps) {
  std::unique_ptr<StepEvents> made(new StepEvents(driver));
  for (size_t i = 0; i <= steps; ++i) {
    Event event = nullptr;
    if (Status status = driver.check(
            driver.call.eventCreate(&event, /*flags=*/0), "create an event");
        !status.ok())
      return status;
    made->events.push_back(event);
  }
  return made;
}

StepEvents::~StepEvents() {
  for (Event event : events)
    (void)driver.call.eventDestroy(event);
}

Status StepEvents::record(size_t index, Stream stream, bool intoGraph) {
  assert(index < events.size() && "an event before each step, and one after");
  return driver.check(
      driver.call.eventRecordWithFlags(events[index], stream,
                                       intoGraph ? kEventRecordExternal : 0),
      "record an event");
}

StatusOr<double> StepEvents::secondsOf(size_t index) const {
  assert(index + 1 < events.size() && "a step");
  float milliseconds = 0;
  if (Status status =
          driver.check(driver.call.eventElapsedTime(
                           &milliseconds, events[index], events[index + 1]),
                       "read the time of a step");
      !status.ok())
    return status;
  return static_cast<double>(milliseconds) / 1000;
}

} // namespace mpc::runtime::cuda
