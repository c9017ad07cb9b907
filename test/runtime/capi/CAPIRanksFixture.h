// Ranks of the C API for tests: threads with a back end of their own.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_CAPI_CAPIRANKSFIXTURE_H
#define MPC_TEST_RUNTIME_CAPI_CAPIRANKSFIXTURE_H

#include "test/runtime/capi/CAPITrainFixture.h"
#include "test/runtime/distributed/ThreadCommunicator.h"

namespace mpc::runtime::train::capi {

/// One thread's end of the back end.
struct End {
  std::shared_ptr<ThreadRanks> ranks;
  int rank;
  int failing = 0; ///< if not 0, the code of all further calls
  std::string reason = "";
};

/// Calls `copy(part, address)` with the address of each rank.
template <typename Copy>
inline int32_t share(void *context, const void *address, Copy copy) {
  End &end = *static_cast<End *>(context);
  if (end.failing)
    return end.failing;
  const auto *bytes = static_cast<const std::byte *>(address);
  if (!end.ranks->meet(end.rank, bytes).ok())
    return 1;
  for (size_t part = 0; part < end.ranks->size(); ++part)
    copy(part, end.ranks->addressOf(part));
  return end.ranks->meet(end.rank, bytes).ok() ? 0 : 1;
}

inline int32_t exchange(void *context, const void *from, void *to,
                        size_t bytes) {
  const auto own = size_t(static_cast<End *>(context)->rank);
  return share(context, from, [&](size_t part, const std::byte *theirs) {
    std::memcpy(static_cast<std::byte *>(to) + part * bytes,
                theirs + own * bytes, bytes);
  });
}

inline int32_t gather(void *context, void *data, size_t bytes) {
  auto *own = static_cast<std::byte *>(data);
  return share(context, data, [&](size_t part, const std::byte *theirs) {
    if (theirs != own)
      std::memcpy(own + part * bytes, theirs + part * bytes, bytes);
  });
}

inline int32_t broadcast(void *context, void *data, size_t bytes,
                         int32_t root) {
  return share(context, data, [&](size_t part, const std::byte *theirs) {
    if (part == size_t(root) && theirs != data)
      std::memcpy(data, theirs, bytes);
  });
}

inline int32_t barrier(void *context) {
  return share(context, nullptr, [](size_t, const std::byte *) {});
}

inline void stop(void *context, const char *why) {
  End &end = *static_cast<End *>(context);
  end.reason = why;
  end.ranks->abort(Status(StatusCode::Rank, why));
}

inline mpc_backend backendOf(End &end) {
  mpc_backend backend = MPC_BACKEND_INIT;
  backend.name = "threads";
  backend.context = &end;
  backend.exchange = exchange;
  backend.gather = gather;
  backend.broadcast = broadcast;
  backend.barrier = barrier;
  backend.abort = stop;
  return backend;
}

/// A rank of a program: a session, and a trainer once `create` was called.
class Rank {
public:
  Rank(int rank, std::shared_ptr<ThreadRanks> ranks, const test::Bytes &bytes)
      : end{std::move(ranks), rank} {
    const mpc_backend backend = backendOf(end);
    EXPECT_EQ(codeOf(mpc_communicator_create(rank, int32_t(end.ranks->size()),
                                             &backend, &communicator)),
              MPC_OK);
    opened = open(bytes);
    options.learning_rate = 1;
  }
  Rank(const Rank &) = delete;
  Rank &operator=(const Rank &) = delete;
  ~Rank() {
    // The session keeps the communicator.
    mpc_communicator_free(communicator);
    mpc_trainer_free(trainer);
    mpc_session_free(session);
  }

  mpc_status *open(const test::Bytes &bytes) {
    mpc_artifact *artifact = nullptr;
    EXPECT_EQ(
        codeOf(mpc_artifact_open_bytes(bytes.data(), bytes.size(), &artifact)),
        MPC_OK);
    mpc_session_options given = MPC_SESSION_OPTIONS_INIT;
    given.threads = 1;
    given.communicator = communicator;
    mpc_status *status = mpc_session_create(artifact, &given, &session);
    mpc_artifact_close(artifact);
    return status;
  }

  mpc_status *create() {
    mpc_trainer_free(trainer);
    trainer = nullptr;
    return mpc_trainer_create(session, &options, &trainer);
  }

  mpc_status *run(float value, mpc_batch_result *result = nullptr) {
    const float x[kBatch] = {value, value, value, value};
    const mpc_array array = {"x", x, sizeof(x)};
    return mpc_trainer_run_batch(trainer, &array, 1, result);
  }

  float state(const char *name) {
    float values[kBatch] = {};
    EXPECT_EQ(
        codeOf(mpc_session_get_state(session, name, values, sizeof(values))),
        MPC_OK);
    return values[0];
  }

  void setState(const char *name, float value) {
    const float values[kBatch] = {value, value, value, value};
    EXPECT_EQ(
        codeOf(mpc_session_set_state(session, name, values, sizeof(values))),
        MPC_OK);
  }

  int64_t number() {
    int64_t value = 0;
    EXPECT_EQ(codeOf(mpc_session_get_state(session, kMicroStepVariable, &value,
                                           sizeof(value))),
              MPC_OK);
    return value;
  }

  mpc_progress progress() {
    mpc_progress progress = MPC_PROGRESS_INIT;
    EXPECT_EQ(codeOf(mpc_trainer_get_progress(trainer, &progress)), MPC_OK);
    return progress;
  }

  bool isFirst() const { return end.rank == 0; }

  End end;
  mpc_communicator *communicator = nullptr;
  mpc_session *session = nullptr;
  mpc_trainer *trainer = nullptr;
  mpc_trainer_options options = MPC_TRAINER_OPTIONS_INIT;
  mpc_status *opened = nullptr; ///< the outcome of opening the session
};

class OnRanks : public testing::Test {
protected:
  /// Calls `body(rank)` on a thread for each of `count` ranks.
  template <typename Body>
  void onRanks(int count, const test::Bytes &bytes, Body body) {
    auto ranks = std::make_shared<ThreadRanks>(count);
    std::vector<std::thread> threads;
    for (int r = 0; r < count; ++r)
      threads.emplace_back([&, r] {
        Rank rank(r, ranks, bytes);
        ASSERT_EQ(codeOf(rank.opened), MPC_OK);
        body(rank);
      });
    for (std::thread &thread : threads)
      thread.join();
  }

  TemporaryDirectory directory;
};

} // namespace mpc::runtime::train::capi

#endif // MPC_TEST_RUNTIME_CAPI_CAPIRANKSFIXTURE_H
