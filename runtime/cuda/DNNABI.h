// The part of cuDNN's backend C ABI that the CUDA device uses. DriverABI.h
// explains why mpc has its own declarations, and names the test of the
// declarations.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_DNNABI_H
#define MPC_RUNTIME_CUDA_DNNABI_H

#include "runtime/cuda/DriverABI.h"

namespace mpc::runtime::cuda {

/// cudnnStatus_t.
enum class DNNStatus : int { Success = 0 };

/// cudnnDataType_t.
enum class DNNType : int { F32 = 0, F64 = 1, F16 = 2, BF16 = 9 };

/// cudnnConvolutionMode_t.
enum class DNNConvMode : int { CrossCorrelation = 1 };

/// cudnnBackendHeurMode_t.
enum class DNNHeuristicMode : int { Fallback = 2, A = 3 };

/// cudnnBackendNumericalNote_t.
enum class DNNNumericalNote : int {
  TensorCore = 0,
  DownConvertInputs = 1,
  ReducedPrecisionReduction = 2,
  FFT = 3,
  Nondeterministic = 4,
  Winograd = 5,
  Winograd4x4 = 6,
  Winograd6x6 = 7,
  Winograd13x13 = 8,
  StrictNaNPropagation = 9,
};

/// cudnnBackendDescriptorType_t.
enum class DNNDescriptorType : int {
  Convolution = 1,
  Engine = 2,
  EngineConfig = 3,
  EngineHeuristic = 4,
  ExecutionPlan = 5,
  ConvForward = 10,
  ConvBackwardFilter = 11,
  ConvBackwardData = 12,
  OperationGraph = 15,
  VariantPack = 16,
  Tensor = 17,
};

/// cudnnBackendAttributeType_t.
enum class DNNAttributeType : int {
  Handle = 0,
  DataType = 1,
  Int64 = 3,
  Float = 4,
  Double = 5,
  VoidPointer = 6,
  ConvolutionMode = 7,
  HeuristicMode = 8,
  NumericalNote = 11,
  BackendDescriptor = 15,
};

/// cudnnBackendAttributeName_t.
enum class DNNAttribute : int {
  ConvolutionComputeType = 100,
  ConvolutionMode = 101,
  ConvolutionDilations = 102,
  ConvolutionFilterStrides = 103,
  ConvolutionPostPaddings = 104,
  ConvolutionPrePaddings = 105,
  ConvolutionSpatialDims = 106,
  HeuristicMode = 200,
  HeuristicOperationGraph = 201,
  HeuristicResults = 202,
  EngineConfigEngine = 300,
  ExecutionPlanHandle = 400,
  ExecutionPlanEngineConfig = 401,
  ExecutionPlanWorkspaceSize = 402,
  ConvForwardAlpha = 700,
  ConvForwardBeta = 701,
  ConvForwardConvolution = 702,
  ConvForwardW = 703,
  ConvForwardX = 704,
  ConvForwardY = 705,
  ConvBackwardDataAlpha = 706,
  ConvBackwardDataBeta = 707,
  ConvBackwardDataConvolution = 708,
  ConvBackwardDataW = 709,
  ConvBackwardDataDX = 710,
  ConvBackwardDataDY = 711,
  ConvBackwardFilterAlpha = 712,
  ConvBackwardFilterBeta = 713,
  ConvBackwardFilterConvolution = 714,
  ConvBackwardFilterDW = 715,
  ConvBackwardFilterX = 716,
  ConvBackwardFilterDY = 717,
  OperationGraphHandle = 800,
  OperationGraphOps = 801,
  TensorByteAlignment = 900,
  TensorDataType = 901,
  TensorDimensions = 902,
  TensorStrides = 903,
  TensorUniqueId = 906,
  VariantPackUniqueIds = 1000,
  VariantPackDataPointers = 1001,
  VariantPackWorkspace = 1003,
  EngineGlobalIndex = 1301,
  EngineNumericalNote = 1303,
};

using DNNHandle = struct DNNHandleTag *; ///< cudnnHandle_t
using DNNDescriptor = void *;            ///< cudnnBackendDescriptor_t

// Lists the functions: X(result, member of DNNFunctions, symbol, parameters...)
#define MPC_CUDA_DNN_FUNCTIONS(X)                                              \
  X(size_t, getVersion, cudnnGetVersion, void)                                 \
  X(const char *, getErrorString, cudnnGetErrorString, DNNStatus status)       \
  X(void, getLastErrorString, cudnnGetLastErrorString, char *message,          \
    size_t size)                                                               \
  X(DNNStatus, create, cudnnCreate, DNNHandle *handle)                         \
  X(DNNStatus, destroy, cudnnDestroy, DNNHandle handle)                        \
  X(DNNStatus, setStream, cudnnSetStream, DNNHandle handle, Stream stream)     \
  X(DNNStatus, createDescriptor, cudnnBackendCreateDescriptor,                 \
    DNNDescriptorType type, DNNDescriptor *descriptor)                         \
  X(DNNStatus, destroyDescriptor, cudnnBackendDestroyDescriptor,               \
    DNNDescriptor descriptor)                                                  \
  X(DNNStatus, finalize, cudnnBackendFinalize, DNNDescriptor descriptor)       \
  X(DNNStatus, setAttribute, cudnnBackendSetAttribute,                         \
    DNNDescriptor descriptor, DNNAttribute attribute, DNNAttributeType type,   \
    int64_t count, const void *values)                                         \
  X(DNNStatus, getAttribute, cudnnBackendGetAttribute,                         \
    DNNDescriptor descriptor, DNNAttribute attribute, DNNAttributeType type,   \
    int64_t requested, int64_t *count, void *values)                           \
  X(DNNStatus, execute, cudnnBackendExecute, DNNHandle handle,                 \
    DNNDescriptor plan, DNNDescriptor variantPack)

/// The functions of the loaded library. All are set once the library is open.
struct DNNFunctions {
#define MPC_CUDA_DECLARE(result, member, symbol, ...)                          \
  result (*member)(__VA_ARGS__) = nullptr;
  MPC_CUDA_DNN_FUNCTIONS(MPC_CUDA_DECLARE)
#undef MPC_CUDA_DECLARE
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_DNNABI_H
