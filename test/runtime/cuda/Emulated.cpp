// Makes processes, logs and artifacts for tests over the emulated libraries.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/cuda/Emulated.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <sys/wait.h>
#include <unistd.h>

namespace mpc::runtime::test {

void emulated(const std::map<std::string, std::string> &environment,
              const std::function<void()> &body) {
  std::fflush(nullptr);
  pid_t child = fork();
  ASSERT_GE(child, 0) << "cannot start a process";
  if (child == 0) {
    setenv("MPC_CUDA_LIBRARY_PATH", MPC_TEST_EMULATOR_FOLDER, 1);
    for (const auto &[name, value] : environment)
      setenv(name.c_str(), value.c_str(), 1);
    body();
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "the process of the emulated GPU failed, see above; status " << status;
}

namespace {
/// Removes files when the test program ends. Forked processes do not run this.
struct Cleaner {
  std::vector<std::string> paths;
  ~Cleaner() {
    for (const std::string &path : paths)
      unlink(path.c_str());
  }
};
} // namespace

std::string newLogFile() {
  static Cleaner cleaner;
  std::string path = testing::TempDir() + "mpc-emulator-log-XXXXXX";
  int descriptor = mkstemp(path.data());
  EXPECT_GE(descriptor, 0);
  close(descriptor);
  cleaner.paths.push_back(path);
  return path;
}

std::string readText(const std::string &path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> readLog(const std::string &path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    lines.push_back(line.substr(0, line.find('(')));
  return lines;
}

size_t countCalls(const std::vector<std::string> &log,
                  const std::string &function) {
  return static_cast<size_t>(std::count(log.begin(), log.end(), function));
}

size_t countFaults(const std::vector<std::string> &log) {
  return static_cast<size_t>(
      std::count_if(log.begin(), log.end(), [](const std::string &line) {
        return line.rfind("  fault: ", 0) == 0;
      }));
}

static StatusOr<std::unique_ptr<Session>>
create(const ArtifactBuilder &builder) {
  SessionOptions options;
  options.device = "cuda";
  return Session::create(builder.open(), options);
}

std::unique_ptr<Session> openOnGPU(const ArtifactBuilder &builder) {
  auto session = create(builder);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? std::move(*session) : nullptr;
}

Status tryOpenOnGPU(const ArtifactBuilder &builder) {
  return create(builder).status();
}

/// c[i] = a[i] + b[i] for five elements: two per block, and one idle thread.
static const char *const kAdd = R"(
.version 8.0
.target sm_80
.address_size 64

.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c)
{
  .reg .pred %p<3>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<8>;
  .reg .f32 %f<4>;

  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  setp.ge.u32 %p1, %r2, 2;
  @%p1 bra $done;
  mad.lo.u32 %r3, %r1, 2, %r2;
  setp.ge.u32 %p2, %r3, 5;
  @%p2 bra $done;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [c];
  mul.wide.u32 %rd4, %r3, 4;
  add.s64 %rd5, %rd1, %rd4;
  add.s64 %rd6, %rd2, %rd4;
  add.s64 %rd7, %rd3, %rd4;
  ld.global.f32 %f1, [%rd5];
  ld.global.f32 %f2, [%rd6];
  add.rn.f32 %f3, %f1, %f2;
  st.global.f32 [%rd7], %f3;
$done:
  ret;
}
)";

ArtifactBuilder countingTrainee() {
  ArtifactBuilder builder;
  builder.forGPU("sm_80", kAdd);
  builder.state("w", floats({5}, {1, 2, 3, 4, 5}));
  builder.filledState("half", DType::F32, {5}, 0.5, "frozen");
  FunctionBuilder step = builder.function("step");
  size_t x = step.input("x", DType::F32, {5});
  size_t before = step.arena(DType::F32, {5});
  size_t w = step.state("w");
  step.step(
      {{"op", "copy"}, {"name", "remember"}, {"src", w}, {"dst", before}});
  step.step({{"op", "launch"},
             {"name", "update"},
             {"kernel", "add"},
             {"args", {w, x, w}},
             {"extent", 5},
             {"grain", 2},
             {"threads", 32}});
  step.output("before", before);
  step.output("w", w);
  return builder;
}

Floats values(const StatusOr<Tensor> &tensor) {
  EXPECT_TRUE(tensor.ok()) << tensor.status().message();
  if (!tensor.ok())
    return {};
  return {tensor->as<float>(), tensor->as<float>() + tensor->size()};
}

Status setX(Session &session, float value) {
  return session.setInput("step", "x", floats({5}, Floats(5, value)));
}

Status stageX(Session &session, float value) {
  StatusOr<std::byte *> memory = session.stagingMemory("step", "x");
  if (!memory.ok())
    return memory.status();
  const Floats elements(5, value);
  std::memcpy(*memory, elements.data(), elements.size() * sizeof(float));
  return session.stage("step", "x");
}

Status train(const ArtifactBuilder &builder) {
  SessionOptions options;
  options.device = "auto";
  auto session = Session::create(builder.open(), options);
  if (!session.ok())
    return session.status();
  // The first input is uploaded. The others are staged while a step runs.
  Status status = setX(**session, 1);
  for (int i = 0; i < 3 && status.ok(); ++i) {
    status = (*session)->run("step");
    if (status.ok())
      status = stageX(**session, 1);
  }
  if (!status.ok())
    return status;
  return (*session)->state("w").status();
}

void expectMessage(const Status &status, StatusCode code,
                   const std::vector<std::string> &parts) {
  EXPECT_EQ(status.getCode(), code) << status.message();
  for (const std::string &part : parts)
    EXPECT_NE(status.message().find(part), std::string::npos)
        << "'" << part << "' is not in: " << status.message();
}

} // namespace mpc::runtime::test
