// Implements the metrics of class labels, of binary targets and of values.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/evaluate/EvalMetrics.h"

#include "runtime/train/data/Dataset.h"
#include "runtime/train/evaluate/AreaUnderCurve.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mpc::runtime::train {

//===----------------------------------------------------------------------===//
// Class labels
//===----------------------------------------------------------------------===//

namespace {

/// The scores of all classes for one label. Scores of a batch have the shape
/// (R, C, d...), with C classes; the R * d labels have the shape (R, d...).
class Scores {
public:
  Scores(const EvalBatch &batch, int64_t label) : batch(batch) {
    const Shape &shape = batch.prediction.shape;
    stride = numElements(Shape(shape.begin() + 2, shape.end()));
    count = shape[1];
    first = label / stride * count * stride + label % stride;
  }

  int64_t size() const { return count; }
  double operator[](int64_t c) const { return batch.at(first + c * stride); }

private:
  const EvalBatch &batch;
  int64_t stride, count, first;
};

/// A metric that adds up a value for each label, except ignored labels.
class LabelMetric : public EvalMetric {
public:
  using EvalMetric::EvalMetric;
  void add(const EvalBatch &batch) final {
    for (size_t i = 0; i < batch.labels.size(); ++i)
      if (batch.labels[i] != batch.ignoredLabel)
        add(Scores(batch, int64_t(i)), batch.labels[i]);
  }

protected:
  virtual void add(const Scores &scores, int64_t label) = 0;
};

/// The share of labels that are among the `places` classes with the greatest
/// scores. Among equal scores, the first counts as the greatest; a NaN ranks
/// above all numbers.
class TopK : public LabelMetric {
public:
  TopK(std::string name, int64_t places)
      : LabelMetric(std::move(name)), places(places) {}

  double value() const override { return double(right) / double(labels); }

private:
  void add(const Scores &scores, int64_t label) override {
    const double own = scores[label];
    int64_t above = 0;
    for (int64_t c = 0; c < scores.size(); ++c)
      above +=
          c != label && (c < label ? !(scores[c] < own) : !(scores[c] <= own));
    right += above < places && !std::isnan(own);
    ++labels;
  }

  const int64_t places;
  int64_t right = 0, labels = 0;
};

/// The agreement of labels and predictions of a class. A match is a label that
/// was predicted.
///
///   F1         2 * matches / (labels + predictions)
///   IoU        matches / (labels + predictions - matches)
///   Precision  matches / predictions
///   Recall     matches / labels
enum class Overlap { F1, IoU, Precision, Recall };

std::optional<Overlap> overlapOf(const std::string &metric) {
  const std::pair<const char *, Overlap> all[] = {
      {"f1", Overlap::F1},
      {"iou", Overlap::IoU},
      {"precision", Overlap::Precision},
      {"recall", Overlap::Recall}};
  for (const auto &[name, overlap] : all)
    if (metric == name)
      return overlap;
  return std::nullopt;
}

/// Counts the labels and predictions of each class.
class ClassCounts {
public:
  void add(size_t predicted, size_t label) {
    reserve(std::max(predicted, label) + 1);
    if (predicted == label)
      ++counts[label].both;
    ++counts[label].labels;
    ++counts[predicted].predictions;
  }
  /// Counts a label that was not predicted, or a prediction without a label.
  void addLabel(size_t c) {
    reserve(c + 1);
    ++counts[c].labels;
  }
  void addPrediction(size_t c) {
    reserve(c + 1);
    ++counts[c].predictions;
  }

