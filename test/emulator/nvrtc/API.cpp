// The emulated NVRTC, which compiles nothing: cuDNN only has to find it.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cuda/ABI.h"

extern "C" MPC_EXPORT int nvrtcVersion(int *major, int *minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
