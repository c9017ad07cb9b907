// Reads the metrics file of a run, which `mpc train --metrics` wrote.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_REPORT_RUNMETRICS_H
#define MPC_TOOLS_MPC_REPORT_RUNMETRICS_H

#include "runtime/Status.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace mpc::tools {

/// The values of one quantity, and the step of each, in ascending order of
/// steps. Values that are not finite are NaN.
struct Series {
  std::vector<double> steps, values;

  bool empty() const { return steps.empty(); }
  void add(double step, double value);
  /// Drops the values after `step`.
  void cutAfter(double step);
};

/// One entry of a table on the page: a name and a text.
struct Fact {
  std::string name, value;
};

/// The text of the exit code in the outcome of a successful run.
constexpr char kDone[] = "0 (done)";

struct RunMetrics {
  std::string name;
  std::vector<Fact> settings; ///< from the "start" event
  std::vector<Fact> outcome;  ///< from the "end" event
  Series loss, accuracy, learningRate, gradNorm, lossScale, stepMs;
  /// The values of several losses in training, by name, without their factors.
  std::map<std::string, Series> terms;
  std::vector<double> skipped; ///< numbers of skipped steps
  /// The results of evaluations by name: "loss", "accuracy", metrics of
  /// --metric, and several losses.
  std::map<std::string, Series> evaluations;
};

/// Reads a metrics file: JSON lines or a table. If a run was killed and
/// resumed, the steps form a single run, and repeated steps replace earlier
/// ones. Ignores an unfinished last line. If the file is malformed, returns
/// InvalidInput with the number of the line.
runtime::StatusOr<RunMetrics> readMetrics(const std::string &path);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_REPORT_RUNMETRICS_H
