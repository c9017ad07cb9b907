// Tests the C API as a C program uses it.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/capi/mpc.h"
#include "test/runtime/ArtifactBuilder.h"

#include <cstring>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

Bytes artifactBytes() {
  ArtifactBuilder builder;
  builder.state("w", floats({2}, {1, 2}));
  FunctionBuilder f = builder.function("eval");
  size_t x = f.input("x", DType::F32, {2});
  size_t sum = f.arena(DType::F32, {2});
  f.launch("add", {x, f.state("w"), sum}, 2, 1);
  f.output("sum", sum);
  return builder.build();
}

class CAPI : public ::testing::Test {
protected:
  void SetUp() override {
    Bytes bytes = artifactBytes();
    mpc_artifact *artifact = nullptr;
    ASSERT_EQ(mpc_artifact_open_bytes(bytes.data(), bytes.size(), &artifact),
              nullptr);
    mpc_session_options options = MPC_SESSION_OPTIONS_INIT;
    options.threads = 1;
    mpc_status *status = mpc_session_create(artifact, &options, &session);
    ASSERT_EQ(status, nullptr) << mpc_status_message(status);
    mpc_artifact_close(artifact); // the session keeps the artifact
  }
  void TearDown() override { mpc_session_free(session); }

  /// Returns the code of a status and frees the status.
  static mpc_status_code code(mpc_status *status) {
    mpc_status_code code = mpc_status_get_code(status);
    EXPECT_EQ(status == nullptr, *mpc_status_message(status) == '\0');
    mpc_status_free(status);
    return code;
  }

  mpc_session *session = nullptr;
};

TEST_F(CAPI, RunsAFunction) {
  float x[2] = {10, 20}, sum[2] = {};
  ASSERT_EQ(code(mpc_session_set_input(session, "eval", "x", x, sizeof(x))),
            MPC_OK);
  ASSERT_EQ(code(mpc_session_run(session, "eval")), MPC_OK);
  ASSERT_EQ(
      code(mpc_session_get_output(session, "eval", "sum", sum, sizeof(sum))),
      MPC_OK);
  EXPECT_EQ(sum[0], 11);
  EXPECT_EQ(sum[1], 22);
}

TEST_F(CAPI, MeasuresTheStepsOfARun) {
  float x[2] = {10, 20}, sum[2] = {};
  double seconds[1] = {-1};
  ASSERT_EQ(mpc_session_step_count(session, "eval"), 1u);
  EXPECT_EQ(mpc_session_step_count(session, "none"), 0u);
  EXPECT_EQ(code(mpc_session_run_timed(session, "eval", seconds, 1)),
            MPC_USAGE); // the input is not set yet
  EXPECT_EQ(seconds[0], -1);
  ASSERT_EQ(code(mpc_session_set_input(session, "eval", "x", x, sizeof(x))),
            MPC_OK);
  EXPECT_EQ(code(mpc_session_run_timed(session, "eval", seconds, 2)),
            MPC_USAGE);
  EXPECT_EQ(code(mpc_session_run_timed(session, "eval", nullptr, 1)),
            MPC_USAGE);
  ASSERT_EQ(code(mpc_session_run_timed(session, "eval", seconds, 1)), MPC_OK);
  EXPECT_GT(seconds[0], 0);
  EXPECT_LT(seconds[0], 10);
  ASSERT_EQ(
      code(mpc_session_get_output(session, "eval", "sum", sum, sizeof(sum))),
      MPC_OK);
  EXPECT_EQ(sum[1], 22);
}

TEST_F(CAPI, DescribesStateInputsAndOutputs) {
  ASSERT_EQ(mpc_session_state_count(session), 1u);
  mpc_tensor_info info = MPC_TENSOR_INFO_INIT;
  ASSERT_EQ(code(mpc_session_state_info(session, 0, &info)), MPC_OK);
  EXPECT_STREQ(info.name, "w");
  EXPECT_STREQ(info.role, "parameter");
  EXPECT_EQ(info.type, MPC_F32);
  ASSERT_EQ(info.rank, 1u);
  EXPECT_EQ(info.shape[0], 2);
  EXPECT_EQ(info.bytes, 8u);
  EXPECT_EQ(mpc_session_input_count(session, "eval"), 1u);
  EXPECT_EQ(mpc_session_output_count(session, "eval"), 1u);
  EXPECT_EQ(mpc_session_output_count(session, "none"), 0u);
  ASSERT_EQ(code(mpc_session_input_info(session, "eval", 0, &info)), MPC_OK);
  EXPECT_STREQ(info.name, "x");
  EXPECT_EQ(code(mpc_session_output_info(session, "eval", 1, &info)),
            MPC_USAGE);
}

TEST_F(CAPI, FillsOnlyTheFieldsAnOlderCallerKnows) {
  mpc_tensor_info info = MPC_TENSOR_INFO_INIT;
  info.struct_size = offsetof(mpc_tensor_info, role);
  ASSERT_EQ(code(mpc_session_state_info(session, 0, &info)), MPC_OK);
  EXPECT_STREQ(info.name, "w");
  EXPECT_EQ(info.role, nullptr);
  EXPECT_EQ(info.struct_size, offsetof(mpc_tensor_info, role));
}

