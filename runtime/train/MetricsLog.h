// Writes the metrics of a run to all their destinations.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_METRICSLOG_H
#define MPC_RUNTIME_TRAIN_METRICSLOG_H

#include "runtime/train/Trainer.h"
#include "runtime/train/record/Metrics.h"

#include <memory>
#include <vector>

namespace mpc::runtime::train {

class MetricsLog {
public:
  /// Opens the destinations in `options`. `firstStep` is the step that a
  /// resumed run continues from. `hasAccuracy` is true if steps have an
  /// accuracy.
  static StatusOr<MetricsLog> open(const TrainOptions &options,
                                   int64_t firstStep, bool hasAccuracy);
  /// Checks that `open` would succeed, as far as possible without changes.
  static Status check(const TrainOptions &options);

  /// Writes to every destination. A destination that fails gets nothing more,
  /// unless the disk was full; the others go on. Returns the first failure.
  Status write(const MetricsLine &line);

private:
  std::vector<std::unique_ptr<MetricsSink>> sinks;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_METRICSLOG_H
