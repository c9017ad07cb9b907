// All places that the metrics of one run go to.
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
  /// Those that `options` name; `firstStep` is the step that a resumed run goes
  /// on from, and steps may have an accuracy.
  static StatusOr<MetricsLog> open(const TrainOptions &options,
                                   int64_t firstStep, bool hasAccuracy);
  /// Whether `open` would succeed, as far as can be told without changing
  /// anything.
  static Status check(const TrainOptions &options);

  /// Writes to each. One that fails gets nothing more; the others do.
  Status write(const MetricsLine &line);

private:
  std::vector<std::unique_ptr<MetricsSink>> sinks;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_METRICSLOG_H
