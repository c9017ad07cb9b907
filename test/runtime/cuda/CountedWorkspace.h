// A workspace of memory that is only counted, for planning with the real
// libraries where there is no GPU.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_CUDA_COUNTEDWORKSPACE_H
#define MPC_TEST_RUNTIME_CUDA_COUNTEDWORKSPACE_H

#include "runtime/cuda/DeviceMemory.h"

namespace mpc::runtime::test {

class CountedWorkspace {
public:
  CountedWorkspace() {
    driver.call.memAlloc = [](cuda::DevicePointer *memory, size_t) {
      *memory = 256;
      return cuda::DriverResult::Success;
    };
    driver.call.memFree = [](cuda::DevicePointer) {
      return cuda::DriverResult::Success;
    };
  }
  cuda::Workspace &get() { return workspace; }

private:
  cuda::Driver driver;
  cuda::GPU gpu;
  Plan plan;
  cuda::DeviceMemory memory{driver, gpu, plan};
  cuda::Workspace workspace{memory};
};

} // namespace mpc::runtime::test

#endif // MPC_TEST_RUNTIME_CUDA_COUNTEDWORKSPACE_H
