// Tests the calls of NCCL, over an emulated library.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/cuda/Emulated.h"
#include "test/runtime/cuda/TwoRanks.h"

#include "runtime/FloatBits.h"
#include "runtime/cuda/NCCL.h"
#include "runtime/cuda/SharedLibrary.h"

#include <chrono>
#include <cstring>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace mpc::runtime;
using namespace mpc::runtime::cuda;
using namespace mpc::runtime::test;

namespace {

constexpr std::chrono::seconds kLong(20);

/// A GPU with a stream, for one rank. The context stays current.
class OneGPU {
public:
  explicit OneGPU(int index = 0) : scope(open(index)) {
    expect(driver().call.streamCreate(&stream, kStreamNonBlocking));
  }
  ~OneGPU() { driver().setWatch(nullptr); }

  const CUDADriver &driver() const { return *opened; }

  /// Connects the ranks, and watches them during waits.
  std::unique_ptr<NCCL> connect(Communicator *communicator,
                                NCCL::Duration timeout = kLong) {
    auto nccl = NCCL::open(driver(), communicator, timeout);
    EXPECT_TRUE(nccl.ok()) << nccl.status().message();
    // The ranks load their libraries at different speeds.
    EXPECT_TRUE(!communicator || communicator->barrier().ok());
    Status status = (*nccl)->connect();
    EXPECT_TRUE(status.ok()) << status.message();
    driver().setWatch([ranks = nccl->get()](NCCL::Duration waited) {
      return ranks->poll(waited);
    });
    return std::move(*nccl);
  }

  template <typename T>
  void *upload(const std::vector<T> &values) {
    DevicePointer memory = 0;
    const size_t bytes = values.size() * sizeof(T);
    expect(driver().call.memAlloc(&memory, bytes));
    expect(driver().call.memcpyHtoDAsync(memory, values.data(), bytes, stream));
    return reinterpret_cast<void *>(memory);
  }

  template <typename T>
  std::vector<T> download(void *memory, size_t count) {
    std::vector<T> values(count);
    expect(driver().call.memcpyDtoHAsync(values.data(),
                                         reinterpret_cast<uint64_t>(memory),
                                         count * sizeof(T), stream));
    return values;
  }

  /// Reduces in place, and returns the elements.
  template <typename T>
  std::vector<T> reduce(NCCL &nccl, DType type, Reduce kind,
                        const std::vector<T> &values) {
    void *memory = upload(values);
    run(nccl.prepare({type, memory}, values.size(), kind));
    return download<T>(memory, values.size());
  }

  /// Runs an exchange, and returns the bytes that this rank has sent.
  size_t run(const StatusOr<std::unique_ptr<CUDAStep>> &step) {
    EXPECT_TRUE(step.ok()) << step.status().message();
    if (!step.ok())
      return 0;
    Status status = (*step)->enqueue(stream);
    if (status.ok())
      status = (*step)->join(stream);
    if (status.ok())
      status = driver().wait(stream, "exchange");
    EXPECT_TRUE(status.ok()) << status.message();
    return (*step)->bytesSent();
  }

  Stream stream = nullptr;

private:
  Context open(int index) {
    auto found = CUDADriver::open();
    EXPECT_TRUE(found.ok()) << found.status().message();
    opened = *found;
    Context context = nullptr;
    expect(driver().call.primaryCtxRetain(&context, index));
    expect(driver().call.ctxPushCurrent(context));
    return context;
  }
  void expect(DriverResult result) const {
    Status status = driver().check(result, "prepare a test");
    EXPECT_TRUE(status.ok()) << status.message();
  }