  double mean(Overlap overlap) const {
    double sum = 0;
    int64_t occurring = 0;
    for (const Count &count : counts) {
      if (count.labels + count.predictions == 0)
        continue;
      ++occurring;
      sum += count.share(overlap);
    }
    return sum / double(occurring);
  }

private:
  struct Count {
    /// Returns the overlap of the class; 0 if the divisor is 0, as in
    /// scikit-learn.
    double share(Overlap overlap) const {
      const int64_t all = overlap == Overlap::Precision ? predictions
                          : overlap == Overlap::Recall  ? labels
                          : overlap == Overlap::IoU
                              ? labels + predictions - both
                              : labels + predictions;
      const int64_t part = overlap == Overlap::F1 ? 2 * both : both;
      return all == 0 ? 0 : double(part) / double(all);
    }
    int64_t labels = 0, predictions = 0, both = 0;
  };

  void reserve(size_t size) {
    if (counts.size() < size)
      counts.resize(size);
  }

  std::vector<Count> counts;
};

class ClassOverlap : public LabelMetric {
public:
  using LabelMetric::LabelMetric;
  double value() const override { return counts.mean(*overlapOf(name)); }

private:
  void add(const Scores &scores, int64_t label) override {
    int64_t best = 0;
    bool isNaN = std::isnan(scores[0]);
    for (int64_t c = 1; c < scores.size(); ++c) {
      isNaN |= std::isnan(scores[c]);
      if (scores[c] > scores[best])
        best = c;
    }
    if (isNaN)
      counts.addLabel(size_t(label));
    else
      counts.add(size_t(best), size_t(label));
  }

  ClassCounts counts;
};

/// exp of the mean of -log p[label].
class Perplexity : public LabelMetric {
public:
  Perplexity(std::string name, bool isLogarithm)
      : LabelMetric(std::move(name)), isLogarithm(isLogarithm) {}

  double value() const override { return std::exp(sum / double(labels)); }

private:
  void add(const Scores &scores, int64_t label) override {
    sum -= scores[label] - (isLogarithm ? 0 : logOfSum(scores));
    ++labels;
  }

  static double logOfSum(const Scores &scores) {
    double max = scores[0], total = 0;
    for (int64_t c = 1; c < scores.size(); ++c)
      max = std::max(max, scores[c]);
    for (int64_t c = 0; c < scores.size(); ++c)
      total += std::exp(scores[c] - max);
    return max + std::log(total);
  }

  const bool isLogarithm;
  double sum = 0;
  int64_t labels = 0;
};

//===----------------------------------------------------------------------===//
// Probabilities of classes
//===----------------------------------------------------------------------===//

/// The share of positions (R, d...) whose scores and targets (R, C, d...) are
/// greatest in the same class, like Keras's CategoricalAccuracy. Among equal
/// values, the first is the greatest. Scores with a NaN are never right.
class ProbabilityAccuracy : public EvalMetric {
public:
  using EvalMetric::EvalMetric;
  void add(const EvalBatch &batch) override {
    const Shape &shape = batch.prediction.shape;
    const int64_t classes = shape[1];
    const int64_t inner = numElements(Shape(shape.begin() + 2, shape.end()));
    const int64_t count = int64_t(batch.targets.size()) / classes;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t first = i / inner * classes * inner + i % inner;
      right += isRight(batch, first, classes, inner);
    }
    positions += count;
  }
  double value() const override { return double(right) / double(positions); }

private:
  static bool isRight(const EvalBatch &batch, int64_t first, int64_t classes,
                      int64_t stride) {
    int64_t best = 0, truth = 0;
    bool isNaN = std::isnan(batch.at(first));
    for (int64_t c = 1; c < classes; ++c) {
      const int64_t at = first + c * stride;
      isNaN |= std::isnan(batch.at(at));
      if (batch.at(at) > batch.at(first + best * stride))
        best = c;
      if (batch.targets[size_t(at)] >
          batch.targets[size_t(first + truth * stride)])
        truth = c;
    }
    return !isNaN && best == truth;
  }

  int64_t right = 0, positions = 0;
};

//===----------------------------------------------------------------------===//
// Binary targets
//===----------------------------------------------------------------------===//

