// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/evaluate/LossTerms.h"

#include "runtime/train/support/Text.h"

#include <cassert>
#include <string_view>

namespace mpc::runtime::train {

/// Adds the losses of the first `count` samples to `term`. If there is a loss
/// per label, skips ignored labels: the mean must not count them.
static void addLosses(const Tensor &losses, int64_t count, int64_t batch,
                      const std::vector<int64_t> &labels,
                      const std::optional<int64_t> &ignored, LossTerm &term) {
  const int64_t terms = losses.size() / batch * count;
  const bool perLabel = int64_t(labels.size()) == terms;
  for (int64_t i = 0; i < terms; ++i) {
    if (perLabel && ignored && labels[size_t(i)] == *ignored)
      continue;
    term.sum += losses.as<double>()[i];
    ++term.count;
  }
}

/// Adds the losses of the first `count` samples, which are weighted already.
/// Adds their weights to the divisor of the mean.
static void addWeighted(const Tensor &losses, const Tensor &weights,
                        int64_t count, LossTerm &term) {
  for (int64_t i = 0; i < count; ++i) {
    term.sum += losses.as<double>()[i];
    term.count += weights.as<double>()[i];
  }
}

StatusOr<Tensor> readOutput(Trainee &model, const Port &port) {
  StatusOr<Tensor> value = model.output(kEvalFunction, port.name);
  if (!value.ok())
    return value;
  return convert(*value, DType::F64);
}

StatusOr<std::vector<LossTerm>> findTerms(const FunctionPorts &ports,
                                          int64_t batch) {
  constexpr std::string_view prefix = "sample_loss";
  std::vector<LossTerm> terms;
  for (const Port &port : ports.outputs) {
    if (port.role != Role::SampleLoss)
      continue;
    if (port.shape.empty() || port.shape[0] != batch)
      return Status(StatusCode::Unsupported,
                    "output '" + port.name + "' of shape " +
                        toString(port.shape) + " is not a loss for each of " +
                        counted(batch, "sample"));
    LossTerm term;
    term.losses = &port;
    for (const Port &other : ports.outputs)
      if (other.role == Role::SampleWeight &&
          port.name.compare(0, prefix.size(), prefix) == 0 &&
          other.name == "sample_weight" + port.name.substr(prefix.size()))
        term.weights = &other;
    if (term.weights &&
        (port.shape != Shape{batch} || term.weights->shape != port.shape))
      return Status(StatusCode::Unsupported,
                    "output '" + term.weights->name + "' of shape " +
                        toString(term.weights->shape) +
                        " is not a weight for each sample's loss");
    terms.push_back(term);
  }
  return terms;
}

Status addTerm(Trainee &model, LossTerm &term, int64_t count, int64_t batch,
               const std::vector<int64_t> &labels,
               const std::optional<int64_t> &ignored) {
  StatusOr<Tensor> losses = readOutput(model, *term.losses);
  if (!losses.ok())
    return losses.status();
  if (!term.weights) {
    addLosses(*losses, count, batch, labels, ignored, term);
    return Status();
  }
  StatusOr<Tensor> weights = readOutput(model, *term.weights);
  if (!weights.ok())
    return weights.status();
  addWeighted(*losses, *weights, count, term);
  return Status();
}

Status addMean(Trainee &model, const Port &mean, int64_t count,
               LossTerm &term) {
  StatusOr<Tensor> loss = readOutput(model, mean);
  if (!loss.ok())
    return loss.status();
  assert(loss->size() == 1 && "a mean is a scalar");
  const int64_t samples = model.info().sumsLoss ? 1 : count;
  term.sum += *loss->as<double>() * double(samples);
  term.count += double(count);
  return Status();
}

double lossOf(const std::vector<LossTerm> &terms, bool isSum) {
  double loss = 0;
  for (const LossTerm &term : terms)
    loss += term.factor * term.value(isSum);
  return loss;
}

} // namespace mpc::runtime::train
