// Shared by the products and convolutions with oneDNN: the engine, the allowed
// instruction set, and calls of primitives from workers.
//
// oneDNN always runs with one thread, on a slice of the work. Its own threads
// (libgomp) would compete with the worker pool for the same cores.
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

/// While alive, oneDNN uses one OpenMP thread when called from this thread. The
/// destructor restores the previous number, because the process may use OpenMP
/// itself.
class SingleThreadedOpenMP {
public:
  SingleThreadedOpenMP();
  ~SingleThreadedOpenMP();

private:
  int previous;
};

dnnl::engine &dnnlEngine();

/// The attributes of every primitive: scratch memory comes from the caller, and
/// fp32 stays fp32, regardless of the environment.
dnnl::primitive_attr dnnlAttributes();

/// A oneDNN primitive that several workers may run at the same time: each
/// worker has memory objects of its own.
class WorkerPrimitive {
public:
  WorkerPrimitive() = default;

  /// `args` has the primitive's arguments in the order in which `run` takes
  /// their addresses.
  WorkerPrimitive(const dnnl::primitive &primitive,
                  std::vector<std::pair<int, dnnl::memory::desc>> args,
                  const dnnl::memory::desc &scratchpad, int workers);

  explicit operator bool() const { return !calls.empty(); }
  size_t scratchBytes() const { return scratchpadBytes; }

  /// Runs the primitive on the calling thread. `scratch` has scratchBytes()
  /// bytes. Throws std::bad_alloc if memory is short.
  Status run(int worker, std::initializer_list<const void *> addresses,
             void *scratch);

private:
  /// The arguments of one worker's calls. run() changes an address only if the
  /// address differs from the last call.
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

/// Returns oneDNN's name of f32 or bf16.
dnnl::memory::data_type dnnlType(DType type);

/// Throws std::bad_alloc if the process cannot get the memory that oneDNN needs
/// to prepare a step. oneDNN does not check its allocations and would crash.
void expectLibraryMemory();

/// An IO error with the cause if the process may not make memory executable.
/// oneDNN generates code.
Status checkExecutableMemory();

/// Like checkExecutableMemory, but does not use a cached answer. Called after a
/// failure of oneDNN. Throws std::bad_alloc if memory is short.
Status probeExecutableMemory();

/// Runs `body`, and converts dnnl::error to a status. Throws std::bad_alloc if
/// memory is short.
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
    // If oneDNN gets no memory for a kernel's code, the error does not say so.
    // So test for memory, then for the right to execute memory.
    if (error.status == dnnl_out_of_memory)
      throw std::bad_alloc();
    expectLibraryMemory();
    if (Status status = probeExecutableMemory(); !status.ok())
      return status;
    return Status(StatusCode::Internal,
                  std::string("oneDNN cannot ") + what + ": " + error.what());
  }
}

/// Rounds up, so that the next object in scratch memory is aligned to 64 bytes.
inline size_t alignScratch(size_t bytes) { return (bytes + 63) & ~size_t(63); }

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_ONEDNN_ONEDNN_H
