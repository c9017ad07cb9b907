// Replaces the CUDA driver for a GPU that does not exist. To build plans, cuDNN
// only requires that calls succeed and handles are not null.
//
// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

static int succeed(void) { return 0; }

static int giveHandle(void **handle) {
  static long made;
  *handle = &made;
  return 0;
}

#define HANDLE(name)                                                           \
  int name(void **handle) { return giveHandle(handle); }
HANDLE(cuModuleLoadData)
HANDLE(cuModuleLoadDataEx)
HANDLE(cuModuleGetFunction)
HANDLE(cuLibraryLoadData)
HANDLE(cuLibraryGetKernel)
HANDLE(cuLibraryGetModule)
HANDLE(cuKernelGetFunction)
HANDLE(cuCtxGetCurrent)
HANDLE(cuDevicePrimaryCtxRetain)

#define SUCCEED(name)                                                          \
  int name(void) { return succeed(); }
SUCCEED(cuInit)
SUCCEED(cuModuleUnload)
SUCCEED(cuLibraryUnload)
SUCCEED(cuFuncSetAttribute)
SUCCEED(cuFuncGetAttribute)
SUCCEED(cuKernelSetAttribute)
SUCCEED(cuCtxSetCurrent)
SUCCEED(cuCtxPushCurrent_v2)
SUCCEED(cuCtxPopCurrent_v2)
SUCCEED(cuLaunchKernel)
SUCCEED(cuLaunchKernelEx)
SUCCEED(cuLaunchCooperativeKernel)
SUCCEED(cuCtxGetLimit)
SUCCEED(cuCtxPushCurrent)
SUCCEED(cuCtxPopCurrent)
SUCCEED(cuStreamGetCtx)
SUCCEED(cuLinkCreate)
SUCCEED(cuLinkAddData)
SUCCEED(cuLinkComplete)
SUCCEED(cuLinkDestroy)
SUCCEED(cuLibraryLoadFromFile)
SUCCEED(cuKernelGetAttribute)
SUCCEED(cuOccupancyMaxPotentialClusterSize)

int cuDriverGetVersion(int *version) {
  *version = 13000;
  return 0;
}

int cuDeviceGet(int *device) {
  *device = 0;
  return 0;
}

int cuDeviceGetCount(int *count) {
  *count = 1;
  return 0;
}

/// MPC_TEST_CAPABILITY gives the capability, such as 90.
int cuDeviceGetAttribute(int *value, int attribute) {
  const char *text = getenv("MPC_TEST_CAPABILITY");
  int capability = text ? atoi(text) : 90;
  *value = attribute == 75   ? capability / 10
           : attribute == 76 ? capability % 10
                             : 0;
  return 0;
}

int cuGetErrorString(int code, const char **text) {
  *text = "an error";
  return 0 * code;
}

int cuGetErrorName(int code, const char **text) {
  return cuGetErrorString(code, text);
}

/// NVRTC crashes if it gets a table.
int cuGetExportTable(void) { return 1; }

int cuGetProcAddress_v2(const char *name, void **function) {
  void *found = dlsym(RTLD_DEFAULT, name);
  *function = found ? found : (void *)succeed;
  return 0;
}

int cuGetProcAddress(const char *name, void **function) {
  return cuGetProcAddress_v2(name, function);
}
