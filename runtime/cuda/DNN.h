// Convolutions by cuDNN, through its backend interface: descriptors that are
// filled, finalised and combined into a plan, chosen once for each step.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_DNN_H
#define MPC_RUNTIME_CUDA_DNN_H

#include "runtime/cuda/DNNABI.h"
#include "runtime/cuda/DeviceMemory.h"
#include "runtime/cuda/PreparedStep.h"

#include <map>
#include <memory>
#include <string>

namespace mpc::runtime::cuda {

/// The addresses of a convolution's operands.
struct ConvAddresses {
  DeviceOperand x, w, y;
};

class DNN {
public:
  /// Loads the library and makes a handle that works on `stream`.
  static StatusOr<std::unique_ptr<DNN>> open(Stream stream,
                                             Workspace &workspace);
  ~DNN();

  /// Chooses an engine for a step, once: every run of it takes the same.
  StatusOr<std::unique_ptr<PreparedStep>>
  prepare(const ConvStep &step, const ConvAddresses &operands);

  /// Success, or Device with `what` and the library's text.
  Status check(DNNStatus status, const char *what) const;

  DNNFunctions call;
  DNNHandle handle = nullptr;
  const Stream stream;
  Workspace &workspace;
  /// Whether plans compute in float32, of those that were tried: by the
  /// convolution and by what the library proposed for it.
  std::map<std::string, bool> keepsBits;

private:
  DNN(Stream stream, Workspace &workspace)
      : stream(stream), workspace(workspace) {}
};

/// A descriptor of the library. The first failure is kept until `finalize`, so
/// that filling one needs no checks in between.
class DNNObject {
public:
  /// A descriptor of the kind `type`. `what` names it in error messages: "a
  /// tensor".
  DNNObject(const DNN &library, DNNDescriptorType type, const char *what);
  ~DNNObject();
  DNNObject(DNNObject &&other) noexcept;
  DNNObject(const DNNObject &) = delete;
  DNNObject &operator=(const DNNObject &) = delete;

  DNNDescriptor get() const { return descriptor; }

  void set(DNNAttribute attribute, DNNAttributeType type, const void *values,
           size_t count);
  void set(DNNAttribute attribute, int64_t value) {
    set(attribute, DNNAttributeType::Int64, &value, 1);
  }
  void set(DNNAttribute attribute, const std::vector<int64_t> &values) {
    set(attribute, DNNAttributeType::Int64, values.data(), values.size());
  }
  void set(DNNAttribute attribute, DNNType value) {
    set(attribute, DNNAttributeType::DataType, &value, 1);
  }
  void set(DNNAttribute attribute, const DNNObject &value) {
    DNNDescriptor object = value.get();
    set(attribute, DNNAttributeType::BackendDescriptor, &object, 1);
  }

  /// Ends the filling; the first thing that went wrong in it.
  Status finalize();

private:
  const DNN &library;
  const char *what;
  DNNDescriptor descriptor = nullptr;
  Status failure;
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_DNN_H
