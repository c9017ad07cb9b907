// Parses durations.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/support/Duration.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

namespace mpc::runtime::train {

/// Seconds of a day, an hour, a minute and a second.
static constexpr int64_t kUnits[] = {86400, 3600, 60, 1};
static constexpr char kLetters[] = "dhms";
static constexpr int kUnitCount = 4;
static constexpr int64_t kMost = int64_t(36525) * 86400;

/// Removes the number at the beginning of `text` and returns the number;
/// nullopt if there is none.
static std::optional<int64_t> takeNumber(std::string_view &text) {
  int64_t value = 0;
  const char *end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || value < 0 || text.front() == '-')
    return std::nullopt;
  text.remove_prefix(size_t(rest - text.data()));
  return value;
}

/// Adds `count` units of `unit` seconds each to `seconds`. False if the sum
/// exceeds a hundred years.
static bool add(int64_t count, int64_t unit, int64_t &seconds) {
  if (count > kMost / unit)
    return false;
  seconds += count * unit;
  return seconds <= kMost;
}

/// Reads numbers with units, each unit smaller than the one before: "1h30m".
static std::optional<int64_t> readUnits(std::string_view text) {
  int64_t seconds = 0;
  int next = 0;
  while (!text.empty()) {
    const std::optional<int64_t> count = takeNumber(text);
    if (!count || text.empty())
      return std::nullopt;
    while (next < kUnitCount && kLetters[next] != text.front())
      ++next;
    if (next == kUnitCount || !add(*count, kUnits[next++], seconds))
      return std::nullopt;
    text.remove_prefix(1);
  }
  return seconds;
}

/// Reads "DD:HH:MM:SS".
static std::optional<int64_t> readFields(std::string_view text) {
  int64_t seconds = 0;
  for (int i = 0; i < kUnitCount; ++i) {
    if (i > 0) {
      if (text.empty() || text.front() != ':')
        return std::nullopt;
      text.remove_prefix(1);
    }
    const std::optional<int64_t> count = takeNumber(text);
    if (!count || !add(*count, kUnits[i], seconds))
      return std::nullopt;
  }
  return text.empty() ? std::optional<int64_t>(seconds) : std::nullopt;
}

StatusOr<std::chrono::seconds> parseDuration(std::string_view text) {
  const std::optional<int64_t> seconds =
      text.find(':') == std::string_view::npos ? readUnits(text)
                                               : readFields(text);
  if (seconds && *seconds > 0)
    return std::chrono::seconds(*seconds);
  return Status(StatusCode::Usage,
                "expected a duration such as 90s, 30m, 2h, 1h30m, 1d or "
                "DD:HH:MM:SS, found '" +
                    std::string(text) + "'");
}

} // namespace mpc::runtime::train
