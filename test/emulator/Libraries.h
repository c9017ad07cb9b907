// Loads the emulated libraries like a program: by name, through the function
// tables of runtime/cuda. A context is current while an object lives.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_LIBRARIES_H
#define MPC_TEST_EMULATOR_LIBRARIES_H

#include "runtime/cuda/BLASLtABI.h"
#include "runtime/cuda/dnn/DNNABI.h"

#include "gtest/gtest.h"

#include <dlfcn.h>
#include <vector>

namespace mpc::emulator {

namespace cuda = mpc::runtime::cuda;

inline void *openLibrary(const char *name) {
  std::string path = std::string(MPC_TEST_EMULATOR_FOLDER) + "/" + name;
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_TRUE(library) << dlerror();
  return library;
}

template <class F>
void findFunction(void *library, const char *name, F *&function) {
  function = reinterpret_cast<F *>(dlsym(library, name));
  EXPECT_TRUE(function) << name;
}

inline int code(cuda::DriverResult result) { return static_cast<int>(result); }
inline int code(cuda::BLASStatus status) { return static_cast<int>(status); }
inline int code(cuda::DNNStatus status) { return static_cast<int>(status); }

/// A device with one stream.
class Libraries : public testing::Test {
protected:
  Libraries() {
    void *library = openLibrary("libcuda.so.1");
#define MPC_FIND(member, symbol, ...)                                          \
  findFunction(library, #symbol, driver.member);
    MPC_CUDA_DRIVER_FUNCTIONS(MPC_FIND)
#undef MPC_FIND
    findFunction(library, "cuDevicePrimaryCtxRelease_v2", releaseContext);
    EXPECT_EQ(code(driver.init(0)), 0);
    EXPECT_EQ(code(driver.primaryCtxRetain(&context, 0)), 0);
    EXPECT_EQ(code(driver.ctxPushCurrent(context)), 0);
    EXPECT_EQ(code(driver.streamCreate(&stream, cuda::kStreamNonBlocking)), 0);
  }

  ~Libraries() override {
    for (cuda::DevicePointer memory : allocated)
      (void)driver.memFree(memory);
    (void)driver.streamDestroy(stream);
    (void)driver.ctxPopCurrent(&context);
    (void)releaseContext(0);
  }

  cuda::DevicePointer allocate(size_t bytes) {
    cuda::DevicePointer memory = 0;
    EXPECT_EQ(code(driver.memAlloc(&memory, bytes)), 0);
    allocated.push_back(memory);
    return memory;
  }

  template <class T>
  cuda::DevicePointer upload(const std::vector<T> &values) {
    size_t bytes = values.size() * sizeof(T);
    cuda::DevicePointer memory = allocate(bytes);
    EXPECT_EQ(
        code(driver.memcpyHtoDAsync(memory, values.data(), bytes, stream)), 0);
    return memory;
  }

  template <class T>
  std::vector<T> download(cuda::DevicePointer memory, size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(code(driver.memcpyDtoHAsync(values.data(), memory,
                                          count * sizeof(T), stream)),
              0);
    return values;
  }

  cuda::DriverFunctions driver;
  cuda::Context context = nullptr;
  cuda::Stream stream = nullptr;

private:
  /// The runtime never releases the context. Each test needs a fresh one.
  cuda::DriverResult (*releaseContext)(cuda::DeviceOrdinal device) = nullptr;
  std::vector<cuda::DevicePointer> allocated;
};

/// A small number that depends on the position, exact in bf16 and f16.
inline float sample(size_t i, size_t salt) {
  return static_cast<float>(static_cast<int>((i * 7 + salt * 13) % 17) - 8) / 8;
}

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_LIBRARIES_H
