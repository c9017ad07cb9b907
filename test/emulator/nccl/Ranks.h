// The ranks of an emulated communicator. Each rank is a process; a file that
// all processes map carries the elements.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_NCCL_RANKS_H
#define MPC_TEST_EMULATOR_NCCL_RANKS_H

#include "test/emulator/nccl/ABI.h"

#include <cstdint>
#include <memory>
#include <string>

namespace mpc::emulator {

/// A reduction, which must be equal on all ranks.
struct Reduction {
  uint64_t count = 0;
  int type = 0;
  int operation = ncclSum; ///< ncclSum or ncclMax
  double scale = 1;        ///< of each element, before the sum

  std::string describe() const;
  bool operator==(const Reduction &other) const;
};

/// Returns the bytes of an element; 0 for an unknown type.
size_t sizeOf(int type);

/// Returns the float at `scalar`.
double loadScale(const void *scalar, int type);

class Ranks {
public:
  /// Makes a file for a communicator, and returns its path; empty on failure.
  static std::string create();

  /// Joins the ranks of the file. Null if the file does not exist, or if
  /// another process has the place of `rank`.
  static std::shared_ptr<Ranks> join(const std::string &path, int ranks,
                                     int rank, int device);
  ~Ranks();
  Ranks(const Ranks &) = delete;
  Ranks &operator=(const Ranks &) = delete;

  /// Returns ncclInProgress until all ranks have joined. ncclInvalidUsage if
  /// two have one device or another number of ranks, ncclRemoteError if the
  /// process of a rank has ended.
  ncclResult_t getState() const;

  /// Continues `reduction` of `data`. Returns true at the end, false as long as
  /// another rank must go on first. Sets `fault` if the ranks differ.
  bool reduce(void *data, const Reduction &reduction, std::string &fault);
  /// True while a reduction has begun and not ended.
  bool isReducing() const { return offset > 0 || isPosted; }

  void finalize();
  bool haveAllFinalized() const;

  /// Makes all reductions end at once, with undefined results.
  void abort() { isAborted = true; }

private:
  struct Shared;

  Ranks(std::string path, Shared *shared, int ranks, int rank)
      : path(std::move(path)), shared(shared), ranks(ranks), rank(rank) {}
  bool haveRead(uint64_t chunks) const;
  bool havePosted(uint64_t chunks) const;

  std::string path;
  Shared *shared;
  int ranks, rank;
  bool isAborted = false;
  uint64_t chunk = 0;  ///< chunks of all reductions so far
  uint64_t offset = 0; ///< elements of the reduction so far
  bool isPosted = false;
};

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_NCCL_RANKS_H
