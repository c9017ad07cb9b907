// Implements the calls into oneDNN.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/onednn/OneDNN.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

// oneDNN uses libgomp. Both functions are declared here, because omp.h may
// belong to another OpenMP runtime.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int);
}

namespace mpc::runtime {

/// More address space than oneDNN needs for all kernels of a step; each kernel
/// has 256 KiB for its code.
static constexpr size_t kLibraryBytes = size_t(64) << 20;

SingleThreadedOpenMP::SingleThreadedOpenMP() : previous(omp_get_max_threads()) {
  if (previous != 1)
    omp_set_num_threads(1);
}

SingleThreadedOpenMP::~SingleThreadedOpenMP() {
  if (previous != 1)
    omp_set_num_threads(previous);
}

// Maps and unmaps memory without touching it. Untouched pages cost no memory,
// and two system calls are cheap compared with compiling a step's kernels.
void expectLibraryMemory() {
  void *pages = mmap(nullptr, kLibraryBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED)
    throw std::bad_alloc();
  munmap(pages, kLibraryBytes);
}

// Requests an executable page in the same way as oneDNN.
Status probeExecutableMemory() {
  const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void *page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    throw std::bad_alloc();
  const bool isAllowed =
      mprotect(page, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
  const int error = errno;
  munmap(page, bytes);
  if (isAllowed)
    return Status();
  if (error == ENOMEM)
    throw std::bad_alloc();
  constexpr int kGetMDWE = 66; // PR_GET_MDWE, which headers may not have yet
  const int denied = prctl(kGetMDWE, 0, 0, 0, 0);
  const char *policy =
      denied > 0 && (denied & 1)
          ? "PR_SET_MDWE, such as systemd's MemoryDenyWriteExecute=yes"
      : error == EPERM
          ? "a system call filter, such as systemd's MemoryDenyWriteExecute=yes"
          : "a security module, such as SELinux without execmem";
  return Status(StatusCode::IO,
                "this process may not make memory executable, but oneDNN "
                "generates kernels at run time: forbidden by " +
                    std::string(policy) + " (" + std::strerror(error) +
                    "); allow it for this process");
}

Status checkExecutableMemory() {
  // The system's policy on executable memory rarely changes while a program
  // runs, so success is cached.
  static std::atomic<bool> isAllowed{false};
  if (isAllowed)
    return Status();
  Status status = probeExecutableMemory();
  isAllowed = status.ok();
  return status;
}

dnnl::engine &dnnlEngine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::primitive_attr dnnlAttributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
  return attributes;
}

dnnl::memory::data_type dnnlType(DType type) {
  return type == DType::BF16 ? dnnl::memory::data_type::bf16
                             : dnnl::memory::data_type::f32;
}

WorkerPrimitive::WorkerPrimitive(
    const dnnl::primitive &primitive,
    std::vector<std::pair<int, dnnl::memory::desc>> args,
    const dnnl::memory::desc &scratchpad, int workers)
    : primitive(primitive), scratchpadBytes(scratchpad.get_size()) {
  args.emplace_back(DNNL_ARG_SCRATCHPAD, scratchpad);
  dnnl::engine &engine = dnnlEngine();
  for (int worker = 0; worker < workers; ++worker) {
    Call call;
    call.stream = dnnl::stream(engine);
    for (const auto &[id, desc] : args) {
      call.memories.emplace_back(desc, engine, nullptr);
      call.args.push_back({id, call.memories.back().get()});
    }
    calls.push_back(std::move(call));
  }
}

Status WorkerPrimitive::run(int worker,
                            std::initializer_list<const void *> addresses,
                            void *scratch) {
  SingleThreadedOpenMP guard;
  // Each worker has its own stream and handles, since oneDNN's are not
  // thread-safe.
  Call &call = calls[static_cast<size_t>(worker)];
  // Some primitives compile their kernels on the first run.
  if (!call.hasRun)
    expectLibraryMemory();
  call.hasRun = true;
  size_t i = 0;
  dnnl_status_t status = dnnl_success;
  // oneDNN checks every handle that is set, so set only changed addresses.
  auto setAddress = [&](void *address) {
    dnnl_memory_t memory = call.args[i++].memory;
    void *current = nullptr;
    dnnl_memory_get_data_handle(memory, &current);
    if (current != address && status == dnnl_success)
      status = dnnl_memory_set_data_handle(memory, address);
  };
  for (const void *address : addresses)
    setAddress(const_cast<void *>(address));
  setAddress(scratch);
  // If memory is short, throws std::bad_alloc like the rest of the runtime. The
  // session catches the exception.
  if (status == dnnl_success)
    status = dnnl_primitive_execute(primitive.get(), call.stream.get(),
                                    static_cast<int>(call.args.size()),
                                    call.args.data());
  if (status == dnnl_success)
    return Status();
  if (status == dnnl_out_of_memory)
    throw std::bad_alloc();
  if (Status memory = probeExecutableMemory(); !memory.ok())
    return memory;
  return Status(StatusCode::Internal,
                "oneDNN failed to execute a primitive (status " +
                    std::to_string(static_cast<int>(status)) + ")");
}

} // namespace mpc::runtime