TEST_F(CAPI, ReadsAndReplacesState) {
  float w[2] = {7, 8};
  ASSERT_EQ(code(mpc_session_set_state(session, "w", w, sizeof(w))), MPC_OK);
  ASSERT_EQ(code(mpc_session_derive(session)), MPC_OK);
  float read[2] = {};
  ASSERT_EQ(code(mpc_session_get_state(session, "w", read, sizeof(read))),
            MPC_OK);
  EXPECT_EQ(read[1], 8);
  EXPECT_GT(mpc_session_memory_bytes(session), 0u);
}

TEST_F(CAPI, ReportsErrorsWithTheirCodes) {
  float x[2] = {};
  EXPECT_EQ(code(mpc_session_run(session, "eval")), MPC_USAGE);
  EXPECT_EQ(code(mpc_session_set_input(session, "eval", "x", x, 4)),
            MPC_INVALID_INPUT);
  EXPECT_EQ(code(mpc_session_get_state(session, "w", x, 4)), MPC_INVALID_INPUT);
  EXPECT_EQ(code(mpc_session_set_state(session, "v", x, 8)), MPC_USAGE);
  EXPECT_EQ(code(mpc_session_run(nullptr, "eval")), MPC_USAGE);
  mpc_artifact *artifact = nullptr;
  EXPECT_EQ(code(mpc_artifact_open("/nonexistent.mpc", &artifact)), MPC_IO);
  EXPECT_EQ(code(mpc_artifact_open_bytes("text", 4, &artifact)),
            MPC_INVALID_INPUT);
  EXPECT_EQ(artifact, nullptr);
}

TEST_F(CAPI, RefusesOptionsThatAreAMistake) {
  Bytes bytes = artifactBytes();
  mpc_artifact *artifact = nullptr;
  ASSERT_EQ(mpc_artifact_open_bytes(bytes.data(), bytes.size(), &artifact),
            nullptr);
  mpc_session *none = nullptr;
  mpc_session_options options = {0, "cpu", 1, 0, nullptr}; // without the macro
  EXPECT_EQ(code(mpc_session_create(artifact, &options, &none)), MPC_USAGE);
  options = MPC_SESSION_OPTIONS_INIT;
  options.threads = 2000000000;
  EXPECT_EQ(code(mpc_session_create(artifact, &options, &none)), MPC_USAGE);
  options.threads = -1;
  EXPECT_EQ(code(mpc_session_create(artifact, &options, &none)), MPC_USAGE);
  EXPECT_EQ(none, nullptr);
  mpc_artifact_close(artifact);
}

TEST_F(CAPI, GuardsAgainstNullHandles) {
  size_t size = 1;
  EXPECT_EQ(mpc_artifact_plan(nullptr, &size), nullptr);
  EXPECT_EQ(size, 0u);
  EXPECT_EQ(mpc_artifact_plan(nullptr, nullptr), nullptr);
  EXPECT_EQ(mpc_session_state_count(nullptr), 0u);
  EXPECT_EQ(mpc_session_input_count(nullptr, "eval"), 0u);
  EXPECT_EQ(mpc_session_input_count(session, nullptr), 0u);
  EXPECT_EQ(mpc_session_memory_bytes(nullptr), 0u);
  mpc_tensor_info info = MPC_TENSOR_INFO_INIT;
  EXPECT_EQ(code(mpc_session_state_info(nullptr, 0, &info)), MPC_USAGE);
  EXPECT_EQ(code(mpc_session_state_info(session, 0, nullptr)), MPC_USAGE);
  EXPECT_EQ(code(mpc_session_output_info(session, "eval", 0, nullptr)),
            MPC_USAGE);
  EXPECT_EQ(code(mpc_session_create(nullptr, nullptr, &session)), MPC_USAGE);
  EXPECT_EQ(code(mpc_session_derive(nullptr)), MPC_USAGE);
  EXPECT_EQ(code(mpc_artifact_open(nullptr, nullptr)), MPC_USAGE);
  mpc_artifact_close(nullptr);
  mpc_session_free(nullptr);
  mpc_status_free(nullptr);
}

// Python's multiprocessing forks: the child then destroys the sessions.
TEST_F(CAPI, AForkedChildMayRunAndFreeItsSession) {
  mpc_artifact *artifact = nullptr;
  Bytes bytes = artifactBytes();
  ASSERT_EQ(mpc_artifact_open_bytes(bytes.data(), bytes.size(), &artifact),
            nullptr);
  mpc_session_options options = MPC_SESSION_OPTIONS_INIT;
  options.threads = 4;
  mpc_session *parallel = nullptr;
  ASSERT_EQ(mpc_session_create(artifact, &options, &parallel), nullptr);
  mpc_artifact_close(artifact);
  float x[2] = {10, 20}, sum[2] = {};
  ASSERT_EQ(mpc_session_set_input(parallel, "eval", "x", x, sizeof(x)),
            nullptr);
  ASSERT_EQ(mpc_session_run(parallel, "eval"), nullptr);
  // Workers spin for less time. They must sleep when the process is copied.
  usleep(20000);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20); // kills a child that hangs
    bool ran = mpc_session_run(parallel, "eval") == nullptr &&
               mpc_session_get_output(parallel, "eval", "sum", sum,
                                      sizeof(sum)) == nullptr;
    mpc_session_free(parallel);
    _exit(ran && sum[1] == 22 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "signal " << (WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  EXPECT_EQ(mpc_session_run(parallel, "eval"), nullptr);
  mpc_session_free(parallel);
}

TEST(CAPIVersion, IsThatOfTheProject) { EXPECT_STREQ(mpc_version(), "0.1.0"); }

} // namespace
