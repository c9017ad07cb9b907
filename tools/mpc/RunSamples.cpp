// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/RunSamples.h"

#include "runtime/train/Dataset.h"
#include "tools/mpc/Batches.h"
#include "tools/mpc/Notes.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using train::Array;
using train::Dataset;

// The batches of `samples` samples: arrays of that many stand for the inputs
// that have samples.
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

StatusOr<std::vector<NamedTensor>>
mpc::tools::runSamples(std::shared_ptr<const Artifact> artifact,
                       const Function &function, std::vector<Array> arrays,
                       train::Preparation preparation,
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
  // Finds and checks the samples.
  train::DatasetOptions dataOptions;
  dataOptions.preparation = std::move(preparation);
  StatusOr<Dataset> data =
      Dataset::create(std::move(arrays), *ports, dataOptions);
  if (!data.ok())
    return data.status();
  for (const std::string &text : data->notes())
    note(text);
  StatusOr<std::optional<Batching>> batching =
      planSamples(artifact->plan(), function, *ports, data->size());
  if (!batching.ok())
    return batching.status();
  if (!*batching && data->size() != data->batchSize())
    return Status(StatusCode::Unsupported,
                  "where outputs have samples is not known, found " +
                      std::to_string(data->size()) +
                      " samples for one batch of " +
                      std::to_string(data->batchSize()));
  // Runs batch by batch; the last is filled up with its last sample.
  std::vector<JoinedOutput> joined;
  if (*batching)
    for (const FunctionValue &port : function.outputs)
      joined.emplace_back(port.name, function.buffers[port.buffer],
                          (*batching)->outputs.at(port.name), data->size());
  std::vector<NamedTensor> results;
  std::vector<int64_t> positions(size_t(data->batchSize()));
  for (int64_t begin = 0; begin < data->size(); begin += data->batchSize()) {
    for (size_t i = 0; i < positions.size(); ++i)
      positions[i] = std::min(begin + int64_t(i), data->size() - 1);
    Status status = data->bind(**trainee, function.name, positions.data());
    if (status.ok())
      status = (*session)->run(function.name);
    if (!status.ok())
      return status;
    for (size_t i = 0; i < function.outputs.size(); ++i) {
      const std::string &name = function.outputs[i].name;
      StatusOr<Tensor> value = (*session)->output(function.name, name);
      if (!value.ok())
        return value.status();
      if (*batching)
        joined[i].add(*value, begin);
      else
        results.emplace_back(name, std::move(*value));
    }
  }
  for (JoinedOutput &output : joined)
    results.emplace_back(output.name, std::move(output.whole));
  return results;
}
