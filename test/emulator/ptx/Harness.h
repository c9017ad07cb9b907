// Helper of the interpreter's tests: runs a kernel over a few buffers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_PTX_HARNESS_H
#define MPC_TEST_EMULATOR_PTX_HARNESS_H

#include "test/emulator/ptx/Executor.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace mpc::emulator::ptx {

/// Device memory of a test, with a device's alignment.
template <class T>
class Buffer {
public:
  explicit Buffer(size_t count, T value = T())
      : storage(new uint8_t[count * sizeof(T) + kAlignment]), count(count) {
    auto begin = reinterpret_cast<uintptr_t>(storage.get());
    data = reinterpret_cast<T *>(storage.get() + (-begin & (kAlignment - 1)));
    std::fill_n(data, count, value);
  }
  T &operator[](size_t i) { return data[i]; }
  size_t size() const { return count; }
  MemoryRange range() const {
    auto begin = reinterpret_cast<uint64_t>(data);
    return {begin, begin + count * sizeof(T)};
  }

private:
  static constexpr size_t kAlignment = 256;
  std::unique_ptr<uint8_t[]> storage;
  size_t count;
  T *data;
};

inline std::string withHeader(const std::string &text) {
  return ".version 8.0\n.target sm_80\n.address_size 64\n" + text;
}

/// Runs the first kernel of `text`, whose parameters are the buffers'
/// addresses.
template <class... Buffers>
std::optional<KernelFault> run(const std::string &text, Dim grid, Dim block,
                               unsigned dynamicShared,
                               const Buffers &...buffers) {
  Module module = loadModule(text);
  std::vector<MemoryRange> memory{buffers.range()...};
  std::vector<uint64_t> params;
  for (const MemoryRange &range : memory)
    params.push_back(range.begin);
  for (const GlobalMemory &global : module.globals) {
    auto begin = reinterpret_cast<uint64_t>(global.address);
    memory.push_back({begin, begin + global.bytes, global.isConstant});
  }
  std::sort(memory.begin(), memory.end(),
            [](auto &a, auto &b) { return a.begin < b.begin; });
  Launch launch;
  launch.module = &module;
  launch.kernel = &module.kernels.at(0);
  launch.grid = grid;
  launch.block = block;
  launch.dynamicShared = dynamicShared;
  launch.params = reinterpret_cast<const uint8_t *>(params.data());
  launch.memory = &memory;
  return execute(launch);
}

} // namespace mpc::emulator::ptx

#endif // MPC_TEST_EMULATOR_PTX_HARNESS_H
