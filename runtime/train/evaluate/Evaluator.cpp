// Computes loss, accuracy and metrics over all samples. Samples that only fill
// up the last batch do not count.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/evaluate/Evaluator.h"

#include "runtime/train/data/BatchLoader.h"
#include "runtime/train/evaluate/EvalMetrics.h"
#include "runtime/train/evaluate/LossTerms.h"
#include "runtime/train/record/Metrics.h"
#include "runtime/train/support/Text.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <map>

namespace mpc::runtime::train {

void countCorrect(const Tensor &correct, const std::vector<int64_t> &labels,
                  const std::optional<int64_t> &ignored, LabelCount &totals) {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (ignored && labels[i] == *ignored)
      continue;
    totals.correct += correct.as<double>()[i] != 0;
    ++totals.labels;
  }
}

std::optional<int64_t> findIgnoredLabel(const TraineeInfo &info) {
  return datasetOptionsFor(info).rangeOf(targetOf(info)).ignoreIndex;
}

/// Runs the batch of the samples at `positions`.
static Status runBatch(Trainee &model, const Dataset &data,
                       const std::vector<int64_t> &positions) {
  Status status = data.bind(model, kEvalFunction, positions.data());
  return status.ok() ? model.run(kEvalFunction) : status;
}

/// Reads the losses and weights of the first `count` samples of the current
/// batch.
static StatusOr<std::vector<double>>
readTerms(Trainee &model, const std::vector<LossTerm> &terms, int64_t count,
          int64_t batch) {
  std::vector<double> values;
  for (const LossTerm &term : terms)
    for (const Port *port : {term.losses, term.weights}) {
      if (!port)
        continue;
      StatusOr<Tensor> value = readOutput(model, *port);
      if (!value.ok())
        return value.status();
      const double *first = value->as<double>();
      values.insert(values.end(), first, first + value->size() / batch * count);
    }
  return values;
}

/// Runs the last `count` samples, from `begin` on, which do not fill a batch.
/// Runs them twice, filled up with other samples and with copies of the last
/// sample. False if their losses differ: the samples that fill up the batch
/// would then influence the result.
static StatusOr<bool> runFilled(Trainee &model, const Dataset &data,
                                const std::vector<LossTerm> &terms,
                                int64_t begin, int64_t count) {
  assert(count > 0 && count < data.batchSize() && "an incomplete batch");
  const int64_t batch = data.batchSize();
  std::vector<int64_t> positions(static_cast<size_t>(batch));
  std::vector<double> values[2];
  for (const bool ofLast : {false, true}) {
    for (int64_t i = 0; i < batch; ++i)
      positions[size_t(i)] =
          ofLast ? begin + std::min(i, count - 1) : (begin + i) % data.size();
    if (Status status = runBatch(model, data, positions); !status.ok())
      return status;
    StatusOr<std::vector<double>> read = readTerms(model, terms, count, batch);
    if (!read.ok())
      return read.status();
    values[ofLast] = std::move(*read);
  }
  assert(values[0].size() == values[1].size() &&
         "the same outputs are read twice");
  // Compare bit by bit: a normalization over the batch may change only the last
  // digits.
  return std::memcmp(values[0].data(), values[1].data(),
                     values[0].size() * sizeof(double)) == 0;
}

namespace {

/// One evaluation: the outputs to read after every batch, and the sums over all
/// batches.
class Evaluation {
public:
  static StatusOr<Evaluation> create(Trainee &model, const Dataset &data,
                                     const std::vector<std::string> &metrics,
                                     bool reportsClasses);

  /// Continues with the samples of another data set.
  void continueWith(const Dataset &other) { data = &other; }

  /// Runs the batch at `begin`, complete or cut off at `end`, and adds its
  /// losses and metrics. False if an incomplete batch must be left out.
  StatusOr<bool> addBatch(int64_t begin, int64_t end);
  /// Runs all batches of this rank. Ends early if `stop` becomes nonzero.
  Status addShare(Ranks &ranks, const std::atomic<int> *stop,
                  const std::function<void(int64_t)> &progress);
  /// Adds the sums of all ranks, in the order of the ranks.
  Status combine(Ranks &ranks);
  /// Returns the result over all batches that were added.
  StatusOr<EvalResult> finish();

