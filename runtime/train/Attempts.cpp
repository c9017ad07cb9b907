// Chooses the samples and the learning rate of each attempt, and counts
// progress.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Attempts.h"

#include "runtime/train/support/Permutation.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace mpc::runtime::train {

/// Returns all samples of an epoch, in training order. The order depends only
/// on the seed and the epoch. Does not shuffle if one batch holds all samples:
/// shuffling would gain nothing, and inputs that are the same for every batch
/// may refer to samples by position, like the edges of a graph to its nodes.
const std::vector<int64_t> &Attempts::orderOf(int64_t epoch) {
  if (orderEpoch == epoch)
    return order;
  orderEpoch = epoch;
  if (options.shuffle && data.size() != data.batchSize()) {
    order =
        permutation(data.size(), options.seed, Stream::Epoch, uint64_t(epoch));
  } else {
    order.resize(static_cast<size_t>(data.size()));
    std::iota(order.begin(), order.end(), int64_t(0));
  }
  return order;
}

/// Returns this rank's samples of the attempt that follows `progress`, batch
/// after batch. The first samples of the epoch fill up the last attempt of the
/// epoch.
std::vector<int64_t> Attempts::positionsOf(const Progress &progress) {
  const std::vector<int64_t> &samples = orderOf(progress.epoch);
  const int64_t size = data.batchSize();
  std::vector<int64_t> positions;
  positions.reserve(size_t(size * runner.batches()));
  for (int64_t batch = 0; batch < runner.batches(); ++batch) {
    const int64_t first = progress.sampleInEpoch + runner.firstOf(batch) * size;
    for (int64_t i = first; i < first + size; ++i)
      positions.push_back(samples[size_t(i % data.size())]);
  }
  return positions;
}

/// Returns the samples of the batch after the current one, which `progress`
/// does not count yet. Empty if the current batch is the last of the run.
BatchSamples Attempts::samplesAfter(Progress progress) {
  if (++progress.batchInStep == runner.batches())
    runner.count(progress, /*skipped=*/false);
  if (progress.step == length.totalSteps)
    return {};
  const std::vector<int64_t> attempt = positionsOf(progress);
  const auto begin =
      attempt.begin() + std::ptrdiff_t(progress.batchInStep * data.batchSize());
  return {{begin, begin + std::ptrdiff_t(data.batchSize())}, progress.epoch};
}

/// Counts an attempt whose batches have all run. Counts batches and samples of
/// skipped attempts too, like the artifact's own counter mpc.micro_step.
void AttemptRunner::count(Progress &progress, bool skipped) const {
  progress.batchInStep = 0;
  progress.lossInStep = 0;
  ++progress.step;
  ++progress.stepInEpoch;
  progress.microStep += runner.batches() * ranks.count();
  progress.samples += samplesPerStep();
  progress.sampleInEpoch += samplesPerStep();
  progress.skipped += skipped;
  if (length.endsEpoch(progress)) {
    ++progress.epoch;
    progress.stepInEpoch = 0;
    progress.sampleInEpoch = 0;
  }
}

double AttemptRunner::rateAfter(const Progress &progress) const {
  return options.schedule.at(progress.step - progress.skipped,
                             length.totalSteps,
                             progress.evaluations.reductions);
}

StatusOr<double> AttemptRunner::runBatch(Progress &progress,
                                         const Dataset &data,
                                         const int64_t *positions,
                                         const BatchLoader::NextBatch &next) {
  if (Status status = numberBatch(progress, firstOf(progress.batchInStep));
      !status.ok())
    return status;
  StatusOr<double> loss = runner.runBatch(data, positions, progress.epoch, next,
                                          rateAfter(progress), options.seed);
  if (!loss.ok())
    return loss;
  progress.lossInStep += *loss / runner.lossDivisor();
  ++progress.batchInStep;
  return loss;
}

StatusOr<StepReport> AttemptRunner::finish(Progress &progress) {
  const double rate = rateAfter(progress);
  StatusOr<StepOutcome> outcome =
      runner.finish(progress.lossInStep, rate, options.seed);
  if (!outcome.ok())
    return outcome.status();
  if (Status status = combine(*outcome); !status.ok())
    return status;

  StepReport report;
  // `count` may begin the next epoch, so take the attempt's epoch before.
  report.epoch = progress.epoch;
  count(progress, outcome->skipped);
  report.endsEpoch = progress.epoch != report.epoch;

  report.step = progress.step;
  if (runner.takesLearningRate())
    report.learningRate = rate;
  report.microStep = progress.microStep;
  report.samples = progress.samples;
  report.skippedTotal = progress.skipped;
  report.loss = outcome->loss;
  const std::vector<std::string> &names = runner.lossNames();
  for (size_t i = 0; i < names.size(); ++i)
    report.terms.emplace_back(names[i],
                              i < outcome->terms.size()
                                  ? std::optional<double>(outcome->terms[i])
                                  : std::nullopt);
  report.accuracy = outcome->accuracy;
  report.gradNorm = outcome->gradNorm;
  report.lossScale = outcome->lossScale;
  report.skipped = outcome->skipped;
  if (Status status = numberBatch(progress, 0); !status.ok())
    return status;
  return report;
}

