// Implements the CUDA device from its parts: driver, memory, kernels and
// libraries.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/CUDADevice.h"
#include "runtime/cuda/PinnedStage.h"
#include "runtime/cuda/SharedLibrary.h"
#include "runtime/cuda/Staging.h"
#include "runtime/cuda/StepPreparer.h"
#include "runtime/cuda/dnn/DNN.h"

#include <algorithm>

namespace mpc::runtime {

using namespace cuda;

/// The state of a device. Members are destroyed in reverse order, all before
/// the stream that they use. The destructor needs the context to be the calling
/// thread's current context.
struct CUDADevice::Impl {
  Impl(std::shared_ptr<const CUDADriver> opened, GPU found, const Plan &plan,
       StateShares division)
      : driver(std::move(opened)), gpu(std::move(found)),
        context(*driver, gpu.ordinal), shares(std::move(division)),
        memory(*driver, gpu, plan, shares) {}

  /// The GPU's primary context, which other users of CUDA in this process
  /// share, and streams in it. The context stays open until the process ends:
  /// NVIDIA's libraries keep state in the context beyond their handles, and
  /// opening a context takes longer than many sessions.
  struct ContextHolder {
    ContextHolder(const CUDADriver &driver, DeviceOrdinal ordinal)
        : driver(driver), ordinal(ordinal) {}
    ~ContextHolder() {
      for (Stream made : {copies, stream})
        if (made)
          (void)driver.call.streamDestroy(made);
    }
    Status open();
    Status openCopies();
    Status synchronize() const;

    const CUDADriver &driver;
    DeviceOrdinal ordinal;
    Context context = nullptr;
    Stream stream = nullptr;
    Stream copies = nullptr; ///< created when the first InputStage opens
  };

