// Entry points of NCCL for communicators that do not block. Checks each call:
// arguments, order, groups, streams and captures. The work of a call, or of a
// group of calls, begins when the program sees its end. So a program that goes
// on too early fails.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cuda/Hooks.h"
#include "test/emulator/nccl/Ranks.h"

#include <cstdio>
#include <cstring>
#include <map>

using namespace mpc::emulator;

namespace {

constexpr char kId[] = "emulated NCCL ";
constexpr int kVersion = 22000;
constexpr int kFirstMade = 5; ///< the first operation that a program creates

/// An exchange that a call has asked for.
struct Asked {
  void *data = nullptr;
  Exchange exchange;
  CUstream stream = nullptr;
};

struct Communicator {
  std::shared_ptr<Ranks> ranks;
  int device = 0;
  bool isFinalized = false;
  bool hasBegun = false;          ///< true once all ranks have joined
  std::vector<Asked> grouped;     ///< by calls of the open group
  std::vector<Asked> asked;       ///< not begun yet
  std::optional<CUstream> stream; ///< of all exchanges
  /// The operations that the program has created: type and scale.
  std::vector<std::pair<int, double>> made;
};

std::map<Communicator *, std::unique_ptr<Communicator>> communicators;
thread_local bool isGrouping = false;

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

ncclResult_t refuse(const std::string &why,
                    ncclResult_t result = ncclInvalidUsage) {
  libraryLog("  fault: " + why);
  std::fprintf(stderr, "mpc emulator: %s\n", why.c_str());
  return result;
}

/// Checks that the program may call a function of the communicator now.
ncclResult_t check(Communicator *communicator, bool mayCapture = false) {
  if (!communicators.count(communicator))
    return refuse("the communicator does not exist");
  if (communicator->isFinalized)
    return refuse("the communicator is finalized");
  if (!communicator->hasBegun || !communicator->asked.empty())
    return refuse("the call before is still in progress");
  if (!hasContext() || currentDevice() != communicator->device)
    return refuse("another device is current");
  if (isCapturing() && !mayCapture)
    return refuse("the call does not work during a capture");
  if (isGrouping && !mayCapture)
    return refuse("the call does not work in a group");
  return ncclSuccess;
}

/// Enqueues an exchange that was asked for.
ncclResult_t begin(Communicator &communicator, const Asked &asked) {
  const size_t bytes = asked.exchange.count * sizeOf(asked.exchange.type);
  auto work = [ranks = communicator.ranks, asked] {
    std::string fault;
    if (!ranks->run(asked.data, asked.exchange, fault))
      return CUDA_ERROR_NOT_READY;
    if (fault.empty())
      return CUDA_SUCCESS;
    refuse(fault);
    return CUDA_ERROR_LAUNCH_FAILED;
  };
  return enqueueWork(asked.stream, asked.exchange.name(), {{asked.data, bytes}},
                     work)
             ? ncclUnhandledCudaError
             : ncclSuccess;
}

/// Enqueues all exchanges that were asked for.
ncclResult_t begin(Communicator &communicator) {
  const std::vector<Asked> all = std::move(communicator.asked);
  communicator.asked.clear();
  for (const Asked &asked : all)
    if (ncclResult_t result = begin(communicator, asked))
      return result;
  return ncclSuccess;
}

/// Goes on with the call in progress, and returns its state.
ncclResult_t proceed(Communicator &communicator) {
  Ranks &ranks = *communicator.ranks;
  if (ncclResult_t state = ranks.getState())
    return state;
  communicator.hasBegun = true;
  if (!communicator.asked.empty())
    return begin(communicator);
  return communicator.isFinalized && !ranks.haveAllFinalized() ? ncclInProgress
                                                               : ncclSuccess;
}

/// The operation of a reduction, as the ranks compare it.
ncclResult_t resolve(Exchange &exchange, const Communicator &communicator) {
  if (exchange.operation == ncclSum || exchange.operation == ncclMax)
    return ncclSuccess;
  if (exchange.operation < kFirstMade)
    return refuse("an unknown operation", ncclInvalidArgument);
  const auto index = static_cast<size_t>(exchange.operation - kFirstMade);
  if (index >= communicator.made.size() ||
      communicator.made[index].first != exchange.type)
    return refuse("the operation is for another type", ncclInvalidArgument);
  exchange.operation = ncclSum;
  exchange.scale = communicator.made[index].second;
  return ncclSuccess;
}

/// Asks for an exchange, alone or as a part of the open group.
ncclResult_t ask(Exchange exchange, const void *from, void *to,
                 Communicator *communicator, CUstream stream) {
  const std::string arguments =
      "count=" + std::to_string(exchange.count) +
      ", type=" + std::to_string(exchange.type) +
      ", operation=" + std::to_string(exchange.operation) +
      ", root=" + std::to_string(exchange.root) +
      ", captured=" + std::to_string(isCapturing());
  return call(exchange.name(), arguments, [&] {
    if (ncclResult_t result = check(communicator, /*mayCapture=*/true))
      return result;
    if (communicator->stream.value_or(stream) != stream)
      return refuse("exchanges of one communicator use two streams");
    const size_t width = sizeOf(exchange.type);
    if (from != to || width == 0 || exchange.count == 0 || exchange.root < 0 ||
        exchange.root >= communicator->ranks->count() ||
        reinterpret_cast<uintptr_t>(to) % width != 0)
      return refuse("a wrong argument of " + std::string(exchange.name()),
                    ncclInvalidArgument);
    if (ncclResult_t result = resolve(exchange, *communicator))
      return result;
    communicator->stream = stream;
    std::vector<Asked> &list =
        isGrouping ? communicator->grouped : communicator->asked;
    list.push_back({to, exchange, stream});
    return isGrouping ? ncclSuccess : ncclInProgress;
  });
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
    const std::string path = Ranks::create();
    if (path.empty() || sizeof(kId) + path.size() > sizeof(id->internal))
      return ncclSystemError;
    std::memset(id, 0, sizeof(*id));
    std::strcpy(id->internal, (kId + path).c_str());
    return ncclSuccess;
  });
}

