// Implements the C API with Artifact and Session. Every entry point that can
// fail runs its body in `guarded`, which stops exceptions; the others allocate
// nothing.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/BoundedJSON.h"
#include "runtime/RecipeNames.h"
#include "runtime/capi/CAPIObjects.h"
#include "runtime/capi/CAPIShares.h"

#include <algorithm>
#include <cstring>

using namespace mpc::runtime;
using mpc::capi::fillResult;
using mpc::capi::guarded;
using mpc::capi::nullArgument;
using mpc::capi::outOfMemoryStatus;
using mpc::capi::readOptions;

static_assert(MPC_U64 == static_cast<int>(DType::U64) &&
                  MPC_U8 == static_cast<int>(DType::U8) &&
                  MPC_F32 == static_cast<int>(DType::F32),
              "mpc_type lists the types in DType's order");

static Status wrongSize(const char *name, size_t expected, size_t size) {
  return Status(StatusCode::InvalidInput,
                "'" + std::string(name) + "' has " + std::to_string(expected) +
                    " bytes, got " + std::to_string(size));
}

// mpc.h includes nothing of the runtime, so its enumeration repeats StatusCode.
static_assert(MPC_OK == int(StatusCode::Done) &&
              MPC_USAGE == int(StatusCode::Usage) &&
              MPC_INVALID_INPUT == int(StatusCode::InvalidInput) &&
              MPC_UNSUPPORTED == int(StatusCode::Unsupported) &&
              MPC_IO == int(StatusCode::IO) &&
              MPC_DEVICE == int(StatusCode::Device) &&
              MPC_NUMERIC == int(StatusCode::Numeric) &&
              MPC_CHECKPOINT == int(StatusCode::Checkpoint) &&
              MPC_INTERNAL == int(StatusCode::Internal));

static mpc_tensor_info describe(const std::string &name, Role role, DType type,
                                const Shape &shape, int64_t bytes) {
  return {sizeof(mpc_tensor_info),     name.c_str(), stringify(role).data(),
          static_cast<mpc_type>(type), shape.size(), shape.data(),
          static_cast<size_t>(bytes)};
}

static const Function *findFunction(const mpc_session *session,
                                    const char *function) noexcept {
  if (!session || !function)
    return nullptr;
  return session->artifact->plan().findFunction(function);
}

static mpc_status *valueInfo(const mpc_session *session, const char *function,
                             std::vector<FunctionValue> Function::*values,
                             size_t index, mpc_tensor_info *info) {
  return guarded([&] {
    const Function *found = findFunction(session, function);
    if (!found || !info)
      return Status(StatusCode::Usage, "no such function, or no info");
    if (index >= (found->*values).size())
      return Status(StatusCode::Usage, "index out of range");
    const FunctionValue &value = (found->*values)[index];
    const Buffer &buffer = found->buffers[value.buffer];
    return fillResult(describe(value.name, value.role, buffer.type,
                               buffer.shape, buffer.bytes),
                      "mpc_tensor_info", info);
  });
}

/// Returns Unsupported if the artifact trains, but does not reduce its
/// gradients over ranks.
static Status checkReduces(const Artifact &artifact, int ranks) {
  const Plan &plan = artifact.plan();
  if (!plan.findFunction("step") && !plan.findFunction("update"))
    return Status();
  const BoundedDocument document(plan.recipe);
  const auto found = document.json.is_object()
                         ? document.json.find(mpc::kDataParallel)
                         : document.json.end();
  if (found != document.json.end() && *found == true)
    return Status();
  return Status(StatusCode::Unsupported,
                "the artifact is for a single rank, and there are " +
                    std::to_string(ranks) +
                    "; compile the model with --data-parallel");
}

/// Copies `tensor` to `bytes`. An error unless `size` is the tensor's size.
static Status copyOut(const char *name, const StatusOr<Tensor> &tensor,
                      void *bytes, size_t size) {
  if (!tensor.ok())
    return tensor.status();
  if (size != tensor->bytes.size())
    return wrongSize(name, tensor->bytes.size(), size);
  if (size > 0)
    std::memcpy(bytes, tensor->bytes.data(), size);
  return Status();
}

