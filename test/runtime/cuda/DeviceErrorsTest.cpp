// Tests the CUDA device's messages over an emulated driver when something is
// missing or fails.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/cuda/Emulated.h"

#include "runtime/cuda/DriverABI.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

//===----------------------------------------------------------------------===//
// Missing parts
//===----------------------------------------------------------------------===//

TEST(CUDADevice, SaysWhereThereIsNoGPU) {
  emulated({{"MPC_EMULATOR_DEVICE", "none"}}, [] {
    expectMessage(tryOpenOnGPU(countingTrainee()), StatusCode::Device,
                  {"needs", "GPU", "--device cpu"});
  });
}

TEST(CUDADevice, SaysWhichDriverFunctionIsMissing) {
  emulated({{"MPC_CUDA_LIBRARY_PATH", MPC_TEST_EMPTY_DRIVER_FOLDER}}, [] {
    expectMessage(
        tryOpenOnGPU(countingTrainee()), StatusCode::Device,
        {"libcuda.so.1", "has no function 'cuInit'", "older", "--device cpu"});
  });
}

TEST(CUDADevice, SaysWhereThereIsNoDriver) {
  emulated({{"MPC_CUDA_LIBRARY_PATH", "/nonexistent"}}, [] {
    Status status = tryOpenOnGPU(countingTrainee());
    // A machine with a driver loads that driver, and may or may not work.
    if (status.message().find("cannot be loaded") == std::string::npos)
      return;
    expectMessage(status, StatusCode::Device,
                  {"needs an NVIDIA driver", "/nonexistent/libcuda.so.1",
                   "--device cpu"});
  });
}

TEST(CUDADevice, RefusesGPUsThatAreTooOld) {
  emulated({{"MPC_EMULATOR_DEVICE", "sm_75"}}, [] {
    expectMessage(tryOpenOnGPU(countingTrainee()), StatusCode::Device,
                  {"compiled for sm_80 or newer", "(sm_75)", "--target sm_75",
                   "--device cpu"});
  });
}

TEST(CUDADevice, RefusesOtherGPUsForCodeOfOneAlone) {
  emulated({{"MPC_EMULATOR_DEVICE", "sm_100"}}, [] {
    ArtifactBuilder builder = countingTrainee();
    builder.plan["target"]["cpu"] = "sm_90a";
    expectMessage(tryOpenOnGPU(builder), StatusCode::Device,
                  {"compiled for sm_90a and no other GPU", "(sm_100)"});
  });
}

TEST(CUDADevice, RefusesArchitecturesItDoesNotKnow) {
  emulated({}, [] {
    ArtifactBuilder builder = countingTrainee();
    for (const char *cpu : {"gfx90a", "sm_", "sm_8", "sm_90x", "sm_80 "}) {
      builder.plan["target"]["cpu"] = cpu;
      expectMessage(tryOpenOnGPU(builder), StatusCode::Device,
                    {cpu, "not a GPU this runtime knows"});
    }
  });
}

TEST(CUDADevice, RunsOnNewerGPUs) {
  emulated({{"MPC_EMULATOR_DEVICE", "sm_90"}},
           [] { EXPECT_TRUE(train(countingTrainee()).ok()); });
}

TEST(CUDADevice, RefusesDriversThatAreTooOld) {
  emulated({{"MPC_EMULATOR_DEVICE", "driver=11080"}}, [] {
    expectMessage(tryOpenOnGPU(countingTrainee()), StatusCode::Device,
                  {"CUDA 12.0 or newer", "CUDA 11.8", "update the NVIDIA"});
  });
}

TEST(CUDADevice, ShowsWhatTheDriversCompilerSays) {
  emulated({}, [] {
    ArtifactBuilder builder = countingTrainee();
    size_t at = builder.ptx.find("add.rn.f32");
    builder.ptx.replace(at, 10, "frobnicate");
    expectMessage(tryOpenOnGPU(builder), StatusCode::Device,
                  {"cannot load the artifact's kernels (sm_80)",
                   "CUDA_ERROR_INVALID_PTX", "its compiler says",
                   "frobnicate"});
  });
}

TEST(CUDADevice, FallsBackFromACubinToItsPTX) {
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_LOG", log}}, [] {
    ArtifactBuilder builder = countingTrainee();
    builder.cubin = "no cubin";
    EXPECT_TRUE(train(builder).ok());
  });
  EXPECT_EQ(countCalls(readLog(log), "cuModuleLoadDataEx"), 2u);
}

