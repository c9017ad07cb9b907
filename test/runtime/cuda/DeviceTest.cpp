// Tests the order of the CUDA device's work over an emulated driver.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/cuda/Emulated.h"

#include "runtime/cuda/DriverABI.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

TEST(CUDADevice, RunsStepsInOrder) {
  emulated({}, [] {
    auto session = openOnGPU(countingTrainee());
    ASSERT_TRUE(session);
    EXPECT_EQ(values(session->state("w")), (Floats{1, 2, 3, 4, 5}));
    EXPECT_EQ(values(session->state("half")), Floats(5, 0.5));
    for (int i = 1; i <= 4; ++i) {
      ASSERT_TRUE(setX(*session, 10).ok());
      ASSERT_TRUE(session->run("step").ok());
      float sum = static_cast<float>(10 * i);
      EXPECT_EQ(values(session->output("step", "w")),
                (Floats{1 + sum, 2 + sum, 3 + sum, 4 + sum, 5 + sum}));
      EXPECT_EQ(values(session->output("step", "before")),
                (Floats{sum - 9, sum - 8, sum - 7, sum - 6, sum - 5}));
    }
  });
}

TEST(CUDADevice, UnrollsLoops) {
  emulated({}, [] {
    ArtifactBuilder builder = countingTrainee();
    FunctionBuilder sums = builder.function("sums");
    size_t x = sums.input("x", DType::F32, {4, 5});
    size_t row = sums.part(x, {5}, 60), w = sums.state("w");
    size_t all = sums.arena(DType::F32, {4, 5});
    size_t to = sums.part(all, {5}, 0);
    sums.step(
        {{"op", "for"},
         {"count", 4},
         {"moving",
          {{{"buffer", row}, {"bytes", -20}}, {{"buffer", to}, {"bytes", 20}}}},
         {"steps",
          {{{"op", "launch"},
            {"name", "update"},
            {"kernel", "add"},
            {"args", {w, row, w}},
            {"extent", 5},
            {"grain", 2},
            {"threads", 32}},
           {{"op", "copy"}, {"name", "keep"}, {"src", w}, {"dst", to}}}}});
    sums.output("all", all);
    auto session = openOnGPU(builder);
    ASSERT_TRUE(session);
    Floats rows(20);
    for (int i = 0; i < 20; ++i)
      rows[static_cast<size_t>(i)] = static_cast<float>(i / 5);
    for (int run = 0; run < 3; ++run) { // later runs replay a graph
      ASSERT_TRUE(session->setState("w", floats({5}, Floats(5, 0))).ok());
      ASSERT_TRUE(session->setInput("sums", "x", floats({4, 5}, rows)).ok());
      ASSERT_TRUE(session->run("sums").ok());
      Floats expected;
      for (float sum : {3.0F, 5.0F, 6.0F, 6.0F})
        expected.insert(expected.end(), 5, sum);
      EXPECT_EQ(values(session->output("sums", "all")), expected);
    }
  });
}

TEST(CUDADevice, EndsARunWhereAnIndexNamesNoElement) {
  emulated({}, [] {
    ArtifactBuilder builder = countingTrainee();
    FunctionBuilder look = builder.function("look");
    size_t x = look.input("x", DType::I32, {3});
    size_t y = look.arena(DType::I32, {3});
    look.step({{"op", "copy"}, {"src", x}, {"dst", y}});
    Json box = {{"begin", {0}}, {"end", {3}}, {"size", 9}};
    look.step({{"op", "check_indices"},
               {"name", "ids"},
               {"buffer", y},
               {"indices", Json::array({box})}});
    auto session = openOnGPU(builder);
    ASSERT_TRUE(session);
    // A run step by step, a recorded and a replayed run.
    for (int32_t last : {8, 10, -9, -11}) {
      Tensor indices = Tensor::zeros(DType::I32, {3});
      indices.as<int32_t>()[2] = last;
      ASSERT_TRUE(session->setInput("look", "x", indices).ok());
      Status status = session->run("look");
      EXPECT_EQ(status.ok(), last == 8 || last == -9);
      if (!status.ok())
        expectMessage(status, StatusCode::InvalidInput,
                      {"'ids': element 2: index " + std::to_string(last) +
                       " is not in [-9, 9)"});
    }
  });
}

TEST(CUDADevice, IsFoundInAnyFolderOfTheList) {
  std::string folders = "/nonexistent::";
  emulated({{"MPC_CUDA_LIBRARY_PATH", folders + MPC_TEST_EMULATOR_FOLDER}},
           [] { EXPECT_TRUE(openOnGPU(countingTrainee())); });
}

