// Tests the emulated driver's rules: execution of work, restrictions of
// capture, refusals.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/Libraries.h"
#include "test/emulator/cuda/Environment.h"

#include <cstdlib>
#include <cstring>
#include <functional>

using namespace mpc::emulator;

/// y[i] += x[i] for the threads of a block.
static const char kAccumulate[] = R"(
.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 scratch[];
.visible .entry accumulate(.param .u64 x, .param .u64 y)
.maxntid 64
{
  .reg .b32 %r<5>; .reg .b64 %rd<5>;
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %rd0, %r0, 4;
  ld.param.b64 %rd1, [x];
  ld.param.b64 %rd2, [y];
  add.s64 %rd1, %rd1, %rd0;
  add.s64 %rd2, %rd2, %rd0;
  ld.global.b32 %r1, [%rd1];
  ld.global.b32 %r2, [%rd2];
  add.rn.f32 %r2, %r2, %r1;
  st.global.b32 [%rd2], %r2;
  ret;
}
)";

namespace {

class Driver : public Libraries {
protected:
  cuda::Kernel load() {
    cuda::Module module = nullptr;
    cuda::Kernel kernel = nullptr;
    EXPECT_EQ(code(driver.moduleLoadDataEx(&module, kAccumulate, 0, nullptr,
                                           nullptr)),
              0);
    EXPECT_EQ(code(driver.moduleGetFunction(&kernel, module, "accumulate")), 0);
    return kernel;
  }

  int launch(cuda::Kernel kernel, cuda::DevicePointer x, cuda::DevicePointer y,
             unsigned threads = 4, unsigned shared = 0) {
    void *params[] = {&x, &y};
    return code(driver.launchKernel(kernel, 1, 1, 1, threads, 1, 1, shared,
                                    stream, params, nullptr));
  }

  int loadText(const std::string &text, std::string *log = nullptr) {
    char buffer[256] = {};
    cuda::JITOption options[] = {cuda::JITOption::ErrorLogBuffer,
                                 cuda::JITOption::ErrorLogBufferSizeBytes};
    void *values[] = {buffer, reinterpret_cast<void *>(sizeof(buffer))};
    cuda::Module module = nullptr;
    int result = code(
        driver.moduleLoadDataEx(&module, text.c_str(), 2, options, values));
    if (log)
      *log = buffer;
    return result;
  }

  std::string accumulateWith(const char *from, const char *to) {
    std::string text = kAccumulate;
    return text.replace(text.find(from), std::strlen(from), to);
  }
};

TEST_F(Driver, DoesWorkInOrderWhenTheHostWaits) {
  cuda::Kernel kernel = load();
  void *pinned = nullptr;
  ASSERT_EQ(code(driver.memHostAlloc(&pinned, 16, 0)), 0);
  auto *values = static_cast<float *>(pinned);
  std::fill_n(values, 4, 1.0f);
  cuda::DevicePointer x = allocate(16), y = upload<float>({1, 2, 3, 4});
  ASSERT_EQ(code(driver.memcpyHtoDAsync(x, values, 16, stream)), 0);
  ASSERT_EQ(launch(kernel, x, y), 0);
  // The copy reads pinned memory when it runs: a program that changes it before
  // waiting may copy the new values.
  std::fill_n(values, 4, 10.0f);
  EXPECT_EQ(download<float>(y, 4), (std::vector<float>{11, 12, 13, 14}));
  ASSERT_EQ(code(driver.memFreeHost(pinned)), 0);
}

/// A second stream copies a value from the host, and the first stream copies it
/// on, repeatedly. If `isOrdered`, events order the copies.
class TwoStreams : public Driver {
protected:
  TwoStreams() {
    EXPECT_EQ(code(driver.streamCreate(&copies, cuda::kStreamNonBlocking)), 0);
    EXPECT_EQ(code(driver.memHostAlloc(&pinned, 16, 0)), 0);
    EXPECT_EQ(code(driver.eventCreate(&copied, 0)), 0);
    EXPECT_EQ(code(driver.eventCreate(&taken, 0)), 0);
    beside = allocate(4);
    to = upload<float>({0, 0, 0, 0});
  }
  ~TwoStreams() override {
    (void)driver.eventDestroy(copied);
    (void)driver.eventDestroy(taken);
    (void)driver.memFreeHost(pinned);
    (void)driver.streamDestroy(copies);
  }
  void bring(unsigned index, float value) {
    static_cast<float *>(pinned)[index] = value;
    EXPECT_EQ(code(driver.memcpyHtoDAsync(
                  beside, static_cast<float *>(pinned) + index, 4, copies)),
              0);
    EXPECT_EQ(code(driver.eventRecord(copied, copies)), 0);
  }
  void take(unsigned index) {
    EXPECT_EQ(code(driver.memcpyDtoDAsync(to + 4 * index, beside, 4, stream)),
              0);
    EXPECT_EQ(code(driver.eventRecord(taken, stream)), 0);
  }
  void wait(cuda::Stream stream, cuda::Event event) {
    EXPECT_EQ(code(driver.streamWaitEvent(stream, event, 0)), 0);
  }

