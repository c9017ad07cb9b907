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
enum class DNNType : int {
  F32 = 0,
  F64 = 1,
  F16 = 2,
  I32 = 4,
  BF16 = 9,
  Boolean = 11,
};

/// cudnnConvolutionMode_t.
enum class DNNConvMode : int { CrossCorrelation = 1 };

/// cudnnPointwiseMode_t.
enum class DNNPointwise : int {
  Add = 0,
  Multiply = 1,
  Divide = 6,
  Subtract = 9,
  Exp = 13,
  Log = 15,
  AtLeast = 303,
  Index = 501, ///< the index along an axis
  Select = 601,
};

/// cudnnReduceTensorOp_t.
enum class DNNReduction : int { Sum = 0, Max = 3 };

/// cudnnBackendKnobType_t.
enum class DNNKnob : int { Stages = 14, KernelConfig = 24 };

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
  Pointwise = 0,
  Convolution = 1,
  Engine = 2,
  EngineConfig = 3,
  EngineHeuristic = 4,
  ExecutionPlan = 5,
  KnobChoice = 7,
  ConvForward = 10,
  ConvBackwardFilter = 11,
  ConvBackwardData = 12,
  PointwiseOperation = 13,
  OperationGraph = 15,
  VariantPack = 16,
  Tensor = 17,
  MatMul = 18,
  MatMulOperation = 19,
  Reduction = 21,
  ReductionOperation = 22,
  ReshapeOperation = 31,
};

/// cudnnBackendAttributeType_t.
enum class DNNAttributeType : int {
  Handle = 0,
  DataType = 1,
  Boolean = 2,
  Int64 = 3,
  Float = 4,
  Double = 5,
  VoidPointer = 6,
  ConvolutionMode = 7,
  HeuristicMode = 8,
  KnobType = 9,
  NumericalNote = 11,
  PointwiseMode = 14,
  BackendDescriptor = 15,
  ReductionOperator = 18,
};

/// cudnnBackendAttributeName_t.
enum class DNNAttribute : int {
  PointwiseMode = 0,
  PointwiseMathPrecision = 1,
  PointwiseAxis = 9,
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
  EngineConfigKnobChoices = 302,
  ExecutionPlanHandle = 400,
  ExecutionPlanEngineConfig = 401,
  ExecutionPlanWorkspaceSize = 402,
  KnobChoiceType = 600,
  KnobChoiceValue = 601,
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
  PointwiseDescriptor = 750,
  PointwiseX = 751,
  PointwiseB = 752,
  PointwiseY = 753,
  PointwiseT = 758,
  OperationGraphHandle = 800,
  OperationGraphOps = 801,
  TensorByteAlignment = 900,
  TensorDataType = 901,
  TensorDimensions = 902,
  TensorStrides = 903,
  TensorUniqueId = 906,
  TensorIsVirtual = 907,
  TensorIsByValue = 908,
  VariantPackUniqueIds = 1000,
  VariantPackDataPointers = 1001,
  VariantPackWorkspace = 1003,
  EngineOperationGraph = 1300,
  EngineGlobalIndex = 1301,
  EngineNumericalNote = 1303,
  MatMulComputeType = 1500,
  MatMulA = 1520,
  MatMulB = 1521,
  MatMulC = 1522,
  MatMulDescriptor = 1523,
  ReductionOperator = 1600,
  ReductionComputeType = 1601,
  ReductionX = 1610,
  ReductionY = 1611,
  ReductionDescriptor = 1612,
  ReshapeX = 2200,
  ReshapeY = 2201,
};

using DNNHandle = struct DNNHandleTag *; ///< cudnnHandle_t
using DNNDescriptor = void *;            ///< cudnnBackendDescriptor_t

// Lists the functions: X(result, member of DNNFunctions, symbol, parameters...)
#define MPC_CUDA_DNN_FUNCTIONS(X)                                              \
  X(size_t, getVersion, cudnnGetVersion, void)                                 \
  X(size_t, getCUDAVersion, cudnnGetCudartVersion, void)                       \
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
