// Metrics files: one JSON object or one row of a table an event, appended and
// handed to the system line by line, so that a killed run loses at most the
// line being written.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_RECORD_METRICS_H
#define MPC_RUNTIME_TRAIN_RECORD_METRICS_H

#include "runtime/Status.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpc::runtime::train {

/// Significant digits of floating-point values: enough to read back the value
/// the run computed in.
enum class Digits { Single = 9, Double = 17 };

/// One value of an event: what JSON, tables and charts make of it.
struct MetricsField {
  std::string key;
  std::string text; ///< as JSON has it, but strings without their quotes
  bool isString = false;
  std::optional<double> number; ///< of a number, finite or not
};

/// One event. Keys appear in the order they are added.
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
  /// A JSON value, which the caller vouches for.
  MetricsLine &addJSON(std::string_view key, std::string_view json);

  /// The first is "event".
  const std::vector<MetricsField> &fields() const { return values; }
  const std::string &event() const { return values.front().text; }
  /// The field with this key, or null.
  const MetricsField *field(std::string_view key) const;

  /// The JSON object and its new line.
  std::string text() const;

private:
  std::vector<MetricsField> values;
  Digits digits;
};

/// Where events go.
class MetricsSink {
public:
  virtual ~MetricsSink() = default;
  virtual Status write(const MetricsLine &line) = 0;
};

/// What happens to a metrics file that has lines already.
enum class MetricsStart {
  New,     ///< it is another run's: refused
  Append,  ///< it is this run's, which goes on
  Replace, ///< it starts empty again
};

/// A file of JSON lines, or of comma-separated values where its name ends with
/// .csv: a row for every step and every evaluation under one line of names.
/// "-" is standard output, as JSON lines.
class MetricsFile : public MetricsSink {
public:
  /// Appending first cuts off a line that a crash left unfinished. Usage where
  /// a file that is to be new has lines, or a table has other columns; IO where
  /// another run writes it now. `evalMetrics` are the columns of a table that
  /// evaluations have beside the loss and the accuracy; steps have an accuracy
  /// where `hasAccuracy` says so.
  static StatusOr<std::unique_ptr<MetricsFile>>
  open(const std::string &path, MetricsStart start,
       const std::vector<std::string> &evalMetrics = {},
       bool hasAccuracy = false);
  /// Whether `open` would succeed, as far as can be told without changing
  /// anything.
  static Status check(const std::string &path, MetricsStart start);
  ~MetricsFile() override;
  MetricsFile(const MetricsFile &) = delete;
  MetricsFile &operator=(const MetricsFile &) = delete;

  Status write(const MetricsLine &line) override;

private:
  MetricsFile(std::string path, int file) : path(std::move(path)), file(file) {}
  Status startTable(const std::vector<std::string> &evalMetrics,
                    bool hasAccuracy);
  Status append(std::string_view text);

  std::string path;
  int file;
  bool isRegular = false;           ///< no pipe, terminal or device
  std::vector<std::string> columns; ///< of a table; else none
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_RECORD_METRICS_H
