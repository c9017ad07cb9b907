// Reads back the metrics of one run that `mpc train --metrics` wrote.
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

/// A quantity by step, in ascending order of steps. NaN stands for every value
/// that is not finite.
struct Series {
  std::vector<double> steps, values;

  bool empty() const { return steps.empty(); }
  void add(double step, double value);
  /// Drops the values after `step`.
  void cutAfter(double step);
};

/// A named value in a table.
struct Fact {
  std::string name, value;
};

/// The exit code of a successful run, as its outcome says it.
constexpr char kDone[] = "0 (done)";

struct RunMetrics {
  std::string name;
  std::vector<Fact> settings; ///< from the "start" event
  std::vector<Fact> outcome;  ///< from the "end" event
  Series loss, accuracy, learningRate, gradNorm, lossScale, stepMs;
  std::vector<double> skipped; ///< the skipped steps
  /// The evaluated "loss", "accuracy" and values of --metric, by name.
  std::map<std::string, Series> evaluations;
};

/// Reads a metrics file of JSON lines, or a table. A run that was killed and
/// resumed is one run: repeated steps replace earlier ones. InvalidInput, with
/// the line, if the file is malformed. An unfinished last line is left out.
runtime::StatusOr<RunMetrics> readMetrics(const std::string &path);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_REPORT_RUNMETRICS_H
