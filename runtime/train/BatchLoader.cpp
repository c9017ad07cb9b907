// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/BatchLoader.h"

#include <algorithm>
#include <system_error>

namespace mpc::runtime::train {

Status BatchLoader::bind(const Dataset &data, Trainee &model,
                         const std::string &function, const int64_t *positions,
                         int64_t epoch) {
  if (!next.valid())
    return data.bind(model, function, positions, epoch);
  // Another batch than was foreseen, as after a checkpoint, is gathered here.
  StatusOr<GatheredBatch> batch = next.get();
  if (nextEpoch != epoch ||
      !std::equal(nextPositions.begin(), nextPositions.end(), positions))
    return data.bind(model, function, positions, epoch);
  return batch.ok() ? setInputs(model, function, *batch) : batch.status();
}

void BatchLoader::prepare(const Dataset &data, const Trainee &model,
                          const std::string &function,
                          std::vector<int64_t> positions, int64_t epoch) {
  if (!data.isDecodedLater())
    return;
  nextPositions = std::move(positions);
  nextEpoch = epoch;
  const FunctionPorts *ports = model.info().function(function);
  try {
    next = std::async(std::launch::async,
                      [&data, ports, positions = nextPositions, epoch] {
                        return data.gather(*ports, positions.data(), epoch);
                      });
  } catch (const std::system_error &) {
    next = {};
  }
}

} // namespace mpc::runtime::train
