// Loads NCCL, connects the ranks, and enqueues exchanges.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/NCCL.h"

#include "runtime/FloatBits.h"
#include "runtime/Tensor.h"
#include "runtime/cuda/SharedLibrary.h"

#include <algorithm>
#include <cassert>
#include <thread>

namespace mpc::runtime::cuda {

using Clock = std::chrono::steady_clock;

/// The longest wait for the other ranks at the end of a run.
static constexpr std::chrono::seconds kEndLimit(5);
static constexpr std::chrono::microseconds kPause(50);
/// Actions for messages.
static constexpr char kReduce[] = "reduce over the ranks";
static constexpr char kGather[] = "send weights to the ranks";
/// For failures that are seen later, of any exchange.
static constexpr char kExchange[] = "exchange data with the ranks";

static std::string toText(NCCL::Duration time) {
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

/// An exchange on the stream of NCCL. The stream of the steps before goes on
/// meanwhile.
class NCCL::Exchange : public CUDAStep {
public:
  explicit Exchange(NCCL &nccl) : nccl(nccl) {}
  ~Exchange() override {
    for (Event event : {ready, done})
      if (event)
        (void)nccl.driver.call.eventDestroy(event);
  }

  /// Creates the events of `exchange`, and returns `exchange`.
  static StatusOr<std::unique_ptr<CUDAStep>>
  finish(std::unique_ptr<Exchange> exchange) {
    for (Event *event : {&exchange->ready, &exchange->done})
      if (Status status =
              exchange->check(exchange->nccl.driver.call.eventCreate(
                  event, kEventDisableTiming));
          !status.ok())
        return status;
    return std::unique_ptr<CUDAStep>(std::move(exchange));
  }

  Status enqueue(Stream stream) override {
    const DriverFunctions &driver = nccl.driver.call;
    Status status = nccl.lost;
    if (status.ok())
      status = check(driver.eventRecord(ready, stream));
    if (status.ok())
      status = check(driver.streamWaitEvent(nccl.stream, ready, 0));
    if (status.ok())
      status = begin();
    if (status.ok())
      status = check(driver.eventRecord(done, nccl.stream));
    return status;
  }

  Status join(Stream stream) override {
    return check(nccl.driver.call.streamWaitEvent(stream, done, 0));
  }

protected:
  /// Enqueues the library's calls on the stream of NCCL, between the events.
  virtual Status begin() = 0;

  NCCL &nccl;

private:
  Status check(DriverResult result) const {
    return nccl.driver.check(result, "order an exchange of ranks");
  }

  Event ready = nullptr; ///< the memory is complete
  Event done = nullptr;  ///< the exchange has ended
};

class NCCL::AllReduction : public NCCL::Exchange {
public:
  AllReduction(NCCL &nccl, void *data, size_t count, Arithmetic arithmetic)
      : Exchange(nccl), data(data), count(count), arithmetic(arithmetic) {}

  /// Assumes a ring, which sends each element twice, except for a share.
  size_t bytesSent() const override {
    const auto ranks = static_cast<size_t>(nccl.ranks);
    return 2 * (ranks - 1) * (count * arithmetic.width / ranks);
  }

protected:
  Status begin() override {
    return nccl.settle(nccl.call.allReduce(data, data, count, arithmetic.type,
                                           arithmetic.operation, nccl.handle,
                                           nccl.stream),
                       kReduce, nccl.timeout);
  }

private:
  void *data;
  size_t count;
  Arithmetic arithmetic;
};

/// Runs a call for each part as one group, so that the parts travel together.
/// Parts of one group may have different roots.
template <typename Call>
Status NCCL::runGroup(const std::vector<RankPart> &parts,
                      const std::string &what, Call &&begin) {
  NCCLResult result = call.groupStart();
  if (result != NCCLResult::Success)
    return fail(what, describe(result));
  auto hasFailed = [&] {
    return result != NCCLResult::Success && result != NCCLResult::InProgress;
  };
  for (size_t i = 0; i < parts.size() && !hasFailed(); ++i)
    result = begin(parts[i]);
  // End the group even after a failure: a later call would join the group.
  const NCCLResult ended = call.groupEnd();
  return settle(hasFailed() ? result : ended, what, timeout);
}

class NCCL::OwnerReduction : public NCCL::Exchange {
public:
  OwnerReduction(NCCL &nccl, std::vector<RankPart> parts, Arithmetic arithmetic)
      : Exchange(nccl), parts(std::move(parts)), arithmetic(arithmetic) {}

  /// Assumes a chain of the ranks, which ends at the owner.
  size_t bytesSent() const override {
    size_t bytes = 0;
    for (const RankPart &part : parts)
      if (part.owner != nccl.rank)
        bytes += part.bytes;
    return bytes;
  }

protected:
  Status begin() override {
    return nccl.runGroup(parts, kReduce, [&](const RankPart &part) {
      return nccl.call.reduce(
          part.data, part.data, part.bytes / arithmetic.width, arithmetic.type,
          arithmetic.operation, part.owner, nccl.handle, nccl.stream);
    });
  }

private:
  std::vector<RankPart> parts;
  Arithmetic arithmetic;
};

class NCCL::OwnerGather : public NCCL::Exchange {
public:
  OwnerGather(NCCL &nccl, std::vector<RankPart> parts)
      : Exchange(nccl), parts(std::move(parts)) {}

  /// Assumes a chain of the ranks, which begins at the owner and ends at the
  /// rank before the owner.
  size_t bytesSent() const override {
    size_t bytes = 0;
    for (const RankPart &part : parts)
      if ((nccl.rank + 1) % nccl.ranks != part.owner)
        bytes += part.bytes;
    return bytes;
  }

protected:
  Status begin() override {
    return nccl.runGroup(parts, kGather, [&](const RankPart &part) {
      return nccl.call.broadcast(part.data, part.data, part.bytes, NCCLType::U8,
                                 part.owner, nccl.handle, nccl.stream);
    });
  }

private:
  std::vector<RankPart> parts;
};

NCCL::NCCL(const CUDADriver &driver, Communicator *communicator,
           Duration timeout)
    : driver(driver), communicator(communicator), timeout(timeout),
      rank(communicator ? communicator->rank() : 0),
      ranks(communicator ? communicator->size() : 1) {}

StatusOr<std::unique_ptr<NCCL>> NCCL::open(const CUDADriver &driver,
                                           Communicator *communicator,
                                           Duration timeout) {
  std::unique_ptr<NCCL> opened(new NCCL(driver, communicator, timeout));
  if (Status status = opened->load(); !status.ok())
    return status;
  return opened;
}

Status NCCL::load() {
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
  if (!status.ok() || rank != 0)
    return status;
  const NCCLResult result = call.getUniqueId(&id);
  return result == NCCLResult::Success
             ? status
             : Status(StatusCode::Device,
                      "NCCL cannot begin: " + describe(result));
}

Status NCCL::connect() {
  if (communicator)
    if (Status status = communicator->broadcast(&id, sizeof(id), /*root=*/0);
        !status.ok())
      return status;
  NCCLConfig config;
  return settle(call.initRank(&handle, ranks, id, rank, &config),
                "connect the GPUs of " + std::to_string(ranks) + " ranks",
                timeout);
}

NCCL::~NCCL() {
  if (handle) {
    // All ranks leave together. Another rank may have ended, or still compute.
    // So the wait has a limit.
    if (settle(call.finalize(handle), "end", kEndLimit).ok())
      (void)call.destroy(handle);
  }
  if (stream)
    (void)driver.call.streamDestroy(stream);
}

/// Waits until the library has done what a call began.
Status NCCL::settle(NCCLResult result, const std::string &what,
                    Duration limit) {
  const Clock::time_point begin = Clock::now();
  while (result == NCCLResult::InProgress && handle) {
    if (Clock::now() - begin > limit)
      return fail(what, "no answer in " + toText(limit) +
                            "; another rank has ended, or waits elsewhere; "
                            "--rank-timeout sets the time");
    std::this_thread::sleep_for(kPause);
    NCCLResult state = NCCLResult::Success;
    result = call.getAsyncError(handle, &state);
    if (result == NCCLResult::Success)
      result = state;
  }
  return result == NCCLResult::Success ? Status()
                                       : fail(what, describe(result));
}

Status NCCL::beginRun(size_t bytes) {
  if (lost.ok() && communicator)
    communicator->addBytesSent(bytes);
  return lost;
}

Status NCCL::poll(Duration waited) {
  if (!lost.ok() || !handle)
    return lost;
  NCCLResult state = NCCLResult::Success;
  NCCLResult result = call.getAsyncError(handle, &state);
  if (result == NCCLResult::Success)
    result = state;
  if (result != NCCLResult::Success && result != NCCLResult::InProgress)
    return fail(kExchange, describe(result));
  if (waited > timeout)
    return fail(kExchange, "no result in " + toText(timeout) +
                               "; another rank has ended, or waits elsewhere; "
                               "--rank-timeout sets the time");
  return Status();
}

/// Ends all exchanges, since the ranks can no longer agree.
Status NCCL::fail(const std::string &what, const std::string &why) {
  lost = Status(StatusCode::Rank, me() + "NCCL cannot " + what + ": " + why);
  // The cause is read before: the handle ends with the abort.
  if (handle)
    (void)call.abort(handle);
  handle = nullptr;
  if (communicator)
    communicator->noteLoss();
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
                 "prepare a mean", timeout);
      !status.ok())
    return status;
  means[type] = made;
  return made;
}

