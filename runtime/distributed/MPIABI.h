// The part of MPI's C interface that mpc calls.
//
// MPI's standard fixes the functions, but not the type of handles. Open MPI has
// pointers to symbols of the library; MPICH and relatives have integers. mpc
// declares both, so a single binary serves both libraries.
// test/runtime/distributed/MPIHeadersTest.cpp compares the declarations with
// the headers of Open MPI if they are installed.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_DISTRIBUTED_MPIABI_H
#define MPC_RUNTIME_DISTRIBUTED_MPIABI_H

#include <cstdint>

namespace mpc::runtime {

inline constexpr int kMPISuccess = 0;
inline constexpr int kMPIThreadSerialized = 2; ///< MPI_THREAD_SERIALIZED
inline constexpr int kMPIThreadMultiple = 3;
/// Memory for the texts of errors and versions: MPICH's is the longest.
inline constexpr int kMPIMaxText = 8192;

/// The functions called by mpc: X(member, symbol, parameters...). All return
/// int. `Handle` is the type of MPI_Comm, MPI_Datatype, MPI_Request and
/// MPI_Errhandler.
#define MPC_MPI_FUNCTIONS(X, Handle)                                           \
  X(initialized, MPI_Initialized, int *)                                       \
  X(initThread, MPI_Init_thread, int *, char ***, int, int *)                  \
  X(queryThread, MPI_Query_thread, int *)                                      \
  X(finalize, MPI_Finalize)                                                    \
  X(abort, MPI_Abort, Handle, int)                                             \
  X(commDup, MPI_Comm_dup, Handle, Handle *)                                   \
  X(commRank, MPI_Comm_rank, Handle, int *)                                    \
  X(commSize, MPI_Comm_size, Handle, int *)                                    \
  X(setErrorHandler, MPI_Comm_set_errhandler, Handle, Handle)                  \
  X(errorString, MPI_Error_string, int, char *, int *)                         \
  X(libraryVersion, MPI_Get_library_version, char *, int *)                    \
  X(test, MPI_Test, Handle *, int *, void *)                                   \
  X(allToAll, MPI_Ialltoall, const void *, int, Handle, void *, int, Handle,   \
    Handle, Handle *)                                                          \
  X(allGather, MPI_Iallgather, const void *, int, Handle, void *, int, Handle, \
    Handle, Handle *)                                                          \
  X(allToAllUneven, MPI_Ialltoallv, const void *, const int *, const int *,    \
    Handle, void *, const int *, const int *, Handle, Handle, Handle *)        \
  X(allGatherUneven, MPI_Iallgatherv, const void *, int, Handle, void *,       \
    const int *, const int *, Handle, Handle, Handle *)                        \
  X(broadcast, MPI_Ibcast, void *, int, Handle, int, Handle, Handle *)         \
  X(barrier, MPI_Ibarrier, Handle, Handle *)

template <typename Handle>
struct MPIFunctions {
#define MPC_MEMBER(member, symbol, ...) int (*member)(__VA_ARGS__) = nullptr;
  MPC_MPI_FUNCTIONS(MPC_MEMBER, Handle)
#undef MPC_MEMBER
};

/// The constants of a library.
template <typename Handle>
struct MPIConstants {
  Handle world, byte, errorsReturn;
  void *inPlace, *statusIgnore;
};

using OpenMPIHandle = void *;
using MPICHHandle = int;

/// Symbols of Open MPI whose addresses are handles.
inline constexpr char kOpenMPIWorld[] = "ompi_mpi_comm_world";
inline constexpr char kOpenMPIByte[] = "ompi_mpi_byte";
inline constexpr char kOpenMPIErrorsReturn[] = "ompi_mpi_errors_return";
inline constexpr intptr_t kOpenMPIInPlace = 1;
inline constexpr intptr_t kOpenMPIStatusIgnore = 0;

/// Values of the common ABI of MPICH, Intel MPI and MVAPICH.
inline constexpr int kMPICHWorld = 0x44000000;
inline constexpr int kMPICHByte = 0x4c00010d;
inline constexpr int kMPICHErrorsReturn = 0x54000001;
inline constexpr intptr_t kMPICHInPlace = -1;
inline constexpr intptr_t kMPICHStatusIgnore = 1;

} // namespace mpc::runtime

#endif // MPC_RUNTIME_DISTRIBUTED_MPIABI_H
