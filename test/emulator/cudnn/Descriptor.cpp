// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cudnn/Descriptor.h"

#include "test/emulator/cudnn/Schema.h"

#include <algorithm>
#include <cstdlib>

using namespace mpc::emulator;

namespace {

/// The engine of graphs that programs may name, and its kernel that adds up
/// gradients in one order.
constexpr int64_t kNamedEngine = 5, kOrderedKernel = 31;

bool isKnown(int type) {
  return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_DOUBLE ||
         type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16 ||
         type == CUDNN_DATA_INT32 || type == CUDNN_DATA_BOOLEAN;
}

bool isGraphOperation(const Descriptor &descriptor) {
  return descriptor.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
         descriptor.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR ||
         descriptor.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR ||
         descriptor.type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
}

bool isConvolution(const Descriptor &descriptor) {
  return descriptor.type >=
             CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR &&
         descriptor.type <=
             CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
}

} // namespace

//===----------------------------------------------------------------------===//
// Setting
//===----------------------------------------------------------------------===//

DNNResult Descriptor::set(cudnnBackendAttributeName_t name,
                          cudnnBackendAttributeType_t given, int64_t count,
                          const void *values) {
  std::string which = "attribute " + std::to_string(name);
  if (isFinalized)
    return {CUDNN_STATUS_BAD_PARAM, which + ": the descriptor is finalized"};
  const std::vector<Schema> &schema = schemaOf(type);
  auto known = std::find_if(schema.begin(), schema.end(),
                            [&](const Schema &s) { return s.name == name; });
  if (known == schema.end())
    return {CUDNN_STATUS_BAD_PARAM, which + ": the descriptor has none such"};
  // Factors may be f32 or f64.
  bool isFactor = known->type == CUDNN_TYPE_FLOAT && given == CUDNN_TYPE_DOUBLE;
  if (given != known->type && !isFactor)
    return {CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, which + ": of another type"};
  if (count < 1 || count > known->mostValues)
    return {CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND,
            which + ": " + std::to_string(count) + " values"};
  if (!values)
    return {CUDNN_STATUS_BAD_PARAM_NULL_POINTER, which + ": no values"};
  Attribute attribute;
  attribute.type = given;
  attribute.count = count;
  auto *first = static_cast<const uint8_t *>(values);
  attribute.bytes.assign(first,
                         first + static_cast<size_t>(count) * bytesOf(given));
  if (given == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    auto *handles = static_cast<DescriptorHandle *const *>(values);
    for (int64_t i = 0; i < count; ++i) {
      if (!handles[i])
        return {CUDNN_STATUS_BAD_PARAM_NULL_POINTER, which};
      const std::shared_ptr<Descriptor> &each = handles[i]->descriptor;
      if (!each->isFinalized)
        return {CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, which};
      if (known->referent != kAnyOperation
              ? each->type != known->referent
              : !isConvolution(*each) && !isGraphOperation(*each))
        return {CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, which};
      attribute.descriptors.push_back(each);
    }
  }
  attributes[name] = std::move(attribute);
  return {};
}

//===----------------------------------------------------------------------===//
// Finalizing
//===----------------------------------------------------------------------===//