  cuda::Stream copies = nullptr;
  cuda::Event copied = nullptr, taken = nullptr;
  void *pinned = nullptr;
  cuda::DevicePointer beside = 0, to = 0;
};

TEST_F(TwoStreams, HandOverByEvents) {
  for (unsigned i = 0; i < 4; ++i) {
    bring(i, static_cast<float>(i));
    wait(stream, copied);
    take(i);
    wait(copies, taken);
  }
  EXPECT_EQ(download<float>(to, 4), (std::vector<float>{0, 1, 2, 3}));
}

TEST_F(TwoStreams, AHostThatWaitsForAStreamWaitsForItsEvents) {
  bring(0, 7);
  wait(stream, copied);
  EXPECT_EQ(code(driver.streamSynchronize(stream)), 0);
  // A copy that runs later would read the new value.
  static_cast<float *>(pinned)[0] = 8;
  EXPECT_EQ(download<float>(beside, 1), (std::vector<float>{7}));
}

TEST_F(TwoStreams, AReaderThatDoesNotWaitIsFound) {
  bring(0, 1);
  take(0);
  EXPECT_EQ(code(driver.streamSynchronize(stream)), 719);
}

TEST_F(TwoStreams, AWriterThatDoesNotWaitIsFound) {
  bring(0, 1);
  wait(stream, copied);
  take(0);
  bring(1, 2);
  EXPECT_EQ(code(driver.streamSynchronize(copies)), 719);
}

TEST_F(TwoStreams, AHostThatWaitsOrdersThem) {
  bring(0, 1);
  EXPECT_EQ(code(driver.eventSynchronize(copied)), 0);
  take(0);
  EXPECT_EQ(code(driver.streamSynchronize(stream)), 0);
  bring(1, 2);
  EXPECT_EQ(code(driver.streamSynchronize(copies)), 0);
}

/// The memory that a kernel reads is unknown before it runs.
TEST_F(TwoStreams, WorkOfAStreamIsDoneWhenThatStreamIsWaitedFor) {
  cuda::Kernel kernel = load();
  cuda::DevicePointer x = upload<float>({1, 1, 1, 1});
  EXPECT_EQ(code(driver.streamSynchronize(stream)), 0);
  std::fill_n(static_cast<float *>(pinned), 4, 5.0f);
  EXPECT_EQ(code(driver.memcpyHtoDAsync(x, pinned, 16, copies)), 0);
  ASSERT_EQ(launch(kernel, x, to), 0);
  EXPECT_EQ(download<float>(to, 2), (std::vector<float>{1, 1}));
  EXPECT_EQ(code(driver.eventRecord(copied, copies)), 0);
  wait(stream, copied);
  ASSERT_EQ(launch(kernel, x, to), 0);
  EXPECT_EQ(download<float>(to, 2), (std::vector<float>{6, 6}));
}

TEST_F(Driver, CapturedWorkIsDoneByLaunches) {
  cuda::Kernel kernel = load();
  cuda::DevicePointer x = upload<float>({1, 1, 1, 1});
  cuda::DevicePointer y = upload<float>({0, 0, 0, 0});
  ASSERT_EQ(
      code(driver.streamBeginCapture(stream, cuda::CaptureMode::ThreadLocal)),
      0);
  ASSERT_EQ(launch(kernel, x, y), 0);
  cuda::Graph graph = nullptr;
  cuda::GraphExec executable = nullptr;
  ASSERT_EQ(code(driver.streamEndCapture(stream, &graph)), 0);
  ASSERT_EQ(code(driver.graphInstantiate(&executable, graph, 0)), 0);
  ASSERT_EQ(code(driver.graphDestroy(graph)), 0);
  EXPECT_EQ(download<float>(y, 2), (std::vector<float>{0, 0}));
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(code(driver.graphLaunch(executable, stream)), 0);
  EXPECT_EQ(download<float>(y, 2), (std::vector<float>{3, 3}));
  EXPECT_EQ(code(driver.graphExecDestroy(executable)), 0);
}

/// A graph whose second stream, `copies`, copies the elements of `from` to
/// those of `beside`. The first stream then copies them on.
class ForkedCapture : public TwoStreams {
protected:
  ForkedCapture() {
    from = upload<float>({1, 1, 1, 1});
    EXPECT_EQ(code(driver.streamSynchronize(stream)), 0);
    EXPECT_EQ(code(driver.eventCreate(&early, 0)), 0);
  }
  ~ForkedCapture() override { (void)driver.eventDestroy(early); }

