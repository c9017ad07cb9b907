// Reads the names of metrics as a user writes them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_EVALUATE_METRICNAMES_H
#define MPC_RUNTIME_TRAIN_EVALUATE_METRICNAMES_H

#include "runtime/Status.h"

#include <string>
#include <vector>

namespace mpc::runtime::train {

/// Splits the values of `--metric` into names: "top5,f1" becomes "top5", "f1".
/// Usage if a metric is unknown or occurs twice.
StatusOr<std::vector<std::string>>
parseMetricNames(const std::vector<std::string> &values);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_EVALUATE_METRICNAMES_H
