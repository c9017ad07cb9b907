// Tests the calls of NCCL, over an emulated library.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/cuda/Emulated.h"

#include "runtime/cuda/NCCL.h"

#include <gtest/gtest.h>

using namespace mpc::runtime;
using namespace mpc::runtime::cuda;
using namespace mpc::runtime::test;

namespace {

/// Runs `body` with a current context and a stream on the emulated GPU.
void onGPU(const std::map<std::string, std::string> &environment,
           const std::function<void(const CUDADriver &, Stream)> &body) {
  emulated(environment, [&] {
    auto driver = CUDADriver::open();
    ASSERT_TRUE(driver.ok()) << driver.status().message();
    const CUDADriver &opened = **driver;
    Context context = nullptr;
    ASSERT_TRUE(
        opened.check(opened.call.primaryCtxRetain(&context, 0), "retain").ok());
    ContextScope scope(opened, context);
    Stream stream = nullptr;
    ASSERT_TRUE(
        opened
            .check(opened.call.streamCreate(&stream, kStreamNonBlocking),
                   "create")
            .ok());
    body(opened, stream);
  });
}

/// A rank whose partner agrees to everything.
class HalfOfTwo : public Communicator {
public:
  explicit HalfOfTwo(bool otherFails = false)
      : Communicator(0, 2), otherFails(otherFails) {}
  std::string_view backend() const override { return "test"; }
  Status allReduce(void *data, size_t, DType, Reduce) override {
    if (otherFails)
      *static_cast<int32_t *>(data) = 1;
    return Status();
  }
  Status reduceScatter(void *, size_t, DType, Reduce) override {
    return Status();
  }
  Status allGather(void *, size_t) override { return Status(); }
  Status broadcast(void *, size_t, int) override {
    ++broadcasts;
    return Status();
  }
  Status barrier() override { return Status(); }
  void abort(const Status &) override {}
  size_t bytesSent() const override { return 0; }
  int broadcasts = 0;

private:
  bool otherFails;
};

TEST(NCCL, ReducesAndEnds) {
  std::string log = newLogFile();
  onGPU({{"MPC_EMULATOR_LOG", log}}, [](const CUDADriver &driver, Stream s) {
    auto nccl = NCCL::connect(driver, nullptr);
    ASSERT_TRUE(nccl.ok()) << nccl.status().message();
    DevicePointer memory = 0;
    ASSERT_TRUE(
        driver.check(driver.call.memAlloc(&memory, 64), "allocate").ok());
    auto *data = reinterpret_cast<void *>(memory);
    for (Reduce kind : {Reduce::Mean, Reduce::Sum, Reduce::Mean}) {
      auto step = (*nccl)->prepare({DType::F16, data}, 32, kind);
      ASSERT_TRUE(step.ok()) << step.status().message();
      EXPECT_TRUE((*step)->enqueue(s).ok());
      EXPECT_TRUE((*nccl)->prepareWait()->enqueue(s).ok());
    }
    driver.setWatch([&](auto waited) { return (*nccl)->poll(waited); });
    EXPECT_TRUE(driver.wait(s, "end").ok());
    driver.setWatch(nullptr);
  });
  const std::vector<std::string> calls = readLog(log);
  EXPECT_EQ(countCalls(calls, "ncclAllReduce"), 3u);
  EXPECT_EQ(countCalls(calls, "ncclRedOpCreatePreMulSum"), 1u);
  EXPECT_EQ(countCalls(calls, "ncclCommDestroy"), 1u);
  EXPECT_EQ(countCalls(calls, "ncclCommAbort"), 0u);
}

TEST(NCCL, EndsIfARankNeverArrives) {
  onGPU({{"MPC_RANK_TIMEOUT", "0.2"}}, [](const CUDADriver &driver, Stream) {
    HalfOfTwo ranks;
    expectMessage(NCCL::connect(driver, &ranks).status(), StatusCode::Rank,
                  {"rank 0 of 2: NCCL cannot connect the GPUs of 2 ranks",
                   "no answer in 200 ms"});
    EXPECT_EQ(ranks.broadcasts, 1);
  });
}

TEST(NCCL, TellsThatAnotherRankCannotUseTheLibrary) {
  onGPU({}, [](const CUDADriver &driver, Stream) {
    HalfOfTwo ranks(/*otherFails=*/true);
    expectMessage(NCCL::connect(driver, &ranks).status(), StatusCode::Rank,
                  {"rank 0 of 2: another rank cannot use NCCL"});
    EXPECT_EQ(ranks.broadcasts, 0);
  });
}

TEST(NCCL, AbortsAfterAnErrorOfAnotherRank) {
  std::string log = newLogFile();
  onGPU({{"MPC_EMULATOR_LOG", log},
         {"MPC_EMULATOR_FAULT", "ncclCommGetAsyncError:2+=6"}},
        [](const CUDADriver &driver, Stream s) {
          auto nccl = NCCL::connect(driver, nullptr);
          ASSERT_TRUE(nccl.ok()) << nccl.status().message();
          expectMessage((*nccl)->poll({}), StatusCode::Rank,
                        {"NCCL cannot reduce over the ranks", "(6)"});
          DevicePointer memory = 0;
          ASSERT_TRUE(
              driver.check(driver.call.memAlloc(&memory, 64), "allocate").ok());
          EXPECT_EQ(
              (*nccl)
                  ->prepare({DType::F32, reinterpret_cast<void *>(memory)}, 16,
                            Reduce::Sum)
                  .status()
                  .getCode(),
              StatusCode::Rank);
          (void)s;
        });
  EXPECT_EQ(countCalls(readLog(log), "ncclCommAbort"), 1u);
  EXPECT_EQ(countCalls(readLog(log), "ncclCommDestroy"), 0u);
}

TEST(NCCL, RefusesAWrongTimeLimit) {
  onGPU({{"MPC_RANK_TIMEOUT", "soon"}}, [](const CUDADriver &driver, Stream) {
    expectMessage(NCCL::connect(driver, nullptr).status(), StatusCode::Usage,
                  {"MPC_RANK_TIMEOUT is 'soon'; expected seconds"});
  });
}

} // namespace