/// Sets the model's count of batches for the batch `number` of the attempt
/// after `progress`, counted over all ranks. Dropout depends on the count, so R
/// ranks drop the elements that a single rank would drop in these batches. A
/// single rank leaves the count to the model.
Status AttemptRunner::numberBatch(const Progress &progress, int64_t number) {
  if (ranks.isSingle())
    return Status();
  const std::vector<Port> &variables = model.info().state;
  if (std::none_of(variables.begin(), variables.end(), [](const Port &port) {
        return port.name == kMicroStepVariable && port.type == DType::I64 &&
               port.shape.empty();
      }))
    return Status();
  if (!numbersAhead) {
    StatusOr<Tensor> counted = model.state(kMicroStepVariable);
    if (!counted.ok())
      return counted.status();
    numbersAhead = *counted->as<int64_t>() - progress.microStep;
  }
  Tensor value = Tensor::zeros(DType::I64, {});
  *value.as<int64_t>() = *numbersAhead + progress.microStep + number;
  return model.setState(kMicroStepVariable, value);
}

/// Replaces `outcome` by that of all ranks, and collects the requests of all
/// ranks.
Status AttemptRunner::combine(StepOutcome &outcome) {
  if (ranks.isSingle())
    return Status();
  const Requests own = ownRequests();
  std::vector<double> values = {double(own.stop),
                                double(own.save),
                                double(own.isTimeOver),
                                double(outcome.skipped),
                                double(outcome.accuracy.has_value()),
                                double(outcome.counted.correct),
                                double(outcome.counted.labels),
                                outcome.loss};
  const size_t losses = values.size() - 1;
  values.insert(values.end(), outcome.terms.begin(), outcome.terms.end());
  StatusOr<std::vector<double>> all = ranks.gather(values);
  if (!all.ok())
    return all.status();
  const auto at = [&](int64_t rank, size_t i) {
    return (*all)[size_t(rank) * values.size() + i];
  };
  const auto over = [&](size_t i, auto &&merge) {
    double value = at(0, i);
    for (int64_t rank = 1; rank < ranks.count(); ++rank)
      value = merge(value, at(rank, i));
    return value;
  };
  const auto most = [](double a, double b) { return std::max(a, b); };
  const auto sum = [](double a, double b) { return a + b; };
  agreed.stop = int(over(0, most));
  agreed.save = over(1, most) != 0;
  agreed.isTimeOver = over(2, most) != 0;
  for (int64_t rank = 1; rank < ranks.count(); ++rank)
    if (at(rank, 3) != at(0, 3))
      return Status(StatusCode::Rank,
                    "the ranks differ in what they update: rank " +
                        std::to_string(at(0, 3) != 0 ? 0 : rank) +
                        " skipped a step that rank " +
                        std::to_string(at(0, 3) != 0 ? rank : 0) +
                        " did not skip; compile the model with "
                        "--data-parallel");
  const double labels = over(6, sum);
  outcome.accuracy.reset();
  if (over(4, sum) == double(ranks.count()) && labels > 0)
    outcome.accuracy = over(5, sum) / labels;
  const double count = model.info().sumsLoss ? 1 : double(ranks.count());
  outcome.loss = over(losses, sum) / count;
  for (size_t i = 0; i < outcome.terms.size(); ++i)
    outcome.terms[i] = over(losses + 1 + i, sum) / count;
  return Status();
}

StatusOr<std::optional<StepReport>>
Attempts::run(Progress &progress, const std::atomic<int> *stop) {
  StatusOr<std::optional<StepReport>> report =
      runOwn(progress, ranks.isSingle() ? stop : nullptr);
  // The other ranks may wait for this rank's gradients.
  return report.ok() ? report : ranks.fail(report.status());
}

StatusOr<std::optional<StepReport>>
Attempts::runOwn(Progress &progress, const std::atomic<int> *stop) {
  const auto start = std::chrono::steady_clock::now();
  const int64_t sent = ranks.bytesSent();
  const std::vector<int64_t> positions = positionsOf(progress);
  for (const int64_t &batch = progress.batchInStep; batch < runner.batches();) {
    // A stop may leave an attempt unfinished. A resumed run continues with the
    // next batch of this attempt.
    if (batch > 0 && stop && stop->load() != 0)
      return std::optional<StepReport>();
    StatusOr<double> loss = runner.runBatch(
        progress, data, positions.data() + batch * data.batchSize(),
        [&] { return samplesAfter(progress); });
    if (!loss.ok())
      return loss.status();
  }
  StatusOr<StepReport> finished = runner.finish(progress);
  if (!finished.ok())
    return finished.status();
  StepReport report = *finished;
  if (!ranks.isSingle())
    report.wireBytes = ranks.bytesSent() - sent;
  report.stepMs = std::chrono::duration<double, std::milli>(
                      std::chrono::steady_clock::now() - start)
                      .count();
  return std::optional<StepReport>(report);
}

StatusOr<std::string> Attempts::trace(Progress &progress) {
  StepRunner::FirstNonFinite first;
  runner.setTrace(&first);
  StatusOr<std::optional<StepReport>> report = run(progress, nullptr);
  runner.setTrace(nullptr);
  if (!report.ok())
    return report.status();
  StatusOr<std::vector<std::string>> found = ranks.gatherTexts(first.text);
  if (!found.ok())
    return found.status();
  StatusOr<std::vector<double>> received =
      ranks.gather({double(first.isReceived)});
  if (!received.ok())
    return received.status();
  // Each rank searches only its batches. Report the first rank where a value
  // began.
  for (bool isReceived : {false, true})
    for (size_t rank = 0; rank < found->size(); ++rank)
      if (!(*found)[rank].empty() && ((*received)[rank] != 0) == isReceived)
        return (ranks.isSingle() ? ""
                                 : "on rank " + std::to_string(rank) + ", ") +
               (*found)[rank];
  return std::string();
}

} // namespace mpc::runtime::train
