// Runs single kernels on the emulated GPU (test/emulator).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_PASSES_CODEGEN_EMULATEDGPU_H
#define MPC_TEST_PASSES_CODEGEN_EMULATEDGPU_H

#include <cstddef>
#include <string>
#include <vector>

namespace mpc::test {

/// Host memory that a kernel reads or writes. Equal addresses share one buffer.
struct HostBuffer {
  void *address;
  size_t bytes;
};

struct Launch {
  std::string kernel;
  unsigned blocks, threads;
  unsigned sharedBytes = 0;
};

/// Copies the buffers to the device, launches, and copies them back. Returns
/// the error; empty on success.
std::string runOnEmulatedGPU(const std::string &ptx, const Launch &launch,
                             const std::vector<HostBuffer> &args);

} // namespace mpc::test

#endif // MPC_TEST_PASSES_CODEGEN_EMULATEDGPU_H
