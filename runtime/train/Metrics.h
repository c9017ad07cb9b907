// The metrics file: one JSON object a line, appended and handed to the system
// line by line, so that a killed run loses at most the line being written.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_METRICS_H
#define MPC_RUNTIME_TRAIN_METRICS_H

#include "runtime/Status.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace mpc::runtime::train {

/// Significant digits of floating-point values: enough to read back the value
/// the run computed in.
enum class Digits { Single = 9, Double = 17 };

/// Builds one line. Keys appear in the order they are added.
class MetricsLine {
public:
  MetricsLine(std::string_view event, Digits digits);

  MetricsLine &add(std::string_view key, std::string_view text);
  MetricsLine &add(std::string_view key, const char *text) {
    return add(key, std::string_view(text));
  }
  MetricsLine &add(std::string_view key, int64_t value);
  MetricsLine &add(std::string_view key, uint64_t value);
  MetricsLine &add(std::string_view key, bool value);
  /// JSON has no numbers for NaN and the infinities: they are the strings
  /// "nan", "inf" and "-inf".
  MetricsLine &add(std::string_view key, double value);
  /// null where there is no value.
  MetricsLine &add(std::string_view key, const std::optional<double> &value);
  MetricsLine &add(std::string_view key, const std::optional<int64_t> &value);

  /// The object and its new line.
  std::string text() const { return line + "}\n"; }

private:
  MetricsLine &addRaw(std::string_view key, std::string_view json);

  std::string line = "{";
  Digits digits;
};

/// What happens to a metrics file that has lines already.
enum class MetricsStart {
  New,     ///< it is another run's: refused
  Append,  ///< it is this run's, which goes on
  Replace, ///< it starts empty again
};

class MetricsFile {
public:
  /// Appending first cuts off a line that a crash left unfinished. Usage where
  /// a file that is to be new has lines; IO where another run writes it now.
  static StatusOr<std::unique_ptr<MetricsFile>> open(const std::string &path,
                                                     MetricsStart start);
  /// Whether `open` would succeed, as far as can be told without changing
  /// anything.
  static Status check(const std::string &path, MetricsStart start);
  ~MetricsFile();
  MetricsFile(const MetricsFile &) = delete;
  MetricsFile &operator=(const MetricsFile &) = delete;

  Status write(const MetricsLine &line);

private:
  MetricsFile(std::string path, int file) : path(std::move(path)), file(file) {}

  std::string path;
  int file;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_METRICS_H