/// A metric of targets that are positive from 1/2 on, and of predictions that
/// are positive above a threshold.
class BinaryMetric : public EvalMetric {
public:
  BinaryMetric(std::string name, double threshold)
      : EvalMetric(std::move(name)), threshold(threshold) {}

protected:
  bool isPositive(const EvalBatch &batch, size_t i) const {
    return batch.at(int64_t(i)) > threshold;
  }
  static bool isTarget(const EvalBatch &batch, size_t i) {
    return batch.targets[i] >= 0.5;
  }

private:
  const double threshold;
};

class BinaryAccuracy : public BinaryMetric {
public:
  using BinaryMetric::BinaryMetric;
  void add(const EvalBatch &batch) override {
    for (size_t i = 0; i < batch.targets.size(); ++i)
      right += !std::isnan(batch.at(int64_t(i))) &&
               isPositive(batch, i) == isTarget(batch, i);
    targets += int64_t(batch.targets.size());
  }
  double value() const override { return double(right) / double(targets); }

private:
  int64_t right = 0, targets = 0;
};

/// The overlap of binary targets. Each index on axis 1 is a class.
class BinaryOverlap : public BinaryMetric {
public:
  using BinaryMetric::BinaryMetric;
  void add(const EvalBatch &batch) override {
    const Shape &shape = batch.prediction.shape;
    const size_t classes = shape.size() < 2 ? 1 : size_t(shape[1]);
    const size_t inner =
        shape.size() < 2
            ? 1
            : size_t(numElements(Shape(shape.begin() + 2, shape.end())));
    for (size_t i = 0; i < batch.targets.size(); ++i) {
      const size_t c = i / inner % classes;
      if (isPositive(batch, i) && isTarget(batch, i))
        counts.add(c, c);
      else if (isTarget(batch, i))
        counts.addLabel(c);
      else if (isPositive(batch, i))
        counts.addPrediction(c);
    }
  }
  double value() const override { return counts.mean(*overlapOf(name)); }

private:
  ClassCounts counts;
};

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// The mean of |x - t|, or the root of the mean of (x - t)^2.
class MeanError : public EvalMetric {
public:
  MeanError(std::string name, bool isSquare)
      : EvalMetric(std::move(name)), isSquare(isSquare) {}

  void add(const EvalBatch &batch) override {
    for (size_t i = 0; i < batch.targets.size(); ++i) {
      const double error = batch.at(int64_t(i)) - batch.targets[i];
      sum += isSquare ? error * error : std::abs(error);
    }
    targets += int64_t(batch.targets.size());
  }
  double value() const override {
    const double mean = sum / double(targets);
    return isSquare ? std::sqrt(mean) : mean;
  }

private:
  const bool isSquare;
  double sum = 0;
  int64_t targets = 0;
};

/// The coefficient of determination, as in scikit-learn: 1 - squared errors /
/// squared deviations, as the mean over the outputs of a sample. An output
/// whose targets are all equal counts 1 without errors, else 0.
class R2 : public EvalMetric {
public:
  using EvalMetric::EvalMetric;

  void add(const EvalBatch &batch) override {
    const Shape &shape = batch.prediction.shape;
    if (!shape.empty())
      outputs.resize(
          size_t(numElements(Shape(shape.begin() + 1, shape.end()))));
    for (size_t i = 0; i < batch.targets.size(); ++i)
      outputs[i % outputs.size()].add(batch.targets[i], batch.at(int64_t(i)));
  }
  double value() const override {
    double sum = 0;
    for (const Output &output : outputs)
      sum += output.value();
    return sum / double(outputs.size());
  }

private:
  /// The sums for one output. Deviations are from a running mean (Welford
  /// 1962), because subtracting large sums of squares would lose digits.
  struct Output {
    void add(double target, double prediction) {
      const double before = target - mean;
      mean += before / double(++count);
      deviations += before * (target - mean);
      errors += (prediction - target) * (prediction - target);
    }
    double value() const {
      if (deviations == 0)
        return errors == 0 ? 1 : 0;
      return 1 - errors / deviations;
    }
    int64_t count = 0;
    double mean = 0, deviations = 0, errors = 0;
  };