TEST(CUDADevice, PassesOverACubinForAnotherGPU) {
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_LOG", log}, {"MPC_EMULATOR_DEVICE", "sm_90"}}, [] {
    ArtifactBuilder builder = countingTrainee();
    builder.cubin = "no cubin";
    EXPECT_TRUE(train(builder).ok());
  });
  EXPECT_EQ(countCalls(readLog(log), "cuModuleLoadDataEx"), 1u);
}

TEST(CUDADevice, TriesACubinForAnEarlierMinorVersion) {
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_LOG", log}, {"MPC_EMULATOR_DEVICE", "sm_89"}}, [] {
    ArtifactBuilder builder = countingTrainee();
    builder.cubin = "no cubin";
    EXPECT_TRUE(train(builder).ok());
  });
  EXPECT_EQ(countCalls(readLog(log), "cuModuleLoadDataEx"), 2u);
}

TEST(CUDADevice, NamesTheStepWhoseKernelIsMissing) {
  emulated({}, [] {
    ArtifactBuilder builder = countingTrainee();
    builder.plan["functions"]["step"]["steps"][1]["kernel"] = "subtract";
    expectMessage(tryOpenOnGPU(builder), StatusCode::InvalidInput,
                  {"'update' in function 'step'", "no kernel 'subtract'"});
  });
}

TEST(CUDADevice, RefusesMoreSharedMemoryThanThereIs) {
  emulated({}, [] {
    ArtifactBuilder builder = countingTrainee();
    builder.plan["functions"]["step"]["steps"][1]["shared_bytes"] = 200 << 10;
    expectMessage(tryOpenOnGPU(builder), StatusCode::Device,
                  {"'update' in function 'step'", "204800 bytes", "166912"});
  });
}

TEST(CUDADevice, AsksForMoreSharedMemory) {
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_LOG", log}}, [] {
    ArtifactBuilder builder = countingTrainee();
    builder.plan["functions"]["step"]["steps"][1]["shared_bytes"] = 100 << 10;
    EXPECT_TRUE(train(builder).ok());
  });
  EXPECT_EQ(countCalls(readLog(log), "cuFuncSetAttribute"), 1u);
}

TEST(CUDADevice, RefusesArtifactsForCPUs) {
  emulated({}, [] {
    ArtifactBuilder builder;
    SessionOptions options;
    options.device = "cuda";
    expectMessage(Session::create(builder.open(), options).status(),
                  StatusCode::Device,
                  {"x86_64", "not for a GPU", "--device cuda"});
  });
}

TEST(CUDADevice, IsNotReplacedByTheCPU) {
  SessionOptions options;
  options.device = "cpu";
  expectMessage(Session::create(countingTrainee().open(), options).status(),
                StatusCode::Device, {"nvptx64", "x86_64"});
}

//===----------------------------------------------------------------------===//
// Failing calls
//===----------------------------------------------------------------------===//

TEST(CUDADevice, SaysWhoNeedsTheMemory) {
  emulated({{"MPC_EMULATOR_DEVICE", "memory=64M"}}, [] {
    ArtifactBuilder builder = countingTrainee();
    builder.filledState("huge.weight", DType::F32, {32 << 20}, 0);
    builder.filledState("small.weight", DType::F32, {1 << 20}, 0);
    FunctionBuilder eval = builder.function("eval");
    size_t large = eval.arena(DType::F16, {8, 3, 1 << 20});
    size_t copy = eval.arena(DType::F16, {8, 3, 1 << 20});
    eval.step(
        {{"op", "copy"}, {"name", "conv1"}, {"src", large}, {"dst", copy}});
    expectMessage(
        tryOpenOnGPU(builder), StatusCode::Device,
        {"no room for 134217728 more bytes (128 MiB)", "of 64 MiB are free",
         "133 MiB for its state", "'huge.weight' 128 MiB, 'small.weight' 4 MiB",
         "96 MiB for the values of 'eval'", "'conv1' (f16 8x3x1048576) 48 MiB",
         "smaller batch", "--device cpu"});
  });
}

