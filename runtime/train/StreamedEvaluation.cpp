// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/StreamedEvaluation.h"

#include "runtime/train/AveragedWeights.h"
#include "runtime/train/checkpoint/SharedState.h"
#include "runtime/train/evaluate/EvalMetrics.h"
#include "runtime/train/support/Text.h"

#include <cassert>
#include <numeric>

namespace mpc::runtime::train {

/// Checks the model and the metrics of this rank.
Status StreamedEvaluation::prepare(bool allowsNaN) {
  const TraineeInfo &info = model->info();
  if (!info.function(kEvalFunction))
    return Status(StatusCode::Unsupported,
                  "the artifact has no function 'eval'; compile the model with "
                  "--loss");
  if (Status status = checkEvalMetrics(info, metrics); !status.ok())
    return status;
  // Ranks add samples at different times, so they cannot send each other the
  // averages then.
  for (const Port &port : info.state)
    if (port.role == Role::Average && model->isSharded(port.name))
      return Status(StatusCode::Unsupported,
                    "the average '" + port.name +
                        "' lies on one of several ranks, since the optimizer "
                        "is sharded; compile without --ema or without "
                        "--shard-optimizer, or evaluate the weights that "
                        "mpc_session_write_weights writes");
  options = datasetOptionsFor(info);
  options.isPart = true;
  options.preparation.allowsNaN = allowsNaN;
  return Status();
}

StatusOr<StreamedEvaluation>
StreamedEvaluation::create(Trainee &model, std::vector<std::string> metrics,
                           bool allowsNaN, Communicator *communicator) {
  StreamedEvaluation evaluation(model, std::move(metrics), communicator);
  Ranks &ranks = evaluation.ranks;
  if (Status status = ranks.settle(evaluation.prepare(allowsNaN)); !status.ok())
    return status;
  if (Status status =
          checkSameFacts({{"metrics", joined(evaluation.metrics)}}, ranks);
      !status.ok())
    return status;
  if (Status status = averageStatistics(model, ranks); !status.ok())
    return status;
  return evaluation;
}

/// Evaluates samples [begin, end) of `data` with the averages of the
/// parameters, if the model keeps such.
Status StreamedEvaluation::run(const Dataset &data, int64_t begin,
                               int64_t end) {
  if (!evaluation) {
    StatusOr<PartialEvaluation> created =
        PartialEvaluation::create(*model, data, metrics);
    if (!created.ok())
      return created.status();
    evaluation.emplace(std::move(*created));
  }
  return withAverages(*model,
                      [&] { return evaluation->add(data, begin, end); });
}

const Port *StreamedEvaluation::portOf(const Array &array) const {
  return model->info().function(kEvalFunction)->inputCalled(array.name);
}

/// Returns the first batch of `data` as arrays that own their bytes.
static StatusOr<std::vector<Array>> copyBatch(const Dataset &data,
                                              const FunctionPorts &ports) {
  std::vector<int64_t> positions(static_cast<size_t>(data.batchSize()));
  std::iota(positions.begin(), positions.end(), int64_t(0));
  StatusOr<GatheredBatch> batch = data.gather(ports, positions.data());
  if (!batch.ok())
    return batch.status();
  std::vector<Array> arrays;
  for (GatheredInput &input : *batch) {
    const Port &port = *ports.inputCalled(input.name);
    Array array;
    array.name = port.name;
    array.source = "first batch";
    array.type = toElementType(port.type);
    array.shape = port.shape;
    array.data = input.bytes.get();
    array.owner = std::shared_ptr<const std::byte[]>(std::move(input.bytes));
    arrays.push_back(std::move(array));
  }
  return arrays;
}

Status StreamedEvaluation::addArrays(const std::vector<Array> &arrays) {
  const FunctionPorts &ports = *model->info().function(kEvalFunction);
  // Check the new samples alone first: a program may add single samples, and
  // each would check all that were kept again.
  StatusOr<Dataset> data = Dataset::create(arrays, ports, options);
  if (!data.ok())
    return data.status();
  const int64_t added = data->size();
  const int64_t total = restSize + added;
  const int64_t whole = total / data->batchSize() * data->batchSize();
  if (whole > 0 && restSize > 0) {
    std::vector<Array> joined = rest;
    joined.insert(joined.end(), arrays.begin(), arrays.end());
    data = Dataset::create(std::move(joined), ports, options);
    if (!data.ok())
      return data.status();
  }
  if (whole > 0) {
    if (filler.empty()) {
      StatusOr<std::vector<Array>> first = copyBatch(*data, ports);
      if (!first.ok())
        return first.status();
      filler = std::move(*first);
    }
    // Counts unless `run` returns: an exception, too, makes the sums useless.
    closed = Status(StatusCode::IO, "memory was too short for earlier samples");
    closed = run(*data, 0, whole);
    if (!closed.ok())
      return closed;
    rest.clear();
  }
  // The samples kept before are fewer than a batch. So the rest lies in the new
  // arrays once a batch was evaluated.
  restSize = total - whole;
  const int64_t kept = std::min(restSize, added);
  constants.clear();
  for (const Array &array : arrays) {
    const int64_t axis = portOf(array)->batchAxis;
    if (axis < 0)
      constants.push_back(copySamples(array, axis, 0, 1));
    else if (kept > 0)
      rest.push_back(copySamples(array, axis, added - kept, added));
  }
  // A data set joins arrays of one name only if they come from different files.
  for (size_t i = 0; i < rest.size(); ++i)
    rest[i].source = "kept samples " + std::to_string(i);
  return Status();
}

Status StreamedEvaluation::add(const std::vector<InputBytes> &given) {
  if (!closed.ok())
    return closed;
  StatusOr<std::vector<Array>> arrays =
      toArrays(given, *model->info().function(kEvalFunction));
  return arrays.ok() ? addArrays(*arrays) : arrays.status();
}

/// Evaluates the samples that fill no batch.
Status StreamedEvaluation::end() {
  if (restSize == 0)
    return Status();
  std::vector<Array> joined = rest;
  joined.insert(joined.end(), constants.begin(), constants.end());
  for (const Array &array : filler)
    if (portOf(array)->batchAxis >= 0)
      joined.push_back(array);
  StatusOr<Dataset> data = Dataset::create(
      std::move(joined), *model->info().function(kEvalFunction), options);
  return data.ok() ? run(*data, 0, restSize) : data.status();
}

StatusOr<EvalResult> StreamedEvaluation::finish() {
  Status status = closed;
  if (status.ok() && !evaluation && restSize == 0)
    status = Status(StatusCode::Usage, "the evaluation has no samples");
  // Before the last samples run, an evaluation may go on after a failure.
  status = ranks.settle(status);
  if (!status.ok())
    return status;
  closed = Status(StatusCode::Usage, "the evaluation is finished; create "
                                     "another");
  status = ranks.settle(end());
  if (status.ok() && !ranks.isSingle())
    status = evaluation->combine(ranks);
  rest.clear();
  filler.clear();
  constants.clear();
  return status.ok() ? evaluation->finish() : status;
}

} // namespace mpc::runtime::train
