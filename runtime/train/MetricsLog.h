// Writes the metrics of a run to all metrics files and to TensorBoard's folder.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_METRICSLOG_H
#define MPC_RUNTIME_TRAIN_METRICSLOG_H

#include "runtime/train/Trainer.h"
#include "runtime/train/record/Metrics.h"

#include <memory>
#include <string>
#include <vector>

namespace mpc::runtime::train {

class MetricsLog {
public:
  /// Opens the files and the folder in `options`. A resumed run continues from
  /// `firstStep`. `hasAccuracy` is true if steps have an accuracy. `losses` are
  /// the names of several losses.
  static StatusOr<MetricsLog> open(const TrainOptions &options,
                                   int64_t firstStep, bool hasAccuracy,
                                   const std::vector<std::string> &losses);
  /// Checks that `open` would succeed, as far as possible without changing
  /// files.
  static Status check(const TrainOptions &options);

  /// Writes `line` to every file. After a failure, a file gets no more lines,
  /// unless its disk was full. Returns the first failure.
  Status write(const MetricsLine &line);

private:
  std::vector<std::unique_ptr<MetricsSink>> sinks;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_METRICSLOG_H
