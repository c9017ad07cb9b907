// Loss and accuracy over all samples, padding counted out.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Evaluator.h"

#include "runtime/train/EvalMetrics.h"

#include <algorithm>
#include <numeric>

namespace mpc::runtime::train {

namespace {

/// Sums of one evaluation.
struct Totals {
  double loss = 0;
  double lossTerms = 0; ///< what the sum of losses is divided by
  int64_t correct = 0;
  int64_t labels = 0;
};

} // namespace

/// Adds what the first samples' labels got right. `correct` has a 1 or a 0 for
/// each label of the batch, of which there are `labels` that belong to samples.
static void countCorrect(const Tensor &correct,
                         const std::vector<int64_t> &labels,
                         const DatasetOptions &options, Totals &totals) {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (options.ignoreIndex && labels[i] == *options.ignoreIndex)
      continue;
    totals.correct += correct.as<double>()[i] != 0;
    ++totals.labels;
  }
}

/// Adds the losses of the first `count` samples. Where there is a loss for each
/// label, those of ignored labels are no terms of the mean.
static void addLosses(const Tensor &losses, int64_t count, int64_t batch,
                      const std::vector<int64_t> &labels,
                      const DatasetOptions &options, Totals &totals) {
  const int64_t terms = losses.size() / batch * count;
  const bool perLabel = int64_t(labels.size()) == terms;
  for (int64_t i = 0; i < terms; ++i) {
    if (perLabel && options.ignoreIndex &&
        labels[size_t(i)] == *options.ignoreIndex)
      continue;
    totals.loss += losses.as<double>()[i];
    ++totals.lossTerms;
  }
}

/// Adds the losses of the first `count` samples, each of which is `weights` of
/// the mean.
static void addWeighted(const Tensor &losses, const Tensor &weights,
                        int64_t count, Totals &totals) {
  for (int64_t i = 0; i < count; ++i) {
    totals.loss += losses.as<double>()[i];
    totals.lossTerms += weights.as<double>()[i];
  }
}

/// An output as doubles.
static StatusOr<Tensor> readOutput(Trainee &model, const Port &port) {
  StatusOr<Tensor> value = model.output("eval", port.name);
  if (!value.ok())
    return value;
  return convert(*value, DType::F64);
}

using EvalMetrics = std::vector<std::unique_ptr<EvalMetric>>;

/// Adds the first `count` of the samples at `positions` to all metrics.
static Status addMetrics(Trainee &model, const FunctionPorts &ports,
                         const Dataset &data, const int64_t *positions,
                         int64_t count, const std::vector<int64_t> &labels,
                         std::optional<int64_t> ignored, EvalMetrics &metrics) {
  if (metrics.empty())
    return Status();
  StatusOr<Tensor> prediction =
      model.output("eval", ports.output("prediction")->name);
  if (prediction.ok() && prediction->type != DType::F64 &&
      prediction->type != DType::F32)
    prediction = convert(*prediction, DType::F32);
  if (!prediction.ok())
    return prediction.status();
  const std::vector<double> targets = data.targets(positions, count);
  for (const std::unique_ptr<EvalMetric> &metric : metrics)
    metric->add({*prediction, labels, targets, ignored});
  return Status();
}

StatusOr<EvalResult> evaluate(Trainee &model, const Dataset &data,
                              const std::atomic<int> *stop,
                              const std::vector<std::string> &metricNames) {
  const FunctionPorts *ports = model.info().function("eval");
  if (!ports)
    return Status(StatusCode::Unsupported,
                  "the artifact has no function 'eval'");
  const Port *perSample = ports->output("sample_loss");
  const Port *weight = ports->output("sample_weight");
  const Port *mean = ports->output("loss");
  const Port *correct = ports->output("correct");
  if (!perSample && !mean)
    return Status(StatusCode::Unsupported,
                  "the artifact's function 'eval' reports no loss");

  const int64_t batch = data.batchSize();
  if (perSample && (perSample->shape.empty() || perSample->shape[0] != batch))
    return Status(StatusCode::Unsupported,
                  "output '" + perSample->name + "' of shape " +
                      toString(perSample->shape) +
                      " is not a loss for each of " + std::to_string(batch) +
                      " samples");
  if (weight && (!perSample || weight->shape != Shape{batch} ||
                 perSample->shape != weight->shape))
    return Status(StatusCode::Unsupported,
                  "output '" + weight->name + "' of shape " +
                      toString(weight->shape) +
                      " is not a weight for each sample's loss");
  const DatasetOptions options = datasetOptionsFor(model.info());
  const Port *label = ports->input("label");
  const bool countsLabels =
      correct && label &&
      numElements(correct->shape) == numElements(label->shape);

  EvalMetrics metrics = makeEvalMetrics(model.info(), metricNames);
  Totals totals;
  EvalResult result;
  std::vector<int64_t> positions(static_cast<size_t>(batch));
  for (int64_t begin = 0; begin < data.size(); begin += batch) {
    if (stop && stop->load() != 0) {
      result.stopped = true;
      return result;
    }
    const int64_t count = std::min(batch, data.size() - begin);
    if (count < batch && !perSample) {
      result.leftOut = count;
      break;
    }
    for (int64_t i = 0; i < batch; ++i)
      positions[size_t(i)] = begin + std::min(i, count - 1);
    if (Status status = data.bind(model, "eval", positions.data());
        !status.ok())
      return status;
    if (Status status = model.run("eval"); !status.ok())
      return status;
    result.samples += count;
    const std::vector<int64_t> labels = data.labels(positions.data(), count);

    StatusOr<Tensor> losses = readOutput(model, perSample ? *perSample : *mean);
    if (!losses.ok())
      return losses.status();
    if (weight) {
      StatusOr<Tensor> weights = readOutput(model, *weight);
      if (!weights.ok())
        return weights.status();
      addWeighted(*losses, *weights, count, totals);
    } else if (perSample) {
      addLosses(*losses, count, batch, labels, options, totals);
    } else {
      const int64_t terms = model.info().sumsLoss ? 1 : count;
      totals.loss += *losses->as<double>() * double(terms);
      totals.lossTerms += double(count);
    }
    if (Status status = addMetrics(model, *ports, data, positions.data(), count,
                                   labels, options.ignoreIndex, metrics);
        !status.ok())
      return status;
    if (!countsLabels)
      continue;
    StatusOr<Tensor> isCorrect = readOutput(model, *correct);
    if (!isCorrect.ok())
      return isCorrect.status();
    countCorrect(*isCorrect, labels, options, totals);
  }
  if (totals.lossTerms == 0)
    return Status(StatusCode::InvalidInput,
                  "the evaluation data has no sample that counts");
  result.loss =
      model.info().sumsLoss ? totals.loss : totals.loss / totals.lossTerms;
  if (totals.labels > 0)
    result.accuracy = double(totals.correct) / double(totals.labels);
  for (const std::unique_ptr<EvalMetric> &metric : metrics)
    if (metric->name == "accuracy")
      result.accuracy = metric->value();
    else
      result.metrics.emplace_back(metric->name, metric->value());
  return result;
}

} // namespace mpc::runtime::train
