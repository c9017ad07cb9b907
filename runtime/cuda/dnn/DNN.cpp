// Opens cuDNN and owns its descriptors.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/dnn/DNN.h"

#include "runtime/cuda/SharedLibrary.h"
#include "runtime/cuda/dnn/DNNPlan.h"

namespace mpc::runtime::cuda {

StatusOr<std::unique_ptr<DNN>> DNN::open(Stream stream, Workspace &workspace,
                                         int capability) {
  StatusOr<SharedLibrary> library = SharedLibrary::open(kDNNNames, "cuDNN 9");
  if (!library.ok())
    return library.status();
  std::unique_ptr<DNN> dnn(new DNN(stream, workspace, capability));
#define MPC_CUDA_FIND(result, member, symbol, ...)                             \
  if (Status status = library->find(#symbol, dnn->call.member); !status.ok())  \
    return status;
  MPC_CUDA_DNN_FUNCTIONS(MPC_CUDA_FIND)
#undef MPC_CUDA_FIND
  Status status = dnn->check(dnn->call.create(&dnn->handle), "make a handle");
  if (status.ok())
    status = dnn->check(dnn->call.setStream(dnn->handle, stream),
                        "work on a stream");
  if (!status.ok())
    return status;
  return dnn;
}

DNN::~DNN() {
  plans.clear();
  if (handle)
    (void)call.destroy(handle);
}

Status DNN::check(DNNStatus status, const char *what) const {
  if (status == DNNStatus::Success)
    return Status();
  char details[1024] = {};
  call.getLastErrorString(details, sizeof(details) - 1);
  const char *text = call.getErrorString(status);
  return Status(StatusCode::Device,
                "cuDNN " + std::to_string(call.getVersion()) + " cannot " +
                    what + ": " + (text ? text : "unknown status") +
                    (*details ? std::string("; ") + details : ""));
}

DNNObject::DNNObject(const DNN &library, DNNDescriptorType type,
                     const char *what)
    : library(library), what(what) {
  failure =
      library.check(library.call.createDescriptor(type, &descriptor), what);
}

DNNObject::DNNObject(DNNObject &&other) noexcept
    : library(other.library), what(other.what), descriptor(other.descriptor),
      failure(std::move(other.failure)) {
  other.descriptor = nullptr;
}

DNNObject::~DNNObject() {
  if (descriptor)
    (void)library.call.destroyDescriptor(descriptor);
}

void DNNObject::set(DNNAttribute attribute, DNNAttributeType type,
                    const void *values, size_t count) {
  if (failure.ok())
    failure = library.check(
        library.call.setAttribute(descriptor, attribute, type,
                                  static_cast<int64_t>(count), values),
        what);
}

Status DNNObject::finalize() {
  if (failure.ok())
    failure = library.check(library.call.finalize(descriptor), what);
  return failure;
}

} // namespace mpc::runtime::cuda