MPC_EXPORT const char *ncclGetErrorString(ncclResult_t result) {
  switch (result) {
  case ncclInvalidUsage:
    return "invalid usage";
  case ncclRemoteError:
    return "remote process exited or there was a network error";
  default:
    return "emulated error";
  }
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
        const size_t prefix = sizeof(kId) - 1;
        if (isCapturing() || rank < 0 || rank >= ranks ||
            std::strncmp(id.internal, kId, prefix) != 0 ||
            config->magic != 0xcafebeef || config->version < 21400 ||
            config->size < sizeof(ncclConfig_t) || config->blocking != 0)
          return refuse("a wrong argument of ncclCommInitRankConfig",
                        ncclInvalidArgument);
        auto created = std::make_unique<Communicator>();
        created->device = currentDevice();
        created->ranks =
            Ranks::join(id.internal + prefix, ranks, rank, created->device);
        if (!created->ranks)
          return refuse("rank " + std::to_string(rank) + " cannot join");
        *made = created.get();
        communicators[*made] = std::move(created);
        return ncclInProgress;
      });
}

MPC_EXPORT ncclResult_t ncclCommGetAsyncError(Communicator *communicator,
                                              int *result) {
  if (!communicators.count(communicator))
    return refuse("the communicator does not exist");
  const std::optional<int> fault = libraryFault("ncclCommGetAsyncError");
  *result = fault ? *fault : proceed(*communicator);
  return ncclSuccess;
}

MPC_EXPORT ncclResult_t ncclCommFinalize(Communicator *communicator) {
  return call("ncclCommFinalize", "", [&] {
    if (ncclResult_t result = check(communicator))
      return result;
    if (communicator->ranks->isBusy())
      return refuse("an exchange is in progress");
    communicator->isFinalized = true;
    communicator->ranks->finalize();
    return ncclInProgress;
  });
}

MPC_EXPORT ncclResult_t ncclCommDestroy(Communicator *communicator) {
  return call("ncclCommDestroy", "", [&] {
    if (!communicators.count(communicator) || !communicator->isFinalized)
      return refuse("the communicator is not finalized");
    communicators.erase(communicator);
    return ncclSuccess;
  });
}

MPC_EXPORT ncclResult_t ncclCommAbort(Communicator *communicator) {
  return call("ncclCommAbort", "", [&] {
    if (!communicators.count(communicator))
      return refuse("the communicator does not exist");
    communicator->ranks->abort();
    communicators.erase(communicator);
    return ncclSuccess;
  });
}

MPC_EXPORT ncclResult_t ncclRedOpCreatePreMulSum(int *operation, void *scalar,
                                                 int type, int residence,
                                                 Communicator *communicator) {
  return call("ncclRedOpCreatePreMulSum", "type=" + std::to_string(type), [&] {
    if (ncclResult_t result = check(communicator))
      return result;
    if (!scalar || residence != 1 || type < ncclFloat16 || type > ncclBfloat16)
      return refuse("a wrong argument of ncclRedOpCreatePreMulSum",
                    ncclInvalidArgument);
    communicator->made.emplace_back(type, loadScale(scalar, type));
    *operation = kFirstMade + static_cast<int>(communicator->made.size()) - 1;
    return ncclSuccess;
  });
}

MPC_EXPORT ncclResult_t ncclAllReduce(const void *from, void *to, size_t count,
                                      int type, int operation,
                                      Communicator *communicator,
                                      CUstream stream) {
  return ask({Kind::AllReduce, count, type, operation}, from, to, communicator,
             stream);
}

MPC_EXPORT ncclResult_t ncclReduce(const void *from, void *to, size_t count,
                                   int type, int operation, int root,
                                   Communicator *communicator,
                                   CUstream stream) {
  return ask({Kind::Reduce, count, type, operation, 1, root}, from, to,
             communicator, stream);
}

MPC_EXPORT ncclResult_t ncclBroadcast(const void *from, void *to, size_t count,
                                      int type, int root,
                                      Communicator *communicator,
                                      CUstream stream) {
  return ask({Kind::Broadcast, count, type, ncclSum, 1, root}, from, to,
             communicator, stream);
}

MPC_EXPORT ncclResult_t ncclGroupStart() {
  return call("ncclGroupStart", "", [] {
    if (isGrouping)
      return refuse("a group is open");
    isGrouping = true;
    return ncclSuccess;
  });
}

MPC_EXPORT ncclResult_t ncclGroupEnd() {
  return call("ncclGroupEnd", "", [] {
    if (!isGrouping)
      return refuse("no group is open");
    isGrouping = false;
    ncclResult_t result = ncclSuccess;
    for (const auto &[handle, communicator] : communicators)
      if (!communicator->grouped.empty()) {
        communicator->asked = std::move(communicator->grouped);
        communicator->grouped.clear();
        result = ncclInProgress;
      }
    return result;
  });
}

} // extern "C"
