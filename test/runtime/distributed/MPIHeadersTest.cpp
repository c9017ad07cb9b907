// Compares our declarations of MPI with the headers of Open MPI. Skipped on
// machines without these headers.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/MPIABI.h"

#include <gtest/gtest.h>
#include <string>
#include <type_traits>

#if __has_include(<mpi.h>)
#include <mpi.h>
#endif

using namespace mpc::runtime;

namespace {

/// True if values of both types pass a C call the same way.
template <typename A, typename B>
constexpr bool isPassedAlike() {
  return sizeof(A) == sizeof(B) &&
         std::is_pointer_v<A> == std::is_pointer_v<B> &&
         std::is_integral_v<A> == std::is_integral_v<B>;
}

template <typename Ours, typename Theirs>
struct MatchesMPI : std::false_type {};

template <typename... As, typename... Bs>
struct MatchesMPI<int (*)(As...), int (*)(Bs...)> {
  static constexpr bool check() {
    if constexpr (sizeof...(As) != sizeof...(Bs))
      return false;
    else
      return (isPassedAlike<As, Bs>() && ...);
  }
  static constexpr bool value = check();
};

} // namespace

TEST(MPIHeaders, openMPI) {
#ifndef OMPI_MAJOR_VERSION
  GTEST_SKIP() << "this machine has no mpi.h of Open MPI";
#else
#define MPC_CHECK(member, symbol, ...)                                         \
  EXPECT_TRUE((MatchesMPI<int (*)(__VA_ARGS__), decltype(&::symbol)>::value))  \
      << #symbol;
  MPC_MPI_FUNCTIONS(MPC_CHECK, OpenMPIHandle)
#undef MPC_CHECK
  EXPECT_FALSE((MatchesMPI<int (*)(int), decltype(&::MPI_Finalize)>::value));
  EXPECT_EQ(kMPISuccess, MPI_SUCCESS);
  EXPECT_EQ(kMPIThreadSerialized, MPI_THREAD_SERIALIZED);
  EXPECT_EQ(kMPIThreadMultiple, MPI_THREAD_MULTIPLE);
  EXPECT_GE(kMPIMaxText, MPI_MAX_ERROR_STRING);
  EXPECT_GE(kMPIMaxText, MPI_MAX_LIBRARY_VERSION_STRING);
  EXPECT_EQ(kOpenMPIInPlace, reinterpret_cast<intptr_t>(MPI_IN_PLACE));
  EXPECT_EQ(kOpenMPIStatusIgnore,
            reinterpret_cast<intptr_t>(MPI_STATUS_IGNORE));
#define MPC_TEXT(...) MPC_TEXT_OF(__VA_ARGS__)
#define MPC_TEXT_OF(...) #__VA_ARGS__
  const auto names = [](const char *text, const char *symbol) {
    return std::string(text).find(symbol) != std::string::npos;
  };
  EXPECT_TRUE(names(MPC_TEXT(MPI_COMM_WORLD), kOpenMPIWorld));
  EXPECT_TRUE(names(MPC_TEXT(MPI_BYTE), kOpenMPIByte));
  EXPECT_TRUE(names(MPC_TEXT(MPI_ERRORS_RETURN), kOpenMPIErrorsReturn));
#undef MPC_TEXT
#undef MPC_TEXT_OF
#endif
}
