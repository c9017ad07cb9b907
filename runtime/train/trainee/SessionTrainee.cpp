// Makes a session a Trainee: names, roles and types in the plan become ports.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/trainee/ShardedTrainee.h"

#include "runtime/BoundedJSON.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <xxhash.h>

namespace mpc::runtime::train {

namespace {

class SessionTrainee : public Trainee {
public:
  SessionTrainee(Session &session, TraineeInfo info)
      : session(session), description(std::move(info)) {}

  const TraineeInfo &info() const override { return description; }
  Status setInput(std::string_view function, std::string_view name,
                  const void *bytes, size_t size) override {
    return session.setInput(function, name, bytes, size);
  }
  StatusOr<std::byte *> stagingMemory(std::string_view function,
                                      std::string_view name) override {
    return session.stagingMemory(function, name);
  }
  Status stage(std::string_view function, std::string_view name) override {
    return session.stage(function, name);
  }
  void endStaging(std::string_view function) override {
    session.endStaging(function);
  }
  Status run(std::string_view function) override {
    return session.run(function);
  }
  Status runTimed(std::string_view function,
                  std::vector<double> &seconds) override {
    return session.runTimed(function, seconds);
  }
  StatusOr<Tensor> output(std::string_view function,
                          std::string_view name) override {
    return session.output(function, name);
  }
  StatusOr<std::vector<Tensor>>
  outputs(std::string_view function,
          const std::vector<std::string_view> &names) override {
    return session.outputs(function, names);
  }
  StatusOr<Tensor> state(std::string_view name) override {
    return session.state(name);
  }
  StatusOr<const std::byte *> stateInPlace(std::string_view name) override {
    return session.stateInPlace(name);
  }
  Status setState(std::string_view name, const Tensor &value) override {
    return session.setState(name, value);
  }
  Status derive() override { return session.derive(); }
  StatusOr<std::optional<NonFiniteOrigin>>
  trace(std::string_view function) override {
    return session.trace(function);
  }
  Status reset() override { return session.reset(); }
  size_t memoryBytes() const override { return session.memoryBytes(); }

private:
  Session &session;
  TraineeInfo description;
};

} // namespace

static std::vector<Port> portsOf(const Function &function,
                                 const std::vector<FunctionValue> &values) {
  std::vector<Port> ports;
  for (const FunctionValue &value : values) {
    const Buffer &buffer = function.buffers[value.buffer];
    ports.push_back({value.name, value.role, buffer.type, buffer.shape,
                     value.indices, value.batchAxis});
  }
  return ports;
}

// Reads the recipe's "loss": "output:NAME" for an output that is the loss, or a
// kind of loss, which '@' and an output may follow, such as "mse@y".
static Status readLoss(std::string_view text, TraineeInfo &info) {
  const std::string_view prefix = "output:";
  info.loss = LossKind::Output;
  info.lossOutput.clear();
  const std::string_view name = text.substr(0, text.find('@'));
  if (name.empty())
    return Status();
  if (name.substr(0, prefix.size()) == prefix) {
    info.lossOutput = text.substr(prefix.size());
    return Status();
  }
  const std::optional<LossKind> kind = symbolize<LossKind>(name);
  if (!kind)
    return Status(StatusCode::InvalidInput,
                  "the artifact's recipe has an unknown loss '" +
                      std::string(name) + "'");
  info.loss = *kind;
  return Status();
}

/// True if the member `key` is the text `word`. nlohmann's comparison with a
/// text would allocate memory, and end the process if memory is short.
static bool says(const nlohmann::json &recipe, const char *key,
                 std::string_view word) {
  const auto found = recipe.find(key);
  const auto *text =
      found == recipe.end() ? nullptr : found->get_ptr<const std::string *>();
  return text && *text == word;
}

// Parses an element of the recipe's "losses": NAME, NAME@OUTPUT or output:NAME,
// each with an optional prefix FACTOR*. nullopt for other texts.
static std::optional<NamedLoss> parseNamedLoss(std::string_view text) {
  NamedLoss loss;
  const char *end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, loss.factor);
  if (error == std::errc() && rest != end && *rest == '*')
    text.remove_prefix(size_t(rest + 1 - text.data()));
  else
    loss.factor = 1;
  const std::string_view prefix = "output:";
  if (text.substr(0, prefix.size()) == prefix) {
    loss.output = text.substr(prefix.size());
  } else {
    const size_t at = text.find('@');
    const std::optional<LossKind> kind =
        symbolize<LossKind>(text.substr(0, at));
    if (!kind)
      return std::nullopt;
    loss.kind = *kind;
    if (at != std::string_view::npos)
      loss.output = text.substr(at + 1);
  }
  loss.name = nameLoss(loss.kind, loss.output);
  return loss;
}

