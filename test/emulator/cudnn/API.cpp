// Entry points of cuDNN.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cuda/Hooks.h"
#include "test/emulator/cudnn/Descriptor.h"

#include <cstdlib>
#include <dlfcn.h>

using namespace mpc::emulator;

namespace {

struct Handle {
  CUstream stream = nullptr;
};

std::string &lastError() {
  thread_local std::string message;
  return message;
}

/// The frame of every entry point: injects faults and logs.
template <class F>
cudnnStatus_t call(const char *name, const std::string &arguments, F f) {
  DNNResult result;
  if (std::optional<int> fault = libraryFault(name))
    result = {static_cast<cudnnStatus_t>(*fault), "injected"};
  else
    result = f();
  std::string line = std::string(name) + "(" + arguments +
                     ") = " + std::to_string(result.status);
  if (result.status) {
    lastError() = result.message;
    line += ": " + result.message;
  }
  libraryLog(line);
  return result.status;
}

std::string describe(const Convolution &conv) {
  auto shape = [](const ConvTensor &tensor) {
    std::string text = std::to_string(tensor.type) + ":";
    for (size_t i = 0; i < tensor.dims.size(); ++i)
      text += (i ? "x" : "") + std::to_string(tensor.dims[i]);
    return text;
  };
  static const char *const kinds[] = {"forward", "backward data",
                                      "backward filter"};
  return std::string(kinds[conv.kind]) + " x=" + shape(conv.x) +
         " w=" + shape(conv.w) + " y=" + shape(conv.y) +
         " groups=" + std::to_string(conv.groups());
}

std::string describe(const Descriptor &plan) {
  return plan.isGraph()
             ? "graph of " + std::to_string(plan.graph.operations.size()) +
                   " operations"
             : describe(plan.conv);
}

/// The real library loads NVRTC by its bare name. The loader finds it in the
/// process, or in its own folders.
DNNResult loadCompiler() {
  if (dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL))
    return {};
  return {CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING,
          "libnvrtc.so.13 == nullptr"};
}

/// The addresses of a variant pack by the numbers of the tensors.
std::map<int64_t, void *> addressesOf(const Descriptor &pack) {
  auto ids = pack.values<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  auto pointers = pack.values<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  std::map<int64_t, void *> addresses;
  for (size_t i = 0; i < ids.size(); ++i)
    addresses[ids[i]] = pointers[i];
  return addresses;
}

/// Checks the address of a tensor in memory, and adds its access.
DNNResult check(const ConvTensor &tensor,
                const std::map<int64_t, void *> &addresses,
                std::vector<Access> &accesses) {
  auto found = addresses.find(tensor.id);
  if (found == addresses.end() || !found->second)
    return {CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
            "no pointer for tensor " + std::to_string(tensor.id)};
  if (reinterpret_cast<uintptr_t>(found->second) %
      static_cast<uint64_t>(tensor.alignment))
    return {CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
            "tensor " + std::to_string(tensor.id)};
  accesses.push_back({found->second, tensor.bytes()});
  return {};
}

DNNResult execute(Handle &handle, const Descriptor &plan,
                  const Descriptor &pack) {
  const Convolution &conv = plan.conv;
  const OperationGraph &graph = plan.graph;
  const std::map<int64_t, void *> addresses = addressesOf(pack);
  std::vector<Access> accesses;
  std::vector<ConvTensor> tensors;
  if (plan.isGraph()) {
    for (const auto &[id, tensor] : graph.listMemory())
      tensors.push_back(tensor);
    for (const auto &[id, tensor] : graph.listValues())
      if (!addresses.count(id))
        return {CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                "no pointer for number " + std::to_string(id)};
  } else {
    tensors = {conv.x, conv.w, conv.y};
  }
  for (const ConvTensor &tensor : tensors)
    if (DNNResult result = check(tensor, addresses, accesses); result.status)
      return result;
  void *workspace = nullptr;
  auto scratch = static_cast<size_t>(plan.workspaceBytes);
  if (pack.has(CUDNN_ATTR_VARIANT_PACK_WORKSPACE))
    workspace = pack.value<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (scratch && !workspace)
    return {CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no workspace"};
  if (scratch)
    accesses.push_back({workspace, scratch});
  // Numbers passed by value are read now, tensors when the work runs.
  std::map<int64_t, std::array<uint8_t, 8>> numbers;
  for (const auto &[id, tensor] : graph.listValues())
    std::memcpy(numbers[id].data(), addresses.at(id), tensor.elementBytes());
  CUresult result = enqueueWork(
      handle.stream, "cudnn " + describe(plan), accesses,
      [=, isGraph = plan.isGraph(), isOrdered = plan.isOrdered]() mutable {
        // The workspace's contents are lost.
        if (scratch)
          std::memset(workspace, 0xff, scratch);
        std::map<int64_t, void *> bound = addresses;
        for (auto &[id, number] : numbers)
          bound[id] = number.data();
        if (isGraph)
          execute(graph, bound, isOrdered);
        else
          convolve(conv, bound.at(conv.x.id), bound.at(conv.w.id),
                   bound.at(conv.y.id));
        return CUDA_SUCCESS;
      });
  if (result)
    return {CUDNN_STATUS_EXECUTION_FAILED,
            "driver error " + std::to_string(result)};
  return {};
}

} // namespace