TEST(CUDADevice, NamesTheStepThatFaults) {
  // Writes far outside every buffer.
  ArtifactBuilder builder = countingTrainee();
  size_t at = builder.ptx.find("st.global.f32 [%rd7]");
  builder.ptx.insert(at, "mov.u64 %rd7, 64;\n  ");
  emulated({{"MPC_CUDA_SYNCHRONIZE", "1"}}, [&] {
    auto session = openOnGPU(builder);
    ASSERT_TRUE(session && setX(*session, 1).ok());
    expectMessage(
        session->run("step"), StatusCode::Device,
        {"'update' in function 'step'", "CUDA_ERROR_ILLEGAL_ADDRESS"});
  });
  emulated({}, [&] {
    auto session = openOnGPU(builder);
    ASSERT_TRUE(session && setX(*session, 1).ok());
    // The driver chooses which call reports the error, the run or the download.
    Status status = session->run("step");
    if (status.ok())
      status = session->state("w").status();
    expectMessage(status, StatusCode::Device,
                  {"CUDA_ERROR_ILLEGAL_ADDRESS", "MPC_CUDA_SYNCHRONIZE=1"});
  });
}

TEST(CUDADevice, SaysHowToRunWhatCannotBeRecorded) {
  emulated({{"MPC_EMULATOR_FAULT", "cuStreamEndCapture=901"}}, [] {
    expectMessage(train(countingTrainee()), StatusCode::Device,
                  {"record the graph of 'step'", "MPC_CUDA_GRAPH=0"});
  });
}

/// If a step fails during recording, the stream stays usable.
TEST(CUDADevice, EndsARecordingThatFailed) {
  std::string log = newLogFile();
  emulated(
      {{"MPC_EMULATOR_LOG", log}, {"MPC_EMULATOR_FAULT", "cuLaunchKernel:2=1"}},
      [] {
        auto session = openOnGPU(countingTrainee());
        ASSERT_TRUE(session && setX(*session, 1).ok());
        ASSERT_TRUE(session->run("step").ok());
        expectMessage(
            session->run("step"), StatusCode::Device,
            {"'update' in function 'step'", "CUDA_ERROR_INVALID_VALUE"});
        EXPECT_EQ(values(session->state("w")), (Floats{2, 3, 4, 5, 6}));
        ASSERT_TRUE(session->run("step").ok());
        EXPECT_EQ(values(session->state("w")), (Floats{3, 4, 5, 6, 7}));
      });
  EXPECT_EQ(countCalls(readLog(log), "cuStreamEndCapture"), 2u);
}

/// The first and the third call of every driver function fail once. None ends
/// the process, and all are reported, except for calls that only clean up or
/// inform.
TEST(CUDADevice, ReportsTheFailureOfAnyCall) {
  const std::vector<std::string> unnoticed = {
      "cuGetErrorName",     "cuGetErrorString",   "cuMemFree_v2",
      "cuMemFreeHost",      "cuStreamDestroy_v2", "cuEventDestroy_v2",
      "cuModuleUnload",     "cuGraphExecDestroy", "cuGraphDestroy",
      "cuFuncSetAttribute", "cuMemGetInfo_v2",    "cuCtxPopCurrent_v2"};
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_LOG", log}},
           [] { EXPECT_TRUE(train(countingTrainee()).ok()); });
  std::vector<std::string> calls = readLog(log);
  // After the last result was read, the session waits before it frees memory,
  // and cannot report errors.
  const auto lastRead =
      std::find(calls.rbegin(), calls.rend(), "cuMemcpyDtoHAsync_v2").base();
  const auto waits =
      1 + std::count(calls.begin(), lastRead, "cuStreamSynchronize");
  const auto isLastWait = [&](const std::string &function, size_t which) {
    return function == "cuStreamSynchronize" && which > size_t(waits);
  };
#define MPC_FAULT(member, symbol, ...)                                         \
  for (size_t which : {size_t(1), size_t(3)}) {                                \
    std::string fault = std::string(#symbol ":") + std::to_string(which);      \
    bool reported = countCalls(calls, #symbol) >= which &&                     \
                    !isLastWait(#symbol, which) &&                             \
                    std::find(unnoticed.begin(), unnoticed.end(), #symbol) ==  \
                        unnoticed.end();                                       \
    emulated({{"MPC_EMULATOR_FAULT", fault + "=999"}}, [&] {                   \
      Status status = train(countingTrainee());                                \
      EXPECT_EQ(status.getCode(),                                              \
                reported ? StatusCode::Device : StatusCode::Done)              \
          << fault << ": " << status.message();                                \
    });                                                                        \
  }
  MPC_CUDA_DRIVER_FUNCTIONS(MPC_FAULT)
#undef MPC_FAULT
}

} // namespace
