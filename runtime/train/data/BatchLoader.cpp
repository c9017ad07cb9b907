// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/BatchLoader.h"

#include <cassert>
#include <system_error>

namespace mpc::runtime::train {

/// Calls `visit` with the name of each input that has samples, until `visit`
/// fails.
template <typename Visitor>
static Status forEachInput(const Trainee &model, const std::string &function,
                           Visitor &&visit) {
  assert(model.info().function(function) && "a function of the model");
  for (const Port &port : model.info().function(function)->inputs)
    if (isSampled(port))
      if (Status status = visit(port.name); !status.ok())
        return status;
  return Status();
}

void BatchLoader::open(Trainee &model, const std::string &function) {
  assert(!isStaging && !isStaged && "a loader is opened once");
  isStaging = true;
  Status status = forEachInput(model, function, [&](const std::string &name) {
    StatusOr<std::byte *> memory = model.stagingMemory(function, name);
    isStaging &= memory.ok() && *memory;
    return memory.status();
  });
  // If the memory is too short for a second batch, do without. Staging only
  // some inputs of a batch would be of no use.
  isStaging &= status.ok();
  if (!isStaging)
    model.endStaging(function);
}

Status BatchLoader::bind(const Dataset &data, Trainee &model,
                         const std::string &function, const int64_t *positions,
                         AugmentedEpoch epoch) {
  assert(positions && "a batch has samples");
  const bool isForeseen = next.is(positions, epoch);
  const bool isThere = isStaged && isForeseen;
  isStaged = false;
  if (isThere)
    return Status();
  // The batch may differ from the prepared one, for example after a checkpoint
  // was restored.
  if (!gathering.valid())
    return data.bind(model, function, positions, epoch);
  StatusOr<GatheredBatch> batch = gathering.get();
  if (!isForeseen)
    return data.bind(model, function, positions, epoch);
  return batch.ok() ? setInputs(model, function, *batch) : batch.status();
}

void BatchLoader::prepare(const Dataset &data, const Trainee &model,
                          const std::string &function,
                          const NextBatch &nextBatch) {
  if (isStaging || !data.isDecodedLater())
    return;
  assert(!gathering.valid() && "bind has taken the batch before");
  next = nextBatch();
  if (next.positions.empty())
    return;
  const FunctionPorts *ports = model.info().function(function);
  try {
    gathering = std::async(
        std::launch::async, [&data, ports, samples = next, to = recorder] {
          PartTimer timer(to, RunPart::Ahead);
          return data.gather(*ports, samples.positions.data(), samples.epoch);
        });
  } catch (const std::system_error &) {
    gathering = {};
  }
}

void BatchLoader::stage(const Dataset &data, Trainee &model,
                        const std::string &function,
                        const NextBatch &nextBatch) {
  if (!isStaging)
    return;
  PartTimer timer(recorder, RunPart::Data);
  assert(!isStaged && "bind has taken the batch before");
  next = nextBatch();
  if (next.positions.empty())
    return;
  Status status =
      data.gather(*model.info().function(function), next.positions.data(),
                  next.epoch, [&](const Port &port, size_t) {
                    return model.stagingMemory(function, port.name);
                  });
  if (status.ok())
    status = forEachInput(model, function, [&](const std::string &name) {
      return model.stage(function, name);
    });
  isStaged = status.ok();
}

} // namespace mpc::runtime::train
