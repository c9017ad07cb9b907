// The shared memory of a block. Records who touched which word since the last
// barrier, and reports accesses whose order another thread's access makes
// undefined.
//
// Two accesses conflict if one writes, the threads differ, their bytes overlap
// and nothing orders them: no block barrier, nor (in one warp) a bar.warp.sync.
// A word tracks one writer and one reader at a time. Threads that share a word
// without sharing bytes end its tracking until the next barrier. So every
// reported conflict is a race, but not every race is reported. The target of an
// asynchronous copy must not be touched before the wait for the copy.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_PTX_SHAREDMEMORY_H
#define MPC_TEST_EMULATOR_PTX_SHAREDMEMORY_H

#include <cstdint>
#include <memory>
#include <vector>

namespace mpc::emulator::ptx {

class SharedMemory {
public:
  /// The accessor: a thread of the block, and the number of warp-level barriers
  /// that its warp has passed.
  struct Accessor {
    unsigned thread;
    unsigned syncs;
  };

  /// Empties the memory for a block. Memory that no thread writes holds NaNs.
  void reset(uint32_t bytes);

  /// Records that a block barrier was passed.
  void passBarrier() { ++epoch; }

  uint8_t *access(uint64_t address, unsigned bytes, bool write,
                  Accessor accessor, unsigned lane);

  /// The target of a copy of whole words, from its start until the wait.
  uint8_t *beginCopy(uint64_t address, unsigned bytes, Accessor accessor,
                     unsigned lane);
  uint8_t *endCopy(uint64_t address, unsigned bytes, Accessor accessor,
                   unsigned lane);

private:
  /// The last accesses of one kind to a word.
  struct Access {
    uint32_t epoch = 0;
    uint32_t syncs = 0;
    uint16_t thread = 0;
    uint8_t bytes = 0; ///< a bit for each byte of the word
    enum : uint8_t { One, Many, Unwatched } who = One;
  };
  struct Word {
    Access write, read;
    uint32_t copiedIn = 0; ///< the block with a pending copy to it
  };

  bool conflicts(const Access &access, Accessor accessor, uint8_t bytes) const;
  void remember(Access &access, Accessor accessor, uint8_t bytes) const;
  [[noreturn]] void reportRace(const Access &access, const char *earlier,
                               const char *now, uint64_t address,
                               Accessor accessor, unsigned lane) const;

  uint32_t size = 0;
  uint32_t epoch = 0;
  uint32_t block = 0;
  uint8_t *memory = nullptr; ///< aligned, in `storage`
  std::vector<uint8_t> storage;
  std::vector<Word> words;
};

} // namespace mpc::emulator::ptx

#endif // MPC_TEST_EMULATOR_PTX_SHAREDMEMORY_H
