// Entry points of cuDNN.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cuda/Hooks.h"
#include "test/emulator/cudnn/Descriptor.h"

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

DNNResult execute(Handle &handle, const Descriptor &plan,
                  const Descriptor &pack) {
  auto ids = pack.values<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  auto pointers = pack.values<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  const Convolution &conv = plan.conv;
  std::vector<Access> accesses;
  void *operands[3] = {};
  unsigned at = 0;
  for (const ConvTensor *tensor : {&conv.x, &conv.w, &conv.y}) {
    for (size_t i = 0; i < ids.size(); ++i)
      if (ids[i] == tensor->id)
        operands[at] = pointers[i];
    if (!operands[at])
      return {CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
              "no pointer for tensor " + std::to_string(tensor->id)};
    if (reinterpret_cast<uintptr_t>(operands[at]) %
        static_cast<uint64_t>(tensor->alignment))
      return {CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
              "tensor " + std::to_string(tensor->id)};
    accesses.push_back({operands[at], tensor->bytes()});
    ++at;
  }
  void *workspace = nullptr;
  auto scratch = static_cast<size_t>(plan.workspaceBytes);
  if (pack.has(CUDNN_ATTR_VARIANT_PACK_WORKSPACE))
    workspace = pack.value<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (scratch && !workspace)
    return {CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no workspace"};
  if (scratch)
    accesses.push_back({workspace, scratch});
  CUresult result =
      enqueueWork(handle.stream, "cudnn " + describe(conv), accesses, [=] {
        // The workspace's contents are lost.
        if (scratch)
          std::memset(workspace, 0xff, scratch);
        convolve(conv, operands[0], operands[1], operands[2]);
        return CUDA_SUCCESS;
      });
  if (result)
    return {CUDNN_STATUS_EXECUTION_FAILED,
            "driver error " + std::to_string(result)};
  return {};
}

} // namespace

extern "C" {

MPC_EXPORT size_t cudnnGetVersion() { return 91900; }

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
              "type=" + std::to_string(handle->descriptor->type),
              [&] { return handle->descriptor->finalize(); });
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
      "cudnnBackendExecute", describe(plan->descriptor->conv),
      [&]() -> DNNResult {
        if (!plan->descriptor->isFinalized || !pack->descriptor->isFinalized)
          return {CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "plan or variant pack"};
        return execute(*handle, *plan->descriptor, *pack->descriptor);
      });
}

} // extern "C"
