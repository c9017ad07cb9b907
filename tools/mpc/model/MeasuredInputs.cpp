// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/model/MeasuredInputs.h"

#include "runtime/train/Trainer.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

// Limit of the elements to measure per input: 256 MiB, which are read faster
// than a model compiles.
static constexpr int64_t kMostElements = int64_t(1) << 26;

// Measures the only input of `ports`: root mean square and largest absolute
// value. nullopt if an element is NaN or infinite.
static StatusOr<std::optional<InputSize>> measure(const FunctionPorts &ports,
                                                  const Dataset &data) {
  const Port &port = ports.inputs.front();
  const int64_t batch = data.batchSize(), samples = data.size();
  const int64_t elements = std::max<int64_t>(numElements(port.shape), 1);
  const int64_t all = port.batchAxis < 0 ? 1 : (samples + batch - 1) / batch;
  const int64_t count = std::clamp<int64_t>(kMostElements / elements, 1,
                                            std::max<int64_t>(all, 1));
  double sum = 0, largest = 0;
  std::vector<int64_t> positions(static_cast<size_t>(batch));
  for (int64_t i = 0; i < count; ++i) {
    // Spread the batches over all samples; the last one ends with the last
    // sample.
    const int64_t begin = std::max<int64_t>(
        std::min(i * all / count * batch, samples - batch), 0);
    for (int64_t j = 0; j < batch; ++j)
      positions[size_t(j)] = std::min(begin + j, samples - 1);
    StatusOr<GatheredBatch> gathered = data.gather(ports, positions.data());
    if (!gathered.ok())
      return gathered.status();
    const std::byte *bytes = gathered->front().bytes.get();
    for (int64_t k = 0; k < elements; ++k) {
      float element;
      std::memcpy(&element, bytes + size_t(k) * sizeof element, sizeof element);
      sum += double(element) * double(element);
      largest = std::max(largest, std::abs(double(element)));
    }
    if (!std::isfinite(sum))
      return std::optional<InputSize>();
  }
  const double rms = std::sqrt(sum / (double(count) * double(elements)));
  return std::optional(InputSize{rms, largest});
}

ExitCode mpc::tools::measureInputs(const CompileOptions &options,
                                   const TraineeInfo &info, const Dataset &data,
                                   Driver &driver) {
  const std::vector<std::string> names = driver.listMetInputs(options);
  StatusOr<FunctionPorts> ports = trainingInputs(info);
  if (names.empty() || !ports.ok() || data.size() == 0)
    return ExitCode::Done;
  for (const std::string &name : names) {
    const Port *port = ports->inputCalled(name);
    if (!port || port->role != Role::Data || port->type != DType::F32 ||
        numElements(port->shape) == 0)
      continue;
    StatusOr<std::optional<InputSize>> size = measure({{*port}, {}}, data);
    if (!size.ok())
      return reportError(size.status());
    if (*size)
      driver.setInputSize(name, **size);
  }
  return ExitCode::Done;
}
