// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/support/Ranks.h"

#include <algorithm>
#include <cstring>

namespace mpc::runtime::train {

StatusOr<std::vector<double>> Ranks::gather(const std::vector<double> &values) {
  if (isSingle() || values.empty())
    return values;
  std::vector<double> all(values.size() * size_t(count()));
  std::copy(values.begin(), values.end(),
            all.begin() + std::ptrdiff_t(values.size()) * own());
  Status status =
      communicator->allGather(all.data(), values.size() * sizeof(double));
  return status.ok() ? StatusOr<std::vector<double>>(std::move(all)) : status;
}

StatusOr<std::vector<std::string>> Ranks::gatherTexts(const std::string &text) {
  if (isSingle())
    return std::vector<std::string>{text};
  // An all-gather takes parts of equal size, so pad all to the longest.
  StatusOr<std::vector<double>> sizes = gather({double(text.size())});
  if (!sizes.ok())
    return sizes.status();
  const auto longest = size_t(*std::max_element(sizes->begin(), sizes->end()));
  std::vector<std::string> texts(sizes->size());
  if (longest == 0)
    return texts;
  std::string all(longest * texts.size(), '\0');
  std::copy(text.begin(), text.end(),
            all.begin() + std::ptrdiff_t(longest) * own());
  if (Status status = communicator->allGather(all.data(), longest);
      !status.ok())
    return status;
  for (size_t i = 0; i < texts.size(); ++i)
    texts[i] = all.substr(i * longest, size_t((*sizes)[i]));
  return texts;
}

Status Ranks::share(void *bytes, size_t size) {
  return isSingle() || size == 0
             ? Status()
             : communicator->broadcast(bytes, size, /*root=*/0);
}

Status Ranks::share(std::string &text) {
  uint64_t size = text.size();
  if (Status status = share(&size, sizeof(size)); !status.ok())
    return status;
  text.resize(size_t(size));
  return share(text.data(), text.size());
}

Status Ranks::average(void *elements, size_t count, DType type) {
  return isSingle() || count == 0
             ? Status()
             : communicator->allReduce(elements, count, type, Reduce::Mean);
}

/// Returns the failure of the lowest rank with a failure; nullopt if no rank
/// failed. All ranks get the same failure.
StatusOr<std::optional<Ranks::Failure>> Ranks::findFailure(const Status &own) {
  StatusOr<std::vector<double>> codes =
      gather({double(static_cast<int>(own.getCode()))});
  if (!codes.ok())
    return codes.status();
  const auto failed = std::find_if(codes->begin(), codes->end(),
                                   [](double code) { return code != 0; });
  if (failed == codes->end())
    return std::optional<Failure>();
  StatusOr<std::vector<std::string>> texts = gatherTexts(own.message());
  if (!texts.ok())
    return texts.status();
  const auto rank = size_t(failed - codes->begin());
  return std::optional<Failure>(
      {rank, static_cast<StatusCode>(int(*failed)), (*texts)[rank]});
}

Status Ranks::agree(const Status &status) {
  if (isSingle() || status.getCode() == StatusCode::Rank)
    return status;
  StatusOr<std::optional<Failure>> found = findFailure(status);
  if (!found.ok() || !*found)
    return found.status();
  const auto &[rank, code, text] = **found;
  return Status(code, (rank == 0 ? "" : "rank " + std::to_string(rank) + ": ") +
                          text);
}

Status Ranks::settle(const Status &own) {
  if (isSingle() || own.getCode() == StatusCode::Rank)
    return own;
  StatusOr<std::optional<Failure>> found = findFailure(own);
  if (!own.ok())
    return own;
  if (!found.ok() || !*found)
    return found.status();
  return Status(StatusCode::Rank, "rank " + std::to_string((*found)->rank) +
                                      ": " + (*found)->text);
}

Status Ranks::fail(const Status &status) {
  if (isSingle() || status.ok() || status.getCode() == StatusCode::Rank)
    return status;
  if (report)
    report(status);
  communicator->abort(Status(status.getCode(), "rank " + std::to_string(own()) +
                                                   ": " + status.message()));
  return status;
}

} // namespace mpc::runtime::train
