// Descriptions of GPUs, by which the real cuDNN chooses engines and makes plans
// on machines without a GPU.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_CUDA_DESCRIBEDGPU_H
#define MPC_TEST_RUNTIME_CUDA_DESCRIBEDGPU_H

#include <string>

namespace mpc::runtime::test {

struct DescribedGPU {
  const char *name;
  int capability, processors, sharedBytes;

  /// Returns the properties that cuDNN asks of a GPU.
  std::string describe() const {
    return R"({"cudaDeviceId":0,"deviceName":"test","driverVer":13000,)"
           R"("isTccDriver":0,"l2CacheSize":41943040,"maxCtasPerSM":32,)"
           R"("maxRegistersPerSM":65536,"maxSharedMemoryPerBlock":49152,)"
           R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,)"
           R"("memClockRateKHz":1593000,"pciDeviceId":0,"regsPerBlock":65536,)"
           R"("reservedSharedMemoryPerBlock":1024,"smClockRateKHz":1410000,)"
           R"("supportCoopLaunch":1,"totalGlobalMem":80000000000,)"
           R"("warpSize":32,"maxBlockSize":[1024,1024,64],)"
           R"("maxGridSize":[2147483647,65535,65535],"deviceVer":)" +
           std::to_string(10 * capability) + R"(,"multiProcessorCount":)" +
           std::to_string(processors) + R"(,"maxSharedMemoryPerBlockOptin":)" +
           std::to_string(sharedBytes) + "}";
  }
};

inline constexpr DescribedGPU kSM80{"sm80", 80, 108, 166912};
inline constexpr DescribedGPU kSM89{"sm89", 89, 142, 101376};
inline constexpr DescribedGPU kSM90{"sm90", 90, 132, 232448};
inline constexpr DescribedGPU kSM100{"sm100", 100, 148, 232448};
inline constexpr DescribedGPU kSM120{"sm120", 120, 170, 101376};

} // namespace mpc::runtime::test

#endif // MPC_TEST_RUNTIME_CUDA_DESCRIBEDGPU_H