extern "C" {

const char *mpc_version(void) noexcept { return MPC_VERSION; }

mpc_status_code mpc_status_get_code(const mpc_status *status) noexcept {
  return status ? static_cast<mpc_status_code>(status->status.getCode())
                : MPC_OK;
}

const char *mpc_status_message(const mpc_status *status) noexcept {
  return status ? status->status.message().c_str() : "";
}

void mpc_status_free(mpc_status *status) noexcept {
  if (status != outOfMemoryStatus())
    delete status;
}

mpc_status *mpc_artifact_open(const char *path,
                              mpc_artifact **artifact) noexcept {
  return guarded([&] {
    if (!path || !artifact)
      return nullArgument("path or artifact");
    auto opened = Artifact::open(path);
    if (!opened.ok())
      return opened.status();
    *artifact = new mpc_artifact{*opened};
    return Status();
  });
}

mpc_status *mpc_artifact_open_bytes(const void *bytes, size_t size,
                                    mpc_artifact **artifact) noexcept {
  return guarded([&] {
    if (!bytes || !artifact)
      return nullArgument("bytes or artifact");
    auto opened = Artifact::fromBytes(bytes, size);
    if (!opened.ok())
      return opened.status();
    *artifact = new mpc_artifact{*opened};
    return Status();
  });
}

const char *mpc_artifact_plan(const mpc_artifact *artifact,
                              size_t *size) noexcept {
  if (size)
    *size = 0;
  if (!artifact)
    return nullptr;
  std::string_view text = artifact->artifact->planText();
  if (size)
    *size = text.size();
  return text.data();
}

void mpc_artifact_close(mpc_artifact *artifact) noexcept { delete artifact; }

mpc_status *mpc_session_create(mpc_artifact *artifact,
                               const mpc_session_options *options,
                               mpc_session **session) noexcept {
  return guarded([&] {
    if (!artifact || !session)
      return nullArgument("artifact or session");
    mpc_session_options given = MPC_SESSION_OPTIONS_INIT;
    if (Status status = readOptions(options, "mpc_session_options", given);
        !status.ok())
      return status;
    SessionOptions converted;
    converted.device = given.device ? given.device : "cpu";
    converted.threads = given.threads;
    converted.seed = given.seed;
    std::shared_ptr<Communicator> ranks;
    if (given.communicator) {
      ranks = given.communicator->shared;
      mpc::runtime::divideMachine(given.communicator->localRank,
                                  given.communicator->localSize, converted);
      converted.rankTimeout = given.communicator->rankTimeout;
    }
    if (ranks)
      if (Status status = checkReduces(*artifact->artifact, ranks->size());
          !status.ok())
        return status;
    converted.communicator = ranks.get();
    // The session shares the artifact, so the caller may close its own handle
    // first.
    auto created = Session::create(artifact->artifact, converted);
    if (Status status = mpc::capi::finishCreation(*artifact->artifact,
                                                  ranks.get(), created);
        !status.ok())
      return status;
    // The communicator outlives the last user of the session.
    std::shared_ptr<Session> shared(created->release(),
                                    [ranks](Session *owned) { delete owned; });
    *session = new mpc_session{artifact->artifact, std::move(shared),
                               given.seed, ranks.get()};
    return Status();
  });
}

void mpc_session_free(mpc_session *session) noexcept { delete session; }

size_t mpc_session_state_count(const mpc_session *session) noexcept {
  return session ? session->artifact->plan().state.size() : 0;
}

mpc_status *mpc_session_state_info(const mpc_session *session, size_t index,
                                   mpc_tensor_info *info) noexcept {
  return guarded([&] {
    if (!session || !info)
      return nullArgument("session or info");
    if (index >= mpc_session_state_count(session))
      return Status(StatusCode::Usage, "index out of range");
    const StateVariable &variable = session->artifact->plan().state[index];
    return fillResult(describe(variable.name, variable.role, variable.type,
                               variable.shape, variable.bytes),
                      "mpc_tensor_info", info);
  });
}

mpc_status *mpc_session_get_state(mpc_session *session, const char *name,
                                  void *bytes, size_t size) noexcept {
  return guarded([&] {
    if (!session || !name || !bytes)
      return nullArgument("session, name or bytes");
    const StateVariable *variable = session->artifact->plan().findState(name);
    Status failure;
    if (variable && size != static_cast<size_t>(variable->bytes))
      failure = wrongSize(name, static_cast<size_t>(variable->bytes), size);
    return copyOut(name, mpc::capi::readState(*session, name, failure), bytes,
                   size);
  });
}

mpc_status *mpc_session_set_state(mpc_session *session, const char *name,
                                  const void *bytes, size_t size) noexcept {
  return guarded([&] {
    if (!session || !name || !bytes)
      return nullArgument("session, name or bytes");
    const StateVariable *variable = session->artifact->plan().findState(name);
    // setState reports an unknown name, so check the size only of a known
    // variable.
    Tensor value;
    Status failure;
    if (variable && size != static_cast<size_t>(variable->bytes)) {
      failure = wrongSize(name, static_cast<size_t>(variable->bytes), size);
    } else if (variable) {
      value = Tensor::zeros(variable->type, variable->shape);
      std::memcpy(value.bytes.data(), bytes, size);
    }
    return mpc::capi::writeState(*session, name, value, failure);
  });
}

mpc_status *mpc_session_derive(mpc_session *session) noexcept {
  return guarded([&] {
    return session ? mpc::capi::derive(*session) : nullArgument("session");
  });
}

mpc_status *mpc_session_input_info(const mpc_session *session,
                                   const char *function, size_t index,
                                   mpc_tensor_info *info) noexcept {
  return valueInfo(session, function, &Function::inputs, index, info);
}

mpc_status *mpc_session_output_info(const mpc_session *session,
                                    const char *function, size_t index,
                                    mpc_tensor_info *info) noexcept {
  return valueInfo(session, function, &Function::outputs, index, info);
}

size_t mpc_session_input_count(const mpc_session *session,
                               const char *function) noexcept {
  const Function *found = findFunction(session, function);
  return found ? found->inputs.size() : 0;
}

size_t mpc_session_output_count(const mpc_session *session,
                                const char *function) noexcept {
  const Function *found = findFunction(session, function);
  return found ? found->outputs.size() : 0;
}

mpc_status *mpc_session_set_input(mpc_session *session, const char *function,
                                  const char *name, const void *bytes,
                                  size_t size) noexcept {
  return guarded([&] {
    if (!session || !function || !name || !bytes)
      return nullArgument("session, function, name or bytes");
    Status status =
        mpc::capi::checkLabels(*session, function, name, bytes, size);
    return status.ok() ? session->session->setInput(function, name, bytes, size)
                       : status;
  });
}

mpc_status *mpc_session_run(mpc_session *session,
                            const char *function) noexcept {
  return guarded([&] {
    if (!session || !function)
      return nullArgument("session or function");
    return session->session->run(function);
  });
}

size_t mpc_session_step_count(const mpc_session *session,
                              const char *function) noexcept {
  const Function *found = findFunction(session, function);
  return found ? found->steps.size() : 0;
}

mpc_status *mpc_session_run_timed(mpc_session *session, const char *function,
                                  double *seconds, size_t count) noexcept {
  return guarded([&] {
    if (!session || !function || !seconds)
      return nullArgument("session, function or seconds");
    size_t steps = mpc_session_step_count(session, function);
    if (count != steps)
      return Status(StatusCode::Usage,
                    "there is room for the times of " + std::to_string(count) +
                        " steps, expected " + std::to_string(steps));
    std::vector<double> times;
    Status status = session->session->runTimed(function, times);
    if (status.ok())
      std::copy(times.begin(), times.end(), seconds);
    return status;
  });
}

mpc_status *mpc_session_get_output(mpc_session *session, const char *function,
                                   const char *name, void *bytes,
                                   size_t size) noexcept {
  return guarded([&] {
    if (!session || !function || !name || !bytes)
      return nullArgument("session, function, name or bytes");
    return copyOut(name, session->session->output(function, name), bytes, size);
  });
}

size_t mpc_session_memory_bytes(const mpc_session *session) noexcept {
  return session ? session->session->memoryBytes() : 0;
}

} // extern "C"