  std::shared_ptr<const CUDADriver> opened;
  Context scope;
};

/// A rank whose partner's library works, or is missing.
class HalfOfTwo : public Communicator {
public:
  explicit HalfOfTwo(bool otherFails = false)
      : Communicator(0, 2), otherFails(otherFails) {}
  std::string_view backend() const override { return "test"; }
  Status allReduce(void *, size_t, DType, Reduce) override { return Status(); }
  Status reduceScatter(void *, size_t, DType, Reduce) override {
    return Status();
  }
  Status allGather(void *data, size_t bytes) override {
    auto *other = static_cast<char *>(data) + bytes;
    const auto code = static_cast<int32_t>(StatusCode::Device);
    if (otherFails) {
      std::memcpy(other, &code, sizeof(code));
      std::strcpy(other + sizeof(code), "no library");
    }
    return Status();
  }
  Status broadcast(void *, size_t, int) override { return Status(); }
  Status barrier() override { return Status(); }
  void abort(const Status &) override {}
  void noteLoss() override { ++losses; }
  size_t bytesSent() const override { return bytesSentBeside(); }
  int losses = 0;

private:
  bool otherFails;
};

TEST(NCCL, ReducesAndEnds) {
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_LOG", log}}, [] {
    OneGPU gpu;
    auto nccl = gpu.connect(nullptr);
    for (Reduce kind : {Reduce::Mean, Reduce::Sum, Reduce::Mean})
      EXPECT_EQ(gpu.reduce(*nccl, DType::F32, kind, Floats{1, 2, 3}),
                (Floats{1, 2, 3}));
  });
  const std::vector<std::string> calls = readLog(log);
  EXPECT_EQ(countCalls(calls, "ncclAllReduce"), 3u);
  EXPECT_EQ(countCalls(calls, "ncclRedOpCreatePreMulSum"), 1u);
  EXPECT_EQ(countCalls(calls, "ncclCommDestroy"), 1u);
  EXPECT_EQ(countCalls(calls, "ncclCommAbort"), 0u);
}

TEST(NCCL, ReducesOverTwoRanks) {
  onTwoRanks({}, [](ForkedCommunicator &ranks) {
    OneGPU gpu(ranks.rank());
    auto nccl = gpu.connect(&ranks);
    const auto r = static_cast<float>(ranks.rank());
    EXPECT_EQ(gpu.reduce(*nccl, DType::F32, Reduce::Mean, Floats{1, r, -r}),
              (Floats{1, 0.5, -0.5}));
    EXPECT_EQ(gpu.reduce(*nccl, DType::F32, Reduce::Sum, Floats{1, r, -r}),
              (Floats{2, 1, -1}));
    EXPECT_EQ(gpu.reduce(*nccl, DType::F64, Reduce::Mean,
                         std::vector<double>{1e300, r}),
              (std::vector<double>{1e300, 0.5}));
    EXPECT_EQ(gpu.reduce(*nccl, DType::BF16, Reduce::Mean,
                         std::vector<uint16_t>{floatToBF16(2 * r)}),
              (std::vector<uint16_t>{floatToBF16(1)}));
    EXPECT_EQ(gpu.reduce(*nccl, DType::I32, Reduce::Max,
                         std::vector<int32_t>{3 * ranks.rank(), -1}),
              (std::vector<int32_t>{3, -1}));
    EXPECT_EQ(gpu.reduce(*nccl, DType::I64, Reduce::Sum,
                         std::vector<int64_t>{1 + ranks.rank()}),
              (std::vector<int64_t>{3}));
    // More elements than the emulator exchanges at once.
    EXPECT_EQ(gpu.reduce(*nccl, DType::F32, Reduce::Sum, Floats(200000, r)),
              Floats(200000, 1));
    EXPECT_EQ(ranks.losses, 0);
  });
}

/// The sum of the largest two numbers is beyond f16, their mean is not.
TEST(NCCL, DividesBeforeItAdds) {
  onTwoRanks({}, [](ForkedCommunicator &ranks) {
    OneGPU gpu(ranks.rank());
    auto nccl = gpu.connect(&ranks);
    const std::vector<uint16_t> largest{floatToF16(65504)};
    EXPECT_EQ(gpu.reduce(*nccl, DType::F16, Reduce::Mean, largest), largest);
    EXPECT_EQ(gpu.reduce(*nccl, DType::F16, Reduce::Sum, largest),
              (std::vector<uint16_t>{0x7c00}));
    // An infinity of one rank reaches both.
    const std::vector<uint16_t> one{uint16_t(ranks.rank() ? 0x7c00 : 0)};
    EXPECT_EQ(gpu.reduce(*nccl, DType::F16, Reduce::Mean, one),
              (std::vector<uint16_t>{0x7c00}));
  });
}