TEST(CUDADevice, IsChosenByTheArtifact) {
  emulated({}, [] { EXPECT_TRUE(train(countingTrainee()).ok()); });
}

/// Inputs of later steps are uploaded while earlier steps may still run: each
/// step must see its own.
TEST(CUDADevice, OrdersUploadsAndStepsWithoutWaiting) {
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_LOG", log}}, [&] {
    auto session = openOnGPU(countingTrainee());
    ASSERT_TRUE(session);
    ASSERT_TRUE(session->state("w").ok());
    size_t before = readLog(log).size();
    float sum = 0;
    for (int i = 1; i <= 4; ++i) { // fewer than the pinned slots

      auto value = static_cast<float>(i * i);
      ASSERT_TRUE(setX(*session, value).ok());
      ASSERT_TRUE(session->run("step").ok());
      sum += value;
    }
    std::vector<std::string> calls = readLog(log);
    calls.erase(calls.begin(), calls.begin() + static_cast<long>(before));
    for (const char *waiting : {"cuStreamSynchronize", "cuEventSynchronize",
                                "cuMemcpyDtoHAsync_v2", "cuMemAlloc_v2"})
      EXPECT_EQ(countCalls(calls, waiting), 0u) << waiting;
    // One eager run, one capture, then only launches of the graph.
    EXPECT_EQ(countCalls(calls, "cuLaunchKernel"), 2u);
    EXPECT_EQ(countCalls(calls, "cuMemcpyDtoDAsync_v2"), 2u);
    EXPECT_EQ(countCalls(calls, "cuStreamBeginCapture_v2"), 1u);
    EXPECT_EQ(countCalls(calls, "cuGraphInstantiateWithFlags"), 1u);
    EXPECT_EQ(countCalls(calls, "cuGraphLaunch"), 3u);
    EXPECT_EQ(countCalls(calls, "cuMemcpyHtoDAsync_v2"), 4u);
    EXPECT_EQ(values(session->state("w")),
              (Floats{1 + sum, 2 + sum, 3 + sum, 4 + sum, 5 + sum}));
  });
}

/// Each step sees the value that was staged while the previous step ran. The
/// host waits only for memory that the GPU still reads.
TEST(CUDADevice, BringsInputsWhileStepsRun) {
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_LOG", log}}, [&] {
    auto session = openOnGPU(countingTrainee());
    ASSERT_TRUE(session);
    ASSERT_TRUE(setX(*session, 0).ok());
    ASSERT_TRUE(session->run("step").ok());
    ASSERT_TRUE(session->state("w").ok());
    size_t before = readLog(log).size();
    float sum = 0;
    for (int i = 1; i <= 5; ++i) {
      auto value = static_cast<float>(i * i);
      ASSERT_TRUE(stageX(*session, value).ok());
      ASSERT_TRUE(session->run("step").ok());
      sum += value;
    }
    std::vector<std::string> calls = readLog(log);
    calls.erase(calls.begin(), calls.begin() + static_cast<long>(before));
    EXPECT_EQ(countCalls(calls, "cuStreamSynchronize"), 0u);
    EXPECT_EQ(countCalls(calls, "cuEventSynchronize"), 3u); // two blocks
    EXPECT_EQ(countCalls(calls, "cuGraphLaunch"), 5u);
    EXPECT_EQ(values(session->state("w")),
              (Floats{1 + sum, 2 + sum, 3 + sum, 4 + sum, 5 + sum}));
  });
}

TEST(CUDADevice, TheValueThatWasSetLastCounts) {
  emulated({}, [] {
    auto session = openOnGPU(countingTrainee());
    ASSERT_TRUE(session);
    EXPECT_EQ(session->stage("step", "x").getCode(), StatusCode::Usage);
    EXPECT_EQ(session->stagingMemory("step", "z").status().getCode(),
              StatusCode::Usage);
    ASSERT_TRUE(stageX(*session, 10).ok());
    ASSERT_TRUE(setX(*session, 1).ok());
    ASSERT_TRUE(session->run("step").ok());
    EXPECT_EQ(values(session->state("w")), (Floats{2, 3, 4, 5, 6}));
    ASSERT_TRUE(setX(*session, 1).ok());
    ASSERT_TRUE(stageX(*session, 20).ok());
    ASSERT_TRUE(stageX(*session, 30).ok());
    ASSERT_TRUE(session->run("step").ok());
    EXPECT_EQ(values(session->state("w")), (Floats{32, 33, 34, 35, 36}));
    // The value stays until there is another.
    ASSERT_TRUE(session->run("step").ok());
    EXPECT_EQ(values(session->state("w")), (Floats{62, 63, 64, 65, 66}));
  });
}

