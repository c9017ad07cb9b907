// A library called libcuda.so.1 for machines without a GPU: cuDNN can compile
// plans with it, but run nothing. cuDNN loads each function that it knows, and
// calls a few of them. All functions succeed; those that give a handle give one
// that is not null.
//
// MPC_TEST_CAPABILITY is the compute capability of the described GPU: 90.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

enum { kSuccess = 0, kInvalidValue = 1 };
enum { kMajorAttribute = 75, kMinorAttribute = 76 };

static int give(void **handle) {
  static int thing;
  *handle = &thing;
  return kSuccess;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
  const char *text = getenv("MPC_TEST_CAPABILITY");
  const int capability = text ? atoi(text) : 80;
  (void)device;
  *value = attribute == kMajorAttribute   ? capability / 10
           : attribute == kMinorAttribute ? capability % 10
                                          : 1;
  return kSuccess;
}
int cuDriverGetVersion(int *version) {
  *version = 13000;
  return kSuccess;
}
int cuDeviceGetCount(int *count) {
  *count = 1;
  return kSuccess;
}
int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return kSuccess;
}
int cuCtxGetDevice(int *device) {
  *device = 0;
  return kSuccess;
}
int cuCtxGetCurrent(void **context) { return give(context); }

// NVRTC uses a table of functions if it gets one.
int cuGetExportTable(const void **table, const void *id) {
  (void)id;
  *table = NULL;
  return kInvalidValue;
}

int cuGetErrorName(int error, const char **text) {
  (void)error;
  *text = "error";
  return kSuccess;
}
int cuGetErrorString(int error, const char **text) {
  return cuGetErrorName(error, text);
}

// Functions whose first argument is the address of a handle.
#define GIVES_HANDLE(name)                                                     \
  int name(void **handle) { return give(handle); }
GIVES_HANDLE(cuModuleLoadData)
GIVES_HANDLE(cuModuleLoadDataEx)
GIVES_HANDLE(cuModuleGetFunction)
GIVES_HANDLE(cuLibraryLoadData)
GIVES_HANDLE(cuLibraryLoadFromFile)
GIVES_HANDLE(cuLibraryGetKernel)
GIVES_HANDLE(cuLibraryGetModule)
GIVES_HANDLE(cuKernelGetFunction)

#define SUCCEEDS(name)                                                         \
  int name(void) { return kSuccess; }
SUCCEEDS(cuInit)
SUCCEEDS(cuDeviceGetName)
SUCCEEDS(cuCtxGetLimit)
SUCCEEDS(cuCtxPopCurrent)
SUCCEEDS(cuCtxPushCurrent)
SUCCEEDS(cuStreamGetCtx)
SUCCEEDS(cuFuncGetAttribute)
SUCCEEDS(cuFuncSetAttribute)
SUCCEEDS(cuKernelGetAttribute)
SUCCEEDS(cuKernelSetAttribute)
SUCCEEDS(cuLibraryUnload)
SUCCEEDS(cuLaunchKernel)
SUCCEEDS(cuLaunchKernelEx)
SUCCEEDS(cuLaunchCooperativeKernel)
SUCCEEDS(cuLinkCreate)
SUCCEEDS(cuLinkAddData)
SUCCEEDS(cuLinkComplete)
SUCCEEDS(cuLinkDestroy)
SUCCEEDS(cuOccupancyMaxPotentialClusterSize)
