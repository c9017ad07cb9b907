// A workspace that only counts its memory, for planning with the real libraries
// without a GPU. Nothing runs. The only number read back is the product by
// which an engine is tried, and the test sets it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_CUDA_COUNTEDWORKSPACE_H
#define MPC_TEST_RUNTIME_CUDA_COUNTEDWORKSPACE_H

#include "runtime/cuda/DeviceMemory.h"
#include "runtime/cuda/dnn/DNNProbe.h"

#include <cstring>

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
    driver.call.memsetD8Async = [](cuda::DevicePointer, unsigned char, size_t,
                                   cuda::Stream) {
      return cuda::DriverResult::Success;
    };
    driver.call.memcpyHtoDAsync = [](cuda::DevicePointer, const void *, size_t,
                                     cuda::Stream) {
      return cuda::DriverResult::Success;
    };
    driver.call.memcpyDtoHAsync = [](void *to, cuda::DevicePointer, size_t,
                                     cuda::Stream) {
      float product = cuda::kProbeFactor * cuda::kProbeFactor;
      if (roundedProducts > 0) {
        --roundedProducts;
        product = 0x1.554p0F * 0x1.554p0F; // ten bits of each factor
      }
      std::memcpy(to, &product, sizeof(product));
      return cuda::DriverResult::Success;
    };
    driver.call.streamSynchronize = [](cuda::Stream) {
      return cuda::DriverResult::Success;
    };
  }

  /// Number of the next products to be read back as tf32.
  static inline int roundedProducts = 0;

  cuda::Workspace &get() { return workspace; }

private:
  cuda::CUDADriver driver;
  cuda::GPU gpu;
  Plan plan;
  StateShares shares{plan};
  cuda::DeviceMemory memory{driver, gpu, plan, shares};
  cuda::Workspace workspace{memory};
};

} // namespace mpc::runtime::test

#endif // MPC_TEST_RUNTIME_CUDA_COUNTEDWORKSPACE_H
