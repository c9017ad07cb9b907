// The emulated part of NCCL's C ABI.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_NCCL_ABI_H
#define MPC_TEST_EMULATOR_NCCL_ABI_H

#include <cstddef>

/// An enum of the C ABI: callers may pass any int.
enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};

enum ncclDataType_t : int {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
};

/// Operations that a program creates have larger values.
enum ncclRedOp_t : int { ncclSum = 0, ncclMax = 2, ncclAvg = 4 };

struct ncclUniqueId {
  char internal[128];
};

/// The first fields of each version of ncclConfig_t.
struct ncclConfig_t {
  size_t size;
  unsigned magic, version;
  int blocking;
};

#endif // MPC_TEST_EMULATOR_NCCL_ABI_H