  std::vector<Output> outputs = std::vector<Output>(1);
};

/// The kind of targets that a loss has.
enum class Family { Classes, Probabilities, Binary, Values, Other };

} // namespace

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// The number of classes of the target labels; nullopt if unknown.
static std::optional<int64_t> classesOf(const TraineeInfo &info) {
  return datasetOptionsFor(info).rangeOf(targetOf(info)).classes;
}

/// True if the targets are floats: a probability for each class.
static bool areProbabilities(const TraineeInfo &info) {
  const FunctionPorts *eval = info.function(kEvalFunction);
  const Port *label = eval ? eval->inputCalled(targetOf(info)) : nullptr;
  return label && runtime::isFloat(label->type);
}

static Family familyOf(const TraineeInfo &info) {
  switch (info.loss) {
  case LossKind::SoftmaxCrossEntropy:
    return areProbabilities(info) ? Family::Probabilities : Family::Classes;
  case LossKind::NLL:
    return Family::Classes;
  case LossKind::BCE:
  case LossKind::BCEWithLogits:
    return Family::Binary;
  case LossKind::MSE:
  case LossKind::L1:
  case LossKind::Huber:
  case LossKind::SmoothL1:
    return Family::Values;
  case LossKind::KLDiv:
  case LossKind::Output:
    break;
  }
  return classesOf(info) ? Family::Classes : Family::Other;
}

/// Returns the K of "topK"; nullopt for other names.
static std::optional<int64_t> placesOf(const std::string &name) {
  if (name.size() < 4 || name.size() > 9 || name.compare(0, 3, "top") != 0 ||
      name[3] == '0' || !std::all_of(name.begin() + 3, name.end(), [](char c) {
        return c >= '0' && c <= '9';
      }))
    return std::nullopt;
  return std::stoll(name.substr(3));
}

namespace {
struct MetricInfo {
  const char *name;
  std::vector<Family> families;
};
} // namespace

static const std::vector<MetricInfo> &metricTable() {
  static const std::vector<MetricInfo> table = {
      {"accuracy", {Family::Classes, Family::Probabilities, Family::Binary}},
      {"f1", {Family::Classes, Family::Binary}},
      {"precision", {Family::Classes, Family::Binary}},
      {"recall", {Family::Classes, Family::Binary}},
      {"iou", {Family::Classes, Family::Binary}},
      {"auc", {Family::Classes, Family::Binary}},
      {"perplexity", {Family::Classes}},
      {"mae", {Family::Values}},
      {"rmse", {Family::Values}},
      {"r2", {Family::Values}}};
  return table;
}

std::string listEvalMetrics() {
  std::string text;
  for (const MetricInfo &info : metricTable())
    text += info.name + std::string(", ");
  return text + "or topK, such as top5";
}

Status checkEvalMetric(const std::string &name) {
  const auto &table = metricTable();
  if (placesOf(name) ||
      std::any_of(table.begin(), table.end(),
                  [&](const MetricInfo &info) { return info.name == name; }))
    return Status();
  return Status(StatusCode::Usage,
                "unknown metric '" + name + "'; expected " + listEvalMetrics());
}

/// Returns the kinds of targets for which the metric is defined.
static std::vector<Family> familiesOf(const std::string &name) {
  for (const MetricInfo &info : metricTable())
    if (info.name == name)
      return info.families;
  return {Family::Classes};
}

static std::string describe(const std::vector<Family> &families) {
  std::string text;
  for (Family family : families)
    text += std::string(text.empty() ? "" : " and ") +
            (family == Family::Classes         ? "class labels"
             : family == Family::Probabilities ? "probabilities of classes"
             : family == Family::Binary        ? "binary targets (bce, "
                                                 "bce_with_logits)"
                                        : "values (mse, l1, huber, smooth_l1)");
  return text;
}

