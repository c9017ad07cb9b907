// Prepares the steps of a function for the CPU: resolves kernels and addresses.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_PREPAREDSTEPS_H
#define MPC_RUNTIME_CPU_PREPAREDSTEPS_H

#include "runtime/ABI.h"
#include "runtime/Artifact.h"
#include "runtime/Communicator.h"
#include "runtime/cpu/Contraction.h"

#include <variant>

namespace mpc::runtime {

class CPUDevice;

struct PreparedLaunch {
  mpc_kernel_fn kernel;
  std::vector<void *> args;
  int64_t extent, grain;
};

/// Copies rows of `rowBytes` bytes at the given strides, also in bytes. A whole
/// buffer is a single row.
struct PreparedCopy {
  void *src, *dst;
  int64_t bytes, rowBytes, fromStride, toStride;
};

/// A check of indices. `buffer` and `indices` point into the plan.
struct PreparedCheck {
  void *address;
  const Buffer *buffer;
  const std::vector<IndexBox> *indices;
};

/// A reduction of `count` elements at `address` over the ranks. If
/// `rowElements` is above 0, the elements are a table with rows of so many
/// elements.
struct PreparedAllReduce {
  void *address;
  size_t count;
  DType type;
  Reduce kind;
  size_t rowElements;

  Status run(Communicator &ranks) const {
    return rowElements > 0 ? ranks.allReduceRows(address, count / rowElements,
                                                 rowElements, type, kind)
                           : ranks.allReduce(address, count, type, kind);
  }
};

/// A reduction of each part to its owner.
struct PreparedReduceScatter {
  std::vector<RankPart> parts;
  DType type;
  Reduce kind;
};

struct PreparedAllGather {
  std::vector<RankPart> parts;
};

/// A step that only another rank runs.
struct PreparedSkip {};

struct PreparedStep;

struct PreparedIf {
  void *predicate;
  std::vector<PreparedStep> then, otherwise;
};

/// An address in the steps of a loop that moves by `bytes` per iteration.
struct MovingAddress {
  void **address;
  int64_t bytes;

  void move(int64_t times) const {
    *address = static_cast<std::byte *>(*address) + times * bytes;
  }
};

/// The steps of a loop, with addresses for iteration `iteration`.
struct PreparedBody {
  std::vector<PreparedStep> steps;
  std::vector<MovingAddress> moving;
  int64_t iteration = 0;

  void moveTo(int64_t next) {
    for (const MovingAddress &address : moving)
      address.move(next - iteration);
    iteration = next;
  }
};

/// A loop. If iterations run in parallel, each worker has a body with addresses
/// in its own private memory; the first body uses the arena.
struct PreparedFor {
  int64_t count;
  std::vector<PreparedBody> bodies;
};

/// Returns the largest private memory of all loops whose iterations run in
/// parallel on `workers` workers.
int64_t findPrivateBytes(const Plan &plan, int workers);

/// A step with resolved kernels and addresses.
struct PreparedStep {
  std::string name;
  std::variant<PreparedLaunch, PreparedCopy, PreparedCheck, PreparedAllReduce,
               PreparedReduceScatter, PreparedAllGather, PreparedSkip,
               PreparedIf, PreparedFor, std::unique_ptr<Contraction>>
      op;
  /// The step waits until the function's first `reductionsBefore` exchanges
  /// with other ranks have ended, because it uses their memory.
  size_t reductionsBefore = 0;

  /// True if the step is an exchange with all other ranks.
  bool isExchange() const {
    return std::holds_alternative<PreparedAllReduce>(op) ||
           std::holds_alternative<PreparedReduceScatter>(op) ||
           std::holds_alternative<PreparedAllGather>(op);
  }
  bool isSkipped() const { return std::holds_alternative<PreparedSkip>(op); }
};

/// Prepares the steps of `function`, whose buffers are at the addresses
/// `buffers`. Reserves the scratch memory of the steps on `device`.
StatusOr<std::vector<PreparedStep>>
prepareSteps(CPUDevice &device, const Artifact &artifact,
             const Function &function, const std::vector<void *> &buffers);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_PREPAREDSTEPS_H
