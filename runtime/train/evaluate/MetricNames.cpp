// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/evaluate/MetricNames.h"

#include "runtime/train/evaluate/EvalMetrics.h"

#include <algorithm>

namespace mpc::runtime::train {

/// Returns `text` without spaces around it.
static std::string withoutSpaces(const std::string &text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos)
    return "";
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

StatusOr<std::vector<std::string>>
parseMetricNames(const std::vector<std::string> &values) {
  std::vector<std::string> names;
  for (const std::string &value : values)
    for (size_t begin = 0; begin <= value.size();) {
      const size_t end = std::min(value.find(',', begin), value.size());
      names.push_back(withoutSpaces(value.substr(begin, end - begin)));
      begin = end + 1;
    }
  for (const std::string &name : names) {
    if (Status status = checkEvalMetric(name); !status.ok())
      return Status(StatusCode::Usage, "--metric: " + status.message());
    if (std::count(names.begin(), names.end(), name) > 1)
      return Status(StatusCode::Usage, "--metric " + name + ": given twice");
  }
  return names;
}

} // namespace mpc::runtime::train
