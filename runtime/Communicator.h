// The interface through which the ranks of a distributed run exchange data.
//
// A rank is one process with one device. All ranks make the same calls in the
// same order; each call returns when this rank's part is done. Sums are taken
// in an order that depends on the number of ranks only, so every rank gets the
// same bits, in every run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_COMMUNICATOR_H
#define MPC_RUNTIME_COMMUNICATOR_H

#include "runtime/Names.h"
#include "runtime/Status.h"

#include <cstddef>
#include <string_view>

namespace mpc::runtime {

/// Ranks that train one model together. A call that fails on this rank, or
/// whose partner is lost, returns a Rank error that names the rank and the
/// cause. After an error, only `abort` may be called.
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

  /// Reduces `count` elements per rank: of the `size() * count` elements at
  /// `data`, this rank's part, which begins at element `rank() * count`,
  /// becomes the reduction. The other parts are undefined afterwards.
  virtual Status reduceScatter(void *data, size_t count, DType type,
                               Reduce kind) = 0;

  /// Gives every rank the parts of all ranks. `data` has `size() * bytes`
  /// bytes; this rank's part begins at byte `rank() * bytes`.
  virtual Status allGather(void *data, size_t bytes) = 0;

  /// Gives every rank the bytes at `data` of the rank `root`.
  virtual Status broadcast(void *data, size_t bytes, int root) = 0;

  /// Returns once all ranks have called `barrier`.
  virtual Status barrier() = 0;

  /// Ends the other ranks, with this rank's failure as their reason. The
  /// calls that they wait in return a Rank error. May be called by any thread.
  virtual void abort(const Status &why) = 0;

  /// The bytes that this rank has sent so far, by the algorithm of the library
  /// or, if unknown, of a ring.
  virtual size_t bytesSent() const = 0;

protected:
  Communicator(int rank, int size) : own(rank), ranks(size) {}

private:
  int own, ranks;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_COMMUNICATOR_H
