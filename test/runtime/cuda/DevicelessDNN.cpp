// Wraps the real cuDNN for machines without a GPU, and is loaded in its place.
// It passes every heuristic and plan a description of a GPU instead of a GPU's
// handle. Choosing engines and making plans then works on any machine. Running
// a plan does nothing.
//
// MPC_TEST_DNN_GPU holds the description, as cuDNN itself prints it for a GPU.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/dnn/DNNABI.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>

using namespace mpc::runtime::cuda;

namespace {

// Attributes and a type of descriptor that the runtime does not use.
constexpr auto kHeuristicDevice = static_cast<DNNAttribute>(204);
constexpr auto kPlanDevice = static_cast<DNNAttribute>(407);
constexpr auto kEngineDevice = static_cast<DNNAttribute>(1307);
constexpr auto kDeviceJSON = static_cast<DNNAttribute>(2702);
constexpr auto kDeviceDescriptor = static_cast<DNNDescriptorType>(38);
constexpr auto kCharType = static_cast<DNNAttributeType>(24);

DNNFunctions load() {
  DNNFunctions real;
  void *library = dlopen(MPC_TEST_REAL_CUDNN, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    std::abort();
#define MPC_CUDA_FIND(result, member, symbol, ...)                             \
  real.member =                                                                \
      reinterpret_cast<decltype(real.member)>(dlsym(library, #symbol));
  MPC_CUDA_DNN_FUNCTIONS(MPC_CUDA_FIND)
#undef MPC_CUDA_FIND
  return real;
}

const DNNFunctions &real() {
  static const DNNFunctions functions = load();
  return functions;
}

/// The description of the GPU, made anew for each handle.
DNNDescriptor device = nullptr;
std::map<DNNDescriptor, DNNDescriptorType> types;

} // namespace

extern "C" {

size_t cudnnGetVersion() { return real().getVersion(); }
size_t cudnnGetCudartVersion() { return real().getCUDAVersion(); }
const char *cudnnGetErrorString(DNNStatus status) {
  return real().getErrorString(status);
}
void cudnnGetLastErrorString(char *message, size_t size) {
  real().getLastErrorString(message, size);
}

DNNStatus cudnnCreate(DNNHandle *handle) {
  const char *json = std::getenv("MPC_TEST_DNN_GPU");
  *handle = reinterpret_cast<DNNHandle>(&device);
  DNNStatus status = real().createDescriptor(kDeviceDescriptor, &device);
  if (status == DNNStatus::Success)
    status =
        real().setAttribute(device, kDeviceJSON, kCharType,
                            static_cast<int64_t>(std::strlen(json) + 1), json);
  return status == DNNStatus::Success ? real().finalize(device) : status;
}

DNNStatus cudnnDestroy(DNNHandle) { return real().destroyDescriptor(device); }

DNNStatus cudnnSetStream(DNNHandle, Stream) { return DNNStatus::Success; }

DNNStatus cudnnBackendCreateDescriptor(DNNDescriptorType type,
                                       DNNDescriptor *descriptor) {
  DNNStatus status = real().createDescriptor(type, descriptor);
  types[*descriptor] = type;
  return status;
}

DNNStatus cudnnBackendDestroyDescriptor(DNNDescriptor descriptor) {
  return real().destroyDescriptor(descriptor);
}

DNNStatus cudnnBackendFinalize(DNNDescriptor descriptor) {
  const DNNDescriptorType type = types[descriptor];
  if (type == DNNDescriptorType::EngineHeuristic ||
      type == DNNDescriptorType::Engine) {
    DNNStatus status = real().setAttribute(
        descriptor,
        type == DNNDescriptorType::Engine ? kEngineDevice : kHeuristicDevice,
        DNNAttributeType::BackendDescriptor, 1, &device);
    if (status != DNNStatus::Success)
      return status;
  }
  return real().finalize(descriptor);
}

DNNStatus cudnnBackendSetAttribute(DNNDescriptor descriptor,
                                   DNNAttribute attribute,
                                   DNNAttributeType type, int64_t count,
                                   const void *values) {
  if (attribute == DNNAttribute::OperationGraphHandle)
    return DNNStatus::Success;
  if (attribute == DNNAttribute::ExecutionPlanHandle)
    return real().setAttribute(descriptor, kPlanDevice,
                               DNNAttributeType::BackendDescriptor, 1, &device);
  return real().setAttribute(descriptor, attribute, type, count, values);
}

DNNStatus cudnnBackendGetAttribute(DNNDescriptor descriptor,
                                   DNNAttribute attribute,
                                   DNNAttributeType type, int64_t requested,
                                   int64_t *count, void *values) {
  return real().getAttribute(descriptor, attribute, type, requested, count,
                             values);
}

/// Does nothing: the test's driver determines a plan's results.
DNNStatus cudnnBackendExecute(DNNHandle, DNNDescriptor, DNNDescriptor) {
  return DNNStatus::Success;
}
}
