// Loss and accuracy over all samples, padding counted out.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Evaluator.h"

#include <algorithm>
#include <numeric>

namespace mpc::runtime::train {

namespace {

/// The prediction as a matrix of class scores: [outer, classes, inner], one
/// label for each (outer, inner).
struct ClassView {
  int64_t classes = 0;
  int64_t inner = 1;
};

/// Sums of one evaluation.
struct Totals {
  double loss = 0;
  int64_t lossTerms = 0;
  int64_t correct = 0;
  int64_t labels = 0;
};

} // namespace

/// Where the classes lie: the axis whose removal leaves the labels' shape, the
/// second one (ONNX's) rather than the last.
static std::optional<ClassView> classViewOf(const Shape &prediction,
                                            const Shape &labels) {
  if (prediction.size() != labels.size() + 1 || prediction.size() < 2)
    return std::nullopt;
  for (size_t axis : {size_t(1), prediction.size() - 1}) {
    Shape rest = prediction;
    rest.erase(rest.begin() + std::ptrdiff_t(axis));
    if (rest == labels && prediction[axis] > 0)
      return ClassView{
          prediction[axis],
          numElements(Shape(prediction.begin() + std::ptrdiff_t(axis) + 1,
                            prediction.end()))};
  }
  return std::nullopt;
}

/// The class of the greatest score, the first of equal ones; -1 where a score
/// is NaN, which is no prediction.
static int64_t argmax(const double *scores, const ClassView &view) {
  int64_t best = 0;
  for (int64_t c = 0; c < view.classes; ++c) {
    const double score = scores[c * view.inner];
    if (score != score)
      return -1;
    if (score > scores[best * view.inner])
      best = c;
  }
  return best;
}

static void countCorrect(const Tensor &prediction, const ClassView &view,
                         const std::vector<int64_t> &labels,
                         const DatasetOptions &options, Totals &totals) {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (options.ignoreIndex && labels[i] == *options.ignoreIndex)
      continue;
    const int64_t outer = int64_t(i) / view.inner;
    const int64_t inner = int64_t(i) % view.inner;
    const double *scores =
        prediction.as<double>() + outer * view.classes * view.inner + inner;
    totals.correct += argmax(scores, view) == labels[i];
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

/// An output as doubles.
static StatusOr<Tensor> readOutput(Trainee &model, const Port &port) {
  StatusOr<Tensor> value = model.output("eval", port.name);
  if (!value.ok())
    return value;
  return convert(*value, DType::F64);
}

StatusOr<EvalResult> evaluate(Trainee &model, const Dataset &data) {
  const FunctionPorts *ports = model.info().function("eval");
  if (!ports)
    return Status(StatusCode::Unsupported,
                  "the artifact has no function 'eval'");
  const Port *perSample = ports->output("sample_loss");
  const Port *mean = ports->output("loss");
  const Port *prediction = ports->output("prediction");
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
  const DatasetOptions options = datasetOptionsFor(model.info());
  const Port *label = ports->input("label");
  std::optional<ClassView> view;
  if (prediction && label && !isFloat(label->type))
    view = classViewOf(prediction->shape, label->shape);

  Totals totals;
  EvalResult result;
  std::vector<int64_t> positions(static_cast<size_t>(batch));
  for (int64_t begin = 0; begin < data.size(); begin += batch) {
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
    if (perSample) {
      addLosses(*losses, count, batch, labels, options, totals);
    } else {
      totals.loss += *losses->as<double>() * double(count);
      totals.lossTerms += count;
    }
    if (!view || labels.empty())
      continue;
    StatusOr<Tensor> scores = readOutput(model, *prediction);
    if (!scores.ok())
      return scores.status();
    countCorrect(*scores, *view, labels, options, totals);
  }
  if (totals.lossTerms == 0)
    return Status(StatusCode::InvalidInput,
                  "the evaluation data has no sample that counts");
  result.loss = totals.loss / double(totals.lossTerms);
  if (totals.labels > 0)
    result.accuracy = double(totals.correct) / double(totals.labels);
  return result;
}

} // namespace mpc::runtime::train
