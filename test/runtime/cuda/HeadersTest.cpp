// Compares our declarations of NVIDIA's C ABIs with the toolkit's headers, one
// test for each library. Skipped on machines without these headers.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/BLASLtABI.h"
#include "runtime/cuda/DriverABI.h"
#include "runtime/cuda/NCCLABI.h"
#include "runtime/cuda/dnn/DNNABI.h"

#include <gtest/gtest.h>
#include <type_traits>

#if __has_include(<cuda.h>)
#include <cuda.h>
#define MPC_HAS_DRIVER_HEADER 1
#endif
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#define MPC_HAS_BLASLT_HEADER 1
#endif
#if __has_include(<cudnn_graph.h>)
#include <cudnn_graph.h>
#define MPC_HAS_DNN_HEADER 1
#endif
#if __has_include(<nccl.h>)
#include <nccl.h>
#define MPC_HAS_NCCL_HEADER 1
#endif

using namespace mpc::runtime::cuda;

/// True if values of both types pass a C call the same way: both void,
/// pointers, integers (or enumerations) or floats, of one size.
template <typename A, typename B>
constexpr bool passedAlike() {
  if constexpr (std::is_void_v<A> || std::is_void_v<B>)
    return std::is_void_v<A> && std::is_void_v<B>;
  else
    return sizeof(A) == sizeof(B) && alignof(A) == alignof(B) &&
           std::is_pointer_v<A> == std::is_pointer_v<B> &&
           std::is_floating_point_v<A> == std::is_floating_point_v<B> &&
           std::is_class_v<A> == std::is_class_v<B>;
}

template <typename Ours, typename Theirs>
struct SameSignature : std::false_type {};

template <typename A, typename... As, typename B, typename... Bs>
struct SameSignature<A (*)(As...), B (*)(Bs...)> {
  static constexpr bool check() {
    if constexpr (sizeof...(As) != sizeof...(Bs))
      return false;
    else
      return passedAlike<A, B>() && (passedAlike<As, Bs>() && ...);
  }
  static constexpr bool value = check();
};

TEST(CUDAHeaders, signatureComparisonSeesDifferences) {
  EXPECT_TRUE((SameSignature<DriverResult (*)(int *, Stream),
                             unsigned (*)(void *, void *)>::value));
  EXPECT_FALSE((SameSignature<int (*)(int), int (*)(long)>::value));
  EXPECT_FALSE((SameSignature<int (*)(int), int (*)(float)>::value));
  EXPECT_FALSE((SameSignature<int (*)(int), int (*)(int, int)>::value));
  EXPECT_FALSE((SameSignature<int (*)(void *), int (*)(size_t)>::value));
  EXPECT_FALSE((SameSignature<int (*)(int), void (*)(int)>::value));
}

#define MPC_EXPECT_VALUE(ours, theirs)                                         \
  EXPECT_EQ(static_cast<int64_t>(ours), static_cast<int64_t>(theirs)) << #theirs

//===----------------------------------------------------------------------===//
// The driver
//===----------------------------------------------------------------------===//