  EvalResult result;

private:
  Evaluation(Trainee &model, const Dataset &data, const FunctionPorts &ports)
      : model(&model), data(&data), ports(&ports), batch(data.batchSize()),
        stride(batch), positions(static_cast<size_t>(batch)) {}

  StatusOr<bool> run(int64_t begin, int64_t count);
  Status runWhole(int64_t begin);
  Status addLoss(int64_t count, const std::vector<int64_t> &labels);
  Status addMetrics(int64_t count);
  std::vector<double *> listSums();
  void nameTerms();
  void takeMetrics();
  Status addCorrect(const std::vector<int64_t> &labels);

  Trainee *model;
  const Dataset *data;
  const FunctionPorts *ports;
  int64_t batch;
  int64_t stride; ///< samples between the beginnings of this rank's batches
  std::vector<int64_t> positions; ///< samples of the current batch
  BatchLoader loader;

  /// One term for each output with a loss per sample. If there is no such
  /// output, a single term for `mean`, the output with the mean over a batch.
  std::vector<LossTerm> terms;
  const Port *mean = nullptr;
  /// The output with a 1 or 0 for each label; null if there is none.
  const Port *correct = nullptr;
  std::string target;
  std::optional<int64_t> ignored, ignoredLoss;

  /// In mean mode: the outputs with the means of several losses.
  std::vector<std::pair<const Port *, LossTerm>> means;

  std::vector<std::string> names; ///< of the requested metrics
  std::vector<LossMetrics> metrics;
  LabelCount counted;
};

} // namespace

StatusOr<Evaluation> Evaluation::create(Trainee &model, const Dataset &data,
                                        const std::vector<std::string> &metrics,
                                        bool reportsClasses) {
  const TraineeInfo &info = model.info();
  const FunctionPorts *ports = info.function(kEvalFunction);
  if (!ports)
    return Status(StatusCode::Unsupported,
                  "the artifact has no function 'eval'");
  Evaluation evaluation(model, data, *ports);
  // Prefer losses of samples, which can leave out padding. A mean over the
  // batch cannot.
  StatusOr<std::vector<LossTerm>> terms = findTerms(*ports, evaluation.batch);
  if (!terms.ok())
    return terms.status();
  evaluation.terms = std::move(*terms);
  if (evaluation.terms.empty()) {
    evaluation.mean = ports->output(Role::Loss);
    if (!evaluation.mean)
      return Status(StatusCode::Unsupported,
                    "the artifact's function 'eval' reports no loss");
    evaluation.terms.emplace_back();
  }
  evaluation.nameTerms();
  // `lossTarget` is set if the loss is a sum of several losses. A label that
  // one loss ignores counts in the other losses.
  evaluation.target = targetOf(info);
  evaluation.ignored = findIgnoredLabel(info);
  if (info.lossTarget.empty())
    evaluation.ignoredLoss = evaluation.ignored;
  // Use the output `correct` only if it has one value per label.
  const Port *correct = ports->output(Role::Correct);
  const Port *label = ports->inputCalled(evaluation.target);
  if (correct && label &&
      numElements(correct->shape) == numElements(label->shape))
    evaluation.correct = correct;
  evaluation.names = metrics;
  evaluation.metrics = makeEvalMetrics(info, metrics, reportsClasses);
  evaluation.loader.open(model, kEvalFunction);
  return evaluation;
}

/// Runs the whole batch at `begin` and prepares the next batch meanwhile.
Status Evaluation::runWhole(int64_t begin) {
  assert(begin >= 0 && begin + batch <= data->size() && "a whole batch");
  const auto next = [&] {
    BatchSamples samples;
    if (begin + stride + batch <= data->size())
      for (int64_t i = 0; i < batch; ++i)
        samples.positions.push_back(begin + stride + i);
    return samples;
  };
  Status status = loader.bind(*data, *model, kEvalFunction, positions.data(),
                              /*epoch=*/std::nullopt);
  if (!status.ok())
    return status;
  loader.prepare(*data, *model, kEvalFunction, next);
  status = model->run(kEvalFunction);
  if (status.ok())
    loader.stage(*data, *model, kEvalFunction, next);
  return status;
}

