// Tests the C API without memory: each allocation in turn fails, and every call
// reports that or succeeds. The entry points are noexcept, so an exception
// would end the process.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/capi/mpc.h"
#include "runtime/train/support/Threads.h"
#include "test/runtime/ArtifactBuilder.h"
#include "test/runtime/ConvCase.h"
#include "test/runtime/MatMulCase.h"

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <new>
#include <sys/resource.h>
#include <unistd.h>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

/// Number of allocations that still succeed; all if negative.
std::atomic<int64_t> left{-1};
std::atomic<int64_t> failures{0};

void *allocate(size_t size, size_t alignment) {
  if (left >= 0 && left.fetch_sub(1) <= 0) {
    left = 0;
    ++failures;
    return nullptr;
  }
  const size_t rounded = (size + alignment) / alignment * alignment;
  return alignment <= alignof(std::max_align_t)
             ? std::malloc(size ? size : 1)
             : std::aligned_alloc(alignment, rounded);
}

void *allocateOrThrow(size_t size, size_t alignment) {
  if (void *memory = allocate(size, alignment))
    return memory;
  throw std::bad_alloc();
}

} // namespace

void *operator new(size_t size) { return allocateOrThrow(size, 1); }
void *operator new[](size_t size) { return allocateOrThrow(size, 1); }
void *operator new(size_t size, std::align_val_t alignment) {
  return allocateOrThrow(size, size_t(alignment));
}
void *operator new(size_t size, const std::nothrow_t &) noexcept {
  return allocate(size, 1);
}
// Not inlined: the compiler would warn about the mismatched pair.
#define MPC_NOINLINE __attribute__((noinline))
MPC_NOINLINE void operator delete(void *memory) noexcept { std::free(memory); }
MPC_NOINLINE void operator delete[](void *memory) noexcept {
  std::free(memory);
}
MPC_NOINLINE void operator delete(void *memory, size_t) noexcept {
  std::free(memory);
}
MPC_NOINLINE void operator delete[](void *memory, size_t) noexcept {
  std::free(memory);
}
MPC_NOINLINE void operator delete(void *memory, std::align_val_t) noexcept {
  std::free(memory);
}
MPC_NOINLINE void operator delete(void *memory, size_t,
                                  std::align_val_t) noexcept {
  std::free(memory);
}