TEST(CUDADevice, CountsTheMemoryOfStagedInputs) {
  emulated({}, [] {
    auto session = openOnGPU(countingTrainee());
    ASSERT_TRUE(session);
    const size_t before = session->memoryBytes();
    ASSERT_TRUE(stageX(*session, 1).ok());
    EXPECT_EQ(session->memoryBytes(), before + 5 * sizeof(float));
  });
}

/// An input's second value needs memory that kernels loaded later need too.
TEST(CUDADevice, StagesNothingWhereMemoryIsShort) {
  for (const char *memory : {"memory=200M", "memory=300M"})
    emulated({{"MPC_EMULATOR_DEVICE", memory}}, [&] {
      auto session = openOnGPU(countingTrainee());
      ASSERT_TRUE(session);
      const Status staged = stageX(*session, 1);
      EXPECT_EQ(staged.ok(), std::string(memory) == "memory=300M");
      EXPECT_TRUE(staged.ok() || staged.getCode() == StatusCode::Device);
      ASSERT_TRUE(setX(*session, 2).ok());
      ASSERT_TRUE(session->run("step").ok());
      EXPECT_EQ(values(session->state("w")), (Floats{3, 4, 5, 6, 7}));
    });
}

TEST(CUDADevice, GivesBackTheMemoryOfStagedInputs) {
  emulated({}, [] {
    auto session = openOnGPU(countingTrainee());
    ASSERT_TRUE(session);
    const size_t before = session->memoryBytes();
    for (int i = 1; i <= 3; ++i) {
      ASSERT_TRUE(stageX(*session, static_cast<float>(i)).ok());
      // The copy may not have begun.
      session->endStaging("step");
      EXPECT_EQ(session->memoryBytes(), before);
      EXPECT_EQ(session->stage("step", "x").getCode(), StatusCode::Usage);
      ASSERT_TRUE(session->run("step").ok());
    }
    EXPECT_EQ(values(session->state("w")), (Floats{7, 8, 9, 10, 11}));
    session->endStaging("no function");
  });
}

TEST(CUDADevice, ChecksTheIndicesOfStagedInputs) {
  emulated({}, [] {
    ArtifactBuilder builder = countingTrainee();
    FunctionBuilder look = builder.function("look");
    size_t x = look.input("x", DType::I32, {3});
    look.step(
        {{"op", "copy"}, {"src", x}, {"dst", look.arena(DType::I32, {3})}});
    Json box = {{"begin", {0}}, {"end", {3}}, {"size", 9}};
    builder.plan["functions"]["look"]["inputs"][0]["indices"] =
        Json::array({box});
    auto session = openOnGPU(builder);
    ASSERT_TRUE(session);
    auto memory = session->stagingMemory("look", "x");
    ASSERT_TRUE(memory.ok()) << memory.status().message();
    const int32_t indices[] = {0, 8, 9};
    std::memcpy(*memory, indices, sizeof(indices));
    expectMessage(session->stage("look", "x"), StatusCode::InvalidInput,
                  {"input 'x', element 2: index 9 is not in [-9, 9)"});
  });
}

