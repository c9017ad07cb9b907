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

enum class Kind : int { AllReduce, Reduce, Broadcast };

/// An exchange of data, which must be equal on all ranks.
struct Exchange {
  Kind kind = Kind::AllReduce;
  uint64_t count = 0;
  int type = 0;
  int operation = ncclSum; ///< ncclSum or ncclMax
  double scale = 1;        ///< of each element, before the sum
  int root = 0;            ///< of Reduce and Broadcast

  /// The name of the library's function.
  const char *name() const;
  std::string describe() const;
  bool operator==(const Exchange &other) const;
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

  /// Continues `exchange` of `data`. Returns true at the end, false as long as
  /// another rank must go on first. Sets `fault` if the ranks differ.
  bool run(void *data, const Exchange &exchange, std::string &fault);
  /// True while an exchange has begun and not ended.
  bool isBusy() const { return offset > 0 || isPosted; }
  int count() const { return ranks; }

  void finalize();
  bool haveAllFinalized() const;

  /// Makes all exchanges end at once, with undefined results.
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
  uint64_t chunk = 0;  ///< chunks of all exchanges so far
  uint64_t offset = 0; ///< elements of the exchange so far
  bool isPosted = false;
};

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_NCCL_RANKS_H