/// Returns the library's words for a reduction of elements of `type`.
StatusOr<NCCL::Arithmetic> NCCL::arithmeticOf(DType type, Reduce kind) {
  if (!lost.ok())
    return lost;
  StatusOr<NCCLType> element = toNCCL(type);
  if (!element.ok())
    return element.status();
  if (kind == Reduce::Max && isFloat(type))
    return Status(StatusCode::Unsupported,
                  "NCCL's maximum over ranks loses NaN; reduce integers");
  StatusOr<NCCLOperation> operation = operationOf(type, kind);
  if (!operation.ok())
    return operation.status();
  return Arithmetic{static_cast<size_t>(sizeOf(type)), *element, *operation};
}

StatusOr<std::unique_ptr<CUDAStep>> NCCL::prepare(const DeviceOperand &operand,
                                                  size_t count, Reduce kind) {
  StatusOr<Arithmetic> arithmetic = arithmeticOf(operand.type, kind);
  if (!arithmetic.ok())
    return arithmetic.status();
  return Exchange::finish(
      std::make_unique<AllReduction>(*this, operand.data, count, *arithmetic));
}

static std::vector<RankPart> withoutEmpty(std::vector<RankPart> parts) {
  parts.erase(
      std::remove_if(parts.begin(), parts.end(),
                     [](const RankPart &part) { return part.bytes == 0; }),
      parts.end());
  return parts;
}

