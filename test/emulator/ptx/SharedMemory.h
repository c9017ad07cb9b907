// The shared memory of a block. Remembers who touched which word since the
// last barrier, so that an access that another thread's makes unpredictable is
// an error.
//
// Two accesses conflict when one writes, threads differ, their bytes overlap
// and nothing orders them: no block barrier between, nor (in one warp) a
// bar.warp.sync. A word is watched with one writer and one reader at a time;
// where several share a word without sharing bytes it is no longer watched
// until the next barrier. So what is reported is a race; not every race is
// reported. What an asynchronous copy writes must not be touched until the copy
// was waited for.
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
  /// Who accesses: a thread of the block, and how many warp-level barriers its
  /// warp had passed.
  struct Accessor {
    unsigned thread;
    unsigned syncs;
  };

  /// Empties the memory for a block. What no thread writes holds NaNs.
  void reset(uint32_t bytes);

  /// A block barrier was passed.
  void passBarrier() { ++epoch; }

  uint8_t *access(uint64_t address, unsigned bytes, bool write,
                  Accessor accessor, unsigned lane);

  /// The place that a copy of whole words writes, from when it is started
  /// until it is waited for.
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
    uint32_t copiedIn = 0; ///< the block that has a copy to it under way
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
