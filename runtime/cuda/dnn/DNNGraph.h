// An operation graph of cuDNN: tensors, and the operations on them. Engines are
// chosen for a graph, and compiled to a plan (DNNPlan.h).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_DNNGRAPH_H
#define MPC_RUNTIME_CUDA_DNNGRAPH_H

#include "runtime/cuda/dnn/DNN.h"

#include <string>
#include <vector>

namespace mpc::runtime::cuda {

/// Returns the library's type; the plan's verifier admits only floats.
DNNType toDNN(DType type);

/// Describes a graph. Keeps the first failure until `complete`, so callers need
/// not check each call.
class DNNGraph {
public:
  /// A descriptor of the graph. Its index distinguishes equal descriptors.
  struct Node {
    size_t index = 0;
  };

  /// `what` names the operation in error messages: "describe a convolution".
  DNNGraph(const DNN &library, const char *what)
      : library(library), what(what) {}

  /// Adds a descriptor, which `set` fills and `finish` ends.
  Node add(DNNDescriptorType type);
  void set(Node node, DNNAttribute attribute, DNNAttributeType type,
           const void *values, size_t count);
  void set(Node node, DNNAttribute attribute, int64_t value) {
    set(node, attribute, DNNAttributeType::Int64, &value, 1);
  }
  void set(Node node, DNNAttribute attribute,
           const std::vector<int64_t> &values) {
    set(node, attribute, DNNAttributeType::Int64, values.data(), values.size());
  }
  void set(Node node, DNNAttribute attribute, DNNType value) {
    set(node, attribute, DNNAttributeType::DataType, &value, 1);
  }
  void set(Node node, DNNAttribute attribute, Node value);
  void finish(Node node);

  /// Adds a tensor in device memory. A plan's callers bind an address, of at
  /// least this alignment in bytes, to the number `id`, which is unique in the
  /// graph.
  Node memory(int64_t id, DNNType type, const std::vector<int64_t> &dimensions,
              const std::vector<int64_t> &strides, int64_t alignment);
  /// Adds a tensor that exists only between two operations.
  Node between(DNNType type, const std::vector<int64_t> &dimensions,
               const std::vector<int64_t> &strides);
  /// Adds a number that callers bind by its address on the host. `dimensions`
  /// are all 1.
  Node number(int64_t id, DNNType type, size_t rank);

  /// Ends an operation, and appends it to the graph.
  void append(Node operation);

  /// Makes the graph of all operations. Returns the first failure since the
  /// constructor.
  Status complete();

  /// The descriptor of the complete graph.
  const DNNObject &get() const { return *graph; }

  /// A text that is equal for two graphs if all attributes of all their
  /// descriptors are equal. Addresses are no attributes.
  const std::string &key() const { return text; }

private:
  /// The number of the first tensor between operations.
  static constexpr int64_t kFirstUnnamed = int64_t(1) << 20;

  Node tensor(int64_t id, DNNType type, const std::vector<int64_t> &dimensions,
              const std::vector<int64_t> &strides, int64_t alignment);

  const DNN &library;
  const char *what;
  std::vector<std::unique_ptr<DNNObject>> descriptors;
  std::vector<Node> operations;
  std::unique_ptr<DNNObject> graph;
  int64_t nextUnnamed = kFirstUnnamed;
  std::string text;
  Status failure;
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_DNNGRAPH_H
