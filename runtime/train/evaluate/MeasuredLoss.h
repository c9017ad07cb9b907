// Describes the losses of an eval function as metrics see them: the kind of
// their targets, and the input and output that metrics compare.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_EVALUATE_MEASUREDLOSS_H
#define MPC_RUNTIME_TRAIN_EVALUATE_MEASUREDLOSS_H

#include "runtime/Status.h"
#include "runtime/train/trainee/Trainee.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mpc::runtime::train {

/// The kind of targets that a loss has.
enum class Family { Classes, Probabilities, Binary, Values, Other };

struct MeasuredLoss {
  std::string name;   ///< for messages, such as "mse" or "mse@y"
  std::string output; ///< the output that the loss reads; empty if unknown
  LossKind kind = LossKind::Output;
  Family family = Family::Other;
  /// The label input and the prediction of the eval function; null if there is
  /// none.
  const Port *label = nullptr, *prediction = nullptr;
  std::optional<int64_t> classes, ignoredLabel;

  /// True if the eval function returns a prediction for every label.
  bool canMeasure() const;
};

/// Returns the losses of the model's eval function, the first loss first. A
/// model with a loss of its own has one.
std::vector<MeasuredLoss> listMeasuredLosses(const TraineeInfo &info);

/// A metric as --metric names it: NAME, or NAME@OUTPUT.
struct MetricName {
  explicit MetricName(const std::string &text);

  std::string name;
  std::optional<std::string> output;
};

/// True if the loss reads the output called `output`. The loss's own text may
/// end in :AXIS.
bool readsOutput(const MeasuredLoss &loss, const std::string &output);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_EVALUATE_MEASUREDLOSS_H