StatusOr<std::unique_ptr<CUDAStep>>
NCCL::prepareReduceToOwners(std::vector<RankPart> parts, DType type,
                            Reduce kind) {
  StatusOr<Arithmetic> arithmetic = arithmeticOf(type, kind);
  if (!arithmetic.ok())
    return arithmetic.status();
  return Exchange::finish(std::make_unique<OwnerReduction>(
      *this, withoutEmpty(std::move(parts)), *arithmetic));
}

StatusOr<std::unique_ptr<CUDAStep>>
NCCL::prepareGatherFromOwners(std::vector<RankPart> parts) {
  if (!lost.ok())
    return lost;
  return Exchange::finish(
      std::make_unique<OwnerGather>(*this, withoutEmpty(std::move(parts))));
}

//===----------------------------------------------------------------------===//
// Agreement
//===----------------------------------------------------------------------===//

Status agreeOnStart(Communicator *communicator, const Status &status) {
  if (!communicator)
    return status;
  struct Outcome {
    int32_t code = 0;
    char text[1020] = {};
  };
  std::vector<Outcome> all(static_cast<size_t>(communicator->size()));
  Outcome &own = all[static_cast<size_t>(communicator->rank())];
  own.code = static_cast<int32_t>(status.getCode());
  status.message().copy(own.text, sizeof(own.text) - 1);
  if (Status told = communicator->allGather(all.data(), sizeof(Outcome));
      !told.ok())
    return told;
  for (size_t other = 0; other < all.size(); ++other)
    if (all[other].code != 0)
      return Status(static_cast<StatusCode>(all[other].code),
                    "rank " + std::to_string(other) + ": " + all[other].text);
  return Status();
}

} // namespace mpc::runtime::cuda
