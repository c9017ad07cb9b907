// Fills the descriptors of operation graphs.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/dnn/DNNGraph.h"

#include <cassert>

namespace mpc::runtime::cuda {

DNNType toDNN(DType type) {
  switch (type) {
  case DType::F16:
    return DNNType::F16;
  case DType::BF16:
    return DNNType::BF16;
  case DType::F64:
    return DNNType::F64;
  default:
    return DNNType::F32;
  }
}

static size_t bytesOf(DNNAttributeType type) {
  switch (type) {
  case DNNAttributeType::Int64:
  case DNNAttributeType::Double:
    return 8;
  case DNNAttributeType::Boolean:
    return 1;
  default: // enumerations and floats
    return 4;
  }
}

DNNGraph::Node DNNGraph::add(DNNDescriptorType type) {
  descriptors.push_back(std::make_unique<DNNObject>(library, type, what));
  text += "\n" + std::to_string(static_cast<int>(type));
  return {descriptors.size() - 1};
}

void DNNGraph::set(Node node, DNNAttribute attribute, DNNAttributeType type,
                   const void *values, size_t count) {
  assert(type != DNNAttributeType::BackendDescriptor && "a Node has no bytes");
  descriptors[node.index]->set(attribute, type, values, count);
  text += " " + std::to_string(static_cast<int>(attribute)) + "=";
  const auto *bytes = static_cast<const unsigned char *>(values);
  constexpr const char *digits = "0123456789abcdef";
  for (size_t i = 0; i < count * bytesOf(type); ++i) {
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
}

void DNNGraph::set(Node node, DNNAttribute attribute, Node value) {
  descriptors[node.index]->set(attribute, *descriptors[value.index]);
  text += " " + std::to_string(static_cast<int>(attribute)) + "=#" +
          std::to_string(value.index);
}

void DNNGraph::finish(Node node) {
  Status status = descriptors[node.index]->finalize();
  if (failure.ok())
    failure = status;
}

DNNGraph::Node DNNGraph::tensor(int64_t id, DNNType type,
                                const std::vector<int64_t> &dimensions,
                                const std::vector<int64_t> &strides,
                                int64_t alignment) {
  Node node = add(DNNDescriptorType::Tensor);
  set(node, DNNAttribute::TensorDataType, type);
  set(node, DNNAttribute::TensorDimensions, dimensions);
  set(node, DNNAttribute::TensorStrides, strides);
  set(node, DNNAttribute::TensorUniqueId, id);
  set(node, DNNAttribute::TensorByteAlignment, alignment);
  return node;
}

DNNGraph::Node DNNGraph::memory(int64_t id, DNNType type,
                                const std::vector<int64_t> &dimensions,
                                const std::vector<int64_t> &strides,
                                int64_t alignment) {
  assert(id < kFirstUnnamed && "later numbers are those of unnamed tensors");
  Node node = tensor(id, type, dimensions, strides, alignment);
  finish(node);
  return node;
}

DNNGraph::Node DNNGraph::between(DNNType type,
                                 const std::vector<int64_t> &dimensions,
                                 const std::vector<int64_t> &strides) {
  constexpr int64_t kAlignment = 16;
  constexpr bool isVirtual = true;
  Node node = tensor(nextUnnamed++, type, dimensions, strides, kAlignment);
  set(node, DNNAttribute::TensorIsVirtual, DNNAttributeType::Boolean,
      &isVirtual, 1);
  finish(node);
  return node;
}

DNNGraph::Node DNNGraph::number(int64_t id, DNNType type, size_t rank) {
  constexpr int64_t kAlignment = 16;
  constexpr bool isByValue = true;
  const std::vector<int64_t> ones(rank, 1);
  Node node = tensor(id, type, ones, ones, kAlignment);
  set(node, DNNAttribute::TensorIsByValue, DNNAttributeType::Boolean,
      &isByValue, 1);
  finish(node);
  return node;
}

void DNNGraph::append(Node operation) {
  finish(operation);
  operations.push_back(operation);
}

Status DNNGraph::complete() {
  graph = std::make_unique<DNNObject>(library,
                                      DNNDescriptorType::OperationGraph, what);
  std::vector<DNNDescriptor> handles;
  for (Node operation : operations)
    handles.push_back(descriptors[operation.index]->get());
  graph->set(DNNAttribute::OperationGraphHandle, DNNAttributeType::Handle,
             &library.handle, 1);
  graph->set(DNNAttribute::OperationGraphOps,
             DNNAttributeType::BackendDescriptor, handles.data(),
             handles.size());
  Status status = graph->finalize();
  return failure.ok() ? status : failure;
}

} // namespace mpc::runtime::cuda
