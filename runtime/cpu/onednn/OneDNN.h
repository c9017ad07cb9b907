// What the library's two kinds of contraction share: the engine, the
// instruction set it may use, and calling a primitive from a worker.
//
// The library is always called with one thread on a slice of the work. Its own
// threads (libgomp) would spin against the worker pool's on the same cores.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_ONEDNN_ONEDNN_H
#define MPC_RUNTIME_CPU_ONEDNN_ONEDNN_H

#include "runtime/Status.h"
#include "runtime/Tensor.h"

#include <initializer_list>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>
#include <vector>

namespace mpc::runtime {

/// Makes the library see one OpenMP thread on this thread while it lives, and
/// leaves a process that uses OpenMP itself as it was.
class SingleThreadedOpenMP {
public:
  SingleThreadedOpenMP();
  ~SingleThreadedOpenMP();

private:
  int previous;
};

dnnl::engine &dnnlEngine();

/// Attributes every primitive is made with: scratch memory from the caller and
/// fp32 that stays fp32 whatever the environment says.
dnnl::primitive_attr dnnlAttributes();

/// A primitive and, for every worker, the memory objects it is called with.
class WorkerPrimitive {
public:
  WorkerPrimitive() = default;

  /// `args` are the primitive's arguments in the order in which `run` takes
  /// their addresses.
  WorkerPrimitive(const dnnl::primitive &primitive,
                  std::vector<std::pair<int, dnnl::memory::desc>> args,
                  const dnnl::memory::desc &scratchpad, int workers);

  explicit operator bool() const { return !calls.empty(); }
  size_t scratchBytes() const { return scratchpadBytes; }

  /// Runs it on the calling thread. `scratch` has scratchBytes() bytes. Throws
  /// std::bad_alloc where memory is short.
  Status run(int worker, std::initializer_list<const void *> addresses,
             void *scratch);

private:
  /// What one worker calls with; addresses are set when they change.
  struct Call {
    bool hasRun = false;
    dnnl::stream stream;
    std::vector<dnnl::memory> memories;
    std::vector<dnnl_exec_arg_t> args;
  };

  dnnl::primitive primitive;
  size_t scratchpadBytes = 0;
  std::vector<Call> calls;
};

/// The library's name of f32 or bf16.
dnnl::memory::data_type dnnlType(DType type);

/// Throws std::bad_alloc where the process may not have the memory that the
/// library takes to prepare a step. The library itself does not look whether it
/// got what it asks for: it would crash.
void expectLibraryMemory();

/// IO, with what forbids it, where memory of this process may not become
/// executable: the library generates code.
Status checkExecutableMemory();

/// The same, asked anew: why the library could not generate its code. Throws
/// std::bad_alloc where memory is short.
Status probeExecutableMemory();

/// Runs `body`, which may throw dnnl::error, and gives what went wrong. Throws
/// std::bad_alloc where memory is short.
template <typename Body>
Status catchDNNL(const char *what, Body body) {
  try {
    SingleThreadedOpenMP guard;
    expectLibraryMemory();
    if (Status status = checkExecutableMemory(); !status.ok())
      return status;
    body();
    return Status();
  } catch (const dnnl::error &error) {
    // A kernel that has no memory for its code fails for no stated reason.
    if (error.status == dnnl_out_of_memory)
      throw std::bad_alloc();
    expectLibraryMemory();
    if (Status status = probeExecutableMemory(); !status.ok())
      return status;
    return Status(StatusCode::Internal,
                  std::string("oneDNN cannot ") + what + ": " + error.what());
  }
}

/// Bytes rounded up so that what follows in scratch memory is aligned.
inline size_t alignScratch(size_t bytes) { return (bytes + 63) & ~size_t(63); }

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_ONEDNN_ONEDNN_H
