// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/checkpoint/SharedState.h"

#include "runtime/BoundedJSON.h"
#include "runtime/train/checkpoint/CheckpointFiles.h"
#include "runtime/train/checkpoint/Weights.h"

#include <cstring>
#include <xxhash.h>

namespace mpc::runtime::train {

/// Describes how `value` differs from the first rank's. Names the first member
/// that differs if both are JSON objects.
static std::string describeDifference(const std::string &name,
                                      const std::string &value,
                                      const std::string &first) {
  const BoundedDocument own(value), other(first);
  if (own.json.is_object() && other.json.is_object())
    for (const nlohmann::json *document : {&own.json, &other.json})
      for (const auto &[key, ignored] : document->items()) {
        const auto textAt = [&key = key](const nlohmann::json &json) {
          return json.contains(key) ? textOf(json[key]) : "absent";
        };
        if (textAt(own.json) != textAt(other.json))
          return key + " of the " + name + " is " +
                 abbreviated(textAt(own.json)) + ", rank 0 has " +
                 abbreviated(textAt(other.json));
      }
  return name + " is " + abbreviated(value) + ", rank 0 has " +
         abbreviated(first);
}

Status checkSameFacts(const std::map<std::string, std::string> &facts,
                      Ranks &ranks) {
  if (ranks.isSingle())
    return Status();
  for (const auto &[name, value] : facts) {
    std::string first = value;
    Status status = ranks.share(first);
    if (status.ok())
      status = ranks.agree(
          first == value
              ? Status()
              : Status(StatusCode::Usage,
                       "trains another run than rank 0: " +
                           describeDifference(name, value, first) +
                           "; start all ranks with the same flags and files"));
    if (!status.ok())
      return status;
  }
  return Status();
}

Status beginStepAgain(Trainee &model, Progress &progress) {
  for (const Port &port : model.info().state) {
    if (port.role == Role::Accumulator)
      if (Status status =
              model.setState(port.name, Tensor::zeros(port.type, port.shape));
          !status.ok())
        return status;
    if (port.name != kMicroStepVariable || port.type != DType::I64)
      continue;
    StatusOr<Tensor> counted = model.state(port.name);
    if (!counted.ok())
      return counted.status();
    *counted->as<int64_t>() -= progress.batchInStep;
    if (Status status = model.setState(port.name, *counted); !status.ok())
      return status;
  }
  progress.batchInStep = 0;
  progress.lossInStep = 0;
  return Status();
}

Status shareState(Trainee &model, Ranks &ranks) {
  if (ranks.isSingle())
    return Status();
  for (const Port &port : model.info().state) {
    // A sharded variable has its value from its owner or the first rank.
    if (port.role == Role::Derived || model.isSharded(port.name))
      continue;
    StatusOr<Tensor> value = model.state(port.name);
    // A rank must take part in the exchange even if the read failed.
    if (Status status = ranks.agree(value.status()); !status.ok())
      return status;
    Status status = ranks.share(value->bytes.data(), value->bytes.size());
    if (status.ok() && !ranks.isFirst())
      status = model.setState(port.name, *value);
    if (!status.ok())
      return ranks.fail(status);
  }
  return ranks.agree(model.derive());
}

Status shareProgress(Progress &progress, Ranks &ranks) {
  if (ranks.isSingle())
    return Status();
  std::string text = printProgress(progress);
  if (Status status = ranks.share(text); !status.ok())
    return status;
  if (ranks.isFirst())
    return Status();
  StatusOr<Progress> read = parseProgress(text);
  if (!read.ok())
    return ranks.fail(read.status());
  progress = std::move(*read);
  return Status();
}

namespace {
/// A state variable with different bits on rank 0 and on `rank`, the first such
/// rank.
struct Difference {
  const Port *port;
  int64_t rank;
};
} // namespace

/// Returns the differences between variables for which `isWanted` is true.
static StatusOr<std::vector<Difference>>
findDifferences(Trainee &model, Ranks &ranks, bool (*isWanted)(const Port &)) {
  // A double holds half a digest exactly.
  std::vector<double> digests;
  std::vector<const Port *> ports;
  Status failed;
  for (const Port &port : model.info().state) {
    if (!isWanted(port) || model.isSharded(port.name))
      continue;
    StatusOr<Array> value = readState(model, port);
    if (!value.ok()) {
      failed = value.status();
      break;
    }
    const uint64_t digest =
        XXH3_64bits(value->data, static_cast<size_t>(value->bytes()));
    ports.push_back(&port);
    digests.push_back(double(uint32_t(digest)));
    digests.push_back(double(uint32_t(digest >> 32)));
  }
  if (Status status = ranks.agree(failed); !status.ok())
    return status;
  StatusOr<std::vector<double>> all = ranks.gather(digests);
  if (!all.ok())
    return all.status();
  std::vector<Difference> differences;
  for (size_t i = 0; i < ports.size(); ++i)
    for (int64_t rank = 1; rank < ranks.count(); ++rank) {
      const size_t other = size_t(rank) * digests.size() + 2 * i;
      if ((*all)[other] == (*all)[2 * i] &&
          (*all)[other + 1] == (*all)[2 * i + 1])
        continue;
      differences.push_back({ports[i], rank});
      break;
    }
  return differences;
}

static bool isAveraged(const Port &port) {
  return port.role == Role::Statistic && runtime::isFloat(port.type);
}

static bool isCheckpointed(const Port &port) {
  return port.role != Role::Derived;
}

Status averageStatistics(Trainee &model, Ranks &ranks) {
  if (ranks.isSingle())
    return Status();
  StatusOr<std::vector<Difference>> differences =
      findDifferences(model, ranks, isAveraged);
  if (!differences.ok() || differences->empty())
    return differences.status();
  for (const auto &[port, rank] : *differences) {
    StatusOr<Tensor> value = model.state(port->name);
    if (Status status = ranks.agree(value.status()); !status.ok())
      return status;
    Status status =
        ranks.average(value->bytes.data(), size_t(value->size()), port->type);
    if (status.ok())
      status = model.setState(port->name, *value);
    if (!status.ok())
      return ranks.fail(status);
  }
  return ranks.agree(model.derive());
}

Status checkSameState(Trainee &model, Ranks &ranks) {
  if (ranks.isSingle())
    return Status();
  if (Status status = averageStatistics(model, ranks); !status.ok())
    return status;
  StatusOr<std::vector<Difference>> differences =
      findDifferences(model, ranks, isCheckpointed);
  if (!differences.ok() || differences->empty())
    return differences.status();
  const auto &[port, rank] = differences->front();
  return Status(StatusCode::Rank,
                "the state of the ranks differs: '" + port->name +
                    "' is not the same on rank " + std::to_string(rank) +
                    " as on rank 0; run all ranks on the same type of machine, "
                    "with the same version of mpc");
}

} // namespace mpc::runtime::train
