// What the emulated libraries (cuBLASLt, cuDNN) ask of the emulated driver.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_CUDA_HOOKS_H
#define MPC_TEST_EMULATOR_CUDA_HOOKS_H

#include "test/emulator/cuda/ABI.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mpc::emulator {

/// A part of device memory that a library's work touches.
struct Access {
  const void *address;
  size_t bytes;
};

/// Counts a call of a library's function; the error it must return, if
/// MPC_EMULATOR_FAULT asks for one.
MPC_EXPORT std::optional<int> libraryFault(const char *function);

MPC_EXPORT void libraryLog(const std::string &line);

/// Whether a driver was initialised and the thread has a current context.
MPC_EXPORT bool hasContext();

MPC_EXPORT int computeCapability(); ///< 80 for sm_80

/// Enqueues work that touches `accesses`: into the stream's graph while it is
/// captured. What is not device memory when the work is done loses the
/// context, as a library's kernel would.
MPC_EXPORT CUresult enqueueWork(CUstream stream, std::string name,
                                std::vector<Access> accesses,
                                std::function<void()> work);

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_CUDA_HOOKS_H