/// True if the eval function returns a prediction for every label.
static bool canMeasure(const TraineeInfo &info) {
  const FunctionPorts *eval = info.function(kEvalFunction);
  const Port *prediction = eval ? eval->output(Role::Prediction) : nullptr;
  const Port *label = eval ? eval->inputCalled(targetOf(info)) : nullptr;
  if (!prediction || !label)
    return false;
  std::optional<int64_t> classes;
  if (familyOf(info) == Family::Classes)
    classes = classesOf(info);
  if (classes &&
      (prediction->shape.size() < 2 || prediction->shape[1] != *classes))
    return false;
  return numElements(prediction->shape) ==
         numElements(label->shape) * classes.value_or(1);
}

Status checkEvalMetrics(const TraineeInfo &info,
                        const std::vector<std::string> &names) {
  // Check that each metric is known, fits the loss, and can be measured.
  for (const std::string &name : names) {
    if (Status status = checkEvalMetric(name); !status.ok())
      return status;
    const std::vector<Family> families = familiesOf(name);
    if (std::find(families.begin(), families.end(), familyOf(info)) ==
        families.end())
      return Status(StatusCode::Usage,
                    familyOf(info) == Family::Probabilities
                        ? "--metric " + name +
                              " needs class labels, and targets of the "
                              "scores' shape are probabilities"
                        : "--metric " + name + " is for losses of " +
                              describe(families) + ", and the loss is " +
                              describeLoss(info));
    if (!canMeasure(info))
      return Status(StatusCode::Usage,
                    "--metric " + name +
                        " needs a prediction for every label, which the "
                        "evaluation of this model does not have");
    // With fewer than k classes, top k would always be right.
    const std::optional<int64_t> classes = classesOf(info);
    const std::optional<int64_t> places = placesOf(name);
    if (places && *places > *classes)
      return Status(StatusCode::Usage, "--metric " + name + ": there are " +
                                           std::to_string(*classes) +
                                           " classes");
  }
  return Status();
}

std::vector<std::unique_ptr<EvalMetric>>
makeEvalMetrics(const TraineeInfo &info,
                const std::vector<std::string> &names) {
  // With bce, predictions are probabilities, positive above 0.5. With other
  // losses, they are logits, positive above 0.
  const Family family = familyOf(info);
  const double threshold = info.loss == LossKind::BCE ? 0.5 : 0.0;
  std::vector<std::unique_ptr<EvalMetric>> metrics;
  if (!canMeasure(info))
    return metrics;
  // Accuracy is measured even if --metric does not name it.
  if (family == Family::Probabilities)
    metrics.push_back(std::make_unique<ProbabilityAccuracy>("accuracy"));
  if (family == Family::Binary)
    metrics.push_back(std::make_unique<BinaryAccuracy>("accuracy", threshold));
  // checkEvalMetrics has refused metrics that do not fit the loss.
  for (const std::string &name : names) {
    if (const std::optional<int64_t> places = placesOf(name))
      metrics.push_back(std::make_unique<TopK>(name, *places));
    else if (overlapOf(name) && family == Family::Binary)
      metrics.push_back(std::make_unique<BinaryOverlap>(name, threshold));
    else if (overlapOf(name))
      metrics.push_back(std::make_unique<ClassOverlap>(name));
    else if (name == "auc" && family == Family::Binary)
      metrics.push_back(std::make_unique<BinaryAreas>(name));
    else if (name == "auc")
      metrics.push_back(std::make_unique<ClassAreas>(name));
    else if (name == "perplexity")
      metrics.push_back(
          std::make_unique<Perplexity>(name, info.loss == LossKind::NLL));
    else if (name == "mae" || name == "rmse")
      metrics.push_back(std::make_unique<MeanError>(name, name == "rmse"));
    else if (name == "r2")
      metrics.push_back(std::make_unique<R2>(name));
  }
  return metrics;
}

} // namespace mpc::runtime::train