/// Rank 0 owns the first part, and rank 1 the others.
std::vector<RankPart> partsOf(void *first, size_t firstBytes, void *second,
                              size_t secondBytes) {
  return {{first, firstBytes, 0}, {second, secondBytes, 1}, {first, 0, 1}};
}

TEST(NCCL, ReducesToOwners) {
  std::string log = newLogFile();
  onTwoRanks({{"MPC_EMULATOR_LOG", log}}, [](ForkedCommunicator &ranks) {
    OneGPU gpu(ranks.rank());
    auto nccl = gpu.connect(&ranks);
    const bool isFirst = ranks.isFirst();
    const auto r = static_cast<float>(ranks.rank());
    void *a = gpu.upload(Floats{1, r, -r});
    // More elements than the emulator exchanges at once.
    void *b = gpu.upload(Floats(200000, 4 * r));
    const size_t sent = gpu.run(nccl->prepareReduceToOwners(
        partsOf(a, 12, b, 800000), DType::F32, Reduce::Mean));
    // A rank sends what it does not own.
    EXPECT_EQ(sent, isFirst ? 800000u : 12u);
    EXPECT_EQ(gpu.download<float>(a, 3),
              isFirst ? (Floats{1, 0.5, -0.5}) : (Floats{1, 1, -1}));
    EXPECT_EQ(gpu.download<float>(b, 200000), Floats(200000, isFirst ? 0 : 2));
  });
  const std::vector<std::string> calls = readLog(log);
  EXPECT_EQ(countCalls(calls, "ncclReduce"), 4u);
  EXPECT_EQ(countCalls(calls, "ncclGroupStart"), 2u);
  EXPECT_EQ(countCalls(calls, "ncclGroupEnd"), 2u);
  EXPECT_EQ(countCalls(calls, "ncclAllReduce"), 0u);
  EXPECT_EQ(countFaults(calls), 0u);
}

/// The sum of the largest two numbers is beyond f16, their mean is not.
TEST(NCCL, DividesBeforeItAddsForOwners) {
  onTwoRanks({}, [](ForkedCommunicator &ranks) {
    OneGPU gpu(ranks.rank());
    auto nccl = gpu.connect(&ranks);
    const std::vector<uint16_t> largest{floatToF16(65504)};
    const std::vector<uint16_t> infinity{0x7c00};
    for (Reduce kind : {Reduce::Mean, Reduce::Sum}) {
      void *memory = gpu.upload(largest);
      gpu.run(nccl->prepareReduceToOwners({{memory, 2, 1}}, DType::F16, kind));
      EXPECT_EQ(gpu.download<uint16_t>(memory, 1),
                kind == Reduce::Sum && ranks.rank() == 1 ? infinity : largest);
    }
  });
}

TEST(NCCL, GathersFromOwners) {
  onTwoRanks({}, [](ForkedCommunicator &ranks) {
    OneGPU gpu(ranks.rank());
    auto nccl = gpu.connect(&ranks);
    const auto r = static_cast<float>(ranks.rank());
    void *a = gpu.upload(Floats{r, 1 + r});
    // Parts differ in type, and their bytes may be odd.
    void *b = gpu.upload(std::vector<uint8_t>(3, uint8_t(7 + ranks.rank())));
    const size_t sent =
        gpu.run(nccl->prepareGatherFromOwners(partsOf(a, 8, b, 3)));
    EXPECT_EQ(sent, ranks.isFirst() ? 8u : 3u);
    EXPECT_EQ(gpu.download<float>(a, 2), (Floats{0, 1}));
    EXPECT_EQ(gpu.download<uint8_t>(b, 3), std::vector<uint8_t>(3, 8));
  });
}

