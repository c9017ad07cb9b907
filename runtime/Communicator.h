// The interface through which the ranks of a distributed run exchange data.
//
// A rank is a process with a device. All ranks make equal calls, in equal
// order. A call returns when the part of the calling rank is done. Only the
// number of ranks decides the order of sums, so all ranks get equal bits, in
// every run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_COMMUNICATOR_H
#define MPC_RUNTIME_COMMUNICATOR_H

#include "runtime/Names.h"
#include "runtime/Status.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mpc::runtime {

/// Memory of `bytes` bytes that the rank `owner` answers for.
struct RankPart {
  void *data;
  size_t bytes;
  int owner;
};

/// The ranks that train a model together. If a call fails or another rank is
/// lost, the call returns a Rank error with rank and cause. After an error,
/// only `abort` may be called.
///
/// Not thread-safe, except for `abort`.
class Communicator {
public:
  virtual ~Communicator() = default;

  int rank() const { return own; } ///< of this process, in [0, size())
  int size() const { return ranks; }
  bool isFirst() const { return own == 0; }
  /// The library that moves the data: "mpi", "gloo" or "nccl".
  virtual std::string_view backend() const = 0;

  /// Replaces the `count` elements at `data`, in host memory, by their
  /// reduction over all ranks. f16 and bf16 elements are divided before they
  /// are added if `kind` is Mean, and added as f32. Integers have no mean.
  virtual Status allReduce(void *data, size_t count, DType type,
                           Reduce kind) = 0;

  /// Like allReduce of `rows * rowElements` elements, with the same bits. Meant
  /// for a table of which each rank has few rows that are not zero: libraries
  /// that move host memory send only these rows if they have fewer bytes.
  virtual Status allReduceRows(void *data, size_t rows, size_t rowElements,
                               DType type, Reduce kind) {
    return allReduce(data, rows * rowElements, type, kind);
  }

  /// Reduces `count` elements per rank. Of the `size() * count` elements at
  /// `data`, the part that begins at element `rank() * count` becomes the
  /// reduction. All other parts are undefined afterwards.
  virtual Status reduceScatter(void *data, size_t count, DType type,
                               Reduce kind) = 0;

  /// Gives every rank the parts of all ranks. `data` has `size() * bytes`
  /// bytes; the rank's own part begins at byte `rank() * bytes`.
  virtual Status allGather(void *data, size_t bytes) = 0;

  /// Reduces each part, an array of `type`, over all ranks. Only the owner of a
  /// part gets the reduction, in place of the part; on other ranks the part
  /// stays. All ranks give parts of the same owners and sizes. Unsupported
  /// unless the library moves host memory.
  virtual Status reduceToOwners(const std::vector<RankPart> &parts, DType type,
                                Reduce kind) {
    return Status(StatusCode::Unsupported,
                  std::string(backend()) + " cannot reduce to owners");
  }

  /// Gives every rank the bytes of each part on the part's owner. All ranks
  /// give parts of the same owners and sizes. Unsupported unless the library
  /// moves host memory.
  virtual Status gatherFromOwners(const std::vector<RankPart> &parts) {
    return Status(StatusCode::Unsupported,
                  std::string(backend()) + " cannot gather from owners");
  }

  /// Gives every rank the bytes at `data` of the rank `root`.
  virtual Status broadcast(void *data, size_t bytes, int root) = 0;

  /// Returns once all ranks have called `barrier`.
  virtual Status barrier() = 0;

  /// Ends all other ranks, with the failure `why` as the reason. Calls in which
  /// other ranks wait return a Rank error. Any thread may call `abort`. If the
  /// library ends processes, they end with the code of `why`.
  virtual void abort(const Status &why) = 0;

  /// After a Rank error, returns the code of the failure that another rank gave
  /// to `abort`; Rank if a rank was lost, or if the library tells no code.
  virtual StatusCode failureCode() { return StatusCode::Rank; }

  /// Tells that another library, which connects the same ranks, has lost a
  /// rank. No call may follow, and the destructor waits for no rank.
  virtual void noteLoss() {}

  /// Returns the bytes that the rank has sent so far, by the library's
  /// algorithm or, if unknown, by a ring. Includes `addBytesSent`.
  virtual size_t bytesSent() const = 0;

  /// Counts bytes that the rank has sent by another library.
  void addBytesSent(size_t bytes) { sentBeside += bytes; }

protected:
  Communicator(int rank, int size) : own(rank), ranks(size) {}
  size_t bytesSentBeside() const { return sentBeside; }

private:
  int own, ranks;
  size_t sentBeside = 0;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_COMMUNICATOR_H