/// Runs the batch of `count` samples at `begin`. Copies of the last sample fill
/// up an incomplete batch. False if the copies would influence the loss.
StatusOr<bool> Evaluation::run(int64_t begin, int64_t count) {
  assert(count > 0 && count <= batch && begin + count <= data->size() &&
         "samples of the data");
  for (int64_t i = 0; i < batch; ++i)
    positions[size_t(i)] = begin + std::min(i, count - 1);
  if (count < batch)
    return runFilled(*model, *data, terms, begin, count);
  Status status = runWhole(begin);
  return status.ok() ? StatusOr<bool>(true) : StatusOr<bool>(status);
}

Status Evaluation::addLoss(int64_t count, const std::vector<int64_t> &labels) {
  assert(!terms.empty() && (!mean || terms.size() == 1) &&
         "a term per loss, or one for the mean");
  for (auto &[port, term] : means)
    if (Status status = addMean(*model, *port, count, term); !status.ok())
      return status;
  if (mean)
    return addMean(*model, *mean, count, terms.front());
  for (LossTerm &term : terms)
    if (Status status =
            addTerm(*model, term, count, batch, labels, ignoredLoss);
        !status.ok())
      return status;
  return Status();
}

Status Evaluation::addMetrics(int64_t count) {
  for (LossMetrics &group : metrics) {
    assert(group.prediction && "metrics need a prediction");
    StatusOr<Tensor> prediction =
        model->output(kEvalFunction, group.prediction->name);
    if (prediction.ok() && prediction->type != DType::F64 &&
        prediction->type != DType::F32)
      prediction = convert(*prediction, DType::F32);
    if (!prediction.ok())
      return prediction.status();
    const std::vector<int64_t> labels =
        data->labels(positions.data(), count, group.label);
    const std::vector<double> targets =
        data->targets(positions.data(), count, group.label);
    const EvalBatch read = {*prediction, labels, targets, group.ignoredLabel};
    for (const std::unique_ptr<EvalMetric> &metric : group.metrics)
      metric->add(read);
    if (group.reporter)
      group.reporter->add(read);
  }
  return Status();
}

Status Evaluation::addCorrect(const std::vector<int64_t> &labels) {
  if (!correct)
    return Status();
  StatusOr<Tensor> isCorrect = readOutput(*model, *correct);
  if (!isCorrect.ok())
    return isCorrect.status();
  countCorrect(*isCorrect, labels, ignored, counted);
  return Status();
}

StatusOr<bool> Evaluation::addBatch(int64_t begin, int64_t end) {
  assert(begin >= 0 && begin < end && end <= data->size() &&
         result.leftOut == 0 && "only the last batch can be left out");
  const int64_t count = std::min(batch, end - begin);
  // A mean over the batch cannot exclude padding, so leave incomplete batches
  // out.
  if (count < batch && mean) {
    result.leftOut = count;
    return false;
  }
  StatusOr<bool> isAlone = run(begin, count);
  if (!isAlone.ok())
    return isAlone;
  if (!*isAlone) {
    result.leftOut = count;
    result.areDependent = true;
    return false;
  }
  result.samples += count;
  const std::vector<int64_t> labels =
      data->labels(positions.data(), count, target);
  if (Status status = addLoss(count, labels); !status.ok())
    return status;
  if (Status status = addMetrics(count); !status.ok())
    return status;
  if (Status status = addCorrect(labels); !status.ok())
    return status;
  return true;
}