  std::shared_ptr<const CUDADriver> driver;
  GPU gpu;
  ContextHolder context;
  StateShares shares;
  DeviceMemory memory;
  Workspace workspace{memory};
  KernelModule kernels{*driver};
  std::unique_ptr<Staging> staging;
  DevicePointer constants = 0;
  size_t constantBytes = 0, stageBytes = 0;
  std::unique_ptr<BLASLt> blas;
  std::unique_ptr<DNN> dnn;
  std::unique_ptr<NCCL> nccl; ///< null unless ranks exchange data
};

Status CUDADevice::Impl::ContextHolder::open() {
  Status status = driver.check(driver.call.primaryCtxRetain(&context, ordinal),
                               "open a context");
  if (!status.ok())
    return status;
  ContextScope scope(driver, context);
  if (!scope.status().ok())
    return scope.status();
  // The stream must not wait for the default stream of other users in this
  // process.
  return driver.check(driver.call.streamCreate(&stream, kStreamNonBlocking),
                      "create a stream");
}

Status CUDADevice::Impl::ContextHolder::openCopies() {
  return copies ? Status()
                : driver.check(
                      driver.call.streamCreate(&copies, kStreamNonBlocking),
                      "create a stream");
}

Status CUDADevice::Impl::ContextHolder::synchronize() const {
  Status status = driver.wait(stream, "finish its work");
  if (status.ok() && copies)
    status = driver.wait(copies, "finish its work");
  return status;
}

namespace {
/// A GPU, and the driver that controls it.
struct FoundGPU {
  std::shared_ptr<const CUDADriver> driver;
  GPU gpu;
};
} // namespace

/// Finds GPU `index` of this machine. A Device error if there is no driver or
/// no such GPU.
static StatusOr<FoundGPU> findGPU(int index) {
  StatusOr<std::shared_ptr<const CUDADriver>> driver = CUDADriver::open();
  if (!driver.ok())
    return driver.status();
  StatusOr<GPU> gpu = GPU::find(**driver, index);
  if (!gpu.ok())
    return gpu.status();
  return FoundGPU{*driver, *gpu};
}

StatusOr<std::unique_ptr<CUDADevice>>
CUDADevice::open(const Artifact &artifact, int index,
                 const Communicator *communicator) {
  const Target &target = artifact.plan().target;
  if (!target.isGPU())
    return Status(StatusCode::Device,
                  "the artifact is for '" + target.triple +
                      "', not for a GPU; compile the model with --device cuda, "
                      "or use --device cpu");
  StatusOr<FoundGPU> found = findGPU(index);
  if (!found.ok())
    return found.status();
  const Plan &plan = artifact.plan();
  auto impl = std::make_unique<Impl>(
      found->driver, found->gpu, plan,
      communicator
          ? StateShares(plan, communicator->rank(), communicator->size())
          : StateShares(plan));
  if (Status status = impl->context.open(); !status.ok())
    return status;
  // From here on, the destructor of `device` closes what was opened.
  std::unique_ptr<CUDADevice> device(new CUDADevice(std::move(impl)));
  if (Status status = device->load(artifact); !status.ok())
    return status;
  return device;
}

/// True if a function of the plan exchanges data with other ranks.
static bool exchanges(const Plan &plan) {
  return std::any_of(
      plan.functions.begin(), plan.functions.end(), [](const auto &named) {
        const std::vector<Step> &steps = named.second.steps;
        return std::any_of(steps.begin(), steps.end(), isExchange);
      });
}

StatusOr<std::unique_ptr<Device>>
CUDADevice::create(const DeviceOptions &options, const Artifact &artifact,
                   int index) {
  Communicator *ranks = options.communicator;
  if (ranks && ranks->size() == 1)
    ranks = nullptr;
  StatusOr<std::unique_ptr<CUDADevice>> opened = open(artifact, index, ranks);
  const bool isTrial = environmentHas("MPC_CUDA_NCCL", "1");
  Status status = opened.status();
  if (exchanges(artifact.plan()) && (ranks || isTrial)) {
    if (status.ok())
      status = (*opened)->openNCCL(ranks, options.rankTimeout);
    // A rank that has failed would leave the others waiting in NCCL.
    status = agreeOnStart(ranks, status);
    if (status.ok())
      status = (*opened)->connectNCCL();
  }
  if (!status.ok())
    return status;
  return std::unique_ptr<Device>(std::move(*opened));
}

Status CUDADevice::openNCCL(Communicator *communicator,
                            std::chrono::milliseconds timeout) {
  ContextScope scope(*impl->driver, impl->context.context);
  if (!scope.status().ok())
    return scope.status();
  StatusOr<std::unique_ptr<NCCL>> opened =
      NCCL::open(*impl->driver, communicator, timeout);
  if (!opened.ok())
    return opened.status();
  impl->nccl = std::move(*opened);
  return Status();
}

Status CUDADevice::connectNCCL() {
  ContextScope scope(*impl->driver, impl->context.context);
  if (!scope.status().ok())
    return scope.status();
  if (Status status = impl->nccl->connect(); !status.ok())
    return status;
  impl->driver->setWatch(
      [nccl = impl->nccl.get()](std::chrono::steady_clock::duration waited) {
        return nccl->poll(waited);
      });
  return Status();
}

Status CUDADevice::load(const Artifact &artifact) {
  ContextScope scope(*impl->driver, impl->context.context);
  if (!scope.status().ok())
    return scope.status();
  impl->staging =
      std::make_unique<Staging>(*impl->driver, impl->context.stream);
  return impl->kernels.load(artifact, impl->gpu);
}

StatusOr<std::string> CUDADevice::architecture(int index) {
  StatusOr<FoundGPU> found = findGPU(index);
  if (!found.ok())
    return found.status();
  return found->gpu.architecture();
}

Status CUDADevice::checkTarget(int index, const Target &target) {
  StatusOr<FoundGPU> found = findGPU(index);
  if (!found.ok())
    return found.status();
  const KernelModule module(*found->driver);
  return module.check(target, found->gpu);
}

Status CUDADevice::checkAttention(int index) {
  StatusOr<FoundGPU> found = findGPU(index);
  if (!found.ok())
    return found.status();
  return checkAttentionLibraries(found->gpu.major * 10 + found->gpu.minor);
}

bool CUDADevice::hasDriver() { return CUDADriver::isInstalled(); }

CUDADevice::CUDADevice(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}

CUDADevice::~CUDADevice() {
  // Destroying the members needs the context, and the context needs the driver.
  const std::shared_ptr<const CUDADriver> driver = impl->driver;
  ContextScope scope(*driver, impl->context.context);
  // Wait first: the stream may still use the memory that is released next.
  (void)synchronize();
  driver->setWatch(nullptr);
  impl->memory.release(impl->constants);
  impl.reset();
}

/// Rounds `bytes` up to whole vectors. LLVM may merge adjacent loads into a
/// vector load, which must stay inside the allocation: three f32 parameters in
/// a row are read by one load of 16 bytes.
static size_t inWholeVectors(size_t bytes) {
  constexpr size_t kVectorBytes = 16;
  return (bytes + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
}

StatusOr<void *> CUDADevice::allocate(size_t bytes) {
  ContextScope scope(*impl->driver, impl->context.context);
  if (!scope.status().ok())
    return scope.status();
  StatusOr<DevicePointer> memory = impl->memory.allocate(inWholeVectors(bytes));
  if (!memory.ok())
    return memory.status();
  if (bytes > 0) {
    Status status =
        impl->driver->check(impl->driver->call.memsetD8Async(
                                *memory, 0, bytes, impl->context.stream),
                            "clear memory");
    if (!status.ok()) {
      impl->memory.release(*memory);
      return status;
    }
  }
  return toHostPointer(*memory);
}

void CUDADevice::release(void *memory) {
  ContextScope scope(*impl->driver, impl->context.context);
  // After a kernel fault the context cannot be entered, and the driver has
  // freed its memory.
  if (scope.status().ok())
    impl->memory.release(toDevicePointer(memory));
}

StatusOr<const void *> CUDADevice::mapConstants(const void *host,
                                                size_t bytes) {
  ContextScope scope(*impl->driver, impl->context.context);
  if (!scope.status().ok())
    return scope.status();
  StatusOr<DevicePointer> memory = impl->memory.allocate(inWholeVectors(bytes));
  if (!memory.ok())
    return memory.status();
  impl->memory.release(impl->constants);
  impl->constants = *memory;
  impl->constantBytes = bytes;
  Status status = impl->staging->upload(*memory, host, bytes);
  if (!status.ok())
    return status;
  return static_cast<const void *>(toHostPointer(*memory));
}

Status CUDADevice::upload(void *device, const void *host, size_t bytes) {
  ContextScope scope(*impl->driver, impl->context.context);
  return scope.status().ok()
             ? impl->staging->upload(toDevicePointer(device), host, bytes)
             : scope.status();
}

Status CUDADevice::download(void *host, const void *device, size_t bytes) {
  return download(std::vector<Download>{{host, device, bytes}});
}

Status CUDADevice::download(const std::vector<Download> &blocks) {
  ContextScope scope(*impl->driver, impl->context.context);
  if (!scope.status().ok())
    return scope.status();
  std::vector<Staging::Copy> copies;
  for (const auto &[host, device, bytes] : blocks)
    copies.push_back({host, toDevicePointer(device), bytes});
  return impl->staging->download(copies);
}

StatusOr<std::unique_ptr<InputStage>> CUDADevice::openStage(void *input,
                                                            size_t bytes) {
  ContextScope scope(*impl->driver, impl->context.context);
  if (!scope.status().ok())
    return scope.status();
  if (Status status = impl->context.openCopies(); !status.ok())
    return status;
  const StageResources resources{*impl->driver,        impl->context.context,
                                 impl->memory,         impl->context.stream,
                                 impl->context.copies, impl->stageBytes};
  return PinnedStage::open(resources, toDevicePointer(input), bytes);
}

StatusOr<std::unique_ptr<Executable>>
CUDADevice::prepare(const Artifact &, const Function &function,
                    std::vector<void *> buffers) {
  ContextScope scope(*impl->driver, impl->context.context);
  if (!scope.status().ok())
    return scope.status();
  StepResources resources{
      *impl->driver,   impl->gpu,  impl->kernels, impl->context.stream,
      impl->workspace, impl->blas, impl->dnn,     impl->shares,
      impl->nccl.get()};
  StatusOr<std::vector<NamedStep>> steps =
      prepareSteps(resources, function, buffers);
  if (!steps.ok())
    return steps.status();
  return std::unique_ptr<Executable>(std::make_unique<CUDAExecutable>(
      *impl->driver, impl->context.context, impl->context.stream, function,
      std::move(*steps), impl->nccl.get()));
}

size_t CUDADevice::scratchBytes() const {
  return impl->workspace.bytes() + impl->constantBytes + impl->stageBytes;
}

Status CUDADevice::synchronize() {
  ContextScope scope(*impl->driver, impl->context.context);
  if (!scope.status().ok())
    return scope.status();
  return impl->context.synchronize();
}

} // namespace mpc::runtime
