// A descriptor of the backend interface: typed attributes, which can be set
// until it is finalized.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_CUDNN_DESCRIPTOR_H
#define MPC_TEST_EMULATOR_CUDNN_DESCRIPTOR_H

#include "test/emulator/cudnn/Graph.h"

#include <cstring>
#include <map>
#include <memory>
#include <string>

namespace mpc::emulator {

/// A status with cudnnGetLastErrorString's text.
struct DNNResult {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  std::string message;
};

struct Descriptor {
  struct Attribute {
    cudnnBackendAttributeType_t type;
    int64_t count = 0;
    std::vector<uint8_t> bytes;
    std::vector<std::shared_ptr<Descriptor>> descriptors;
  };

  cudnnBackendDescriptorType_t type;
  bool isFinalized = false;
  std::map<int, Attribute> attributes;

  // Values computed from the attributes by finalizing.
  Convolution
      conv; ///< valid for operations, graphs, engines, configurations, plans
  OperationGraph graph;     ///< like `conv`; empty for a convolution
  GraphOperation operation; ///< valid for an operation that is no convolution
  GraphTensor tensor;       ///< valid for a tensor
  /// True if a configuration or a plan adds up gradients in one order.
  bool isOrdered = true;
  std::vector<int> notes;     ///< valid for an engine, a configuration
  int64_t engineIndex = 0;    ///< valid for an engine, a configuration
  int64_t workspaceBytes = 0; ///< valid for a configuration, a plan

  explicit Descriptor(cudnnBackendDescriptorType_t type) : type(type) {}

  DNNResult set(cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count,
                const void *values);
  DNNResult finalize();
  DNNResult get(cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t requested,
                int64_t *count, void *values);

  bool has(int name) const { return attributes.count(name); }
  bool isGraph() const { return !graph.operations.empty(); }
  template <class T>
  std::vector<T> values(int name) const {
    const Attribute &attribute = attributes.at(name);
    std::vector<T> result(static_cast<size_t>(attribute.count));
    std::memcpy(result.data(), attribute.bytes.data(), attribute.bytes.size());
    return result;
  }
  template <class T>
  T value(int name) const {
    return values<T>(name).front();
  }
  const Descriptor &descriptor(int name) const {
    return *attributes.at(name).descriptors.front();
  }

private:
  DNNResult finalizeTensor();
  DNNResult finalizeConvolution();
  DNNResult finalizeOperation();
  DNNResult finalizeGraphOperation();
  DNNResult finalizeGraph();
  DNNResult finalizeEngine();
  DNNResult finalizeConfig();
  DNNResult finalizeVariantPack();
  DNNResult getResults(int64_t requested, int64_t *count, void **values);
};

/// A program's handle of a descriptor. Other descriptors may keep the
/// descriptor longer than the handle lives.
struct DescriptorHandle {
  std::shared_ptr<Descriptor> descriptor;
};

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_CUDNN_DESCRIPTOR_H