/// A call inside of the group fails. The group ends, so that the library can
/// abort.
TEST(NCCL, EndsTheGroupOfAFailedCall) {
  std::string log = newLogFile();
  emulated(
      {{"MPC_EMULATOR_LOG", log}, {"MPC_EMULATOR_FAULT", "ncclReduce:2=1"}},
      [] {
        OneGPU gpu;
        auto nccl = gpu.connect(nullptr);
        void *memory = gpu.upload(Floats{1, 2});
        auto step = nccl->prepareReduceToOwners(
            {{memory, 4, 0}, {memory, 4, 0}, {memory, 4, 0}}, DType::F32,
            Reduce::Sum);
        ASSERT_TRUE(step.ok()) << step.status().message();
        expectMessage((*step)->enqueue(gpu.stream), StatusCode::Rank,
                      {"NCCL cannot reduce over the ranks", "(1)"});
        EXPECT_EQ(nccl->prepareGatherFromOwners({}).status().getCode(),
                  StatusCode::Rank);
      });
  const std::vector<std::string> calls = readLog(log);
  EXPECT_EQ(countCalls(calls, "ncclReduce"), 2u);
  EXPECT_EQ(countCalls(calls, "ncclGroupEnd"), 1u);
  EXPECT_EQ(countCalls(calls, "ncclCommAbort"), 1u);
}

TEST(NCCL, RefusesTypesThatTheLibraryReducesOtherwise) {
  emulated({}, [] {
    OneGPU gpu;
    auto nccl = gpu.connect(nullptr);
    void *memory = gpu.upload(Floats{1});
    expectMessage(nccl->prepare({DType::F32, memory}, 1, Reduce::Max).status(),
                  StatusCode::Unsupported,
                  {"NCCL's maximum over ranks loses NaN"});
    expectMessage(nccl->prepare({DType::I16, memory}, 1, Reduce::Sum).status(),
                  StatusCode::Unsupported,
                  {"NCCL does not reduce elements of type i16"});
    expectMessage(
        nccl->prepareReduceToOwners({{memory, 4, 0}}, DType::F32, Reduce::Max)
            .status(),
        StatusCode::Unsupported, {"NCCL's maximum over ranks loses NaN"});
  });
}

TEST(NCCL, EndsIfARankNeverArrives) {
  emulated({{"MPC_EMULATOR_DEVICE", "sm_80,count=2"}}, [] {
    OneGPU gpu;
    HalfOfTwo ranks;
    auto nccl =
        NCCL::open(gpu.driver(), &ranks, std::chrono::milliseconds(200));
    ASSERT_TRUE(nccl.ok()) << nccl.status().message();
    expectMessage((*nccl)->connect(), StatusCode::Rank,
                  {"rank 0 of 2: NCCL cannot connect the GPUs of 2 ranks",
                   "no answer in 200 ms", "--rank-timeout"});
    EXPECT_EQ(ranks.losses, 1);
  });
}

TEST(NCCL, AllRanksFailIfOneCannotStart) {
  HalfOfTwo fine, failing(/*otherFails=*/true);
  EXPECT_TRUE(agreeOnStart(nullptr, Status()).ok());
  EXPECT_TRUE(agreeOnStart(&fine, Status()).ok());
  expectMessage(agreeOnStart(&failing, Status()), StatusCode::Device,
                {"rank 1: no library"});
  expectMessage(agreeOnStart(&failing, Status(StatusCode::IO, "no memory")),
                StatusCode::IO, {"rank 0: no memory"});
}

TEST(NCCL, AbortsAfterAnErrorOfAnotherRank) {
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_LOG", log},
            {"MPC_EMULATOR_FAULT", "ncclCommGetAsyncError:2+=6"}},
           [] {
             OneGPU gpu;
             auto nccl = gpu.connect(nullptr);
             expectMessage(nccl->poll({}), StatusCode::Rank,
                           {"NCCL cannot exchange data with the ranks", "(6)"});
             void *memory = gpu.upload(Floats{1});
             EXPECT_EQ(nccl->prepare({DType::F32, memory}, 1, Reduce::Sum)
                           .status()
                           .getCode(),
                       StatusCode::Rank);
             EXPECT_EQ(nccl->beginRun(4).getCode(), StatusCode::Rank);
           });
  EXPECT_EQ(countCalls(readLog(log), "ncclCommAbort"), 1u);
  EXPECT_EQ(countCalls(readLog(log), "ncclCommDestroy"), 0u);
}

