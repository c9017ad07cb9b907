// Counts, class by class, which labels an evaluation predicted as which class.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_EVALUATE_CLASSREPORT_H
#define MPC_RUNTIME_TRAIN_EVALUATE_CLASSREPORT_H

#include "runtime/train/evaluate/ClassCounts.h"
#include "runtime/train/evaluate/EvalMetrics.h"
#include "runtime/train/evaluate/MeasuredLoss.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mpc::runtime::train {

/// The classes of one loss in an evaluation.
struct ClassReport {
  std::string output; ///< the output of one of several losses; else empty
  std::string label;  ///< the label input
  /// True for binary targets: each class is true or false by itself.
  bool isBinary = false;
  std::vector<ClassCount> classes;
  /// The number of targets of each class, positive or not; only if `isBinary`.
  std::vector<int64_t> sizes;
  /// Maps {label, predicted class} to the number of such labels. Empty if
  /// `isBinary`.
  std::map<std::pair<int64_t, int64_t>, int64_t> matrix;
  int64_t unpredicted = 0; ///< labels whose scores have a NaN
};

/// Adds up a report, batch by batch.
class ClassReporter {
public:
  virtual ~ClassReporter() = default;
  virtual void add(const EvalBatch &batch) = 0;
  virtual ClassReport report() const = 0;
};

/// Returns a reporter for the classes of `loss`; null if its targets are no
/// classes, or if the evaluation has no prediction for every label.
std::unique_ptr<ClassReporter> makeClassReporter(const MeasuredLoss &loss);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_EVALUATE_CLASSREPORT_H
