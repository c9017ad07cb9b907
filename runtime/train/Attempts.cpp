// Chooses the samples and the learning rate of each attempt, and counts
// progress.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Attempts.h"

#include "runtime/train/support/Permutation.h"

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

/// Returns the samples of the attempt that follows `progress`, batch after
/// batch. The first samples of the epoch fill up the last attempt of the epoch.
std::vector<int64_t> Attempts::positionsOf(const Progress &progress) {
  const std::vector<int64_t> &samples = orderOf(progress.epoch);
  const int64_t count = data.batchSize() * runner.batches();
  std::vector<int64_t> positions(static_cast<size_t>(count));
  int64_t next = progress.stepInEpoch * count;
  for (int64_t &position : positions)
    position = samples[size_t(next++ % data.size())];
  return positions;
}

/// Returns the samples of the batch after the current one, which `progress`
/// does not count yet. Empty if the current batch is the last of the run.
BatchSamples Attempts::samplesAfter(Progress progress) {
  if (++progress.batchInStep == runner.batches()) {
    progress.batchInStep = 0;
    ++progress.step;
    if (++progress.stepInEpoch == length.stepsPerEpoch) {
      progress.stepInEpoch = 0;
      ++progress.epoch;
    }
  }
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
  progress.microStep += runner.batches();
  progress.samples += runner.batches() * batchSize;
  progress.skipped += skipped;
  if (progress.stepInEpoch == length.stepsPerEpoch) {
    ++progress.epoch;
    progress.stepInEpoch = 0;
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
  StatusOr<double> loss = runner.runBatch(data, positions, progress.epoch, next,
                                          rateAfter(progress), options.seed);
  if (!loss.ok())
    return loss;
  progress.lossInStep += *loss / double(runner.batches());
  ++progress.batchInStep;
  return loss;
}

StatusOr<StepReport> AttemptRunner::finish(Progress &progress) {
  const double rate = rateAfter(progress);
  StatusOr<StepOutcome> outcome =
      runner.finish(progress.lossInStep, rate, options.seed);
  if (!outcome.ok())
    return outcome.status();

  StepReport report;
  // `count` may begin the next epoch, so take the attempt's epoch before.
  report.epoch = progress.epoch;
  count(progress, outcome->skipped);

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
  return report;
}

StatusOr<std::optional<StepReport>>
Attempts::run(Progress &progress, const std::atomic<int> *stop) {
  const auto start = std::chrono::steady_clock::now();
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
  report.stepMs = std::chrono::duration<double, std::milli>(
                      std::chrono::steady_clock::now() - start)
                      .count();
  return std::optional<StepReport>(report);
}

StatusOr<std::string> Attempts::trace(Progress &progress) {
  std::string where;
  runner.setTrace(&where);
  StatusOr<std::optional<StepReport>> report = run(progress, nullptr);
  runner.setTrace(nullptr);
  if (!report.ok())
    return report.status();
  return where;
}

} // namespace mpc::runtime::train