StatusOr<EvalResult> Evaluation::finish() {
  // If the samples of a batch depend on each other, only whole batches count.
  if (result.areDependent && result.samples == 0)
    return Status(StatusCode::Unsupported,
                  "the samples of a batch depend on each other, and " +
                      train::counted(data->size(), "sample") +
                      " fill no batch of " + std::to_string(batch) +
                      "; choose a --batch-size that divides them");
  // Without any label that counts, there is no loss.
  if (std::all_of(terms.begin(), terms.end(),
                  [](const LossTerm &term) { return term.count == 0; }))
    return Status(StatusCode::InvalidInput,
                  "no sample of the evaluation data counts: all labels are "
                  "ignored or have weight 0");
  // Divide the sums only now, so that a sample has the same weight in any
  // batch.
  result.loss = lossOf(terms, model->info().sumsLoss);
  if (counted.labels > 0)
    result.accuracy = double(counted.correct) / double(counted.labels);
  for (const LossTerm &term : terms)
    if (!term.name.empty())
      result.terms.emplace_back(term.name, term.value(model->info().sumsLoss));
  for (const auto &[port, term] : means)
    result.terms.emplace_back(term.name, term.value(model->info().sumsLoss));
  takeMetrics();
  return result;
}

/// Moves the values of metrics and reports to the result, in the order of the
/// request.
void Evaluation::takeMetrics() {
  std::map<std::string, double> values;
  for (const LossMetrics &group : metrics) {
    for (const std::unique_ptr<EvalMetric> &metric : group.metrics)
      values[metric->name] = metric->value();
    if (!group.reporter)
      continue;
    ClassReport report = group.reporter->report();
    report.output = group.output;
    report.label = group.label;
    result.classes.push_back(std::move(report));
  }
  if (const auto found = values.find("accuracy"); found != values.end())
    result.accuracy = found->second;
  for (const std::string &name : names)
    if (name != "accuracy")
      if (const auto found = values.find(name); found != values.end())
        result.metrics.emplace_back(name, found->second);
}

/// Gives the terms of several losses their names and factors. Without losses of
/// samples, adds the outputs with their means.
void Evaluation::nameTerms() {
  for (const NamedLoss &loss : model->info().losses) {
    for (LossTerm &term : terms)
      if (term.losses &&
          term.losses->name == std::string(kSampleLossPrefix) + loss.name) {
        term.name = loss.name;
        term.factor = loss.factor;
      }
    for (const Port &port : ports->outputs)
      if (mean && port.role == Role::Loss &&
          port.name == std::string(kLossPrefix) + loss.name) {
        means.emplace_back(&port, LossTerm());
        means.back().second.name = loss.name;
      }
  }
}

Status Evaluation::addShare(Ranks &ranks, const std::atomic<int> *stop,
                            const std::function<void(int64_t)> &progress) {
  stride = batch * ranks.count();
  for (int64_t begin = batch * ranks.own(); begin < data->size();
       begin += stride) {
    if (stop && stop->load() != 0) {
      result.stopped = true;
      return Status();
    }
    StatusOr<bool> isCounted = addBatch(begin, data->size());
    if (!isCounted.ok())
      return isCounted.status();
    // Only the last batch can be left out.
    if (*isCounted && progress)
      progress(result.samples);
  }
  return Status();
}

/// Lists the sums of losses over samples.
std::vector<double *> Evaluation::listSums() {
  std::vector<double *> sums;
  for (LossTerm &term : terms)
    sums.insert(sums.end(), {&term.sum, &term.count});
  for (auto &[port, term] : means)
    sums.insert(sums.end(), {&term.sum, &term.count});
  return sums;
}

