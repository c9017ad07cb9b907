// Steps of a function with kernels and addresses resolved, as the CPU runs
// them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_PREPAREDSTEPS_H
#define MPC_RUNTIME_CPU_PREPAREDSTEPS_H

#include "runtime/ABI.h"
#include "runtime/Artifact.h"
#include "runtime/cpu/Contraction.h"

#include <variant>

namespace mpc::runtime {

class CPUDevice;

struct PreparedLaunch {
  mpc_kernel_fn kernel;
  std::vector<void *> args;
  int64_t extent, grain;
};

/// Rows, each so many bytes behind the one before; all of a buffer is one row.
struct PreparedCopy {
  void *src, *dst;
  int64_t bytes, rowBytes, fromStride, toStride;
};

/// `buffer` and `indices` are the plan's.
struct PreparedCheck {
  void *address;
  const Buffer *buffer;
  const std::vector<IndexBox> *indices;
};

struct PreparedStep;

struct PreparedIf {
  void *predicate;
  std::vector<PreparedStep> then, otherwise;
};

/// An address within the steps of a loop that moves from one iteration to the
/// next.
struct MovingAddress {
  void **address;
  int64_t bytes;

  void move(int64_t times) const {
    *address = static_cast<std::byte *>(*address) + times * bytes;
  }
};

/// The steps of a loop, at one of its iterations.
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

/// Where iterations run side by side, each worker has a body over memory of its
/// own; the first one's is that of the arena.
struct PreparedFor {
  int64_t count;
  std::vector<PreparedBody> bodies;
};

/// The largest private memory of loops whose iterations run side by side on so
/// many workers.
int64_t findPrivateBytes(const Plan &plan, int workers);

/// A step with kernels and addresses resolved.
struct PreparedStep {
  std::string name;
  std::variant<PreparedLaunch, PreparedCopy, PreparedCheck, PreparedIf,
               PreparedFor, std::unique_ptr<Contraction>>
      op;
};

/// Prepares the steps of `function`, whose buffers are at `buffers`; `device`
/// reserves the scratch memory that they need.
StatusOr<std::vector<PreparedStep>>
prepareSteps(CPUDevice &device, const Artifact &artifact,
             const Function &function, const std::vector<void *> &buffers);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_PREPAREDSTEPS_H
