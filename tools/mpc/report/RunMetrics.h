// The metrics of one run, read back from what `mpc train --metrics` wrote.
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

/// A quantity by step, the steps in ascending order. NaN stands for all that is
/// not finite.
struct Series {
  std::vector<double> steps, values;

  bool empty() const { return steps.empty(); }
  void add(double step, double value);
  /// Forgets what came after `step`.
  void cutAfter(double step);
};

/// A line of a table.
struct Fact {
  std::string name, value;
};

/// The exit code of a run that went well, as its outcome has it.
constexpr char kDone[] = "0 (done)";

struct RunMetrics {
  std::string name;
  std::vector<Fact> settings; ///< of the "start" event
  std::vector<Fact> outcome;  ///< of the "end" event
  Series loss, accuracy, learningRate, gradNorm, lossScale, stepMs;
  std::vector<double> skipped; ///< which steps
  /// "loss", "accuracy" and what --metric measures.
  std::map<std::string, Series> evaluations;
};

/// Reads a file of JSON lines. A run that was killed and resumed is one run:
/// steps that it made again are those that count. InvalidInput, with the line,
/// where it is not such a file; a last line that was being written is left out.
runtime::StatusOr<RunMetrics> readMetrics(const std::string &path);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_REPORT_RUNMETRICS_H