  /// Captures `begin` before the fork, the copies, and `middle` between them.
  int capture(const std::function<void()> &begin,
              const std::function<void()> &middle, bool joins = true) {
    auto mode = cuda::CaptureMode::ThreadLocal;
    EXPECT_EQ(code(driver.streamBeginCapture(stream, mode)), 0);
    EXPECT_EQ(code(driver.eventRecord(early, stream)), 0);
    begin();
    EXPECT_EQ(code(driver.eventRecord(taken, stream)), 0);
    wait(copies, forks ? taken : early);
    EXPECT_EQ(code(driver.memcpyDtoDAsync(beside, from, 4, copies)), 0);
    EXPECT_EQ(code(driver.eventRecord(copied, copies)), 0);
    middle();
    if (joins)
      wait(stream, copied);
    return code(driver.streamEndCapture(stream, &graph));
  }

  /// The first element of `to` after two launches: the copies begin as early as
  /// they may in the first, and as late in the second.
  std::vector<float> launchTwice() {
    std::vector<float> found;
    cuda::GraphExec executable = nullptr;
    EXPECT_EQ(code(driver.graphInstantiate(&executable, graph, 0)), 0);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(code(driver.memcpyDtoDAsync(from, to + 12, 4, stream)), 0);
      EXPECT_EQ(code(driver.memcpyDtoDAsync(beside, to + 12, 4, stream)), 0);
      EXPECT_EQ(code(driver.graphLaunch(executable, stream)), 0);
      found.push_back(download<float>(to, 1).front());
    }
    EXPECT_EQ(code(driver.graphExecDestroy(executable)), 0);
    return found;
  }

  void write() {
    EXPECT_EQ(code(driver.memcpyDtoDAsync(from, from + 4, 4, stream)), 0);
  }
  void take() {
    EXPECT_EQ(code(driver.memcpyDtoDAsync(to, beside, 4, stream)), 0);
  }

  bool forks = true; ///< false: the copy does not wait for `begin`
  cuda::Graph graph = nullptr;
  cuda::DevicePointer from = 0;
  cuda::Event early = nullptr;
};

TEST_F(ForkedCapture, AStreamJoinsByAnEvent) {
  ASSERT_EQ(capture([&] { write(); },
                    [&] {
                      wait(stream, copied);
                      take();
                    }),
            0);
  EXPECT_EQ(launchTwice(), (std::vector<float>{1, 1}));
}

TEST_F(ForkedCapture, AReaderThatDoesNotWaitGetsOtherValues) {
  ASSERT_EQ(capture([&] { write(); }, [&] { take(); }), 0);
  EXPECT_EQ(launchTwice(), (std::vector<float>{1, 0}));
}

TEST_F(ForkedCapture, AWriterThatIsNotAwaitedGivesOtherValues) {
  forks = false;
  ASSERT_EQ(capture([&] { write(); },
                    [&] {
                      wait(stream, copied);
                      take();
                    }),
            0);
  EXPECT_EQ(launchTwice(), (std::vector<float>{0, 1}));
}

TEST_F(ForkedCapture, AStreamThatIsNotAwaitedIsAnError) {
  EXPECT_EQ(capture([] {}, [] {}, /*joins=*/false), 904);
  EXPECT_FALSE(graph);
  EXPECT_EQ(code(driver.streamSynchronize(copies)), 0);
}

TEST_F(Driver, WaitsAndAllocationsInvalidateACapture) {
  auto capture = [&](auto forbidden) {
    EXPECT_EQ(
        code(driver.streamBeginCapture(stream, cuda::CaptureMode::ThreadLocal)),
        0);
    EXPECT_EQ(forbidden(), 900);
    cuda::Graph graph = nullptr;
    EXPECT_EQ(code(driver.streamEndCapture(stream, &graph)), 901);
    EXPECT_FALSE(graph);
  };
  cuda::DevicePointer memory = 0;
  capture([&] { return code(driver.streamSynchronize(stream)); });
  capture([&] { return code(driver.memAlloc(&memory, 16)); });
  capture([&] { return loadText(kAccumulate); });
  // The stream works again.
  EXPECT_EQ(code(driver.streamSynchronize(stream)), 0);
}