/// A timed run has the results of other runs and a graph of its own. A loop's
/// iterations count as one step.
TEST(CUDADevice, MeasuresTheStepsOfARun) {
  for (const char *useGraph : {"1", "0"}) {
    std::string log = newLogFile();
    emulated({{"MPC_EMULATOR_LOG", log}, {"MPC_CUDA_GRAPH", useGraph}}, [&] {
      ArtifactBuilder builder = countingTrainee();
      FunctionBuilder twice = builder.function("twice");
      size_t x = twice.input("x", DType::F32, {5}), w = twice.state("w");
      Json add = {{"op", "launch"},    {"name", "update"}, {"kernel", "add"},
                  {"args", {w, x, w}}, {"extent", 5},      {"grain", 2},
                  {"threads", 32}};
      twice.step(add);
      twice.step({{"op", "for"},
                  {"count", 3},
                  {"moving", Json::array()},
                  {"steps", {add}}});
      auto session = openOnGPU(builder);
      ASSERT_TRUE(session);
      ASSERT_TRUE(
          session->setInput("twice", "x", floats({5}, Floats(5, 1))).ok());
      for (int run = 0; run < 3; ++run) {
        std::vector<double> seconds;
        Status status = session->runTimed("twice", seconds);
        ASSERT_TRUE(status.ok()) << status.message();
        ASSERT_EQ(seconds.size(), 2u);
        EXPECT_GT(seconds[0], 0);
        EXPECT_GT(seconds[1], 0);
        ASSERT_TRUE(session->run("twice").ok());
      }
      EXPECT_EQ(values(session->state("w")), (Floats{25, 26, 27, 28, 29}));
    });
    std::vector<std::string> calls = readLog(log);
    bool hasGraphs = *useGraph == '1';
    EXPECT_EQ(countCalls(calls, "cuStreamBeginCapture_v2"),
              hasGraphs ? 2u : 0u);
    EXPECT_EQ(countCalls(calls, "cuGraphLaunch"), hasGraphs ? 5u : 0u);
    EXPECT_EQ(countCalls(calls, "cuEventCreate"),
              countCalls(calls, "cuEventDestroy_v2"));
  }
}

TEST(CUDADevice, RunsWithoutGraphsWhereAsked) {
  for (const char *variable : {"MPC_CUDA_GRAPH=0", "MPC_CUDA_SYNCHRONIZE=1"}) {
    std::string log = newLogFile(), text = variable;
    size_t equals = text.find('=');
    emulated({{"MPC_EMULATOR_LOG", log},
              {text.substr(0, equals), text.substr(equals + 1)}},
             [&] { EXPECT_TRUE(train(countingTrainee()).ok()); });
    EXPECT_EQ(countCalls(readLog(log), "cuStreamBeginCapture_v2"), 0u);
    EXPECT_EQ(countCalls(readLog(log), "cuLaunchKernel"), 3u);
  }
}

/// More bytes than all pinned slots together, and not a multiple of a slot.
TEST(CUDADevice, CopiesLargeTensorsWhole) {
  emulated({}, [] {
    constexpr int64_t elements = (20 << 20) / 4 + 3;
    ArtifactBuilder builder = countingTrainee();
    builder.filledState("large", DType::F32, {elements}, 0);
    auto session = openOnGPU(builder);
    ASSERT_TRUE(session);
    Tensor value = Tensor::zeros(DType::F32, {elements});
    for (int64_t i = 0; i < elements; ++i)
      value.as<float>()[i] = static_cast<float>(i % 1000003);
    ASSERT_TRUE(session->setState("large", value).ok());
    auto back = session->state("large");
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_EQ(back->bytes, value.bytes);
  });
}

/// Large outputs fill slot after slot, and the others are between them.
TEST(CUDADevice, ReadsSeveralOutputsAtOnce) {
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_LOG", log}}, [&] {
    constexpr int64_t elements = 700001;
    ArtifactBuilder builder = countingTrainee();
    FunctionBuilder copy = builder.function("copy");
    size_t small = copy.input("small", DType::F32, {3});
    size_t large = copy.input("large", DType::F32, {elements});
    for (const char *name : {"a", "b", "c"}) {
      const size_t from = *name == 'b' ? large : small;
      const Shape shape{*name == 'b' ? elements : 3};
      const size_t to = copy.arena(DType::F32, shape);
      copy.step({{"op", "copy"}, {"src", from}, {"dst", to}});
      copy.output(name, to);
    }
    auto session = openOnGPU(builder);
    ASSERT_TRUE(session);
    Tensor value = Tensor::zeros(DType::F32, {elements});
    for (int64_t i = 0; i < elements; ++i)
      value.as<float>()[i] = static_cast<float>(i);
    ASSERT_TRUE(session->setInput("copy", "large", value).ok());
    ASSERT_TRUE(
        session->setInput("copy", "small", floats({3}, {7, 8, 9})).ok());
    ASSERT_TRUE(session->run("copy").ok());
    size_t before = readLog(log).size();
    auto read = session->outputs("copy", {"a", "c"});
    ASSERT_TRUE(read.ok()) << read.status().message();
    std::vector<std::string> calls = readLog(log);
    calls.erase(calls.begin(), calls.begin() + static_cast<long>(before));
    EXPECT_EQ(countCalls(calls, "cuStreamSynchronize"), 1u);
    EXPECT_EQ(countCalls(calls, "cuMemcpyDtoHAsync_v2"), 2u);
    read = session->outputs("copy", {"a", "b", "c", "b"});
    ASSERT_TRUE(read.ok()) << read.status().message();
    for (size_t i : {0, 2})
      EXPECT_EQ(values((*read)[i]), (Floats{7, 8, 9}));
    for (size_t i : {1, 3})
      EXPECT_EQ((*read)[i].bytes, value.bytes);
    EXPECT_EQ(session->outputs("copy", {"a", "d"}).status().getCode(),
              StatusCode::Usage);
  });
}