namespace {

/// Repeats `call` with its first, second, ... allocation failing until one call
/// succeeds, then calls `succeeded`. Returns the number of reported failures.
int64_t failEachAllocation(const std::function<mpc_status *()> &call,
                           const std::function<void()> &succeeded) {
  for (int64_t allowed = 0; allowed < 10000; ++allowed) {
    failures = 0;
    left = allowed;
    mpc_status *status = call();
    left = -1;
    const bool failed = failures > 0;
    EXPECT_EQ(status != nullptr, failed) << "allocation " << allowed;
    if (status) {
      EXPECT_EQ(mpc_status_get_code(status), MPC_IO)
          << mpc_status_message(status);
      EXPECT_STREQ(mpc_status_message(status), "out of memory");
    }
    mpc_status_free(status);
    if (!failed) {
      succeeded();
      return allowed;
    }
  }
  ADD_FAILURE() << "the call never succeeds";
  return 0;
}

/// The process survives a thread that cannot start, and a thread that cannot
/// allocate its error message.
TEST(OutOfMemory, ThreadsThatShareWorkReportIt) {
  for (int64_t allowed = 0;; ++allowed) {
    failures = 0;
    left = allowed;
    Status status;
    try {
      status = train::onThreads(12, 4, [](int64_t i) {
        const std::string name(size_t(100 + i), 'x');
        return name.empty() ? Status(StatusCode::Internal, name) : Status();
      });
    } catch (const std::bad_alloc &) {
      status = Status(StatusCode::IO, "");
    }
    left = -1;
    ASSERT_LT(allowed, 1000);
    if (failures == 0) {
      EXPECT_TRUE(status.ok());
      return;
    }
    EXPECT_TRUE(status.ok() || status.getCode() == StatusCode::IO)
        << status.message();
  }
}

Bytes artifactBytes() {
  ArtifactBuilder builder;
  builder.state("a state variable of a long name", floats({2}, {1, 2}));
  FunctionBuilder f = builder.function("eval");
  size_t x = f.input("x", DType::F32, {2});
  size_t sum = f.arena(DType::F32, {2});
  f.launch("add", {x, f.state("a state variable of a long name"), sum}, 2, 1);
  f.output("sum", sum);
  return builder.build();
}

TEST(OutOfMemory, OpeningAnArtifactReportsIt) {
  const Bytes bytes = artifactBytes();
  mpc_artifact *artifact = nullptr;
  EXPECT_GT(failEachAllocation(
                [&] {
                  EXPECT_EQ(artifact, nullptr);
                  return mpc_artifact_open_bytes(bytes.data(), bytes.size(),
                                                 &artifact);
                },
                [&] { EXPECT_NE(artifact, nullptr); }),
            100);
  mpc_artifact_close(artifact);
}

TEST(OutOfMemory, CreatingAndRunningASessionReportsIt) {
  const Bytes bytes = artifactBytes();
  mpc_artifact *artifact = nullptr;
  ASSERT_EQ(mpc_artifact_open_bytes(bytes.data(), bytes.size(), &artifact),
            nullptr);
  mpc_session_options options = MPC_SESSION_OPTIONS_INIT;
  options.threads = 1;
  mpc_session *session = nullptr;
  failEachAllocation(
      [&] { return mpc_session_create(artifact, &options, &session); },
      [&] { ASSERT_NE(session, nullptr); });
  mpc_artifact_close(artifact);

  const float x[2] = {10, 20};
  float sum[2] = {};
  const auto done = [] {};
  failEachAllocation(
      [&] { return mpc_session_set_input(session, "eval", "x", x, 8); }, done);
  failEachAllocation([&] { return mpc_session_run(session, "eval"); }, done);
  failEachAllocation(
      [&] { return mpc_session_get_output(session, "eval", "sum", sum, 8); },
      done);
  EXPECT_EQ(sum[1], 22);
  failEachAllocation(
      [&] {
        return mpc_session_set_state(session, "a state variable of a long name",
                                     x, 8);
      },
      done);
  mpc_session_free(session);
}

/// step: w -= learning_rate * x. eval: the losses x + w.
Bytes trainingBytes() {
  ArtifactBuilder builder;
  builder.filledState("w", DType::F32, {2}, 0);
  FunctionBuilder step = builder.function("step");
  const size_t x = step.input("x", DType::F32, {2});
  const size_t rate = step.input("learning_rate", DType::F32, {});
  const size_t loss = step.arena(DType::F32, {});
  step.launch("sgd", {step.state("w"), x, rate}, 2, 2);
  step.step({{"op", "copy"}, {"src", rate}, {"dst", loss}});
  step.output("loss", loss);
  FunctionBuilder eval = builder.function("eval");
  const size_t sample = eval.input("x", DType::F32, {2});
  const size_t losses = eval.arena(DType::F32, {2});
  eval.launch("add", {sample, eval.state("w"), losses}, 2, 2);
  eval.output("sample_loss", losses);
  Json &functions = builder.plan["functions"];
  functions["step"]["inputs"][1]["role"] = "scalar";
  functions["step"]["outputs"][0]["role"] = "loss";
  functions["eval"]["outputs"][0]["role"] = "sample_loss";
  builder.plan["recipe"] = {{"loss", "mse@y"}, {"accumulate", 1}};
  return builder.build();
}

TEST(OutOfMemory, TrainingAndEvaluatingReportIt) {
  const Bytes bytes = trainingBytes();
  mpc_artifact *artifact = nullptr;
  mpc_session_options options = MPC_SESSION_OPTIONS_INIT;
  options.threads = 1;
  mpc_session *session = nullptr;
  ASSERT_EQ(mpc_artifact_open_bytes(bytes.data(), bytes.size(), &artifact),
            nullptr);
  ASSERT_EQ(mpc_session_create(artifact, &options, &session), nullptr);
  mpc_artifact_close(artifact);
  const float x[2] = {1, 2};
  const mpc_array array = {"x", x, sizeof(x)};
  const auto done = [] {};
  EXPECT_GT(failEachAllocation(
                [&] {
                  mpc_trainer *trainer = nullptr;
                  mpc_status *status =
                      mpc_trainer_create(session, nullptr, &trainer);
                  if (!status)
                    status = mpc_trainer_run_batch(trainer, &array, 1, nullptr);
                  mpc_trainer_free(trainer);
                  return status;
                },
                done),
            50);
  EXPECT_GT(failEachAllocation(
                [&] {
                  mpc_evaluation *evaluation = nullptr;
                  mpc_evaluation_result result = MPC_EVALUATION_RESULT_INIT;
                  mpc_status *status =
                      mpc_evaluation_create(session, nullptr, &evaluation);
                  if (!status)
                    status = mpc_evaluation_add(evaluation, &array, 1);
                  if (!status)
                    status = mpc_evaluation_finish(evaluation, &result);
                  mpc_evaluation_free(evaluation);
                  return status;
                },
                done),
            50);
  mpc_session_free(session);
}

#ifndef __SANITIZE_ADDRESS__ // which takes all addresses

/// Limits the address space to `bytes` more than now while the object lives.
class AddressLimit {
public:
  explicit AddressLimit(rlim_t bytes) {
    getrlimit(RLIMIT_AS, &before);
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit limit{pages * static_cast<rlim_t>(getpagesize()) + bytes,
                       before.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  }
  ~AddressLimit() { setrlimit(RLIMIT_AS, &before); }

private:
  rlimit before;
};

/// "step": a product, a convolution and the convolution's gradients.
Bytes contractionsBytes() {
  ArtifactBuilder builder;
  MatMulCase product{96, 80, 112};
  product.tileM = 48;
  product.tileN = 80;
  MatMul(product).addTo(builder);
  ConvCase c;
  c.batch = 3;
  c.groups = 1;
  c.inChannels = c.outChannels = 16;
  c.inSpatial = {9, 9};
  c.kernel = {3, 3};
  c.strides = c.dilations = c.padsBegin = c.padsEnd = {1, 1};
  const Conv conv(c);
  for (const char *kind : {"forward", "input_grad", "weight_grad"}) {
    FunctionBuilder f = builder.function(kind);
    conv.addTo(f, kind);
  }
  return builder.build();
}

/// oneDNN allocates by its own functions and does not check the results.
TEST(OutOfMemory, ContractionsReportIt) {
  const Bytes bytes = contractionsBytes();
  mpc_artifact *artifact = nullptr;
  mpc_status *opened =
      mpc_artifact_open_bytes(bytes.data(), bytes.size(), &artifact);
  ASSERT_EQ(opened, nullptr) << mpc_status_message(opened);
  mpc_session_options options = MPC_SESSION_OPTIONS_INIT;
  options.threads = 1;

  int refusals = 0;
  bool isDone = false;
  for (rlim_t spare = 0; !isDone && spare < rlim_t(128) << 20;
       spare += rlim_t(1) << 17) {
    mpc_session *session = nullptr;
    AddressLimit limit(spare);
    mpc_status *status = mpc_session_create(artifact, &options, &session);
    for (const char *function :
         {"step", "forward", "input_grad", "weight_grad"})
      if (!status)
        status = mpc_session_run(session, function);
    isDone = !status;
    if (status) {
      ++refusals;
      EXPECT_EQ(mpc_status_get_code(status), MPC_IO)
          << mpc_status_message(status);
    }
    mpc_status_free(status);
    mpc_session_free(session);
  }
  EXPECT_TRUE(isDone);
  EXPECT_GT(refusals, 0);
  mpc_artifact_close(artifact);
}

#endif // __SANITIZE_ADDRESS__

/// A message too long for a string's inline buffer needs an allocation.
TEST(OutOfMemory, AnErrorWhoseMessageDoesNotFitIsStillAnError) {
  for (int64_t allowed : {0, 1, 2, 3}) {
    left = allowed;
    mpc_status *status = mpc_session_run(nullptr, "eval");
    left = -1;
    EXPECT_NE(status, nullptr);
    mpc_status_free(status);
  }
}

} // namespace
