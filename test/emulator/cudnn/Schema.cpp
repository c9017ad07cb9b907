// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cudnn/Schema.h"

#include <initializer_list>

using namespace mpc::emulator;

static constexpr int64_t kMostDims = 8;

const std::vector<Schema> &
mpc::emulator::schemaOf(cudnnBackendDescriptorType_t type) {
  static const std::vector<Schema> tensor = {
      {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, true},
      {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true},
      {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, kMostDims, true},
      {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, kMostDims, true},
      {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, true},
      {CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, false},
      {CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, false}};
  static const std::vector<Schema> convolution = {
      {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true},
      {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, true},
      {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, kMostDims, true},
      {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, kMostDims,
       true},
      {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, kMostDims, true},
      {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, kMostDims, true},
      {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, true}};
  static const std::vector<Schema> graph = {
      {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, true},
      {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 64, true}};
  static const std::vector<Schema> heuristic = {
      {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, true},
      {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
       true, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR}};
  static const std::vector<Schema> plan = {
      {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, false},
      {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR,
       1, true, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR}};
  static const std::vector<Schema> variantPack = {
      {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 64, true},
      {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 64, true},
      {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, false}};
  static const std::vector<Schema> none;
  static const std::vector<Schema> pointwise = {
      {CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, true},
      {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, true},
      {CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, false}};
  static const std::vector<Schema> matmul = {
      {CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true}};
  static const std::vector<Schema> reduction = {
      {CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
       true},
      {CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true}};
  static const std::vector<Schema> knob = {
      {CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, true},
      {CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, true}};
  static const std::vector<Schema> engine = {
      {CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
       true, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR},
      {CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, true}};
  static const std::vector<Schema> config = {
      {CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true,
       CUDNN_BACKEND_ENGINE_DESCRIPTOR},
      {CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, 64,
       false, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR}};
  // An operation has a description of type `described`, if any, and tensors.
  auto operationOf = [](int descriptor, int described,
                        std::initializer_list<int> tensors) {
    std::vector<Schema> schema;
    if (descriptor)
      schema.push_back(
          {descriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true, described});
    for (int name : tensors) {
      const bool isRequired = name != CUDNN_ATTR_OPERATION_POINTWISE_BDESC &&
                              name != CUDNN_ATTR_OPERATION_POINTWISE_TDESC;
      schema.push_back({name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, isRequired,
                        CUDNN_BACKEND_TENSOR_DESCRIPTOR});
    }
    return schema;
  };
  static const std::vector<Schema> pointwiseOperation =
      operationOf(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                  CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
                  {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                   CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                   CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
                   CUDNN_ATTR_OPERATION_POINTWISE_YDESC});
  static const std::vector<Schema> matmulOperation = operationOf(
      CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_BACKEND_MATMUL_DESCRIPTOR,
      {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC,
       CUDNN_ATTR_OPERATION_MATMUL_CDESC});
  static const std::vector<Schema> reductionOperation = operationOf(
      CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_BACKEND_REDUCTION_DESCRIPTOR,
      {CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
       CUDNN_ATTR_OPERATION_REDUCTION_YDESC});
  static const std::vector<Schema> reshapeOperation = operationOf(
      0, 0,
      {CUDNN_ATTR_OPERATION_RESHAPE_XDESC, CUDNN_ATTR_OPERATION_RESHAPE_YDESC});
  auto operation = [](int first) {
    std::vector<Schema> schema = {{first, CUDNN_TYPE_FLOAT, 1, true},
                                  {first + 1, CUDNN_TYPE_FLOAT, 1, true},
                                  {first + 2, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                   true, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR}};
    for (int name = first + 3; name < first + 6; ++name)
      schema.push_back({name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true,
                        CUDNN_BACKEND_TENSOR_DESCRIPTOR});
    return schema;
  };
  static const std::vector<Schema> forward =
      operation(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
  static const std::vector<Schema> backwardData =
      operation(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
  static const std::vector<Schema> backwardFilter =
      operation(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
  switch (type) {
  case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
    return tensor;
  case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
    return convolution;
  case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    return forward;
  case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    return backwardData;
  case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
    return backwardFilter;
  case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
    return graph;
  case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
    return heuristic;
  case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
    return plan;
  case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
    return variantPack;
  case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
    return engine;
  case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
    return config;
  case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR:
    return knob;
  case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
    return pointwise;
  case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
    return matmul;
  case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
    return reduction;
  case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    return pointwiseOperation;
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    return matmulOperation;
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
    return reductionOperation;
  case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
    return reshapeOperation;
  }
  return none;
}

size_t mpc::emulator::bytesOf(cudnnBackendAttributeType_t type) {
  switch (type) {
  case CUDNN_TYPE_DATA_TYPE:
  case CUDNN_TYPE_FLOAT:
  case CUDNN_TYPE_CONVOLUTION_MODE:
  case CUDNN_TYPE_HEUR_MODE:
  case CUDNN_TYPE_NUMERICAL_NOTE:
  case CUDNN_TYPE_KNOB_TYPE:
  case CUDNN_TYPE_POINTWISE_MODE:
  case CUDNN_TYPE_REDUCTION_OPERATOR_TYPE:
    return 4;
  case CUDNN_TYPE_BOOLEAN:
    return 1;
  default:
    return 8;
  }
}