/// Initial values are in memory once, as state.
TEST(CUDADevice, KeepsNothingOfTheDataButConstants) {
  emulated({}, [] {
    constexpr int64_t elements = 1 << 20;
    constexpr size_t bytes = elements * sizeof(float);
    ArtifactBuilder builder = countingTrainee();
    builder.state("large", floats({elements}, Floats(elements, 2)));
    builder.plan["constant_bytes"] = 0;
    auto session = openOnGPU(builder);
    ASSERT_TRUE(session);
    EXPECT_EQ(values(session->state("large")), Floats(elements, 2));
    EXPECT_GE(session->memoryBytes(), bytes);
    EXPECT_LT(session->memoryBytes(), 2 * bytes);
  });
}

const std::pair<const char *, const char *> kTakesAndGives[] = {
    {"cuMemAlloc_v2", "cuMemFree_v2"},
    {"cuMemHostAlloc", "cuMemFreeHost"},
    {"cuStreamCreate", "cuStreamDestroy_v2"},
    {"cuEventCreate", "cuEventDestroy_v2"},
    {"cuModuleLoadDataEx", "cuModuleUnload"},
    {"cuStreamEndCapture", "cuGraphDestroy"},
    {"cuGraphInstantiateWithFlags", "cuGraphExecDestroy"}};

TEST(CUDADevice, ReleasesWhatItTook) {
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_LOG", log}},
           [] { EXPECT_TRUE(train(countingTrainee()).ok()); });
  std::vector<std::string> calls = readLog(log);
  for (const auto &[take, give] : kTakesAndGives) {
    EXPECT_GT(countCalls(calls, take), 0u) << take;
    EXPECT_EQ(countCalls(calls, take), countCalls(calls, give)) << give;
  }
}

/// NVIDIA's libraries keep state for the context that outlives their handles.
TEST(CUDADevice, KeepsTheContextFromOneSessionToTheNext) {
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_LOG", log}}, [] {
    EXPECT_TRUE(train(countingTrainee()).ok());
    EXPECT_TRUE(train(countingTrainee()).ok());
  });
  EXPECT_EQ(countCalls(readLog(log), "cuDevicePrimaryCtxRetain"), 2u);
  EXPECT_EQ(countCalls(readLog(log), "cuDevicePrimaryCtxRelease_v2"), 0u);
}

TEST(CUDADevice, ReleasesWhatItTookWhateverCallFails) {
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_LOG", log}},
           [] { EXPECT_TRUE(train(countingTrainee()).ok()); });
  std::map<std::string, int> counts;
  for (const std::string &call : readLog(log))
    // If this call fails, the context is gone, and its memory with it.
    if (call.rfind("cu", 0) == 0 && call != "cuCtxPushCurrent_v2")
      ++counts[call];
  for (const auto &[function, count] : counts)
    for (int i = 1; i <= count; ++i) {
      std::string fault = function + ":" + std::to_string(i) + "=2";
      log = newLogFile();
      // The session may fail in a middle step, a later step or never.
      emulated({{"MPC_EMULATOR_LOG", log}, {"MPC_EMULATOR_FAULT", fault}},
               [] { (void)train(countingTrainee()); });
      std::vector<std::string> calls = readLog(log);
      for (const auto &[take, give] : kTakesAndGives) {
        if (function == give)
          continue;
        EXPECT_EQ(countCalls(calls, take) - (function == take),
                  countCalls(calls, give))
            << fault << ", " << give;
      }
    }
}