Status Evaluation::combine(Ranks &ranks) {
  std::vector<double> own = {
      double(result.stopped),  double(result.samples),
      double(result.leftOut),  double(result.areDependent),
      double(counted.correct), double(counted.labels)};
  const size_t first = own.size();
  const std::vector<double *> sums = listSums();
  for (const double *sum : sums)
    own.push_back(*sum);
  StatusOr<std::vector<double>> all = ranks.gather(own);
  if (!all.ok())
    return all.status();
  std::vector<double> total(own.size());
  for (size_t i = 0; i < all->size(); ++i)
    total[i % own.size()] += (*all)[i];
  result.stopped = total[0] != 0;
  result.samples = int64_t(total[1]);
  result.leftOut = int64_t(total[2]);
  result.areDependent = total[3] != 0;
  counted = {int64_t(total[4]), int64_t(total[5])};
  for (size_t i = 0; i < sums.size(); ++i)
    *sums[i] = total[first + i];
  if (result.stopped)
    return Status();
  std::vector<LossMetrics> merged = makeEvalMetrics(model->info(), names);
  for (size_t group = 0; group < merged.size(); ++group)
    for (size_t i = 0; i < merged[group].metrics.size(); ++i) {
      const std::vector<double> values = metrics[group].metrics[i]->sums();
      StatusOr<std::vector<std::string>> parts = ranks.gatherTexts(
          std::string(reinterpret_cast<const char *>(values.data()),
                      values.size() * sizeof(double)));
      if (!parts.ok())
        return parts.status();
      for (const std::string &part : *parts) {
        std::vector<double> read(part.size() / sizeof(double));
        // memcpy takes no null pointer, not even for no bytes.
        if (!read.empty())
          std::memcpy(read.data(), part.data(), part.size());
        merged[group].metrics[i]->merge(read);
      }
    }
  metrics = std::move(merged);
  return Status();
}

StatusOr<EvalResult> evaluate(Trainee &model, const Dataset &data,
                              const std::atomic<int> *stop,
                              const std::vector<std::string> &metricNames,
                              const std::function<void(int64_t)> &progress,
                              bool reportsClasses, Ranks *ranks) {
  Ranks alone(nullptr);
  Ranks &all = ranks ? *ranks : alone;
  assert((all.isSingle() || !reportsClasses) && "reports are of one rank");
  StatusOr<Evaluation> evaluation =
      Evaluation::create(model, data, metricNames, reportsClasses);
  const Status status = evaluation.ok()
                            ? evaluation->addShare(all, stop, progress)
                            : evaluation.status();
  if (Status agreed = all.agree(status); !agreed.ok())
    return agreed;
  if (!all.isSingle())
    if (Status combined = evaluation->combine(all); !combined.ok())
      return combined;
  if (evaluation->result.stopped)
    return evaluation->result;
  return evaluation->finish();
}

struct PartialEvaluation::Impl {
  Evaluation evaluation;
};

PartialEvaluation::PartialEvaluation(std::unique_ptr<Impl> impl)
    : impl(std::move(impl)) {}
PartialEvaluation::PartialEvaluation(PartialEvaluation &&) noexcept = default;
PartialEvaluation::~PartialEvaluation() = default;

StatusOr<PartialEvaluation>
PartialEvaluation::create(Trainee &model, const Dataset &data,
                          const std::vector<std::string> &metrics) {
  StatusOr<Evaluation> created =
      Evaluation::create(model, data, metrics, false);
  if (!created.ok())
    return created.status();
  return PartialEvaluation(
      std::unique_ptr<Impl>(new Impl{std::move(*created)}));
}

Status PartialEvaluation::add(const Dataset &data, int64_t begin, int64_t end) {
  impl->evaluation.continueWith(data);
  for (; begin < end; begin += data.batchSize())
    if (StatusOr<bool> isCounted = impl->evaluation.addBatch(begin, end);
        !isCounted.ok())
      return isCounted.status();
  return Status();
}

Status PartialEvaluation::combine(Ranks &ranks) {
  return impl->evaluation.combine(ranks);
}

StatusOr<EvalResult> PartialEvaluation::finish() {
  return impl->evaluation.finish();
}

std::string whyLeftOut(const EvalResult &result) {
  return result.areDependent ? "the samples of a batch depend on each other"
                             : "the model has no loss per sample";
}

void addEvaluation(MetricsLine &line, const EvalResult &result) {
  line.add("eval_loss", result.loss);
  for (const auto &[name, value] : result.terms)
    line.add("eval_" + name, value);
  line.add("eval_accuracy", result.accuracy);
  for (const auto &[name, value] : result.metrics)
    line.add("eval_" + name, value);
  line.add("eval_samples", result.samples);
}

} // namespace mpc::runtime::train
