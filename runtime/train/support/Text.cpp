// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/support/Text.h"

#include <cmath>
#include <cstdio>

namespace mpc::runtime::train {

template <typename... Ts>
static std::string format(const char *pattern, Ts... values) {
  char text[64];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

std::string counted(int64_t count, const std::string &noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string formatScale(double value) {
  constexpr double largest = 1e9;
  if (value == std::floor(value) && std::fabs(value) <= largest)
    return format("%.0f", value);
  int exponent = 0;
  if (std::isfinite(value) && std::frexp(value, &exponent) == 0.5)
    return format("2^%d", exponent - 1);
  return format("%.4g", value);
}

std::string formatFigure(double value) {
  // The sign of a NaN depends on the operation and means nothing.
  return std::isnan(value) ? "nan" : format("%.6g", value);
}

std::string joined(const std::vector<std::string> &texts) {
  std::string text;
  for (const std::string &part : texts)
    text += (text.empty() ? "" : ",") + part;
  return text;
}

std::string formatMilliseconds(double value) {
  const int before = value >= 1 ? int(std::log10(value)) + 1 : 1;
  return format("%.*f", before < 3 ? 3 - before + (value < 1) : 0, value);
}

std::string formatDuration(double seconds) {
  constexpr double longest = 1000 * 86400.0;
  if (!(seconds >= 0) || seconds >= longest)
    return "";
  if (seconds < 9.95)
    return format("%.1f s", seconds);
  const long long all = std::llround(seconds);
  const long long days = all / 86400, hours = all / 3600 % 24;
  const long long minutes = all / 60 % 60;
  if (days > 0)
    return format("%lld d %lld:%02lld", days, hours, minutes);
  if (hours > 0)
    return format("%lld:%02lld:%02lld", hours, minutes, all % 60);
  return format("%lld:%02lld", minutes, all % 60);
}

} // namespace mpc::runtime::train
