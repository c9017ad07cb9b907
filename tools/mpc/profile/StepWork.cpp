// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/profile/StepWork.h"

#include "runtime/BoundedJSON.h"
#include "runtime/NodesFormat.h"

#include <cmath>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;

// Reads a number that is neither negative nor huge.
static bool readNumber(const nlohmann::json &object, const char *key,
                       double &value) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number())
    return false;
  value = found->get<double>();
  return std::isfinite(value) && value >= 0;
}

static bool readNode(const nlohmann::json &object, NodeShare &node) {
  if (!object.is_object() || !readNumber(object, "share", node.share))
    return false;
  const auto phase = object.find("phase"), names = object.find("names");
  if (phase == object.end() || !phase->is_string() || names == object.end() ||
      !names->is_array() || names->empty())
    return false;
  node.phase = phase->get<std::string>();
  for (const nlohmann::json &name : *names) {
    if (!name.is_string())
      return false;
    node.names.push_back(name.get<std::string>());
  }
  return true;
}

static bool readStep(const nlohmann::json &object, StepWork &work) {
  if (!object.is_object() || !readNumber(object, "bytes", work.bytes) ||
      !readNumber(object, "flops", work.flops))
    return false;
  const auto type = object.find("type"), nodes = object.find("nodes");
  if (type == object.end() || !type->is_string() || nodes == object.end() ||
      !nodes->is_array() || nodes->empty())
    return false;
  StatusOr<DType> parsed = parseDType(type->get<std::string>());
  if (!parsed.ok())
    return false;
  work.type = *parsed;
  for (const nlohmann::json &entry : *nodes)
    if (!readNode(entry, work.nodes.emplace_back()))
      return false;
  return true;
}

StatusOr<ArtifactWork> mpc::tools::readStepWork(const Artifact &artifact) {
  ArtifactWork work;
  if (artifact.nodesText().empty())
    return work;
  const Status malformed(StatusCode::InvalidInput,
                         "'" + artifact.name() + "': section " +
                             format::kNodesSection +
                             " does not fit the plan; compile the model again");
  const BoundedDocument document(artifact.nodesText());
  if (!document.json.is_object() || !document.json.contains("functions") ||
      !document.json["functions"].is_object())
    return malformed;
  for (const auto &[name, function] : artifact.plan().functions) {
    const auto found = document.json["functions"].find(name);
    if (found == document.json["functions"].end() || !found->is_array() ||
        found->size() != function.steps.size())
      return malformed;
    for (const nlohmann::json &step : *found)
      if (!readStep(step, work[name].emplace_back()))
        return malformed;
  }
  return work;
}