// Reads the recipe's "losses" and "targets", arrays of texts. Artifacts of
// earlier versions have no "targets"; only their sum is reported.
static Status readLosses(const nlohmann::json &recipe, TraineeInfo &info) {
  info.losses.clear();
  const nlohmann::json losses = recipe.value("losses", nlohmann::json());
  const nlohmann::json targets = recipe.value("targets", nlohmann::json());
  if (!losses.is_array() || !targets.is_array())
    return Status();
  const Status malformed(StatusCode::InvalidInput,
                         "the artifact's recipe has malformed losses");
  if (losses.size() != targets.size())
    return malformed;
  std::vector<std::string> names;
  for (size_t i = 0; i < losses.size(); ++i) {
    if (!losses[i].is_string() || !targets[i].is_string())
      return malformed;
    std::optional<NamedLoss> loss =
        parseNamedLoss(losses[i].get<std::string>());
    if (!loss)
      return malformed;
    loss->target = targets[i].get<std::string>();
    names.push_back(loss->name);
    info.losses.push_back(std::move(*loss));
  }
  numberEqualNames(names);
  for (size_t i = 0; i < names.size(); ++i)
    info.losses[i].name = names[i];
  return Status();
}

Status readRecipe(TraineeInfo &info) {
  const Status malformed(StatusCode::InvalidInput,
                         "the artifact's recipe is malformed");
  const BoundedDocument document(info.recipe);
  const nlohmann::json &recipe = document.json;
  if (!recipe.is_object())
    return malformed;
  if (recipe.contains("loss") && recipe["loss"].is_string())
    if (Status status = readLoss(recipe["loss"].get<std::string>(), info);
        !status.ok())
      return status;
  if (Status status = readLosses(recipe, info); !status.ok())
    return status;
  if (recipe.contains("target") && recipe["target"].is_string())
    info.lossTarget = recipe["target"].get<std::string>();
  info.sumsLoss = says(recipe, "reduction", stringify(Reduction::Sum));
  info.dynamicLossScale = says(recipe, "loss_scale", "dynamic");
  if (!recipe.contains("accumulate"))
    return Status();
  if (!recipe["accumulate"].is_number_integer())
    return malformed;
  info.accumulate = recipe["accumulate"].get<int64_t>();
  constexpr int64_t kMost = int64_t(1) << 30;
  return info.accumulate >= 1 && info.accumulate <= kMost ? Status()
                                                          : malformed;
}

StatusOr<TraineeInfo> describeArtifact(const Artifact &artifact) {
  const Plan &plan = artifact.plan();
  TraineeInfo info;
  info.producer = plan.producer;
  info.modelHash = plan.modelHash;
  info.precision = plan.precision;
  info.target = plan.target.cpu;
  info.recipe = plan.recipe;
  info.stateBytes = plan.stateBytes();
  info.activationBytes = plan.activationBytes();
  // The hash of the plan tells artifacts of one model apart.
  const std::string_view text = artifact.planText();
  char hash[17];
  std::snprintf(
      hash, sizeof(hash), "%016llx",
      static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  info.planHash = hash;
  if (Status status = readRecipe(info); !status.ok())
    return status;
  for (const StateVariable &state : plan.state)
    info.state.push_back({state.name, state.role, state.type, state.shape});
  for (const auto &[name, function] : plan.functions)
    info.functions[name] = {portsOf(function, function.inputs),
                            portsOf(function, function.outputs)};
  return info;
}

StatusOr<std::unique_ptr<Trainee>> makeTrainee(Session &session) {
  StatusOr<TraineeInfo> info = describeArtifact(session.artifact());
  if (!info.ok())
    return info.status();
  info->stateBytes = session.shares().bytes();
  std::unique_ptr<Trainee> trainee =
      std::make_unique<SessionTrainee>(session, std::move(*info));
  if (session.shares().isSharded())
    trainee = std::make_unique<ShardedTrainee>(std::move(trainee), session,
                                               *session.communicator());
  return trainee;
}

} // namespace mpc::runtime::train
