// Brings driver, memory, kernels and libraries together.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/CUDADevice.h"
#include "runtime/cuda/SharedLibrary.h"
#include "runtime/cuda/Staging.h"
#include "runtime/cuda/StepPreparer.h"

namespace mpc::runtime {

using namespace cuda;

/// Members are destroyed from the last to the first, all of them before the
/// stream that they use.
struct CUDADevice::Impl {
  Impl(std::shared_ptr<const Driver> opened, GPU found, const Plan &plan)
      : driver(std::move(opened)), gpu(std::move(found)),
        context(*driver, gpu.ordinal), memory(*driver, gpu, plan) {}

  /// The GPU's primary context, which other users of CUDA in this process
  /// share, and a stream in it. The context stays until the process ends, as
  /// NVIDIA's libraries do, which keep state for it beyond their handles; and
  /// to make one takes longer than many a session.
  struct ContextHolder {
    ContextHolder(const Driver &driver, DeviceOrdinal ordinal)
        : driver(driver), ordinal(ordinal) {}
    ~ContextHolder() {
      if (stream)
        (void)driver.call.streamDestroy(stream);
    }
    Status open();
    /// Makes the context the calling thread's.
    Status enter() const {
      return driver.check(driver.call.ctxSetCurrent(context),
                          "make its context current");
    }

    const Driver &driver;
    DeviceOrdinal ordinal;
    Context context = nullptr;
    Stream stream = nullptr;
  };

  std::shared_ptr<const Driver> driver;
  GPU gpu;
  ContextHolder context;
  DeviceMemory memory;
  Workspace workspace{memory};
  KernelModule kernels{*driver};
  std::unique_ptr<Staging> staging;
  DevicePointer constants = 0;
  size_t constantBytes = 0;
  std::unique_ptr<BLASLt> blas;
  std::unique_ptr<DNN> dnn;
};

Status CUDADevice::Impl::ContextHolder::open() {
  Status status = driver.check(driver.call.primaryCtxRetain(&context, ordinal),
                               "open a context");
  if (status.ok())
    status = enter();
  // Not ordered against the stream that others in this process may use.
  if (status.ok())
    status = driver.check(driver.call.streamCreate(&stream, kStreamNonBlocking),
                          "create a stream");
  return status;
}

StatusOr<std::unique_ptr<Device>> CUDADevice::create(const Artifact &artifact) {
  const Target &target = artifact.plan().target;
  if (!target.isGPU())
    return Status(StatusCode::Device,
                  "the artifact is for '" + target.triple +
                      "', not for a GPU; compile the model with --device cuda, "
                      "or use --device cpu");
  StatusOr<std::shared_ptr<const Driver>> driver = Driver::open();
  if (!driver.ok())
    return driver.status();
  StatusOr<GPU> gpu = GPU::find(**driver);
  if (!gpu.ok())
    return gpu.status();
  auto impl = std::make_unique<Impl>(*driver, *gpu, artifact.plan());
  if (Status status = impl->context.open(); !status.ok())
    return status;
  impl->staging = std::make_unique<Staging>(**driver, impl->context.stream);
  if (Status status = impl->kernels.load(artifact, *gpu); !status.ok())
    return status;
  return std::unique_ptr<Device>(new CUDADevice(std::move(impl)));
}

CUDADevice::CUDADevice(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}

CUDADevice::~CUDADevice() {
  // Nothing may be freed that the stream still works on.
  (void)synchronize();
  impl->memory.release(impl->constants);
}

StatusOr<void *> CUDADevice::allocate(size_t bytes) {
  if (Status status = impl->context.enter(); !status.ok())
    return status;
  StatusOr<DevicePointer> memory = impl->memory.allocate(bytes);
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
  // Where the context cannot be entered, its memory is gone with it.
  if (impl->context.enter().ok())
    impl->memory.release(toDevicePointer(memory));
}

StatusOr<const void *> CUDADevice::mapConstants(const void *host,
                                                size_t bytes) {
  if (Status status = impl->context.enter(); !status.ok())
    return status;
  StatusOr<DevicePointer> memory = impl->memory.allocate(bytes);
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
  Status status = impl->context.enter();
  return status.ok()
             ? impl->staging->upload(toDevicePointer(device), host, bytes)
             : status;
}

Status CUDADevice::download(void *host, const void *device, size_t bytes) {
  Status status = impl->context.enter();
  return status.ok()
             ? impl->staging->download(host, toDevicePointer(device), bytes)
             : status;
}

StatusOr<std::unique_ptr<Executable>>
CUDADevice::prepare(const Artifact &, const Function &function,
                    std::vector<void *> buffers) {
  if (Status status = impl->context.enter(); !status.ok())
    return status;
  StepResources resources{
      *impl->driver,   impl->gpu,  impl->kernels, impl->context.stream,
      impl->workspace, impl->blas, impl->dnn};
  StatusOr<std::vector<NamedStep>> steps =
      prepareSteps(resources, function, buffers);
  if (!steps.ok())
    return steps.status();
  return std::unique_ptr<Executable>(std::make_unique<CUDAExecutable>(
      *impl->driver, impl->context.context, impl->context.stream, function.name,
      std::move(*steps)));
}

size_t CUDADevice::scratchBytes() const {
  return impl->workspace.bytes() + impl->constantBytes;
}

Status CUDADevice::synchronize() {
  if (Status status = impl->context.enter(); !status.ok())
    return status;
  return impl->driver->check(
      impl->driver->call.streamSynchronize(impl->context.stream),
      "finish its work");
}

} // namespace mpc::runtime