TEST(CUDAHeaders, driver) {
#ifndef MPC_HAS_DRIVER_HEADER
  GTEST_SKIP() << "this machine has no cuda.h";
#else
#define MPC_CHECK(member, symbol, ...)                                         \
  EXPECT_TRUE((SameSignature<decltype(DriverFunctions::member),                \
                             decltype(&::symbol)>::value))                     \
      << #symbol;
  MPC_CUDA_DRIVER_FUNCTIONS(MPC_CHECK)
#undef MPC_CHECK
  EXPECT_TRUE((passedAlike<DevicePointer, CUdeviceptr>()));
  EXPECT_TRUE((passedAlike<DeviceOrdinal, CUdevice>()));
  EXPECT_TRUE((passedAlike<JITOption, CUjit_option>()));
  MPC_EXPECT_VALUE(DriverResult::Success, CUDA_SUCCESS);
  MPC_EXPECT_VALUE(DriverResult::OutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  MPC_EXPECT_VALUE(DriverResult::NoDevice, CUDA_ERROR_NO_DEVICE);
  MPC_EXPECT_VALUE(DriverResult::NoBinaryForGPU, CUDA_ERROR_NO_BINARY_FOR_GPU);
  MPC_EXPECT_VALUE(DriverResult::InvalidPTX, CUDA_ERROR_INVALID_PTX);
  MPC_EXPECT_VALUE(DriverResult::UnsupportedPTXVersion,
                   CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  MPC_EXPECT_VALUE(DriverResult::NotFound, CUDA_ERROR_NOT_FOUND);
  MPC_EXPECT_VALUE(DriverResult::NotReady, CUDA_ERROR_NOT_READY);
  MPC_EXPECT_VALUE(DeviceAttribute::MultiprocessorCount,
                   CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  MPC_EXPECT_VALUE(DeviceAttribute::ComputeCapabilityMajor,
                   CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  MPC_EXPECT_VALUE(DeviceAttribute::ComputeCapabilityMinor,
                   CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  MPC_EXPECT_VALUE(DeviceAttribute::MaxSharedMemoryPerBlockOptin,
                   CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  MPC_EXPECT_VALUE(JITOption::ErrorLogBuffer, CU_JIT_ERROR_LOG_BUFFER);
  MPC_EXPECT_VALUE(JITOption::ErrorLogBufferSizeBytes,
                   CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
  MPC_EXPECT_VALUE(FunctionAttribute::MaxDynamicSharedSizeBytes,
                   CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  MPC_EXPECT_VALUE(CaptureMode::ThreadLocal,
                   CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  MPC_EXPECT_VALUE(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
  MPC_EXPECT_VALUE(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
#endif
}

//===----------------------------------------------------------------------===//
// NCCL
//===----------------------------------------------------------------------===//

TEST(CUDAHeaders, nccl) {
#ifndef MPC_HAS_NCCL_HEADER
  GTEST_SKIP() << "this machine has no nccl.h";
#else
#define MPC_CHECK(result, member, symbol, ...)                                 \
  EXPECT_TRUE((SameSignature<decltype(NCCLFunctions::member),                  \
                             decltype(&::symbol)>::value))                     \
      << #symbol;
  MPC_CUDA_NCCL_FUNCTIONS(MPC_CHECK)
#undef MPC_CHECK
  EXPECT_TRUE((passedAlike<NCCLUniqueId, ncclUniqueId>()));
  MPC_EXPECT_VALUE(offsetof(NCCLConfig, bytes), offsetof(ncclConfig_t, size));
  MPC_EXPECT_VALUE(offsetof(NCCLConfig, magic), offsetof(ncclConfig_t, magic));
  MPC_EXPECT_VALUE(offsetof(NCCLConfig, version),
                   offsetof(ncclConfig_t, version));
  MPC_EXPECT_VALUE(offsetof(NCCLConfig, blocking),
                   offsetof(ncclConfig_t, blocking));
  EXPECT_LE(sizeof(NCCLConfig), sizeof(ncclConfig_t));
  const ncclConfig_t defaults = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(kNCCLMagic, defaults.magic);
  MPC_EXPECT_VALUE(kNCCLVersion, NCCL_VERSION(2, 14, 0));
  MPC_EXPECT_VALUE(NCCLResult::Success, ncclSuccess);
  MPC_EXPECT_VALUE(NCCLResult::InProgress, ncclInProgress);
  MPC_EXPECT_VALUE(NCCLType::I8, ncclInt8);
  MPC_EXPECT_VALUE(NCCLType::U8, ncclUint8);
  MPC_EXPECT_VALUE(NCCLType::I32, ncclInt32);
  MPC_EXPECT_VALUE(NCCLType::U32, ncclUint32);
  MPC_EXPECT_VALUE(NCCLType::I64, ncclInt64);
  MPC_EXPECT_VALUE(NCCLType::U64, ncclUint64);
  MPC_EXPECT_VALUE(NCCLType::F16, ncclFloat16);
  MPC_EXPECT_VALUE(NCCLType::F32, ncclFloat32);
  MPC_EXPECT_VALUE(NCCLType::F64, ncclFloat64);
  MPC_EXPECT_VALUE(NCCLType::BF16, ncclBfloat16);
  MPC_EXPECT_VALUE(NCCLOperation::Sum, ncclSum);
  MPC_EXPECT_VALUE(NCCLOperation::Max, ncclMax);
  MPC_EXPECT_VALUE(NCCLResidence::HostImmediate, ncclScalarHostImmediate);
#endif
}

//===----------------------------------------------------------------------===//
// cuBLASLt
//===----------------------------------------------------------------------===//

TEST(CUDAHeaders, blasLt) {
#ifndef MPC_HAS_BLASLT_HEADER
  GTEST_SKIP() << "this machine has no cublasLt.h";
#else
#define MPC_CHECK(result, member, symbol, ...)                                 \
  EXPECT_TRUE((SameSignature<decltype(BLASLtFunctions::member),                \
                             decltype(&::symbol)>::value))                     \
      << #symbol;
  MPC_CUDA_BLASLT_FUNCTIONS(MPC_CHECK)
#undef MPC_CHECK
  EXPECT_TRUE((passedAlike<BLASAlgorithm, cublasLtMatmulAlgo_t>()));
  EXPECT_TRUE((passedAlike<BLASHeuristic, cublasLtMatmulHeuristicResult_t>()));
  MPC_EXPECT_VALUE(offsetof(BLASHeuristic, workspaceBytes),
                   offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
  MPC_EXPECT_VALUE(offsetof(BLASHeuristic, state),
                   offsetof(cublasLtMatmulHeuristicResult_t, state));
  MPC_EXPECT_VALUE(BLASStatus::Success, CUBLAS_STATUS_SUCCESS);
  MPC_EXPECT_VALUE(BLASStatus::NotSupported, CUBLAS_STATUS_NOT_SUPPORTED);
  MPC_EXPECT_VALUE(BLASType::F32, CUDA_R_32F);
  MPC_EXPECT_VALUE(BLASType::F64, CUDA_R_64F);
  MPC_EXPECT_VALUE(BLASType::F16, CUDA_R_16F);
  MPC_EXPECT_VALUE(BLASType::BF16, CUDA_R_16BF);
  MPC_EXPECT_VALUE(BLASCompute::F32, CUBLAS_COMPUTE_32F);
  MPC_EXPECT_VALUE(BLASCompute::F64, CUBLAS_COMPUTE_64F);
  MPC_EXPECT_VALUE(BLASCompute::FastTF32, CUBLAS_COMPUTE_32F_FAST_TF32);
  MPC_EXPECT_VALUE(BLASOperation::None, CUBLAS_OP_N);
  MPC_EXPECT_VALUE(BLASOperation::Transpose, CUBLAS_OP_T);
  MPC_EXPECT_VALUE(BLASLayoutAttribute::BatchCount,
                   CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  MPC_EXPECT_VALUE(BLASLayoutAttribute::StridedBatchOffset,
                   CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  MPC_EXPECT_VALUE(BLASMatMulAttribute::TransA, CUBLASLT_MATMUL_DESC_TRANSA);
  MPC_EXPECT_VALUE(BLASMatMulAttribute::TransB, CUBLASLT_MATMUL_DESC_TRANSB);
  MPC_EXPECT_VALUE(BLASMatMulAttribute::Epilogue,
                   CUBLASLT_MATMUL_DESC_EPILOGUE);
  MPC_EXPECT_VALUE(BLASMatMulAttribute::BiasPointer,
                   CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  MPC_EXPECT_VALUE(BLASMatMulAttribute::EpilogueAuxPointer,
                   CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
  MPC_EXPECT_VALUE(BLASMatMulAttribute::EpilogueAuxLd,
                   CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
  MPC_EXPECT_VALUE(BLASMatMulAttribute::BiasDataType,
                   CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  MPC_EXPECT_VALUE(BLASEpilogue::Default, CUBLASLT_EPILOGUE_DEFAULT);
  MPC_EXPECT_VALUE(BLASEpilogue::Bias, CUBLASLT_EPILOGUE_BIAS);
  MPC_EXPECT_VALUE(BLASEpilogue::ReluBias, CUBLASLT_EPILOGUE_RELU_BIAS);
  MPC_EXPECT_VALUE(BLASEpilogue::ReluAuxBias, CUBLASLT_EPILOGUE_RELU_AUX_BIAS);
  MPC_EXPECT_VALUE(BLASEpilogue::DRelu, CUBLASLT_EPILOGUE_DRELU);
  MPC_EXPECT_VALUE(BLASEpilogue::DReluBGrad, CUBLASLT_EPILOGUE_DRELU_BGRAD);
  MPC_EXPECT_VALUE(BLASEpilogue::BGradA, CUBLASLT_EPILOGUE_BGRADA);
  MPC_EXPECT_VALUE(BLASEpilogue::BGradB, CUBLASLT_EPILOGUE_BGRADB);
  MPC_EXPECT_VALUE(BLASReduction::None, CUBLASLT_REDUCTION_SCHEME_NONE);
  MPC_EXPECT_VALUE(BLASReduction::ComputeType,
                   CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  MPC_EXPECT_VALUE(BLASPreferenceAttribute::MaxWorkspaceBytes,
                   CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  MPC_EXPECT_VALUE(BLASPreferenceAttribute::ReductionSchemeMask,
                   CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
  MPC_EXPECT_VALUE(BLASPreferenceAttribute::MinAlignmentA,
                   CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  MPC_EXPECT_VALUE(BLASPreferenceAttribute::MinAlignmentB,
                   CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
  MPC_EXPECT_VALUE(BLASPreferenceAttribute::MinAlignmentC,
                   CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
  MPC_EXPECT_VALUE(BLASPreferenceAttribute::MinAlignmentD,
                   CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
#endif
}

//===----------------------------------------------------------------------===//
// cuDNN
//===----------------------------------------------------------------------===//

TEST(CUDAHeaders, dnn) {
#ifndef MPC_HAS_DNN_HEADER
  GTEST_SKIP() << "this machine has no cudnn_graph.h";
#else
#define MPC_CHECK(result, member, symbol, ...)                                 \
  EXPECT_TRUE((SameSignature<decltype(DNNFunctions::member),                   \
                             decltype(&::symbol)>::value))                     \
      << #symbol;
  MPC_CUDA_DNN_FUNCTIONS(MPC_CHECK)
#undef MPC_CHECK
  MPC_EXPECT_VALUE(DNNStatus::Success, CUDNN_STATUS_SUCCESS);
  MPC_EXPECT_VALUE(DNNType::F32, CUDNN_DATA_FLOAT);
  MPC_EXPECT_VALUE(DNNType::F64, CUDNN_DATA_DOUBLE);
  MPC_EXPECT_VALUE(DNNType::F16, CUDNN_DATA_HALF);
  MPC_EXPECT_VALUE(DNNType::BF16, CUDNN_DATA_BFLOAT16);
  MPC_EXPECT_VALUE(DNNType::I32, CUDNN_DATA_INT32);
  MPC_EXPECT_VALUE(DNNType::Boolean, CUDNN_DATA_BOOLEAN);
  MPC_EXPECT_VALUE(DNNConvMode::CrossCorrelation, CUDNN_CROSS_CORRELATION);
  MPC_EXPECT_VALUE(DNNHeuristicMode::A, CUDNN_HEUR_MODE_A);
  MPC_EXPECT_VALUE(DNNHeuristicMode::Fallback, CUDNN_HEUR_MODE_FALLBACK);
  MPC_EXPECT_VALUE(DNNPointwise::Add, CUDNN_POINTWISE_ADD);
  MPC_EXPECT_VALUE(DNNPointwise::Multiply, CUDNN_POINTWISE_MUL);
  MPC_EXPECT_VALUE(DNNPointwise::Divide, CUDNN_POINTWISE_DIV);
  MPC_EXPECT_VALUE(DNNPointwise::Subtract, CUDNN_POINTWISE_SUB);
  MPC_EXPECT_VALUE(DNNPointwise::Exp, CUDNN_POINTWISE_EXP);
  MPC_EXPECT_VALUE(DNNPointwise::Log, CUDNN_POINTWISE_LOG);
  MPC_EXPECT_VALUE(DNNPointwise::AtLeast, CUDNN_POINTWISE_CMP_GE);
  MPC_EXPECT_VALUE(DNNPointwise::Index, CUDNN_POINTWISE_GEN_INDEX);
  MPC_EXPECT_VALUE(DNNPointwise::Select, CUDNN_POINTWISE_BINARY_SELECT);
  MPC_EXPECT_VALUE(DNNReduction::Sum, CUDNN_REDUCE_TENSOR_ADD);
  MPC_EXPECT_VALUE(DNNReduction::Max, CUDNN_REDUCE_TENSOR_MAX);
  MPC_EXPECT_VALUE(DNNKnob::Stages, CUDNN_KNOB_TYPE_STAGES);
  MPC_EXPECT_VALUE(DNNKnob::KernelConfig, CUDNN_KNOB_TYPE_KERNEL_CFG);

#define MPC_NOTE(ours, theirs)                                                 \
  MPC_EXPECT_VALUE(DNNNumericalNote::ours, CUDNN_NUMERICAL_NOTE_##theirs)
  MPC_NOTE(TensorCore, TENSOR_CORE);
  MPC_NOTE(DownConvertInputs, DOWN_CONVERT_INPUTS);
  MPC_NOTE(ReducedPrecisionReduction, REDUCED_PRECISION_REDUCTION);
  MPC_NOTE(FFT, FFT);
  MPC_NOTE(Nondeterministic, NONDETERMINISTIC);
  MPC_NOTE(Winograd, WINOGRAD);
  MPC_NOTE(Winograd4x4, WINOGRAD_TILE_4x4);
  MPC_NOTE(Winograd6x6, WINOGRAD_TILE_6x6);
  MPC_NOTE(Winograd13x13, WINOGRAD_TILE_13x13);
  MPC_NOTE(StrictNaNPropagation, STRICT_NAN_PROP);

#define MPC_DESCRIPTOR(ours, theirs)                                           \
  MPC_EXPECT_VALUE(DNNDescriptorType::ours, CUDNN_BACKEND_##theirs##_DESCRIPTOR)
  MPC_DESCRIPTOR(Pointwise, POINTWISE);
  MPC_DESCRIPTOR(Convolution, CONVOLUTION);
  MPC_DESCRIPTOR(Engine, ENGINE);
  MPC_DESCRIPTOR(EngineConfig, ENGINECFG);
  MPC_DESCRIPTOR(EngineHeuristic, ENGINEHEUR);
  MPC_DESCRIPTOR(ExecutionPlan, EXECUTION_PLAN);
  MPC_DESCRIPTOR(ConvForward, OPERATION_CONVOLUTION_FORWARD);
  MPC_DESCRIPTOR(ConvBackwardFilter, OPERATION_CONVOLUTION_BACKWARD_FILTER);
  MPC_DESCRIPTOR(ConvBackwardData, OPERATION_CONVOLUTION_BACKWARD_DATA);
  MPC_DESCRIPTOR(OperationGraph, OPERATIONGRAPH);
  MPC_DESCRIPTOR(VariantPack, VARIANT_PACK);
  MPC_DESCRIPTOR(Tensor, TENSOR);
  MPC_DESCRIPTOR(KnobChoice, KNOB_CHOICE);
  MPC_DESCRIPTOR(PointwiseOperation, OPERATION_POINTWISE);
  MPC_DESCRIPTOR(MatMul, MATMUL);
  MPC_DESCRIPTOR(MatMulOperation, OPERATION_MATMUL);
  MPC_DESCRIPTOR(Reduction, REDUCTION);
  MPC_DESCRIPTOR(ReductionOperation, OPERATION_REDUCTION);
  MPC_DESCRIPTOR(ReshapeOperation, OPERATION_RESHAPE);

#define MPC_TYPE(ours, theirs)                                                 \
  MPC_EXPECT_VALUE(DNNAttributeType::ours, CUDNN_TYPE_##theirs)
  MPC_TYPE(Handle, HANDLE);
  MPC_TYPE(DataType, DATA_TYPE);
  MPC_TYPE(Int64, INT64);
  MPC_TYPE(Float, FLOAT);
  MPC_TYPE(Double, DOUBLE);
  MPC_TYPE(VoidPointer, VOID_PTR);
  MPC_TYPE(ConvolutionMode, CONVOLUTION_MODE);
  MPC_TYPE(HeuristicMode, HEUR_MODE);
  MPC_TYPE(NumericalNote, NUMERICAL_NOTE);
  MPC_TYPE(BackendDescriptor, BACKEND_DESCRIPTOR);
  MPC_TYPE(Boolean, BOOLEAN);
  MPC_TYPE(KnobType, KNOB_TYPE);
  MPC_TYPE(PointwiseMode, POINTWISE_MODE);
  MPC_TYPE(ReductionOperator, REDUCTION_OPERATOR_TYPE);

#define MPC_ATTRIBUTE(ours, theirs)                                            \
  MPC_EXPECT_VALUE(DNNAttribute::ours, CUDNN_ATTR_##theirs)
  MPC_ATTRIBUTE(ConvolutionComputeType, CONVOLUTION_COMP_TYPE);
  MPC_ATTRIBUTE(ConvolutionMode, CONVOLUTION_CONV_MODE);
  MPC_ATTRIBUTE(ConvolutionDilations, CONVOLUTION_DILATIONS);
  MPC_ATTRIBUTE(ConvolutionFilterStrides, CONVOLUTION_FILTER_STRIDES);
  MPC_ATTRIBUTE(ConvolutionPostPaddings, CONVOLUTION_POST_PADDINGS);
  MPC_ATTRIBUTE(ConvolutionPrePaddings, CONVOLUTION_PRE_PADDINGS);
  MPC_ATTRIBUTE(ConvolutionSpatialDims, CONVOLUTION_SPATIAL_DIMS);
  MPC_ATTRIBUTE(HeuristicMode, ENGINEHEUR_MODE);
  MPC_ATTRIBUTE(HeuristicOperationGraph, ENGINEHEUR_OPERATION_GRAPH);
  MPC_ATTRIBUTE(HeuristicResults, ENGINEHEUR_RESULTS);
  MPC_ATTRIBUTE(EngineConfigEngine, ENGINECFG_ENGINE);
  MPC_ATTRIBUTE(ExecutionPlanHandle, EXECUTION_PLAN_HANDLE);
  MPC_ATTRIBUTE(ExecutionPlanEngineConfig, EXECUTION_PLAN_ENGINE_CONFIG);
  MPC_ATTRIBUTE(ExecutionPlanWorkspaceSize, EXECUTION_PLAN_WORKSPACE_SIZE);
#define MPC_CONV_ATTRIBUTE(ours, theirs)                                       \
  MPC_ATTRIBUTE(Conv##ours, OPERATION_CONVOLUTION_##theirs)
  MPC_CONV_ATTRIBUTE(ForwardAlpha, FORWARD_ALPHA);
  MPC_CONV_ATTRIBUTE(ForwardBeta, FORWARD_BETA);
  MPC_CONV_ATTRIBUTE(ForwardConvolution, FORWARD_CONV_DESC);
  MPC_CONV_ATTRIBUTE(ForwardW, FORWARD_W);
  MPC_CONV_ATTRIBUTE(ForwardX, FORWARD_X);
  MPC_CONV_ATTRIBUTE(ForwardY, FORWARD_Y);
  MPC_CONV_ATTRIBUTE(BackwardDataAlpha, BWD_DATA_ALPHA);
  MPC_CONV_ATTRIBUTE(BackwardDataBeta, BWD_DATA_BETA);
  MPC_CONV_ATTRIBUTE(BackwardDataConvolution, BWD_DATA_CONV_DESC);
  MPC_CONV_ATTRIBUTE(BackwardDataW, BWD_DATA_W);
  MPC_CONV_ATTRIBUTE(BackwardDataDX, BWD_DATA_DX);
  MPC_CONV_ATTRIBUTE(BackwardDataDY, BWD_DATA_DY);
  MPC_CONV_ATTRIBUTE(BackwardFilterAlpha, BWD_FILTER_ALPHA);
  MPC_CONV_ATTRIBUTE(BackwardFilterBeta, BWD_FILTER_BETA);
  MPC_CONV_ATTRIBUTE(BackwardFilterConvolution, BWD_FILTER_CONV_DESC);
  MPC_CONV_ATTRIBUTE(BackwardFilterDW, BWD_FILTER_DW);
  MPC_CONV_ATTRIBUTE(BackwardFilterX, BWD_FILTER_X);
  MPC_CONV_ATTRIBUTE(BackwardFilterDY, BWD_FILTER_DY);
  MPC_ATTRIBUTE(OperationGraphHandle, OPERATIONGRAPH_HANDLE);
  MPC_ATTRIBUTE(OperationGraphOps, OPERATIONGRAPH_OPS);
  MPC_ATTRIBUTE(TensorByteAlignment, TENSOR_BYTE_ALIGNMENT);
  MPC_ATTRIBUTE(TensorDataType, TENSOR_DATA_TYPE);
  MPC_ATTRIBUTE(TensorDimensions, TENSOR_DIMENSIONS);
  MPC_ATTRIBUTE(TensorStrides, TENSOR_STRIDES);
  MPC_ATTRIBUTE(TensorUniqueId, TENSOR_UNIQUE_ID);
  MPC_ATTRIBUTE(VariantPackUniqueIds, VARIANT_PACK_UNIQUE_IDS);
  MPC_ATTRIBUTE(VariantPackDataPointers, VARIANT_PACK_DATA_POINTERS);
  MPC_ATTRIBUTE(VariantPackWorkspace, VARIANT_PACK_WORKSPACE);
  MPC_ATTRIBUTE(EngineGlobalIndex, ENGINE_GLOBAL_INDEX);
  MPC_ATTRIBUTE(EngineNumericalNote, ENGINE_NUMERICAL_NOTE);
  MPC_ATTRIBUTE(EngineOperationGraph, ENGINE_OPERATION_GRAPH);
  MPC_ATTRIBUTE(EngineConfigKnobChoices, ENGINECFG_KNOB_CHOICES);
  MPC_ATTRIBUTE(KnobChoiceType, KNOB_CHOICE_KNOB_TYPE);
  MPC_ATTRIBUTE(KnobChoiceValue, KNOB_CHOICE_KNOB_VALUE);
  MPC_ATTRIBUTE(TensorIsVirtual, TENSOR_IS_VIRTUAL);
  MPC_ATTRIBUTE(TensorIsByValue, TENSOR_IS_BY_VALUE);
  MPC_ATTRIBUTE(PointwiseMode, POINTWISE_MODE);
  MPC_ATTRIBUTE(PointwiseMathPrecision, POINTWISE_MATH_PREC);
  MPC_ATTRIBUTE(PointwiseAxis, POINTWISE_AXIS);
  MPC_ATTRIBUTE(PointwiseDescriptor, OPERATION_POINTWISE_PW_DESCRIPTOR);
  MPC_ATTRIBUTE(PointwiseX, OPERATION_POINTWISE_XDESC);
  MPC_ATTRIBUTE(PointwiseB, OPERATION_POINTWISE_BDESC);
  MPC_ATTRIBUTE(PointwiseY, OPERATION_POINTWISE_YDESC);
  MPC_ATTRIBUTE(PointwiseT, OPERATION_POINTWISE_TDESC);
  MPC_ATTRIBUTE(MatMulComputeType, MATMUL_COMP_TYPE);
  MPC_ATTRIBUTE(MatMulA, OPERATION_MATMUL_ADESC);
  MPC_ATTRIBUTE(MatMulB, OPERATION_MATMUL_BDESC);
  MPC_ATTRIBUTE(MatMulC, OPERATION_MATMUL_CDESC);
  MPC_ATTRIBUTE(MatMulDescriptor, OPERATION_MATMUL_DESC);
  MPC_ATTRIBUTE(ReductionOperator, REDUCTION_OPERATOR);
  MPC_ATTRIBUTE(ReductionComputeType, REDUCTION_COMP_TYPE);
  MPC_ATTRIBUTE(ReductionX, OPERATION_REDUCTION_XDESC);
  MPC_ATTRIBUTE(ReductionY, OPERATION_REDUCTION_YDESC);
  MPC_ATTRIBUTE(ReductionDescriptor, OPERATION_REDUCTION_DESC);
  MPC_ATTRIBUTE(ReshapeX, OPERATION_RESHAPE_XDESC);
  MPC_ATTRIBUTE(ReshapeY, OPERATION_RESHAPE_YDESC);
#endif
}
