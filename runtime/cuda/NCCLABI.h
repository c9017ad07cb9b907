// The part of NCCL's C ABI that the CUDA device uses. DriverABI.h explains why
// mpc has its own declarations, and names the test of the declarations.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_NCCLABI_H
#define MPC_RUNTIME_CUDA_NCCLABI_H

#include "runtime/cuda/DriverABI.h"

namespace mpc::runtime::cuda {

/// ncclResult_t. Only the values that mpc distinguishes have names.
enum class NCCLResult : int { Success = 0, InProgress = 7 };

/// ncclDataType_t.
enum class NCCLType : int {
  I8 = 0,
  U8 = 1,
  I32 = 2,
  U32 = 3,
  I64 = 4,
  U64 = 5,
  F16 = 6,
  F32 = 7,
  F64 = 8,
  BF16 = 9,
};

/// ncclRedOp_t. Operations that a program creates have other values.
enum class NCCLOperation : int { Sum = 0, Max = 2 };

/// ncclScalarResidence_t.
enum class NCCLResidence : int { HostImmediate = 1 };

using NCCLHandle = struct NCCLHandleTag *; ///< ncclComm_t

/// ncclUniqueId.
struct NCCLUniqueId {
  char bytes[128];
};

inline constexpr unsigned kNCCLMagic = 0xcafebeef; ///< NCCL_API_MAGIC

/// The first version with a non-blocking communicator, as
/// 10000 * major + 100 * minor + patch.
inline constexpr int kNCCLVersion = 21400;

/// ncclConfig_t of version 2.14. Later versions append fields, and read the
/// size and the version to see which fields there are.
struct NCCLConfig {
  size_t bytes = sizeof(NCCLConfig);
  unsigned magic = kNCCLMagic;
  unsigned version = kNCCLVersion;
  int blocking = 0;
};

// Lists the functions: X(result, member of NCCLFunctions, symbol,
// parameters...)
#define MPC_CUDA_NCCL_FUNCTIONS(X)                                             \
  X(NCCLResult, getVersion, ncclGetVersion, int *version)                      \
  X(NCCLResult, getUniqueId, ncclGetUniqueId, NCCLUniqueId *id)                \
  X(const char *, getErrorString, ncclGetErrorString, NCCLResult result)       \
  X(const char *, getLastError, ncclGetLastError, NCCLHandle handle)           \
  X(NCCLResult, initRank, ncclCommInitRankConfig, NCCLHandle *handle,          \
    int ranks, NCCLUniqueId id, int rank, NCCLConfig *config)                  \
  X(NCCLResult, getAsyncError, ncclCommGetAsyncError, NCCLHandle handle,       \
    NCCLResult *result)                                                        \
  X(NCCLResult, finalize, ncclCommFinalize, NCCLHandle handle)                 \
  X(NCCLResult, destroy, ncclCommDestroy, NCCLHandle handle)                   \
  X(NCCLResult, abort, ncclCommAbort, NCCLHandle handle)                       \
  X(NCCLResult, createScaledSum, ncclRedOpCreatePreMulSum,                     \
    NCCLOperation *operation, void *scalar, NCCLType type,                     \
    NCCLResidence residence, NCCLHandle handle)                                \
  X(NCCLResult, allReduce, ncclAllReduce, const void *from, void *to,          \
    size_t count, NCCLType type, NCCLOperation operation, NCCLHandle handle,   \
    Stream stream)                                                             \
  X(NCCLResult, reduce, ncclReduce, const void *from, void *to, size_t count,  \
    NCCLType type, NCCLOperation operation, int root, NCCLHandle handle,       \
    Stream stream)                                                             \
  X(NCCLResult, broadcast, ncclBroadcast, const void *from, void *to,          \
    size_t count, NCCLType type, int root, NCCLHandle handle, Stream stream)   \
  X(NCCLResult, groupStart, ncclGroupStart)                                    \
  X(NCCLResult, groupEnd, ncclGroupEnd)

/// The functions of the loaded library. All are set once the library is open.
struct NCCLFunctions {
#define MPC_CUDA_DECLARE(result, member, symbol, ...)                          \
  result (*member)(__VA_ARGS__) = nullptr;
  MPC_CUDA_NCCL_FUNCTIONS(MPC_CUDA_DECLARE)
#undef MPC_CUDA_DECLARE
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_NCCLABI_H
