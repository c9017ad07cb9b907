// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/commands/RunSamples.h"

#include "runtime/train/data/Dataset.h"
#include "runtime/train/support/Text.h"
#include "tools/mpc/commands/Batches.h"
#include "tools/mpc/print/Notes.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using train::Array;
using train::Dataset;

// Plans the batches of `samples` samples. planBatches expects arrays, so each
// input with samples gets an array with a shape but without data.
static StatusOr<std::optional<Batching>>
planSamples(const Plan &plan, const Function &function,
            const train::FunctionPorts &ports, int64_t samples) {
  std::vector<Array> arrays;
  for (const train::Port &port : ports.inputs) {
    if (port.batchAxis < 0 || port.shape.empty())
      continue;
    Array array;
    array.name = port.name;
    array.shape = port.shape;
    array.shape[size_t(port.batchAxis)] = samples;
    arrays.push_back(std::move(array));
  }
  return planBatches(plan, function, arrays);
}

namespace {
/// Runs a function on the samples of a data set, batch by batch.
class SampleRunner {
public:
  using Results = StatusOr<std::vector<NamedTensor>>;

  SampleRunner(Session &session, train::Trainee &trainee, Dataset &data,
               const Function &function)
      : session(session), trainee(trainee), data(data), function(function),
        samples(data.size()), batch(data.batchSize()),
        positions(size_t(data.batchSize())) {}

  /// Runs one batch that has all samples, and returns its outputs.
  Results runOne();
  /// Runs all batches and returns the joined outputs.
  Results runAll(const Batching &batching);

private:
  template <typename Fill, typename Take>
  Status run(int64_t begin, Fill fill, Take take);
  int64_t last() const { return samples - 1; }

  Session &session;
  train::Trainee &trainee;
  Dataset &data;
  const Function &function;
  const int64_t samples, batch;
  std::vector<int64_t> positions;
};
} // namespace

// Runs the batch whose first sample is `begin`. Beyond the last sample, `fill`
// maps a position to the sample that takes the place. Calls `take` with the
// index and the value of each output.
template <typename Fill, typename Take>
Status SampleRunner::run(int64_t begin, Fill fill, Take take) {
  for (int64_t i = 0; i < batch; ++i)
    positions[size_t(i)] = begin + i < samples ? begin + i : fill(begin + i);
  Status status = data.bind(trainee, function.name, positions.data());
  if (status.ok())
    status = session.run(function.name);
  for (size_t i = 0; i < function.outputs.size() && status.ok(); ++i) {
    StatusOr<Tensor> value =
        session.output(function.name, function.outputs[i].name);
    status = value.ok() ? take(i, std::move(*value)) : value.status();
  }
  return status;
}

SampleRunner::Results SampleRunner::runOne() {
  std::vector<NamedTensor> results;
  Status status = run(
      0, [&](int64_t) { return last(); },
      [&](size_t i, Tensor value) {
        results.emplace_back(function.outputs[i].name, std::move(value));
        return Status();
      });
  return status.ok() ? Results(std::move(results)) : status;
}

SampleRunner::Results SampleRunner::runAll(const Batching &batching) {
  std::vector<JoinedOutput> joined;
  for (const FunctionValue &port : function.outputs)
    joined.emplace_back(port.name, function.buffers[port.buffer],
                        batching.outputs.at(port.name), samples);
  // Copies of the last sample fill up an incomplete last batch.
  Status status;
  for (int64_t begin = 0; begin < samples && status.ok(); begin += batch)
    status = run(
        begin, [&](int64_t) { return last(); },
        [&](size_t i, const Tensor &part) {
          joined[i].add(part, begin);
          return Status();
        });
  // Run an incomplete last batch again, filled up with other samples: its
  // results must not change.
  if (const int64_t rest = samples % batch; status.ok() && rest != 0)
    status = run(
        samples - rest, [&](int64_t place) { return place % samples; },
        [&](size_t i, const Tensor &part) {
          return joined[i].check(part, samples - rest);
        });
  if (!status.ok())
    return status;
  std::vector<NamedTensor> results;
  for (JoinedOutput &output : joined)
    results.emplace_back(output.name, std::move(output.whole));
  return results;
}

StatusOr<std::vector<NamedTensor>>
mpc::tools::runSamples(std::shared_ptr<const Artifact> artifact,
                       const Function &function, Dataset data,
                       const SessionOptions &options) {
  auto session = Session::create(artifact, options);
  if (!session.ok())
    return session.status();
  auto trainee = train::makeTrainee(**session);
  if (!trainee.ok())
    return trainee.status();
  const train::FunctionPorts *ports =
      (*trainee)->info().function(function.name);
  if (!ports)
    return Status(StatusCode::Internal, "the function has no ports");
  for (const std::string &text : data.notes())
    note(text);
  StatusOr<std::optional<Batching>> batching =
      planSamples(artifact->plan(), function, *ports, data.size());
  if (!batching.ok())
    return batching.status();
  if (!*batching && data.size() != data.batchSize())
    return Status(StatusCode::Unsupported,
                  "cannot run " + train::counted(data.size(), "sample") +
                      " in batches of " + std::to_string(data.batchSize()) +
                      ": the batch axis of the outputs is unknown; pass "
                      "exactly " +
                      train::counted(data.batchSize(), "sample"));
  SampleRunner runner(**session, **trainee, data, function);
  return *batching ? runner.runAll(**batching) : runner.runOne();
}