extern "C" {

MPC_EXPORT size_t cudnnGetVersion() {
  const char *text = std::getenv("MPC_EMULATOR_DNN");
  return text ? static_cast<size_t>(std::atol(text)) : 91900;
}

MPC_EXPORT size_t cudnnGetCudartVersion() {
  const char *text = std::getenv("MPC_EMULATOR_CUDART");
  return text ? static_cast<size_t>(std::atol(text)) : 13000;
}

MPC_EXPORT const char *cudnnGetErrorString(cudnnStatus_t status) {
  if (status == CUDNN_STATUS_SUCCESS)
    return "CUDNN_STATUS_SUCCESS";
  if (status < 2000)
    return "CUDNN_STATUS_NOT_INITIALIZED";
  if (status < 3000)
    return "CUDNN_STATUS_BAD_PARAM";
  if (status < 4000)
    return "CUDNN_STATUS_NOT_SUPPORTED";
  return status < 5000 ? "CUDNN_STATUS_INTERNAL_ERROR"
                       : "CUDNN_STATUS_EXECUTION_FAILED";
}

MPC_EXPORT void cudnnGetLastErrorString(char *message, size_t size) {
  size_t used = std::min(lastError().size(), size ? size - 1 : 0);
  std::memcpy(message, lastError().data(), used);
  if (size)
    message[used] = '\0';
  lastError().clear();
}

MPC_EXPORT cudnnStatus_t cudnnCreate(Handle **handle) {
  return call("cudnnCreate", "", [&]() -> DNNResult {
    if (!hasContext())
      return {CUDNN_STATUS_NOT_INITIALIZED, "no current context"};
    *handle = new Handle;
    return {};
  });
}

MPC_EXPORT cudnnStatus_t cudnnDestroy(Handle *handle) {
  return call("cudnnDestroy", "", [&]() -> DNNResult {
    delete handle;
    return {};
  });
}

MPC_EXPORT cudnnStatus_t cudnnSetStream(Handle *handle, CUstream stream) {
  return call("cudnnSetStream", "", [&]() -> DNNResult {
    handle->stream = stream;
    return {};
  });
}

MPC_EXPORT cudnnStatus_t cudnnBackendCreateDescriptor(
    cudnnBackendDescriptorType_t type, DescriptorHandle **handle) {
  return call(
      "cudnnBackendCreateDescriptor", "type=" + std::to_string(type),
      [&]() -> DNNResult {
        switch (type) {
        case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
        case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
        case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR:
        case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
        case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
          *handle = new DescriptorHandle{std::make_shared<Descriptor>(type)};
          return {};
        }
        return {CUDNN_STATUS_NOT_SUPPORTED, "type of descriptor"};
      });
}

MPC_EXPORT cudnnStatus_t
cudnnBackendDestroyDescriptor(DescriptorHandle *handle) {
  return call("cudnnBackendDestroyDescriptor", "", [&]() -> DNNResult {
    delete handle;
    return {};
  });
}

MPC_EXPORT cudnnStatus_t cudnnBackendFinalize(DescriptorHandle *handle) {
  return call("cudnnBackendFinalize",
              "type=" + std::to_string(handle->descriptor->type), [&] {
                Descriptor &descriptor = *handle->descriptor;
                DNNResult result = descriptor.finalize();
                if (!result.status && descriptor.isGraph() &&
                    descriptor.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
                  result = loadCompiler();
                return result;
              });
}

MPC_EXPORT cudnnStatus_t cudnnBackendSetAttribute(
    DescriptorHandle *handle, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t type, int64_t count, const void *values) {
  return call(
      "cudnnBackendSetAttribute", "attribute=" + std::to_string(name),
      [&] { return handle->descriptor->set(name, type, count, values); });
}

MPC_EXPORT cudnnStatus_t cudnnBackendGetAttribute(
    DescriptorHandle *handle, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t type, int64_t requested, int64_t *count,
    void *values) {
  return call(
      "cudnnBackendGetAttribute", "attribute=" + std::to_string(name), [&] {
        return handle->descriptor->get(name, type, requested, count, values);
      });
}

MPC_EXPORT cudnnStatus_t cudnnBackendExecute(Handle *handle,
                                             DescriptorHandle *plan,
                                             DescriptorHandle *pack) {
  return call(
      "cudnnBackendExecute", describe(*plan->descriptor), [&]() -> DNNResult {
        if (!plan->descriptor->isFinalized || !pack->descriptor->isFinalized)
          return {CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "plan or variant pack"};
        return execute(*handle, *plan->descriptor, *pack->descriptor);
      });
}

} // extern "C"
