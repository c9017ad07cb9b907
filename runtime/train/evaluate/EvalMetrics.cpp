// Implements the metrics of class labels, of binary targets and of values.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/evaluate/EvalMetrics.h"

#include "runtime/train/evaluate/AreaUnderCurve.h"
#include "runtime/train/evaluate/ClassReport.h"
#include "runtime/train/evaluate/MeasuredLoss.h"
#include "runtime/train/evaluate/Scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mpc::runtime::train {

//===----------------------------------------------------------------------===//
// Class labels
//===----------------------------------------------------------------------===//

namespace {

/// A metric that adds up a value for each label, except ignored labels.
class LabelMetric : public EvalMetric {
public:
  using EvalMetric::EvalMetric;
  void add(const EvalBatch &batch) final {
    for (size_t i = 0; i < batch.labels.size(); ++i)
      if (counts(batch, batch.labels[i]))
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
  std::vector<double> sums() const override {
    return {double(right), double(labels)};
  }
  void merge(const std::vector<double> &sums) override {
    right += int64_t(sums[0]);
    labels += int64_t(sums[1]);
  }

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

/// The agreement of predictions and labels.
class ClassAgreement : public LabelMetric {
public:
  ClassAgreement(std::string name, Agreement agreement)
      : LabelMetric(std::move(name)), agreement(agreement) {}
  double value() const override { return counted.value(agreement); }
  std::vector<double> sums() const override { return counted.sums(); }
  void merge(const std::vector<double> &sums) override { counted.merge(sums); }

private:
  void add(const Scores &scores, int64_t label) override {
    if (const std::optional<int64_t> predicted = scores.predicted())
      counted.add(size_t(*predicted), size_t(label));
    else
      counted.addLabel(size_t(label));
  }

  const Agreement agreement;
  ClassCounts counted;
};

/// exp of the mean of -log p[label].
class Perplexity : public LabelMetric {
public:
  Perplexity(std::string name, bool isLogarithm)
      : LabelMetric(std::move(name)), isLogarithm(isLogarithm) {}

  double value() const override { return std::exp(sum / double(labels)); }
  std::vector<double> sums() const override { return {sum, double(labels)}; }
  void merge(const std::vector<double> &sums) override {
    sum += sums[0];
    labels += int64_t(sums[1]);
  }

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
  std::vector<double> sums() const override {
    return {double(right), double(positions)};
  }
  void merge(const std::vector<double> &sums) override {
    right += int64_t(sums[0]);
    positions += int64_t(sums[1]);
  }

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

class BinaryAccuracy : public EvalMetric {
public:
  BinaryAccuracy(std::string name, double threshold)
      : EvalMetric(std::move(name)), threshold(threshold) {}
  void add(const EvalBatch &batch) override {
    for (size_t i = 0; i < batch.targets.size(); ++i) {
      const double value = batch.at(int64_t(i));
      right += !std::isnan(value) &&
               (value > threshold) == (batch.targets[i] >= 0.5);
    }
    targets += int64_t(batch.targets.size());
  }
  double value() const override { return double(right) / double(targets); }
  std::vector<double> sums() const override {
    return {double(right), double(targets)};
  }
  void merge(const std::vector<double> &sums) override {
    right += int64_t(sums[0]);
    targets += int64_t(sums[1]);
  }

private:
  const double threshold;
  int64_t right = 0, targets = 0;
};

/// The agreement of binary targets and predictions.
class BinaryAgreement : public EvalMetric {
public:
  BinaryAgreement(std::string name, Agreement agreement, double threshold)
      : EvalMetric(std::move(name)), agreement(agreement),
        threshold(threshold) {}
  void add(const EvalBatch &batch) override {
    forEachBinary(batch, threshold,
                  [&](size_t c, bool isPredicted, bool isTarget) {
                    counted.add(c, isPredicted, isTarget);
                  });
  }
  double value() const override { return counted.value(agreement); }
  std::vector<double> sums() const override { return counted.sums(); }
  void merge(const std::vector<double> &sums) override { counted.merge(sums); }

private:
  const Agreement agreement;
  const double threshold;
  BinaryCounts counted;
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
  std::vector<double> sums() const override { return {sum, double(targets)}; }
  void merge(const std::vector<double> &sums) override {
    sum += sums[0];
    targets += int64_t(sums[1]);
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
  std::vector<double> sums() const override {
    std::vector<double> values;
    for (const Output &output : outputs)
      values.insert(values.end(), {double(output.count), output.mean,
                                   output.deviations, output.errors});
    return values;
  }
  void merge(const std::vector<double> &sums) override {
    outputs.resize(std::max(outputs.size(), sums.size() / 4));
    for (size_t i = 0; i < sums.size(); i += 4)
      outputs[i / 4].merge(
          {int64_t(sums[i]), sums[i + 1], sums[i + 2], sums[i + 3]});
  }

private:
  /// The sums for one output. Deviations are from a running mean (Welford
  /// 1962), because subtracting large sums of squares would lose digits.
  struct Output {
    Output(int64_t count = 0, double mean = 0, double deviations = 0,
           double errors = 0)
        : count(count), mean(mean), deviations(deviations), errors(errors) {}

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
    /// Adds the sums of other samples (Chan, Golub and LeVeque 1979).
    void merge(const Output &other) {
      if (other.count == 0)
        return;
      const double all = double(count + other.count);
      const double apart = other.mean - mean;
      deviations += other.deviations +
                    apart * apart * double(count) * double(other.count) / all;
      mean += apart * double(other.count) / all;
      errors += other.errors;
      count += other.count;
    }

    int64_t count;
    double mean, deviations, errors;
  };

  std::vector<Output> outputs = std::vector<Output>(1);
};

} // namespace

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

double thresholdOf(LossKind kind) { return kind == LossKind::BCE ? 0.5 : 0.0; }

void forEachBinary(const EvalBatch &batch, double threshold,
                   const std::function<void(size_t, bool, bool)> &visit) {
  const Shape &shape = batch.prediction.shape;
  const size_t classes = shape.size() < 2 ? 1 : size_t(shape[1]);
  const size_t inner =
      shape.size() < 2
          ? 1
          : size_t(numElements(Shape(shape.begin() + 2, shape.end())));
  for (size_t i = 0; i < batch.targets.size(); ++i)
    visit(i / inner % classes, batch.at(int64_t(i)) > threshold,
          batch.targets[i] >= 0.5);
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
      {"balanced_accuracy", {Family::Classes, Family::Binary}},
      {"mcc", {Family::Classes, Family::Binary}},
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

Status checkEvalMetric(const std::string &text) {
  const auto &table = metricTable();
  const MetricName metric(text);
  const bool isKnown =
      placesOf(metric.name) ||
      std::any_of(table.begin(), table.end(), [&](const MetricInfo &info) {
        return info.name == metric.name;
      });
  if (isKnown && metric.output != "")
    return Status();
  return Status(StatusCode::Usage,
                "unknown metric '" + text + "'; expected " + listEvalMetrics() +
                    ", each with an optional @OUTPUT of a loss");
}

bool isShare(const std::string &metric) {
  const std::string name = MetricName(metric).name;
  return name == "accuracy" || name == "balanced_accuracy" || placesOf(name);
}

bool isBetterLarge(const std::string &metric) {
  const std::string name = MetricName(metric).name;
  const char *const errors[] = {"loss", "perplexity", "mae", "rmse"};
  return std::find(std::begin(errors), std::end(errors), name) ==
             std::end(errors) &&
         !isLossName(metric);
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

static bool isFor(const std::string &name, const MeasuredLoss &loss) {
  const std::vector<Family> families = familiesOf(name);
  return std::find(families.begin(), families.end(), loss.family) !=
         families.end();
}

/// Returns the loss that the metric belongs to: the first loss, or the first
/// loss of the metric's output that the metric fits. Null if no loss reads the
/// output.
static const MeasuredLoss *findLoss(const MetricName &metric,
                                    const std::vector<MeasuredLoss> &losses) {
  if (!metric.output)
    return losses.empty() ? nullptr : &losses.front();
  const MeasuredLoss *found = nullptr;
  for (const MeasuredLoss &loss : losses)
    if (readsOutput(loss, *metric.output) &&
        (!found || (!isFor(metric.name, *found) && isFor(metric.name, loss))))
      found = &loss;
  return found;
}

static Status unknownOutput(const std::string &text, const MetricName &metric,
                            const std::vector<MeasuredLoss> &losses) {
  std::string names;
  for (const MeasuredLoss &loss : losses)
    names +=
        (names.empty() ? "" : ", ") + loss.name +
        (losses.size() == 1 && !loss.output.empty() ? "@" + loss.output : "");
  const bool isNamed = !losses.empty() && !losses.front().output.empty();
  return Status(StatusCode::Usage,
                "--metric " + text + ": no loss reads the output '" +
                    *metric.output + "'; the loss" +
                    (losses.size() == 1 ? " is " : "es are ") + names +
                    (isNamed ? "" : "; leave out @" + *metric.output));
}

/// Checks that the evaluation can measure the metric `text`.
static Status checkMetric(const std::string &text,
                          const std::vector<MeasuredLoss> &losses) {
  if (Status status = checkEvalMetric(text); !status.ok())
    return status;
  const MetricName metric(text);
  const MeasuredLoss *loss = findLoss(metric, losses);
  if (!loss && metric.output)
    return unknownOutput(text, metric, losses);
  if (!loss)
    return Status(StatusCode::Usage, "--metric " + text +
                                         ": the artifact has no function "
                                         "'eval'");
  if (!isFor(metric.name, *loss)) {
    std::string message =
        loss->family == Family::Probabilities
            ? "--metric " + text +
                  " needs class labels, and targets of the scores' shape are "
                  "probabilities"
            : "--metric " + text + " is for losses of " +
                  describe(familiesOf(metric.name)) + ", and the loss is " +
                  loss->name;
    for (const MeasuredLoss &other : losses)
      if (!metric.output && !other.output.empty() && isFor(metric.name, other))
        return Status(StatusCode::Usage, message + "; to measure " +
                                             other.name + ", use --metric " +
                                             text + "@" + other.output);
    return Status(StatusCode::Usage, message);
  }
  if (!loss->canMeasure())
    return Status(StatusCode::Usage,
                  "--metric " + text +
                      " needs a prediction for every label, which the "
                      "evaluation of this model does not have");
  // With fewer than k classes, top k would always be right.
  const std::optional<int64_t> places = placesOf(metric.name);
  if (places && loss->classes && *places > *loss->classes)
    return Status(StatusCode::Usage, "--metric " + text + ": there are " +
                                         std::to_string(*loss->classes) +
                                         " classes");
  return Status();
}

Status checkEvalMetrics(const TraineeInfo &info,
                        const std::vector<std::string> &names) {
  const std::vector<MeasuredLoss> losses = listMeasuredLosses(info);
  for (const std::string &name : names)
    if (Status status = checkMetric(name, losses); !status.ok())
      return status;
  return Status();
}

/// Makes the metric `text`, whose name without @OUTPUT is `name`.
static std::unique_ptr<EvalMetric> makeMetric(const std::string &text,
                                              const std::string &name,
                                              const MeasuredLoss &loss) {
  // With bce, predictions are probabilities, positive above 0.5. With other
  // losses, they are logits, positive above 0.
  const double threshold = thresholdOf(loss.kind);
  const bool isBinary = loss.family == Family::Binary;
  if (const std::optional<int64_t> places = placesOf(name))
    return std::make_unique<TopK>(text, *places);
  if (const std::optional<Agreement> agreement = agreementOf(name)) {
    if (isBinary)
      return std::make_unique<BinaryAgreement>(text, *agreement, threshold);
    return std::make_unique<ClassAgreement>(text, *agreement);
  }
  if (name == "accuracy" && loss.family == Family::Probabilities)
    return std::make_unique<ProbabilityAccuracy>(text);
  if (name == "accuracy" && isBinary)
    return std::make_unique<BinaryAccuracy>(text, threshold);
  if (name == "accuracy")
    return std::make_unique<TopK>(text, 1);
  if (name == "auc" && isBinary)
    return std::make_unique<BinaryAreas>(text);
  if (name == "auc")
    return std::make_unique<ClassAreas>(text);
  if (name == "perplexity")
    return std::make_unique<Perplexity>(text, loss.kind == LossKind::NLL);
  if (name == "r2")
    return std::make_unique<R2>(text);
  return std::make_unique<MeanError>(text, name == "rmse");
}

LossMetrics::LossMetrics() = default;
LossMetrics::LossMetrics(LossMetrics &&) = default;
LossMetrics &LossMetrics::operator=(LossMetrics &&) = default;
LossMetrics::~LossMetrics() = default;

std::vector<LossMetrics> makeEvalMetrics(const TraineeInfo &info,
                                         const std::vector<std::string> &names,
                                         bool reportsClasses) {
  std::vector<LossMetrics> groups;
  const std::vector<MeasuredLoss> losses = listMeasuredLosses(info);
  for (const MeasuredLoss &loss : losses) {
    LossMetrics group;
    group.prediction = loss.prediction;
    group.label = loss.label ? loss.label->name : "";
    group.ignoredLabel = loss.ignoredLabel;
    // The first loss reports its accuracy even if --metric does not name it.
    // The artifact computes that of class labels.
    const bool isFirst = &loss == &losses.front();
    if (isFirst && loss.canMeasure() &&
        (loss.family == Family::Probabilities || loss.family == Family::Binary))
      group.metrics.push_back(makeMetric("accuracy", "accuracy", loss));
    for (const std::string &text : names) {
      const MetricName metric(text);
      const bool isReported = text == "accuracy";
      if (!isReported && findLoss(metric, losses) == &loss && loss.canMeasure())
        group.metrics.push_back(makeMetric(text, metric.name, loss));
    }
    if (reportsClasses)
      group.reporter = makeClassReporter(loss);
    if (!info.losses.empty())
      group.output = loss.output.empty() ? loss.name : loss.output;
    if (group.reporter || !group.metrics.empty())
      groups.push_back(std::move(group));
  }
  return groups;
}

} // namespace mpc::runtime::train
