// SPDX-License-Identifier: Apache-2.0
#include "runtime/capi/CAPIShares.h"

#include <string_view>
#include <vector>
#include <xxhash.h>

using namespace mpc::runtime;

namespace {

enum class Call : int32_t { Create, Read, Write, Derive };

/// A rank's call, as the other ranks see it.
struct Turn {
  Call call;
  int32_t code;     ///< StatusCode of the failure; 0 if there is none
  int64_t variable; ///< index in Plan::state, for Read and Write
  uint64_t digest;  ///< of the bytes, for Write
  char text[232];   ///< of the failure
};

} // namespace

static std::string describe(const Turn &turn, const Plan &plan) {
  constexpr const char *kNames[] = {
      "mpc_session_create", "mpc_session_get_state", "mpc_session_set_state",
      "mpc_session_derive"};
  std::string text = kNames[static_cast<size_t>(turn.call)];
  if (turn.call == Call::Read || turn.call == Call::Write)
    text += " of '" + plan.state[static_cast<size_t>(turn.variable)].name + "'";
  return text;
}

/// Exchanges the turns of all ranks. Returns the failure of this rank, if any.
/// Else the failure of another rank, and Usage if the calls differ.
static Status meet(Communicator &communicator, const Plan &plan, Turn own,
                   const Status &failure) {
  // The other ranks learn of a lost rank by themselves.
  if (failure.getCode() == StatusCode::Rank)
    return failure;
  own.code = static_cast<int32_t>(failure.getCode());
  failure.message().copy(own.text, sizeof(own.text) - 1);
  std::vector<Turn> turns(static_cast<size_t>(communicator.size()));
  turns[static_cast<size_t>(communicator.rank())] = own;
  Status status = communicator.allGather(turns.data(), sizeof(Turn));
  if (!failure.ok())
    return failure;
  if (!status.ok())
    return status;
  for (size_t rank = 0; rank < turns.size(); ++rank)
    if (turns[rank].code != 0)
      return Status(StatusCode::Rank,
                    "rank " + std::to_string(rank) + ": " + turns[rank].text);
  const Turn &first = turns.front();
  for (size_t rank = 1; rank < turns.size(); ++rank) {
    const Turn &turn = turns[rank];
    if (turn.call != first.call || turn.variable != first.variable)
      return Status(StatusCode::Usage,
                    "the optimizer is sharded, so all ranks must make equal "
                    "calls: rank 0 calls " +
                        describe(first, plan) + ", rank " +
                        std::to_string(rank) + " calls " +
                        describe(turn, plan));
    if (turn.digest != first.digest)
      return Status(StatusCode::Usage,
                    "expected equal values of '" +
                        plan.state[static_cast<size_t>(first.variable)].name +
                        "' on all ranks; rank " + std::to_string(rank) +
                        " sets another value than rank 0");
  }
  return Status();
}

/// Returns the variable that only one of several ranks holds; null for any
/// other name.
static const StateVariable *findSharded(const mpc_session &session,
                                        const char *name) {
  const StateVariable *variable = session.artifact->plan().findState(name);
  return variable && session.session->shares().ownerOf(*variable) ? variable
                                                                  : nullptr;
}

static Status meet(mpc_session &session, Call call,
                   const StateVariable &variable, uint64_t digest,
                   const Status &failure) {
  const Plan &plan = session.artifact->plan();
  return meet(*session.communicator, plan,
              {call, 0, &variable - plan.state.data(), digest, {}}, failure);
}

Status
mpc::capi::finishCreation(const Artifact &artifact, Communicator *communicator,
                          const StatusOr<std::unique_ptr<Session>> &created) {
  const Plan &plan = artifact.plan();
  if (!communicator ||
      !StateShares(plan, communicator->rank(), communicator->size())
           .isSharded())
    return created.status();
  if (Status status = meet(*communicator, plan, {Call::Create, 0, 0, 0, {}},
                           created.status());
      !status.ok())
    return status;
  return (*created)->derive();
}

StatusOr<Tensor> mpc::capi::readState(mpc_session &session, const char *name,
                                      const Status &failure) {
  const StateVariable *variable = findSharded(session, name);
  if (!variable)
    return failure.ok() ? session.session->state(name) : failure;
  const int owner = *session.session->shares().ownerOf(*variable);
  const bool isOwn = owner == session.communicator->rank();
  StatusOr<Tensor> value = isOwn && failure.ok()
                               ? session.session->state(name)
                               : Tensor::zeros(variable->type, variable->shape);
  if (Status status = meet(session, Call::Read, *variable, 0,
                           failure.ok() ? value.status() : failure);
      !status.ok())
    return status;
  Status status = session.communicator->broadcast(value->bytes.data(),
                                                  value->bytes.size(), owner);
  return status.ok() ? std::move(value) : status;
}

Status mpc::capi::writeState(mpc_session &session, const char *name,
                             const Tensor &value, const Status &failure) {
  const StateVariable *variable = findSharded(session, name);
  if (!variable)
    return failure.ok() ? session.session->setState(name, value) : failure;
  const uint64_t digest = XXH3_64bits(value.bytes.data(), value.bytes.size());
  if (Status status = meet(session, Call::Write, *variable, digest, failure);
      !status.ok())
    return status;
  return session.session->shares().holds(*variable)
             ? session.session->setState(name, value)
             : Status();
}

Status mpc::capi::derive(mpc_session &session) {
  if (session.session->shares().isSharded())
    if (Status status = meet(*session.communicator, session.artifact->plan(),
                             {Call::Derive, 0, 0, 0, {}}, Status());
        !status.ok())
      return status;
  return session.session->derive();
}
