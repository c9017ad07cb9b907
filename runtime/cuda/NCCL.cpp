// Loads NCCL, connects the ranks, and enqueues reductions.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/NCCL.h"

#include "runtime/FloatBits.h"
#include "runtime/cuda/SharedLibrary.h"

#include <cassert>
#include <cstdlib>
#include <thread>

namespace mpc::runtime::cuda {

using Clock = std::chrono::steady_clock;

/// The longest wait for the other ranks at the end of a run.
static constexpr std::chrono::seconds kEndLimit(5);
static constexpr std::chrono::microseconds kPause(50);

/// Reads MPC_RANK_TIMEOUT. A Usage error for other text than seconds.
static StatusOr<Clock::duration> readLimit() {
  const char *text = std::getenv("MPC_RANK_TIMEOUT");
  if (!text || !*text)
    return Clock::duration(std::chrono::minutes(10));
  char *end = nullptr;
  const double seconds = std::strtod(text, &end);
  constexpr double kMostSeconds = 1e6;
  if (*end || !(seconds > 0) || seconds > kMostSeconds)
    return Status(StatusCode::Usage,
                  "MPC_RANK_TIMEOUT is '" + std::string(text) +
                      "'; expected seconds, more than 0 and at most 1000000");
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(seconds));
}

static std::string toText(Clock::duration time) {
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s"
                        : std::to_string(ms) + " ms";
}

