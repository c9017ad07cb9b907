// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/MetricsLog.h"

#include "runtime/train/record/EventFile.h"
#include "runtime/train/support/FileSystem.h"

#include <algorithm>

namespace mpc::runtime::train {

static MetricsStart startOf(const TrainOptions &options) {
  if (!options.resume.empty())
    return MetricsStart::Append;
  return options.overwriteMetrics ? MetricsStart::Replace : MetricsStart::New;
}

StatusOr<MetricsLog> MetricsLog::open(const TrainOptions &options,
                                      int64_t firstStep, bool hasAccuracy,
                                      const std::vector<std::string> &losses) {
  MetricsLog log;
  for (const std::string &path : options.metrics) {
    StatusOr<std::unique_ptr<MetricsFile>> file = MetricsFile::open(
        path, startOf(options), options.evalMetrics, hasAccuracy, losses);
    if (!file.ok())
      return file.status();
    log.sinks.push_back(std::move(*file));
  }
  if (!options.tensorboard.empty()) {
    StatusOr<std::unique_ptr<EventFile>> file =
        EventFile::open(options.tensorboard, startOf(options), firstStep);
    if (!file.ok())
      return file.status();
    log.sinks.push_back(std::move(*file));
  }
  return log;
}

Status MetricsLog::check(const TrainOptions &options) {
  Status status;
  for (const std::string &path : options.metrics) {
    if (std::count(options.metrics.begin(), options.metrics.end(), path) > 1)
      return Status(StatusCode::Usage, "--metrics " + path + ": given twice");
    if (status.ok())
      status = MetricsFile::check(path, startOf(options));
  }
  if (status.ok() && !options.tensorboard.empty())
    status = EventFile::check(options.tensorboard, startOf(options));
  return status;
}

Status MetricsLog::write(const MetricsLine &line) {
  Status first;
  for (std::unique_ptr<MetricsSink> &sink : sinks) {
    Status status = sink ? sink->write(line) : Status();
    if (status.ok())
      continue;
    // Keep a file on a full disk: there may be room again once checkpoints are
    // removed.
    if (!isForWantOfSpace(status))
      sink.reset();
    if (first.ok())
      first = status;
  }
  return first;
}

} // namespace mpc::runtime::train