TEST_F(Driver, AFaultEndsTheContext) {
  cuda::Kernel kernel = load();
  cuda::DevicePointer x = allocate(16), y = allocate(12); // one too few
  ASSERT_EQ(launch(kernel, x, y), 0);
  EXPECT_EQ(code(driver.streamSynchronize(stream)), 700);
  cuda::DevicePointer memory = 0;
  EXPECT_EQ(code(driver.memAlloc(&memory, 16)), 700);
}

TEST_F(Driver, FreedMemoryIsNotUsedAgain) {
  cuda::Kernel kernel = load();
  cuda::DevicePointer x = 0, y = allocate(16), other = 0;
  ASSERT_EQ(code(driver.memAlloc(&x, 16)), 0);
  ASSERT_EQ(code(driver.memFree(x)), 0);
  ASSERT_EQ(code(driver.memAlloc(&other, 16)), 0);
  EXPECT_NE(x, other);
  ASSERT_EQ(launch(kernel, x, y), 0);
  EXPECT_EQ(code(driver.streamSynchronize(stream)), 700);
}

TEST_F(Driver, NewMemoryHoldsNaNs) {
  float value = download<float>(allocate(4), 1).front();
  EXPECT_NE(value, value);
}

TEST_F(Driver, RefusesLaunchesThatADeviceRefuses) {
  cuda::Kernel kernel = load();
  cuda::DevicePointer x = allocate(4096), y = allocate(4096);
  EXPECT_EQ(launch(kernel, x, y, 65), 1); // .maxntid 64
  EXPECT_EQ(launch(kernel, x, y, 0), 1);
  EXPECT_EQ(launch(kernel, x, y, 64, 49 << 10), 1);
  auto attribute = cuda::FunctionAttribute::MaxDynamicSharedSizeBytes;
  EXPECT_EQ(code(driver.funcSetAttribute(kernel, attribute, 200 << 10)), 1);
  EXPECT_EQ(code(driver.funcSetAttribute(kernel, attribute, 100 << 10)), 0);
  EXPECT_EQ(launch(kernel, x, y, 64, 49 << 10), 0);
}

TEST_F(Driver, SaysWhatIsWrongWithAModule) {
  std::string log;
  EXPECT_EQ(loadText(accumulateWith("add.rn.f32", "add.xx.f32"), &log), 218);
  EXPECT_NE(log.find("line 18: 'add.xx.f32'"), std::string::npos) << log;
  EXPECT_EQ(loadText(accumulateWith("8.0", "9.9"), &log), 222);
  EXPECT_EQ(loadText(accumulateWith("sm_80", "sm_90"), &log), 218);
  EXPECT_NE(log.find("sm_90"), std::string::npos) << log;
  EXPECT_EQ(loadText("\x7f"
                     "ELF cubin"),
            209);
}

TEST_F(Driver, HasSoMuchMemory) {
  size_t free = 0, total = 0;
  ASSERT_EQ(code(driver.memGetInfo(&free, &total)), 0);
  cuda::DevicePointer memory = 0;
  EXPECT_EQ(code(driver.memAlloc(&memory, free + 1)), 2);
}

TEST(Environment, ReadsDevicesAndFaults) {
  setenv("MPC_EMULATOR_DEVICE", "sm_90,memory=80G,driver=12040", 1);
  setenv("MPC_EMULATOR_FAULT", "f:2=7,g=9,h:3+=1", 1);
  mpc::emulator::Environment environment;
  unsetenv("MPC_EMULATOR_DEVICE");
  unsetenv("MPC_EMULATOR_FAULT");
  EXPECT_EQ(environment.device.major, 9);
  EXPECT_EQ(environment.device.memory, 80ull << 30);
  EXPECT_EQ(environment.device.ptxVersion(), 84u);
  auto faults = [&](const char *function) {
    std::vector<int> codes;
    for (int i = 0; i < 4; ++i)
      codes.push_back(environment.fault(function).value_or(0));
    return codes;
  };
  EXPECT_EQ(faults("f"), (std::vector<int>{0, 7, 0, 0}));
  EXPECT_EQ(faults("g"), (std::vector<int>{9, 9, 9, 9}));
  EXPECT_EQ(faults("h"), (std::vector<int>{0, 0, 1, 1}));
}

TEST(EnvironmentDeathTest, RefusesWhatItCannotRead) {
  auto create = [](const char *variable, const char *text) {
    setenv(variable, text, 1);
    mpc::emulator::Environment environment;
  };
  EXPECT_EXIT(create("MPC_EMULATOR_FAULT", "cuInit:x=2"),
              testing::ExitedWithCode(70), "cannot understand 'cuInit:x=2'");
  EXPECT_EXIT(create("MPC_EMULATOR_DEVICE", "gfx90a"),
              testing::ExitedWithCode(70), "cannot understand 'gfx90a'");
}

} // namespace