/// Returns "2.14.0" for 21400.
static std::string toNCCLVersion(int version) {
  return std::to_string(version / 10000) + "." +
         std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

static StatusOr<NCCLType> toNCCL(DType type) {
  switch (type) {
  case DType::F16:
    return NCCLType::F16;
  case DType::BF16:
    return NCCLType::BF16;
  case DType::F32:
    return NCCLType::F32;
  case DType::F64:
    return NCCLType::F64;
  case DType::I8:
    return NCCLType::I8;
  case DType::U8:
    return NCCLType::U8;
  case DType::I32:
    return NCCLType::I32;
  case DType::U32:
    return NCCLType::U32;
  case DType::I64:
    return NCCLType::I64;
  case DType::U64:
    return NCCLType::U64;
  case DType::I1:
  case DType::I16:
  case DType::U16:
    break;
  }
  return Status(StatusCode::Unsupported,
                "NCCL does not reduce elements of type " +
                    std::string(stringify(type)));
}

/// A reduction on the stream of NCCL. The stream of the steps before goes on
/// meanwhile.
class NCCL::Reduction : public CUDAStep {
public:
  Reduction(NCCL &nccl, void *data, size_t count, NCCLType type,
            NCCLOperation operation)
      : nccl(nccl), data(data), count(count), type(type), operation(operation) {
  }

  Status enqueue(Stream stream) override {
    const DriverFunctions &driver = nccl.driver.call;
    Status status = nccl.lost;
    if (status.ok())
      status = check(driver.eventRecord(nccl.ready, stream));
    if (status.ok())
      status = check(driver.streamWaitEvent(nccl.stream, nccl.ready, 0));
    if (status.ok())
      status =
          nccl.settle(nccl.call.allReduce(data, data, count, type, operation,
                                          nccl.handle, nccl.stream),
                      "reduce over the ranks", nccl.limit);
    if (status.ok())
      status = check(driver.eventRecord(nccl.done, nccl.stream));
    return status;
  }

private:
  Status check(DriverResult result) const {
    return nccl.driver.check(result, "order a reduction");
  }

  NCCL &nccl;
  void *data;
  size_t count;
  NCCLType type;
  NCCLOperation operation;
};

class NCCL::Wait : public CUDAStep {
public:
  explicit Wait(NCCL &nccl) : nccl(nccl) {}

  Status enqueue(Stream stream) override {
    return nccl.driver.check(
        nccl.driver.call.streamWaitEvent(stream, nccl.done, 0),
        "wait for a reduction");
  }

private:
  NCCL &nccl;
};

StatusOr<std::unique_ptr<NCCL>> NCCL::connect(const CUDADriver &driver,
                                              Communicator *communicator) {
  std::unique_ptr<NCCL> made(new NCCL(driver));
  if (Status status = made->connect(communicator); !status.ok())
    return status;
  return made;
}

Status NCCL::load() {
  StatusOr<Clock::duration> found = readLimit();
  if (!found.ok())
    return found.status();
  limit = *found;
  const std::string need =
      "NVIDIA's NCCL " + toNCCLVersion(kNCCLVersion) + " or newer";
  StatusOr<SharedLibrary> library =
      SharedLibrary::open(kNCCLNames, need.c_str());
  if (!library.ok())
    return library.status();
#define MPC_CUDA_FIND(result, member, symbol, ...)                             \
  if (Status status = library->find(#symbol, call.member); !status.ok())       \
    return status;
  MPC_CUDA_NCCL_FUNCTIONS(MPC_CUDA_FIND)
#undef MPC_CUDA_FIND
  int version = 0;
  NCCLResult result = call.getVersion(&version);
  if (result != NCCLResult::Success)
    return Status(StatusCode::Device,
                  "'" + library->path() +
                      "' does not tell its version: " + describe(result));
  if (version < kNCCLVersion)
    return Status(StatusCode::Device, "training on several GPUs needs " + need +
                                          "; '" + library->path() + "' is " +
                                          toNCCLVersion(version));
  logChoice("NCCL " + toNCCLVersion(version) + " from " + library->path());
  return createStream();
}

Status NCCL::createStream() {
  Status status = driver.check(
      driver.call.streamCreate(&stream, kStreamNonBlocking), "create a stream");
  for (Event *event : {&ready, &done})
    if (status.ok())
      status = driver.check(driver.call.eventCreate(event, kEventDisableTiming),
                            "create an event");
  return status;
}

Status NCCL::connect(Communicator *communicator) {
  if (communicator) {
    rank = communicator->rank();
    ranks = communicator->size();
  }
  Status status = load();
  NCCLUniqueId id = {};
  if (status.ok() && rank == 0)
    if (NCCLResult result = call.getUniqueId(&id);
        result != NCCLResult::Success)
      status = Status(StatusCode::Rank,
                      me() + "NCCL cannot begin: " + describe(result));
  if (communicator && ranks > 1) {
    // A rank that fails before this point would leave the others waiting.
    int32_t anyFailed = !status.ok();
    Status told =
        communicator->allReduce(&anyFailed, 1, DType::I32, Reduce::Max);
    if (status.ok())
      status = told;
    if (status.ok() && anyFailed)
      status = Status(StatusCode::Rank,
                      me() + "another rank cannot use NCCL; its message has "
                             "the cause");
    if (status.ok())
      status = communicator->broadcast(&id, sizeof(id), /*root=*/0);
  }
  if (!status.ok())
    return status;
  NCCLConfig config;
  return settle(call.initRank(&handle, ranks, id, rank, &config),
                "connect the GPUs of " + std::to_string(ranks) + " ranks",
                limit);
}

NCCL::~NCCL() {
  if (handle) {
    // All ranks leave together. A rank that still computes, or has ended, must
    // not keep this one.
    if (settle(call.finalize(handle), "end", kEndLimit).ok())
      (void)call.destroy(handle);
  }
  if (stream)
    (void)driver.call.streamDestroy(stream);
  for (Event event : {ready, done})
    if (event)
      (void)driver.call.eventDestroy(event);
}

/// Waits until the library has done what a call began.
Status NCCL::settle(NCCLResult result, const std::string &what,
                    Clock::duration limit) {
  const Clock::time_point begin = Clock::now();
  while (result == NCCLResult::InProgress && handle) {
    if (Clock::now() - begin > limit)
      return fail(what, "no answer in " + toText(limit) +
                            "; another rank has ended, or waits elsewhere");
    std::this_thread::sleep_for(kPause);
    NCCLResult state = NCCLResult::Success;
    result = call.getAsyncError(handle, &state);
    if (result == NCCLResult::Success)
      result = state;
  }
  return result == NCCLResult::Success ? Status()
                                       : fail(what, describe(result));
}

Status NCCL::poll(Clock::duration waited) {
  if (!lost.ok() || !handle)
    return lost;
  NCCLResult state = NCCLResult::Success;
  NCCLResult result = call.getAsyncError(handle, &state);
  if (result == NCCLResult::Success)
    result = state;
  if (result != NCCLResult::Success && result != NCCLResult::InProgress)
    return fail("reduce over the ranks", describe(result));
  if (waited > limit)
    return fail("reduce over the ranks",
                "no result in " + toText(limit) +
                    "; another rank has ended, or waits elsewhere "
                    "(MPC_RANK_TIMEOUT sets the seconds)");
  return Status();
}

/// Ends all reductions, since the ranks can no longer agree.
Status NCCL::fail(const std::string &what, const std::string &why) {
  lost = Status(StatusCode::Rank, me() + "NCCL cannot " + what + ": " + why);
  // The cause is read before: the handle ends with the abort.
  if (handle)
    (void)call.abort(handle);
  handle = nullptr;
  return lost;
}

std::string NCCL::describe(NCCLResult result) const {
  const char *text = call.getErrorString(result);
  std::string words = text ? text : "unknown error";
  words += " (" + std::to_string(static_cast<int>(result)) + ")";
  const char *last = call.getLastError(handle);
  return last && *last ? words + ": " + last : words;
}

std::string NCCL::me() const {
  return "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + ": ";
}

/// Returns the operation of a reduction. A mean scales before it adds, so sums
/// of f16 over many ranks do not overflow.
StatusOr<NCCLOperation> NCCL::operationOf(DType type, Reduce kind) {
  if (kind != Reduce::Mean)
    return kind == Reduce::Max ? NCCLOperation::Max : NCCLOperation::Sum;
  if (auto known = means.find(type); known != means.end())
    return known->second;
  const double share = 1.0 / ranks;
  auto share32 = static_cast<float>(share);
  uint16_t share16 =
      type == DType::F16 ? floatToF16(share32) : floatToBF16(share32);
  double share64 = share;
  void *scalar = &share16;
  if (type == DType::F32)
    scalar = &share32;
  else if (type == DType::F64)
    scalar = &share64;
  StatusOr<NCCLType> element = toNCCL(type);
  assert(element.ok() && "a mean has floats");
  NCCLOperation made = NCCLOperation::Sum;
  if (Status status =
          settle(call.createScaledSum(&made, scalar, *element,
                                      NCCLResidence::HostImmediate, handle),
                 "prepare a mean", limit);
      !status.ok())
    return status;
  means[type] = made;
  return made;
}

StatusOr<std::unique_ptr<CUDAStep>> NCCL::prepare(const DeviceOperand &operand,
                                                  size_t count, Reduce kind) {
  if (!lost.ok())
    return lost;
  StatusOr<NCCLType> type = toNCCL(operand.type);
  if (!type.ok())
    return type.status();
  StatusOr<NCCLOperation> operation = operationOf(operand.type, kind);
  if (!operation.ok())
    return operation.status();
  return std::unique_ptr<CUDAStep>(std::make_unique<Reduction>(
      *this, operand.data, count, *type, *operation));
}

std::unique_ptr<CUDAStep> NCCL::prepareWait() {
  return std::make_unique<Wait>(*this);
}

} // namespace mpc::runtime::cuda