DNNResult Descriptor::finalizeTensor() {
  tensor.type = value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  tensor.dims = values<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  tensor.strides = values<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  tensor.id = value<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  tensor.alignment = value<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  if (!isKnown(tensor.type))
    return {CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "tensor: element type"};
  if (tensor.dims.size() != tensor.strides.size() || tensor.dims.size() < 3)
    return {CUDNN_STATUS_BAD_PARAM, "tensor: dimensions and strides"};
  for (size_t i = 0; i < tensor.dims.size(); ++i)
    if (tensor.dims[i] < 1 || tensor.strides[i] < 1)
      return {CUDNN_STATUS_BAD_PARAM, "tensor: an extent or stride below 1"};
  auto flag = [&](int name) { return has(name) && value<uint8_t>(name) != 0; };
  tensor.isVirtual = flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  tensor.isByValue = flag(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  if (tensor.isVirtual && tensor.isByValue)
    return {CUDNN_STATUS_BAD_PARAM, "tensor: virtual and passed by value"};
  if (tensor.alignment < 1 || (tensor.alignment & (tensor.alignment - 1)))
    return {CUDNN_STATUS_BAD_PARAM, "tensor: alignment"};
  return {};
}

DNNResult Descriptor::finalizeConvolution() {
  conv.compute = value<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
  conv.strides = values<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  conv.dilations = values<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  conv.prePaddings = values<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  conv.postPaddings = values<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  auto spatial =
      static_cast<size_t>(value<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  if (value<int>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION)
    return {CUDNN_STATUS_NOT_SUPPORTED, "convolution: mode"};
  for (const auto *list :
       {&conv.strides, &conv.dilations, &conv.prePaddings, &conv.postPaddings})
    if (list->size() != spatial)
      return {CUDNN_STATUS_BAD_PARAM, "convolution: spatial dimensions"};
  for (size_t i = 0; i < spatial; ++i)
    if (conv.strides[i] < 1 || conv.dilations[i] < 1 ||
        conv.prePaddings[i] < 0 || conv.postPaddings[i] < 0)
      return {CUDNN_STATUS_BAD_PARAM,
              "convolution: a stride, dilation or padding"};
  return {};
}

DNNResult Descriptor::finalizeOperation() {
  struct Names {
    Convolution::Kind kind;
    int alpha, x, w, y;
  };
  Names names;
  if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
    names = {Convolution::Forward,
             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
  else if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
    names = {Convolution::BackwardData,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
  else
    names = {Convolution::BackwardFilter,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
  conv = descriptor(names.alpha + 2).conv;
  conv.kind = names.kind;
  conv.x = descriptor(names.x).tensor;
  conv.w = descriptor(names.w).tensor;
  conv.y = descriptor(names.y).tensor;
  auto factor = [&](int name) {
    return attributes.at(name).type == CUDNN_TYPE_DOUBLE
               ? value<double>(name)
               : static_cast<double>(value<float>(name));
  };
  conv.alpha = factor(names.alpha);
  conv.beta = factor(names.alpha + 1);
  if (const char *reason = checkShapes(conv))
    return {CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, reason};
  if (conv.x.id == conv.w.id || conv.x.id == conv.y.id ||
      conv.w.id == conv.y.id)
    return {CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "tensors share an id"};
  return {};
}

/// Collects an operation of a graph from its description and its tensors.
DNNResult Descriptor::finalizeGraphOperation() {
  auto add = [&](int name) {
    if (has(name))
      operation.operands.push_back(descriptor(name).tensor);
  };
  switch (type) {
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: {
    const Descriptor &described = descriptor(CUDNN_ATTR_OPERATION_MATMUL_DESC);
    operation.kind = GraphOperation::MatMul;
    operation.compute =
        described.value<cudnnDataType_t>(CUDNN_ATTR_MATMUL_COMP_TYPE);
    add(CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    add(CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    operation.result = descriptor(CUDNN_ATTR_OPERATION_MATMUL_CDESC).tensor;
    break;
  }
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: {
    const Descriptor &described =
        descriptor(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
    operation.kind = GraphOperation::Reduction;
    operation.mode = described.value<int>(CUDNN_ATTR_REDUCTION_OPERATOR);
    operation.compute =
        described.value<cudnnDataType_t>(CUDNN_ATTR_REDUCTION_COMP_TYPE);
    add(CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    operation.result = descriptor(CUDNN_ATTR_OPERATION_REDUCTION_YDESC).tensor;
    break;
  }
  case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
    operation.kind = GraphOperation::Reshape;
    add(CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    operation.result = descriptor(CUDNN_ATTR_OPERATION_RESHAPE_YDESC).tensor;
    break;
  default: {
    const Descriptor &described =
        descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    operation.kind = GraphOperation::Pointwise;
    operation.mode = described.value<int>(CUDNN_ATTR_POINTWISE_MODE);
    operation.compute =
        described.value<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC);
    if (described.has(CUDNN_ATTR_POINTWISE_AXIS))
      operation.axis = described.value<int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
    add(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    add(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    add(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    operation.result = descriptor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC).tensor;
  }
  }
  return {};
}

DNNResult Descriptor::finalizeGraph() {
  const auto &operations =
      attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descriptors;
  if (operations.size() == 1 && isConvolution(*operations.front())) {
    conv = operations.front()->conv;
    return {};
  }
  for (const std::shared_ptr<Descriptor> &each : operations) {
    if (!isGraphOperation(*each))
      return {CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
              "a graph of convolutions and other operations"};
    graph.operations.push_back(each->operation);
  }
  if (std::string fault = findFault(graph); !fault.empty())
    return {CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, fault};
  return {};
}

/// An engine that the program names. Only graphs have one here, engine 5.
DNNResult Descriptor::finalizeEngine() {
  graph = descriptor(CUDNN_ATTR_ENGINE_OPERATION_GRAPH).graph;
  engineIndex = value<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  notes = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
  if (!isGraph() || engineIndex != kNamedEngine)
    return {CUDNN_STATUS_NOT_SUPPORTED, "no engine of this number"};
  return {};
}

/// The named engine adds up gradients in one order only with kernel 31.
DNNResult Descriptor::finalizeConfig() {
  const Descriptor &engine = descriptor(CUDNN_ATTR_ENGINECFG_ENGINE);
  graph = engine.graph;
  notes = engine.notes;
  engineIndex = engine.engineIndex;
  isOrdered = false;
  if (!has(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES))
    return {};
  for (const auto &choice :
       attributes.at(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES).descriptors)
    isOrdered |= choice->value<int>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE) ==
                     CUDNN_KNOB_TYPE_KERNEL_CFG &&
                 choice->value<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE) ==
                     kOrderedKernel;
  return {};
}

DNNResult Descriptor::finalizeVariantPack() {
  if (attributes.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).count !=
      attributes.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).count)
    return {CUDNN_STATUS_BAD_PARAM, "variant pack: ids and pointers"};
  return {};
}

DNNResult Descriptor::finalize() {
  if (isFinalized)
    return {CUDNN_STATUS_BAD_PARAM, "the descriptor is finalized"};
  for (const Schema &each : schemaOf(type))
    if (each.isRequired && !has(each.name))
      return {CUDNN_STATUS_BAD_PARAM,
              "attribute " + std::to_string(each.name) + " is not set"};
  DNNResult result;
  switch (type) {
  case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
    result = finalizeTensor();
    break;
  case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
    result = finalizeConvolution();
    break;
  case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
    result = finalizeGraph();
    break;
  case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
    conv = descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).conv;
    graph = descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).graph;
    if (const char *reason = isGraph() ? nullptr : checkSupport(conv))
      result = {CUDNN_STATUS_NOT_SUPPORTED, reason};
    break;
  case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
    const Descriptor &config =
        descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    conv = config.conv;
    graph = config.graph;
    isOrdered = config.isOrdered;
    workspaceBytes = config.workspaceBytes;
    break;
  }
  case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
    result = finalizeVariantPack();
    break;
  case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
    result = finalizeEngine();
    break;
  case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
    result = finalizeConfig();
    break;
  case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR:
  case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
  case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
  case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
    break; // findFault checks them with the operation
  default:
    result = isGraphOperation(*this) ? finalizeGraphOperation()
                                     : finalizeOperation();
  }
  isFinalized = result.status == CUDNN_STATUS_SUCCESS;
  return result;
}

//===----------------------------------------------------------------------===//
// Getting
//===----------------------------------------------------------------------===//

/// True if MPC_EMULATOR_ROUNDING, such as "0,1", lists the engine.
static bool isToRound(int64_t engine) {
  const char *text = std::getenv("MPC_EMULATOR_ROUNDING");
  return text &&
         ("," + std::string(text) + ",")
                 .find("," + std::to_string(engine) + ",") != std::string::npos;
}

/// Configurations, the fastest first. A program that needs the same bits each
/// time must skip the first.
DNNResult Descriptor::getResults(int64_t requested, int64_t *count,
                                 void **values) {
  constexpr int64_t kUsefulWorkspace = 1 << 20;
  std::vector<std::pair<std::vector<int>, int64_t>> engines;
  if (isGraph()) {
    // The first engine for a gradient adds it up in any order. As in the real
    // library, no note says so.
    const int64_t ordered = graph.scoreBytes();
    if (value<int>(CUDNN_ATTR_ENGINEHEUR_MODE) != CUDNN_HEUR_MODE_FALLBACK) {
      if (ordered > 0)
        engines.push_back({{CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, 128});
      engines.push_back({{CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, ordered + 256});
    }
  } else if (value<int>(CUDNN_ATTR_ENGINEHEUR_MODE) !=
             CUDNN_HEUR_MODE_FALLBACK) {
    engines.push_back(
        {{CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_WINOGRAD},
         0});
    std::vector<int> notes;
    if (conv.x.elementBytes() == 2)
      notes.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    // A note of a later, unknown version.
    if (const char *text = std::getenv("MPC_EMULATOR_NOTE"))
      notes.push_back(std::atoi(text));
    engines.push_back({notes, kUsefulWorkspace});
  } else {
    engines.push_back({{}, 0});
  }
  auto all = static_cast<int64_t>(engines.size());
  if (!values || requested == 0) {
    *count = all;
    return {};
  }
  *count = std::min(all, requested);
  for (int64_t i = 0; i < *count; ++i) {
    auto *handle = static_cast<DescriptorHandle *>(values[i]);
    if (!handle ||
        handle->descriptor->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
      return {CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "engine configurations"};
    Descriptor &config = *handle->descriptor;
    config.conv = conv;
    config.graph = graph;
    config.isOrdered = !isGraph() || i + 1 == all;
    config.conv.roundsToTF32 =
        !isGraph() && conv.x.type == CUDNN_DATA_FLOAT && isToRound(i);
    config.notes = engines[static_cast<size_t>(i)].first;
    config.engineIndex = i;
    config.workspaceBytes = engines[static_cast<size_t>(i)].second;
    config.isFinalized = true;
  }
  return {};
}

DNNResult Descriptor::get(cudnnBackendAttributeName_t name,
                          cudnnBackendAttributeType_t given, int64_t requested,
                          int64_t *count, void *values) {
  if (!isFinalized)
    return {CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
            "attribute " + std::to_string(name)};
  int64_t unused;
  count = count ? count : &unused;
  if (type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR &&
      name == CUDNN_ATTR_ENGINEHEUR_RESULTS &&
      given == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    return getResults(requested, count, static_cast<void **>(values));
  if (type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR &&
      name == CUDNN_ATTR_ENGINECFG_ENGINE &&
      given == CUDNN_TYPE_BACKEND_DESCRIPTOR && requested == 1 && values) {
    auto *handle = *static_cast<DescriptorHandle **>(values);
    if (!handle || handle->descriptor->type != CUDNN_BACKEND_ENGINE_DESCRIPTOR)
      return {CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "engine"};
    handle->descriptor->conv = conv;
    handle->descriptor->graph = graph;
    handle->descriptor->notes = notes;
    handle->descriptor->engineIndex = engineIndex;
    handle->descriptor->isFinalized = true;
    *count = 1;
    return {};
  }
  if (type == CUDNN_BACKEND_ENGINE_DESCRIPTOR &&
      name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE &&
      given == CUDNN_TYPE_NUMERICAL_NOTE) {
    *count = static_cast<int64_t>(notes.size());
    for (int64_t i = 0; values && i < std::min(requested, *count); ++i)
      static_cast<int *>(values)[i] = notes[static_cast<size_t>(i)];
    return {};
  }
  if (type == CUDNN_BACKEND_ENGINE_DESCRIPTOR &&
      name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX && given == CUDNN_TYPE_INT64 &&
      requested == 1 && values) {
    *count = 1;
    *static_cast<int64_t *>(values) = engineIndex;
    return {};
  }
  if (type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
      name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE &&
      given == CUDNN_TYPE_INT64 && requested == 1 && values) {
    *count = 1;
    *static_cast<int64_t *>(values) = workspaceBytes;
    return {};
  }
  return {CUDNN_STATUS_NOT_SUPPORTED,
          "attribute " + std::to_string(name) + " cannot be asked for here"};
}
