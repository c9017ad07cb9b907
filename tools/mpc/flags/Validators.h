// Checks numbers on the command line. An error message says what number is
// expected.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_VALIDATORS_H
#define MPC_TOOLS_MPC_FLAGS_VALIDATORS_H

#include "runtime/cpu/Cores.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace mpc::tools {

/// Accepts a finite number if `holds` is true for it. `what` describes such
/// numbers in the error message.
inline CLI::Validator numberThat(std::function<bool(double)> holds,
                                 const std::string &what) {
  return CLI::Validator(
      [holds = std::move(holds), what](const std::string &text) -> std::string {
        char *end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool isNumber = !text.empty() && *end == '\0';
        if (isNumber && std::isfinite(value) && holds(value))
          return {};
        return "expected a number " + what + ", found '" + text + "'";
      },
      "");
}

/// Accepts a decimal integer of type T from `least` to `most`. CLI11 itself
/// would read 010 as 8, and a number too large for T as the largest T. The
/// validator rewrites the text, so pass it to `transform`, not to `check`.
template <typename T>
CLI::Validator wholeNumber(T least, T most = std::numeric_limits<T>::max()) {
  return CLI::Validator(
      [least, most](std::string &text) -> std::string {
        T value{};
        const char *end = text.data() + text.size();
        auto [rest, error] = std::from_chars(text.data(), end, value);
        if (error != std::errc() || rest != end || value < least ||
            value > most)
          return "expected a whole number from " + std::to_string(least) +
                 " to " + std::to_string(most) + ", found '" + text + "'";
        text = std::to_string(value);
        return {};
      },
      "");
}

/// Accepts a number of threads that this computer can run. Add it by `check`,
/// after `wholeNumber`.
inline CLI::Validator threadCount() {
  return CLI::Validator(
      [](const std::string &text) {
        const runtime::Status status = runtime::checkThreads(std::stoi(text));
        return status.ok() ? std::string() : status.message();
      },
      "");
}

inline CLI::Validator nonNegativeNumber() {
  return numberThat([](double value) { return value >= 0; }, "of at least 0");
}

/// Accepts a number of at least 0 and below 1, like the decay of a running
/// mean.
inline CLI::Validator fraction() {
  return numberThat([](double value) { return value >= 0 && value < 1; },
                    "of at least 0 and below 1");
}

/// Accepts the words in `names` and `others`. Help and error messages list only
/// `names`. The command itself must report each of `others`, with a special
/// message.
inline CLI::Validator oneOf(const std::vector<std::string> &names,
                            std::vector<std::string> others) {
  CLI::Validator listed = CLI::IsMember(names);
  const std::string description = listed.get_description();
  return CLI::Validator(
      [listed, others = std::move(others)](std::string &text) {
        return std::find(others.begin(), others.end(), text) != others.end()
                   ? std::string()
                   : listed(text);
      },
      description);
}

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_VALIDATORS_H