/// Another user of CUDA in the process, such as PyTorch, has its own context.
TEST(CUDADevice, LeavesTheCallersContextCurrent) {
  emulated({{"MPC_EMULATOR_DEVICE", "count=2"}}, [] {
    void *library = dlopen(
        (std::string(MPC_TEST_EMULATOR_FOLDER) + "/libcuda.so.1").c_str(),
        RTLD_NOW);
    ASSERT_TRUE(library) << dlerror();
    using cuda::Context;
    auto find = [&](const char *name) { return dlsym(library, name); };
    auto init = reinterpret_cast<int (*)(unsigned)>(find("cuInit"));
    auto retain = reinterpret_cast<int (*)(Context *, int)>(
        find("cuDevicePrimaryCtxRetain"));
    auto set = reinterpret_cast<int (*)(Context)>(find("cuCtxSetCurrent"));
    auto get = reinterpret_cast<int (*)(Context *)>(find("cuCtxGetCurrent"));
    Context own = nullptr, found = nullptr;
    ASSERT_EQ(init(0) + retain(&own, 1) + set(own), 0);
    {
      auto session = openOnGPU(countingTrainee());
      ASSERT_TRUE(session && setX(*session, 1).ok());
      for (int i = 0; i < 3; ++i) { // eager, recorded, replayed
        ASSERT_TRUE(session->run("step").ok());
        EXPECT_EQ(get(&found), 0);
        EXPECT_EQ(found, own);
      }
      ASSERT_TRUE(session->state("w").ok());
    }
    EXPECT_EQ(get(&found), 0);
    EXPECT_EQ(found, own);
  });
}

TEST(CUDADevice, OpensTheGPUOfThatNumber) {
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_DEVICE", "count=2"}, {"MPC_EMULATOR_LOG", log}}, [] {
    SessionOptions options;
    options.device = "cuda:1";
    auto session = Session::create(countingTrainee().open(), options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_TRUE(setX(**session, 1).ok());
    ASSERT_TRUE((*session)->run("step").ok());
    EXPECT_EQ(values((*session)->state("w")), (Floats{2, 3, 4, 5, 6}));
    options.device = "cuda:2";
    expectMessage(Session::create(countingTrainee().open(), options).status(),
                  StatusCode::Device, {"no GPU 2", "the driver shows 2"});
  });
  std::ifstream file(log);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("cuDevicePrimaryCtxRetain(device=1)"), std::string::npos);
  EXPECT_EQ(text.find("cuDevicePrimaryCtxRetain(device=0)"), std::string::npos);
}

TEST(DeviceId, IsAWordAndANumber) {
  EXPECT_EQ(DeviceId::parse("cuda:3")->index, 3);
  EXPECT_EQ(DeviceId::parse("cuda")->kind, DeviceId::Kind::CUDA);
  EXPECT_EQ(DeviceId::parse("auto")->kind, DeviceId::Kind::Auto);
  for (const char *text : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda: 1",
                           "cuda:99999999999", "cpu:0"})
    expectMessage(DeviceId::parse(text).status(), StatusCode::Usage,
                  {"unknown device", "cuda:N"});
}

TEST(CUDADevice, SaysWhatToCompileFor) {
  emulated({{"MPC_EMULATOR_DEVICE", "sm_90"}}, [] {
    auto found = findArchitecture(*DeviceId::parse("cuda"));
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(*found, "sm_90");
  });
  emulated({{"MPC_EMULATOR_DEVICE", "none"}}, [] {
    expectMessage(findArchitecture(*DeviceId::parse("cuda")).status(),
                  StatusCode::Device, {"GPU"});
  });
}

/// The stream's memory is freed after its work is done.
TEST(CUDADevice, FreesMemoryAfterItsWorkIsDone) {
  std::string log = newLogFile();
  emulated({{"MPC_EMULATOR_LOG", log}}, [] {
    auto session = openOnGPU(countingTrainee());
    ASSERT_TRUE(session && setX(*session, 1).ok());
    ASSERT_TRUE(session->run("step").ok());
  });
  std::vector<std::string> calls = readLog(log);
  auto after = std::find(calls.rbegin(), calls.rend(), "cuLaunchKernel").base();
  EXPECT_LT(std::find(after, calls.end(), "cuStreamSynchronize"),
            std::find(after, calls.end(), "cuMemFree_v2"));
}

TEST(CUDADevice, RefusesKernelsWithTooMuchStaticSharedMemory) {
  emulated({}, [] {
    ArtifactBuilder builder = countingTrainee();
    size_t at = builder.ptx.find("  .reg .pred");
    builder.ptx.insert(at, "  .shared .align 4 .b8 tile[50000];\n");
    expectMessage(tryOpenOnGPU(builder), StatusCode::Device,
                  {"CUDA_ERROR_INVALID_PTX", "too much shared data"});
  });
}

} // namespace
