// Parses and describes early stopping.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/EarlyStopping.h"

#include <charconv>

namespace mpc::runtime::train {

std::string EarlyStopping::name() const {
  return monitor.name() + ":" + std::to_string(patience);
}

std::string EarlyStopping::describe(const MonitorState &state) const {
  std::string text = "early stopping: " + monitor.metric +
                     " did not improve in " + std::to_string(state.waited) +
                     (state.waited == 1 ? " evaluation" : " evaluations");
  if (state.best)
    text += "; the best was " + describeFigure(monitor.metric, *state.best) +
            " at step " + std::to_string(state.bestStep);
  return text;
}

StatusOr<EarlyStopping> parseEarlyStopping(std::string_view text) {
  // Search for the last colon, since the metric may contain one: "min:loss:3".
  const size_t colon = text.rfind(':');
  const std::string_view digits =
      colon == std::string_view::npos ? "" : text.substr(colon + 1);
  EarlyStopping stopping;
  const char *end = digits.data() + digits.size();
  const auto [rest, error] =
      std::from_chars(digits.data(), end, stopping.patience);
  if (error != std::errc() || rest != end || stopping.patience < 1)
    return Status(StatusCode::Usage,
                  "expected METRIC:PATIENCE, such as loss:3, with a whole "
                  "number of evaluations from 1, found '" +
                      std::string(text) + "'");
  StatusOr<Monitor> monitor = parseMonitor(text.substr(0, colon));
  if (!monitor.ok())
    return monitor.status();
  stopping.monitor = *monitor;
  return stopping;
}

} // namespace mpc::runtime::train
