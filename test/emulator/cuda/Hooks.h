// Functions of the emulated driver for the emulated libraries (cuBLASLt,
// cuDNN, NCCL).
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

/// Counts a call of a library's function. Returns the error requested by
/// MPC_EMULATOR_FAULT, if any.
MPC_EXPORT std::optional<int> libraryFault(const char *function);

MPC_EXPORT void libraryLog(const std::string &line);

/// True if the driver is initialised and the thread has a current context.
MPC_EXPORT bool hasContext();

/// The device of the thread's context, which exists.
MPC_EXPORT int currentDevice();

/// True if the thread captures a stream.
MPC_EXPORT bool isCapturing();

MPC_EXPORT int computeCapability(); ///< 80 for sm_80

/// Enqueues work that touches `accesses`, or adds it to the stream's graph
/// during a capture. If an access is not device memory when the work runs, the
/// context is lost, as by a library's kernel. `work` returns as Work::run does.
MPC_EXPORT CUresult enqueueWork(CUstream stream, std::string name,
                                std::vector<Access> accesses,
                                std::function<CUresult()> work);

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_CUDA_HOOKS_H