/// Runs a reduction to which the other rank does not come, and returns the
/// failure.
Status reduceAlone(ForkedCommunicator &ranks, NCCL::Duration timeout) {
  OneGPU gpu(ranks.rank());
  auto nccl = gpu.connect(&ranks, timeout);
  EXPECT_TRUE(ranks.barrier().ok());
  if (ranks.rank() == 1) {
    // The end of the process is sudden, without destructors.
    std::fflush(nullptr);
    if (timeout == kLong)
      _exit(0);
    EXPECT_TRUE(ranks.barrier().ok());
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  void *memory = gpu.upload(Floats{1});
  auto step = nccl->prepare({DType::F32, memory}, 1, Reduce::Sum);
  EXPECT_TRUE(step.ok()) << step.status().message();
  // The other rank may have ended before.
  Status status = (*step)->enqueue(gpu.stream);
  if (status.ok())
    status = (*step)->join(gpu.stream);
  if (status.ok())
    status = gpu.driver().wait(gpu.stream, "reduce");
  EXPECT_EQ(ranks.losses, 1);
  if (timeout != kLong)
    EXPECT_TRUE(ranks.barrier().ok());
  return status;
}

TEST(NCCL, EndsIfTheProcessOfARankEnds) {
  onTwoRanks({}, [](ForkedCommunicator &ranks) {
    const auto begin = std::chrono::steady_clock::now();
    expectMessage(reduceAlone(ranks, kLong), StatusCode::Rank,
                  {"rank 0 of 2", "remote process exited"});
    EXPECT_LT(std::chrono::steady_clock::now() - begin,
              std::chrono::seconds(10));
  });
}

TEST(NCCL, EndsIfARankWaitsElsewhere) {
  onTwoRanks({}, [](ForkedCommunicator &ranks) {
    expectMessage(reduceAlone(ranks, std::chrono::seconds(2)), StatusCode::Rank,
                  {"no result in 2 s"});
  });
}

/// The ranks differ in a reduction: the library gives no defined result.
TEST(EmulatedNCCL, FindsReductionsThatDiffer) {
  std::string log = newLogFile();
  onTwoRanks({{"MPC_EMULATOR_LOG", log}}, [](ForkedCommunicator &ranks) {
    OneGPU gpu(ranks.rank());
    auto nccl = gpu.connect(&ranks);
    const auto count = static_cast<size_t>(2 + ranks.rank());
    void *memory = gpu.upload(Floats(count, 1));
    auto step = nccl->prepare({DType::F32, memory}, count, Reduce::Sum);
    ASSERT_TRUE(step.ok() && (*step)->enqueue(gpu.stream).ok() &&
                (*step)->join(gpu.stream).ok());
    EXPECT_FALSE(gpu.driver().wait(gpu.stream, "reduce").ok());
    ASSERT_TRUE(ranks.barrier().ok());
  });
  EXPECT_GE(countFaults(readLog(log)), 1u);
}

/// Two roots of one part would leave both ranks without a result.
TEST(EmulatedNCCL, FindsOwnersThatDiffer) {
  std::string log = newLogFile();
  onTwoRanks({{"MPC_EMULATOR_LOG", log}}, [](ForkedCommunicator &ranks) {
    OneGPU gpu(ranks.rank());
    auto nccl = gpu.connect(&ranks);
    void *memory = gpu.upload(Floats{1});
    auto step = nccl->prepareGatherFromOwners({{memory, 4, ranks.rank()}});
    ASSERT_TRUE(step.ok() && (*step)->enqueue(gpu.stream).ok() &&
                (*step)->join(gpu.stream).ok());
    EXPECT_FALSE(gpu.driver().wait(gpu.stream, "exchange").ok());
    ASSERT_TRUE(ranks.barrier().ok());
  });
  EXPECT_GE(countFaults(readLog(log)), 1u);
}

/// The library's own rules, which mpc must obey.
TEST(EmulatedNCCL, FindsWrongCalls) {
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_LOG", log}}, [] {
    OneGPU gpu;
    auto library = SharedLibrary::open({"libnccl.so.2"}, "NCCL");
    ASSERT_TRUE(library.ok());
    NCCLFunctions call;
#define MPC_FIND(result, member, symbol, ...)                                  \
  ASSERT_TRUE(library->find(#symbol, call.member).ok());
    MPC_CUDA_NCCL_FUNCTIONS(MPC_FIND)
#undef MPC_FIND
    const auto kUsage = static_cast<NCCLResult>(5);
    NCCLUniqueId id;
    ASSERT_EQ(call.getUniqueId(&id), NCCLResult::Success);
    NCCLConfig config;
    NCCLHandle handle = nullptr;
    ASSERT_EQ(call.initRank(&handle, 1, id, 0, &config),
              NCCLResult::InProgress);
    void *memory = gpu.upload(Floats{1, 2});
    auto reduce = [&](Stream stream) {
      return call.allReduce(memory, memory, 2, NCCLType::F32,
                            NCCLOperation::Sum, handle, stream);
    };
    auto settle = [&] {
      NCCLResult state = NCCLResult::InProgress;
      EXPECT_EQ(call.getAsyncError(handle, &state), NCCLResult::Success);
      EXPECT_EQ(state, NCCLResult::Success);
    };
    // The connection is in progress, then the first reduction.
    EXPECT_EQ(reduce(gpu.stream), kUsage);
    settle();
    EXPECT_EQ(reduce(gpu.stream), NCCLResult::InProgress);
    EXPECT_EQ(reduce(gpu.stream), kUsage);
    settle();
    EXPECT_EQ(reduce(nullptr), kUsage); // another stream
    // Groups end, do not nest, and begin nothing before their end.
    EXPECT_EQ(call.groupEnd(), kUsage);
    EXPECT_EQ(call.groupStart(), NCCLResult::Success);
    EXPECT_EQ(call.groupStart(), kUsage);
    EXPECT_EQ(reduce(gpu.stream), NCCLResult::Success);
    EXPECT_EQ(call.reduce(memory, memory, 2, NCCLType::F32, NCCLOperation::Sum,
                          /*root=*/1, handle, gpu.stream),
              static_cast<NCCLResult>(4)); // there is no rank 1
    EXPECT_EQ(call.broadcast(memory, memory, 8, NCCLType::U8, /*root=*/0,
                             handle, gpu.stream),
              NCCLResult::Success);
    EXPECT_EQ(call.finalize(handle), kUsage);
    EXPECT_EQ(call.groupEnd(), NCCLResult::InProgress);
    EXPECT_EQ(reduce(gpu.stream), kUsage);
    settle();
    // Operations cannot be made during a capture.
    const DriverFunctions &driver = gpu.driver().call;
    ASSERT_EQ(driver.streamBeginCapture(gpu.stream, CaptureMode::ThreadLocal),
              DriverResult::Success);
    float share = 1;
    NCCLOperation made = NCCLOperation::Sum;
    EXPECT_EQ(call.createScaledSum(&made, &share, NCCLType::F32,
                                   NCCLResidence::HostImmediate, handle),
              kUsage);
    EXPECT_EQ(reduce(gpu.stream), NCCLResult::InProgress);
    settle();
    Graph graph = nullptr;
    ASSERT_EQ(driver.streamEndCapture(gpu.stream, &graph),
              DriverResult::Success);
    // An operation belongs to a type, and the end to a finalized communicator.
    ASSERT_EQ(call.createScaledSum(&made, &share, NCCLType::F32,
                                   NCCLResidence::HostImmediate, handle),
              NCCLResult::Success);
    EXPECT_EQ(call.allReduce(memory, memory, 2, NCCLType::F16, made, handle,
                             gpu.stream),
              static_cast<NCCLResult>(4));
    EXPECT_EQ(call.destroy(handle), kUsage);
    EXPECT_EQ(call.finalize(handle), NCCLResult::InProgress);
    EXPECT_EQ(reduce(gpu.stream), kUsage);
    settle();
    EXPECT_EQ(call.destroy(handle), NCCLResult::Success);
    EXPECT_EQ(call.abort(handle), kUsage);
  });
  EXPECT_EQ(countFaults(readLog(log)), 13u);
}

} // namespace
