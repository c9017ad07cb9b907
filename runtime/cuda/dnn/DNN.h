// Computes convolutions and attention with cuDNN's backend interface:
// descriptors are filled, finalized and combined into a plan. Each step has one
// plan, which is chosen when the step is prepared.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_DNN_H
#define MPC_RUNTIME_CUDA_DNN_H

#include "runtime/AttentionOperands.h"
#include "runtime/cuda/DeviceMemory.h"
#include "runtime/cuda/PreparedStep.h"
#include "runtime/cuda/dnn/DNNABI.h"

#include <array>
#include <map>
#include <memory>
#include <string>

namespace mpc::runtime::cuda {

/// The addresses of a convolution's operands.
struct ConvAddresses {
  DeviceOperand x, w, y;
};

/// The addresses of an attention's operands, without the layouts' offsets.
/// Absent operands have no address.
struct AttentionAddresses {
  std::array<DeviceOperand, kAttentionOperands.size()> operands;
  DeviceOperand statistics;

  const DeviceOperand &get(AttentionOperand operand) const {
    return operands[static_cast<size_t>(operand)];
  }
};

class DNNPlan;

class DNN {
public:
  /// Loads the library and creates a handle that works on `stream` of a GPU of
  /// compute capability `capability`: 90 for sm_90.
  static StatusOr<std::unique_ptr<DNN>>
  open(Stream stream, Workspace &workspace, int capability);
  ~DNN();

  /// Chooses an engine for a step. All runs of the step use this engine.
  StatusOr<std::unique_ptr<CUDAStep>> prepare(const ConvStep &step,
                                              const ConvAddresses &operands);
  /// Equal attentions share a plan. A Device error, which names the shape and
  /// the alternative, if the library cannot compute the step.
  StatusOr<std::unique_ptr<CUDAStep>>
  prepare(const AttentionStep &step, const AttentionAddresses &operands);

  /// Success, or a Device error with `what` and the library's text.
  Status check(DNNStatus status, const char *what) const;

  DNNFunctions call;
  DNNHandle handle = nullptr;
  const Stream stream;
  Workspace &workspace;
  const int capability;
  /// The plans so far by the keys of their graphs.
  std::map<std::string, std::shared_ptr<const DNNPlan>> plans;

private:
  DNN(Stream stream, Workspace &workspace, int capability)
      : stream(stream), workspace(workspace), capability(capability) {}
};

/// Checks that the installed libraries are new enough for all attention on a
/// GPU of `capability` (90 for sm_90). A Device error with the reason if not.
Status checkAttentionLibraries(int capability);

/// A descriptor of cuDNN. Keeps the first failure until `finalize`, so callers
/// need not check each `set`.
class DNNObject {
public:
  /// Creates a descriptor of kind `type`. `what` names the operation in error
  /// messages: "describe a tensor".
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

  /// Finalizes the descriptor. Returns the first failure since the constructor.
  Status finalize();

private:
  const DNN &library;
  const char *what;
  DNNDescriptor descriptor = nullptr;
  Status failure;
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_DNN_H
