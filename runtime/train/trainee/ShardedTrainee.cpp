// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/trainee/ShardedTrainee.h"

#include <algorithm>
#include <cassert>

namespace mpc::runtime::train {

//===----------------------------------------------------------------------===//
// Owners
//===----------------------------------------------------------------------===//

std::optional<int> ShardedTrainee::ownerOf(std::string_view name) const {
  const StateVariable *variable = session.artifact().plan().findState(name);
  return variable ? session.shares().ownerOf(*variable) : std::nullopt;
}

bool ShardedTrainee::isSharded(std::string_view name) const {
  return ownerOf(name).has_value();
}

int64_t ShardedTrainee::indexOf(std::string_view name) const {
  const std::vector<Port> &ports = info().state;
  const auto found =
      std::find_if(ports.begin(), ports.end(),
                   [&](const Port &port) { return port.name == name; });
  assert(found != ports.end() && "a sharded variable is in the list");
  return found - ports.begin();
}

/// Ends the other ranks, which wait in the call that failed here.
Status ShardedTrainee::fail(const Status &status) {
  if (!status.ok() && status.getCode() != StatusCode::Rank)
    communicator.abort(
        Status(status.getCode(), "rank " + std::to_string(communicator.rank()) +
                                     ": " + status.message()));
  return status;
}

Status ShardedTrainee::refuse(std::string_view name) const {
  return Status(StatusCode::Usage,
                "'" + std::string(name) +
                    "' lies on several ranks, and the run that connected them "
                    "has ended; read it from a checkpoint");
}

//===----------------------------------------------------------------------===//
// Calls that all ranks make together
//===----------------------------------------------------------------------===//

/// Returns the variable, which its owner sends to all ranks.
StatusOr<Tensor> ShardedTrainee::read(int64_t variable) {
  const Port &port = info().state[size_t(variable)];
  const int owner = ownerOf(port.name).value_or(0);
  StatusOr<Tensor> value = owner == communicator.rank()
                               ? own->state(port.name)
                               : Tensor::zeros(port.type, port.shape);
  Status status = value.status();
  if (status.ok())
    status =
        communicator.broadcast(value->bytes.data(), value->bytes.size(), owner);
  return status.ok() ? std::move(value) : fail(status);
}

/// Sets the variable on its owner.
Status ShardedTrainee::write(int64_t variable, const Tensor &value) {
  const Port &port = info().state[size_t(variable)];
  return ownerOf(port.name) == communicator.rank()
             ? fail(own->setState(port.name, value))
             : Status();
}

//===----------------------------------------------------------------------===//
// Calls of the first rank alone
//===----------------------------------------------------------------------===//

/// Tells the waiting ranks to take part in a call, if this rank leads.
Status ShardedTrainee::give(Command command, int64_t variable) {
  if (mode != Mode::Leading)
    return Status();
  Order order{command, variable};
  return communicator.broadcast(&order, sizeof(order), /*root=*/0);
}

/// Takes part in the calls of the first rank until the first rank ends.
Status ShardedTrainee::serve() {
  for (;;) {
    Order order{Command::End, 0};
    Status status = communicator.broadcast(&order, sizeof(order), /*root=*/0);
    if (!status.ok() || order.command == Command::End)
      return status;
    if (status = follow(order); !status.ok())
      return status;
  }
}

Status ShardedTrainee::follow(const Order &order) {
  switch (order.command) {
  case Command::Read:
    return read(order.variable).status();
  case Command::Write: {
    const Port &port = info().state[size_t(order.variable)];
    Tensor value = Tensor::zeros(port.type, port.shape);
    Status status = communicator.broadcast(value.bytes.data(),
                                           value.bytes.size(), /*root=*/0);
    return status.ok() ? write(order.variable, value) : status;
  }
  case Command::Derive:
    return fail(own->derive());
  case Command::Reset:
    return fail(own->reset());
  case Command::End:
    break;
  }
  return Status();
}

Status ShardedTrainee::lead(const std::function<Status()> &body) {
  assert(mode != Mode::Leading && "lead does not nest");
  if (mode == Mode::Alone)
    return body();
  if (!communicator.isFirst()) {
    Status status = serve();
    return status.ok() ? body() : status;
  }
  mode = Mode::Leading;
  Status status = body();
  // A rank that has failed answers no more.
  Status ended =
      status.getCode() == StatusCode::Rank ? Status() : give(Command::End);
  mode = Mode::Together;
  return status.ok() ? ended : status;
}

//===----------------------------------------------------------------------===//
// The interface
//===----------------------------------------------------------------------===//

StatusOr<Tensor> ShardedTrainee::state(std::string_view name) {
  if (!isSharded(name))
    return own->state(name);
  if (mode == Mode::Alone) {
    const auto found = kept.find(name);
    return found == kept.end() ? refuse(name) : StatusOr<Tensor>(found->second);
  }
  const int64_t variable = indexOf(name);
  if (Status status = give(Command::Read, variable); !status.ok())
    return status;
  return read(variable);
}

StatusOr<const std::byte *>
ShardedTrainee::stateInPlace(std::string_view name) {
  // Also null on the owner: all ranks must take part in `state`.
  return isSharded(name) ? StatusOr<const std::byte *>(nullptr)
                         : own->stateInPlace(name);
}

Status ShardedTrainee::setState(std::string_view name, const Tensor &value) {
  if (!isSharded(name))
    return own->setState(name, value);
  if (mode == Mode::Alone)
    return refuse(name);
  const int64_t variable = indexOf(name);
  const Port &port = info().state[size_t(variable)];
  if (value.type != port.type || value.shape != port.shape)
    return Status(StatusCode::InvalidInput,
                  "state variable '" + port.name + "' is " +
                      std::string(runtime::nameOf(port.type)) + " " +
                      toString(port.shape) + ", got " +
                      std::string(runtime::nameOf(value.type)) + " " +
                      toString(value.shape));
  if (mode == Mode::Leading) {
    if (Status status = give(Command::Write, variable); !status.ok())
      return status;
    Tensor sent = value;
    if (Status status = communicator.broadcast(sent.bytes.data(),
                                               sent.bytes.size(), /*root=*/0);
        !status.ok())
      return status;
  }
  return write(variable, value);
}

Status ShardedTrainee::derive() {
  if (mode == Mode::Alone)
    return Status(StatusCode::Usage,
                  "the state lies on several ranks, and the run that connected "
                  "them has ended");
  Status status = give(Command::Derive);
  return status.ok() ? fail(own->derive()) : status;
}

Status ShardedTrainee::reset() {
  mode = mode == Mode::Leading ? mode : Mode::Together;
  kept.clear();
  if (Status status = give(Command::Reset); !status.ok())
    return status;
  if (Status status = own->reset(); !status.ok())
    return fail(status);
  return Status();
}

Status ShardedTrainee::keepWeights() {
  kept.clear();
  for (const Port &port : info().state) {
    if (!isSharded(port.name) ||
        !(isModelRole(port.role) || port.role == Role::Average))
      continue;
    StatusOr<Tensor> value = state(port.name);
    if (!value.ok())
      return value.status();
    if (communicator.isFirst())
      kept.emplace(port.name, std::move(*value));
  }
  mode = Mode::Alone;
  return Status();
}

} // namespace mpc::runtime::train
