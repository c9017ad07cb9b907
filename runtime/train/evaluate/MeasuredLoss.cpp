// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/evaluate/MeasuredLoss.h"

#include "runtime/BoundedJSON.h"
#include "runtime/train/data/Dataset.h"

#include <nlohmann/json.hpp>

namespace mpc::runtime::train {

/// `classes` is the number of classes of the labels, if known.
static Family familyOf(LossKind kind, const Port *label,
                       const std::optional<int64_t> &classes) {
  if (hasBinaryTargets(kind))
    return Family::Binary;
  switch (kind) {
  case LossKind::SoftmaxCrossEntropy:
    // Float targets are a probability for each class.
    return label && runtime::isFloat(label->type) ? Family::Probabilities
                                                  : Family::Classes;
  case LossKind::NLL:
  case LossKind::Focal:
  case LossKind::Dice:
    return Family::Classes;
  case LossKind::MSE:
  case LossKind::L1:
  case LossKind::Huber:
  case LossKind::SmoothL1:
    return Family::Values;
  default:
    return classes ? Family::Classes : Family::Other;
  }
}

bool MeasuredLoss::canMeasure() const {
  if (!prediction || !label)
    return false;
  std::optional<int64_t> scored;
  if (family == Family::Classes)
    scored = classes;
  if (scored &&
      (prediction->shape.size() < 2 || prediction->shape[1] != *scored))
    return false;
  return numElements(prediction->shape) ==
         numElements(label->shape) * scored.value_or(1);
}

/// Sets the members that follow from the name of the label input.
static void describeLabels(MeasuredLoss &loss, const FunctionPorts &ports,
                           const DatasetOptions &options,
                           const std::string &label) {
  loss.label = ports.inputCalled(label);
  const LabelRange &range = options.rangeOf(label);
  loss.classes = range.classes;
  loss.ignoredLabel = range.ignoreIndex;
  loss.family = familyOf(loss.kind, loss.label, loss.classes);
}

/// Describes a single loss.
static MeasuredLoss describeOnly(const TraineeInfo &info,
                                 const FunctionPorts &ports,
                                 const DatasetOptions &options) {
  MeasuredLoss loss;
  loss.name = describeLoss(info);
  loss.kind = info.loss;
  loss.prediction = ports.output(Role::Prediction);
  const BoundedDocument recipe(info.recipe);
  if (recipe.json.is_object() && recipe.json.contains("loss_output") &&
      recipe.json["loss_output"].is_string())
    loss.output = recipe.json["loss_output"].get<std::string>();
  describeLabels(loss, ports, options, targetOf(info));
  return loss;
}

std::vector<MeasuredLoss> listMeasuredLosses(const TraineeInfo &info) {
  const FunctionPorts *ports = info.function(kEvalFunction);
  if (!ports)
    return {};
  const DatasetOptions options = datasetOptionsFor(info);
  if (info.losses.empty())
    return {describeOnly(info, *ports, options)};
  std::vector<MeasuredLoss> losses;
  for (const NamedLoss &named : info.losses) {
    MeasuredLoss loss;
    loss.name = named.name;
    loss.output = named.output;
    loss.kind = named.kind;
    const std::string prediction =
        losses.empty() ? "prediction"
                       : std::string(kPredictionPrefix) + named.name;
    for (const Port &port : ports->outputs)
      if (port.role == Role::Prediction && port.name == prediction)
        loss.prediction = &port;
    describeLabels(loss, *ports, options, labelInputOf(info, named.target));
    // The recipe has no range for labels that losses of different classes read.
    if (!loss.classes && hasClasses(loss.kind) && loss.prediction &&
        loss.prediction->shape.size() >= 2 && loss.family == Family::Classes)
      loss.classes = loss.prediction->shape[1];
    losses.push_back(std::move(loss));
  }
  return losses;
}

MetricName::MetricName(const std::string &text) {
  const size_t at = text.find('@');
  name = text.substr(0, at);
  if (at != std::string::npos)
    output = text.substr(at + 1);
}

bool readsOutput(const MeasuredLoss &loss, const std::string &output) {
  return loss.output == output ||
         loss.output.substr(0, loss.output.rfind(':')) == output;
}

} // namespace mpc::runtime::train
