// Writes metrics files: one JSON object or one table row per event. Each line
// goes to the system at once, so a killed run loses at most the current line.
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

/// Significant digits of floating-point values, enough to read back the value
/// in the precision of the run.
enum class Digits { Single = 9, Double = 17 };

/// One value of an event, for JSON, tables and charts.
struct MetricsField {
  std::string key;
  std::string text; ///< as in JSON, but strings without quotes
  bool isString = false;
  std::optional<double> number; ///< if the value is a number, finite or not
};

/// One event. Keys keep the order in which they were added.
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
  /// NaN and infinities become the strings "nan", "inf" and "-inf", because
  /// JSON has no numbers for them.
  MetricsLine &add(std::string_view key, double value);
  /// nullopt becomes null.
  MetricsLine &add(std::string_view key, const std::optional<double> &value);
  MetricsLine &add(std::string_view key, const std::optional<int64_t> &value);
  /// Adds a JSON value, which the caller guarantees to be valid.
  MetricsLine &addJSON(std::string_view key, std::string_view json);

  /// The fields in order; the first is "event".
  const std::vector<MetricsField> &fields() const { return values; }
  const std::string &event() const { return values.front().text; }
  /// The field with this key, or null.
  const MetricsField *field(std::string_view key) const;

  /// Returns the JSON object and a newline.
  std::string text() const;

private:
  std::vector<MetricsField> values;
  Digits digits;
};

/// A destination of events.
class MetricsSink {
public:
  virtual ~MetricsSink() = default;
  virtual Status write(const MetricsLine &line) = 0;
};

/// The treatment of a metrics file that has lines already.
enum class MetricsStart {
  New,     ///< refuse, as the lines belong to another run
  Append,  ///< append, as the run goes on
  Replace, ///< start with an empty file
};

/// A file of JSON lines or, if its name ends with .csv, a table with a line of
/// column names and a row for every step and every evaluation. "-" writes JSON
/// lines to standard output.
class MetricsFile : public MetricsSink {
public:
  /// Opens a file. Append first removes a line that a crash left unfinished.
  /// Returns a usage error if a new file has lines, or if a table has other
  /// columns; an I/O error if another run is writing the file. `evalMetrics`
  /// are the evaluation columns of a table besides loss and accuracy.
  /// `hasAccuracy` adds a column for the accuracy of steps. `losses`, the names
  /// of several losses, add columns for steps and for evaluations.
  static StatusOr<std::unique_ptr<MetricsFile>>
  open(const std::string &path, MetricsStart start,
       const std::vector<std::string> &evalMetrics = {},
       bool hasAccuracy = false, const std::vector<std::string> &losses = {});
  /// Checks that `open` would succeed, as far as possible without changing
  /// files.
  static Status check(const std::string &path, MetricsStart start);
  ~MetricsFile() override;
  MetricsFile(const MetricsFile &) = delete;
  MetricsFile &operator=(const MetricsFile &) = delete;

  Status write(const MetricsLine &line) override;

private:
  MetricsFile(std::string path, int file) : path(std::move(path)), file(file) {}
  Status startTable(std::vector<std::string> given);
  Status append(std::string_view text);

  std::string path;
  int file;
  bool isRegular = false; ///< no pipe, terminal or device
  /// column names of a table; empty for JSON lines
  std::vector<std::string> columns;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_RECORD_METRICS_H
