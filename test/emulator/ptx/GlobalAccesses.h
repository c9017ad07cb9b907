// Records which thread touched which byte of global memory during a launch.
//
// Threads of a launch run in any order, and only barriers order the threads of
// a block. The tested kernels communicate through shared memory only. A byte
// that one thread writes must therefore be private to that thread. A device may
// run a kernel that breaks this rule correctly many times.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_PTX_GLOBALACCESSES_H
#define MPC_TEST_EMULATOR_PTX_GLOBALACCESSES_H

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

namespace mpc::emulator::ptx {

class GlobalAccesses {
public:
  /// Records an access of thread `thread` of the grid. Returns a message if it
  /// conflicts with another thread's.
  std::optional<std::string> add(uint64_t address, unsigned bytes, bool write,
                                 uint32_t thread);

  /// Adds other threads' accesses.
  std::optional<std::string> add(const GlobalAccesses &others);

private:
  /// Threads by their number plus one.
  struct Byte {
    uint32_t writer = 0, reader = 0;
  };
  static constexpr uint32_t kSeveral = ~0u;
  static constexpr uint64_t kPageBytes = 4096;
  using Page = std::array<Byte, kPageBytes>;

  Page &pageOf(uint64_t address);

  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages;
  uint64_t lastNumber = ~0ull;
  Page *last = nullptr;
};

} // namespace mpc::emulator::ptx

#endif // MPC_TEST_EMULATOR_PTX_GLOBALACCESSES_H
