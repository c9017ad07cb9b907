// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/checkpoint/StepSplit.h"

#include "runtime/BoundedJSON.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace mpc::runtime::train {

/// The members of a recipe that follow from the division of a step.
static constexpr const char *kSplitMembers[] = {"accumulate", "decisions"};

static std::string factOf(const RunIdentity &facts, const char *key) {
  const auto found = facts.find(key);
  return found == facts.end() ? "" : found->second;
}

bool splitsOtherwise(const RunIdentity &then, const RunIdentity &now) {
  const auto isEqual = [&](const char *key) {
    return !factOf(then, key).empty() && factOf(then, key) == factOf(now, key);
  };
  return !factOf(then, kRanksFact).empty() && !isEqual(kRanksFact) &&
         isEqual(kStepFact) && isEqual(kSampleFact);
}

/// Returns the recipe `now`, JSON text, with the members that follow from the
/// division of a step taken from `then`.
static std::string recipeToMatch(const std::string &then,
                                 const std::string &now) {
  const BoundedDocument before(then);
  BoundedDocument after(now);
  if (!before.json.is_object() || !after.json.is_object())
    return now;
  for (const char *member : kSplitMembers)
    if (const auto found = before.json.find(member);
        found != before.json.end() && after.json.contains(member))
      after.json[member] = *found;
  return textOf(after.json);
}

RunIdentity factsToMatch(const RunIdentity &then, RunIdentity now) {
  if (splitsOtherwise(then, now)) {
    for (const char *key : {kBatchSizeFact, kInputsFact})
      now[key] = factOf(then, key);
    now["recipe"] = recipeToMatch(factOf(then, "recipe"), now["recipe"]);
  }
  // These follow from other facts, and the number of ranks may change.
  for (const char *key : {kRanksFact, kStepFact, kSampleFact})
    now.erase(key);
  return now;
}

static bool isSum(const std::string &name) {
  const std::string_view suffix = kGradientSuffix;
  return name.size() > suffix.size() &&
         name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
}

void dropSums(CheckpointContents &contents, const TraineeInfo &info) {
  const auto isInModel = [&](const Array &array) {
    return std::any_of(
        info.state.begin(), info.state.end(),
        [&](const Port &port) { return port.name == array.name; });
  };
  std::vector<Array> &arrays = contents.arrays;
  arrays.erase(std::remove_if(arrays.begin(), arrays.end(),
                              [&](const Array &array) {
                                return isSum(array.name) && !isInModel(array);
                              }),
               arrays.end());
  for (const Port &port : info.state) {
    if (port.role != Role::Accumulator ||
        std::any_of(arrays.begin(), arrays.end(), [&](const Array &array) {
          return array.name == port.name;
        }))
      continue;
    auto zeros = std::make_shared<Tensor>(Tensor::zeros(port.type, port.shape));
    Array array;
    array.name = port.name;
    array.type = toElementType(port.type);
    array.shape = port.shape;
    array.data = zeros->bytes.data();
    array.owner = zeros;
    arrays.push_back(std::move(array));
  }
}

} // namespace mpc::runtime::train
