// Entry points of NCCL, for one rank: checks the order and the arguments of all
// calls. With several ranks, the others never arrive.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cuda/Hooks.h"

#include <cstring>
#include <set>

using namespace mpc::emulator;

enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclInProgress = 7,
};

struct ncclUniqueId {
  char internal[128];
};

/// The first fields of each version of ncclConfig_t.
struct ncclConfig_t {
  size_t size;
  unsigned magic, version;
  int blocking;
};

namespace {

constexpr char kId[] = "emulated NCCL";
constexpr int kVersion = 22000;
constexpr int kFirstMade = 5; ///< the first operation that a program creates

struct Communicator {
  int ranks = 1;
  bool isFinalized = false;
  int made = 0; ///< operations that the program has created
  int asyncError = ncclSuccess;
};

std::set<Communicator *> communicators;

/// The frame of the entry points: injects faults, and logs.
template <class F>
ncclResult_t call(const char *name, const std::string &arguments, F f) {
  const std::optional<int> fault = libraryFault(name);
  const ncclResult_t result = fault ? static_cast<ncclResult_t>(*fault)
                                    : static_cast<ncclResult_t>(f());
  libraryLog(std::string(name) + "(" + arguments +
             ") = " + std::to_string(result));
  return result;
}

size_t sizeOf(int type) {
  constexpr size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return type >= 0 && type < 10 ? kSizes[type] : 0;
}

} // namespace

extern "C" {

MPC_EXPORT ncclResult_t ncclGetVersion(int *version) {
  return call("ncclGetVersion", "", [&] {
    *version = kVersion;
    return ncclSuccess;
  });
}

MPC_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  return call("ncclGetUniqueId", "", [&] {
    std::memset(id, 0, sizeof(*id));
    std::memcpy(id->internal, kId, sizeof(kId));
    return ncclSuccess;
  });
}

MPC_EXPORT const char *ncclGetErrorString(ncclResult_t result) {
  return result == ncclInvalidUsage ? "invalid usage" : "emulated error";
}

MPC_EXPORT const char *ncclGetLastError(Communicator *) { return ""; }

MPC_EXPORT ncclResult_t ncclCommInitRankConfig(Communicator **made, int ranks,
                                               ncclUniqueId id, int rank,
                                               ncclConfig_t *config) {
  return call(
      "ncclCommInitRankConfig",
      "ranks=" + std::to_string(ranks) + ", rank=" + std::to_string(rank), [&] {
        *made = nullptr;
        if (!hasContext())
          return ncclUnhandledCudaError;
        if (rank < 0 || rank >= ranks || std::strcmp(id.internal, kId) != 0 ||
            config->magic != 0xcafebeef || config->version < 21400 ||
            config->size < sizeof(ncclConfig_t) || config->blocking != 0)
          return ncclInvalidArgument;
        *made = new Communicator{ranks};
        (*made)->asyncError = ranks == 1 ? ncclSuccess : ncclInProgress;
        communicators.insert(*made);
        return ncclInProgress;
      });
}

MPC_EXPORT ncclResult_t ncclCommGetAsyncError(Communicator *communicator,
                                              int *result) {
  if (!communicators.count(communicator))
    return ncclInvalidArgument;
  const std::optional<int> fault = libraryFault("ncclCommGetAsyncError");
  *result = fault ? *fault : communicator->asyncError;
  return ncclSuccess;
}

MPC_EXPORT ncclResult_t ncclCommFinalize(Communicator *communicator) {
  return call("ncclCommFinalize", "", [&] {
    if (!communicators.count(communicator) || communicator->isFinalized)
      return ncclInvalidUsage;
    communicator->isFinalized = true;
    return ncclInProgress;
  });
}

MPC_EXPORT ncclResult_t ncclCommDestroy(Communicator *communicator) {
  return call("ncclCommDestroy", "", [&] {
    if (!communicators.count(communicator) || !communicator->isFinalized)
      return ncclInvalidUsage;
    communicators.erase(communicator);
    delete communicator;
    return ncclSuccess;
  });
}

MPC_EXPORT ncclResult_t ncclCommAbort(Communicator *communicator) {
  return call("ncclCommAbort", "", [&] {
    if (!communicators.erase(communicator))
      return ncclInvalidUsage;
    delete communicator;
    return ncclSuccess;
  });
}

MPC_EXPORT ncclResult_t ncclRedOpCreatePreMulSum(int *operation, void *scalar,
                                                 int type, int residence,
                                                 Communicator *communicator) {
  return call("ncclRedOpCreatePreMulSum", "type=" + std::to_string(type), [&] {
    if (!communicators.count(communicator) || !scalar || residence != 1 ||
        !sizeOf(type))
      return ncclInvalidArgument;
    *operation = kFirstMade + communicator->made++;
    return ncclSuccess;
  });
}

MPC_EXPORT ncclResult_t ncclAllReduce(const void *from, void *to, size_t count,
                                      int type, int operation,
                                      Communicator *communicator,
                                      CUstream stream) {
  const std::string arguments = "count=" + std::to_string(count) +
                                ", type=" + std::to_string(type) +
                                ", operation=" + std::to_string(operation);
  return call("ncclAllReduce", arguments, [&] {
    if (!communicators.count(communicator) || communicator->isFinalized)
      return ncclInvalidUsage;
    const bool isMade =
        operation >= kFirstMade && operation < kFirstMade + communicator->made;
    if (from != to || !sizeOf(type) || count == 0 ||
        !(isMade || operation == 0 || operation == 2))
      return ncclInvalidArgument;
    return enqueueWork(stream, "ncclAllReduce", {{to, count * sizeOf(type)}},
                       [] {})
               ? ncclUnhandledCudaError
               : ncclSuccess;
  });
}

} // extern "C"
