// The part of cuBLASLt's C ABI that the CUDA device uses. DriverABI.h explains
// why mpc has its own declarations, and names the test of the declarations.
//
// Only descriptors that the library allocates are used. The semi-opaque
// descriptors on the caller's stack differ in size between versions.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_BLASLTABI_H
#define MPC_RUNTIME_CUDA_BLASLTABI_H

#include "runtime/cuda/DriverABI.h"

namespace mpc::runtime::cuda {

/// cublasStatus_t.
enum class BLASStatus : int { Success = 0, NotSupported = 15 };

/// cudaDataType.
enum class BLASType : int { F32 = 0, F64 = 1, F16 = 2, BF16 = 14 };

/// cublasComputeType_t.
enum class BLASCompute : int { F32 = 68, F64 = 70, FastTF32 = 77 };

/// cublasOperation_t.
enum class BLASOperation : int { None = 0, Transpose = 1 };

/// cublasLtMatrixLayoutAttribute_t.
enum class BLASLayoutAttribute : int {
  BatchCount = 5,         ///< int32_t
  StridedBatchOffset = 6, ///< int64_t, elements
};

/// cublasLtMatmulDescAttributes_t.
enum class BLASMatMulAttribute : int {
  TransA = 3,              ///< int32_t
  TransB = 4,              ///< int32_t
  Epilogue = 7,            ///< uint32_t
  BiasPointer = 8,         ///< pointer
  EpilogueAuxPointer = 11, ///< pointer
  EpilogueAuxLd = 12,      ///< int64_t; in bits for a mask of ReLU
  BiasDataType = 26,       ///< int32_t
};

/// cublasLtEpilogue_t.
enum class BLASEpilogue : uint32_t {
  Default = 1,
  Bias = 4,
  ReluBias = 2 | 4,
  ReluAuxBias = 2 | 4 | 128,
  DRelu = 8 | 128,
  DReluBGrad = 8 | 16 | 128,
  BGradA = 256,
  BGradB = 512,
};

/// cublasLtReductionScheme_t.
enum class BLASReduction : uint32_t { None = 0, ComputeType = 2 };

/// cublasLtMatmulPreferenceAttributes_t.
enum class BLASPreferenceAttribute : int {
  MaxWorkspaceBytes = 1,   ///< uint64_t
  ReductionSchemeMask = 3, ///< uint32_t
  MinAlignmentA = 5,       ///< uint32_t, bytes
  MinAlignmentB = 6,
  MinAlignmentC = 7,
  MinAlignmentD = 8,
};

using BLASHandle = struct BLASHandleTag *;         ///< cublasLtHandle_t
using BLASMatMul = struct BLASMatMulTag *;         ///< cublasLtMatmulDesc_t
using BLASLayout = struct BLASLayoutTag *;         ///< cublasLtMatrixLayout_t
using BLASPreference = struct BLASPreferenceTag *; ///< ...MatmulPreference_t

/// cublasLtMatmulAlgo_t: opaque, copied as bytes.
struct BLASAlgorithm {
  uint64_t data[8];
};

/// cublasLtMatmulHeuristicResult_t.
struct BLASHeuristic {
  BLASAlgorithm algorithm;
  size_t workspaceBytes;
  BLASStatus state;
  float waves;
  int reserved[4];
};

// Lists the functions: X(result, member of BLASLtFunctions, symbol,
// parameters...)
#define MPC_CUDA_BLASLT_FUNCTIONS(X)                                           \
  X(size_t, getVersion, cublasLtGetVersion, void)                              \
  X(const char *, getStatusString, cublasLtGetStatusString, BLASStatus status) \
  X(BLASStatus, create, cublasLtCreate, BLASHandle *handle)                    \
  X(BLASStatus, destroy, cublasLtDestroy, BLASHandle handle)                   \
  X(BLASStatus, layoutCreate, cublasLtMatrixLayoutCreate, BLASLayout *layout,  \
    BLASType type, uint64_t rows, uint64_t columns, int64_t ld)                \
  X(BLASStatus, layoutDestroy, cublasLtMatrixLayoutDestroy, BLASLayout layout) \
  X(BLASStatus, layoutSetAttribute, cublasLtMatrixLayoutSetAttribute,          \
    BLASLayout layout, BLASLayoutAttribute attribute, const void *value,       \
    size_t bytes)                                                              \
  X(BLASStatus, matMulCreate, cublasLtMatmulDescCreate, BLASMatMul *matMul,    \
    BLASCompute compute, BLASType scale)                                       \
  X(BLASStatus, matMulDestroy, cublasLtMatmulDescDestroy, BLASMatMul matMul)   \
  X(BLASStatus, matMulSetAttribute, cublasLtMatmulDescSetAttribute,            \
    BLASMatMul matMul, BLASMatMulAttribute attribute, const void *value,       \
    size_t bytes)                                                              \
  X(BLASStatus, preferenceCreate, cublasLtMatmulPreferenceCreate,              \
    BLASPreference *preference)                                                \
  X(BLASStatus, preferenceDestroy, cublasLtMatmulPreferenceDestroy,            \
    BLASPreference preference)                                                 \
  X(BLASStatus, preferenceSetAttribute, cublasLtMatmulPreferenceSetAttribute,  \
    BLASPreference preference, BLASPreferenceAttribute attribute,              \
    const void *value, size_t bytes)                                           \
  X(BLASStatus, getHeuristic, cublasLtMatmulAlgoGetHeuristic,                  \
    BLASHandle handle, BLASMatMul matMul, BLASLayout a, BLASLayout b,          \
    BLASLayout c, BLASLayout d, BLASPreference preference, int requested,      \
    BLASHeuristic *results, int *found)                                        \
  X(BLASStatus, matMul, cublasLtMatmul, BLASHandle handle, BLASMatMul matMul,  \
    const void *alpha, const void *a, BLASLayout aLayout, const void *b,       \
    BLASLayout bLayout, const void *beta, const void *c, BLASLayout cLayout,   \
    void *d, BLASLayout dLayout, const BLASAlgorithm *algorithm,               \
    void *workspace, size_t workspaceBytes, Stream stream)

/// The functions of the loaded library. All are set once the library is open.
struct BLASLtFunctions {
#define MPC_CUDA_DECLARE(result, member, symbol, ...)                          \
  result (*member)(__VA_ARGS__) = nullptr;
  MPC_CUDA_BLASLT_FUNCTIONS(MPC_CUDA_DECLARE)
#undef MPC_CUDA_DECLARE
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_BLASLTABI_H
