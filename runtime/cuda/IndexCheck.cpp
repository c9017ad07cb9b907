// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/IndexCheck.h"

#include "runtime/Indices.h"
#include "runtime/cuda/DeviceMemory.h"

namespace mpc::runtime::cuda {

StatusOr<std::unique_ptr<CUDAStep>>
IndexCheck::create(const CUDADriver &driver, const CheckIndicesStep &step,
                   const Buffer &buffer, const void *from) {
  std::unique_ptr<IndexCheck> check(new IndexCheck(driver, step, buffer, from));
  Status status =
      driver.check(driver.call.memHostAlloc(
                       &check->copy, static_cast<size_t>(buffer.bytes), 0),
                   "allocate pinned host memory");
  if (!status.ok())
    return status;
  return std::unique_ptr<CUDAStep>(std::move(check));
}

IndexCheck::~IndexCheck() {
  if (copy)
    (void)driver.call.memFreeHost(copy);
}

Status IndexCheck::enqueue(Stream stream) {
  return driver.check(
      driver.call.memcpyDtoHAsync(copy, toDevicePointer(from),
                                  static_cast<size_t>(buffer.bytes), stream),
      "copy indices from the GPU");
}

Status IndexCheck::getOutcome() {
  return checkIndices(buffer.type, copy, buffer.shape, step.indices);
}

} // namespace mpc::runtime::cuda
