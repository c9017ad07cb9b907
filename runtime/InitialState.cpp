// SPDX-License-Identifier: Apache-2.0
#include "runtime/InitialState.h"

#include <algorithm>
#include <cassert>

namespace mpc::runtime {

/// True if `variable` is the 64-bit seed of random numbers.
static bool isSeed(const StateVariable &variable) {
  return variable.name == kSeedVariable && variable.type == DType::I64 &&
         numElements(variable.shape) == 1;
}

/// Returns a tensor of the variable's type and shape, filled with `fill`.
static StatusOr<Tensor> createFilled(const StateVariable &variable) {
  Tensor one = Tensor::zeros(DType::F64, {1});
  *one.as<double>() = variable.fill;
  StatusOr<Tensor> element = convert(one, variable.type);
  if (!element.ok())
    return Status(element.status().getCode(),
                  "initial value of '" + variable.name +
                      "': " + element.status().message());
  Tensor value = Tensor::zeros(variable.type, variable.shape);
  size_t width = element->bytes.size();
  for (size_t i = 0; i < value.bytes.size(); i += width)
    std::copy_n(element->bytes.begin(), width, value.bytes.begin() + i);
  return value;
}

Status InitialState::upload(const StateVariable &variable, Device &device,
                            void *memory) const {
  assert(memory && "a variable has memory");
  if (isSeed(variable))
    return device.upload(memory, &seed, sizeof(seed));
  if (variable.data) {
    const auto bytes = static_cast<size_t>(variable.bytes);
    Status status =
        device.upload(memory, artifact.data() + variable.data->offset, bytes);
    // The device has its own copy now, so free the pages of the artifact's
    // file.
    if (status.ok())
      artifact.releaseData(variable.data->offset, bytes);
    return status;
  }
  if (variable.fill == 0 && isZero)
    return Status();
  StatusOr<Tensor> value = createFilled(variable);
  if (!value.ok())
    return value.status();
  return device.upload(memory, value->bytes.data(), value->bytes.size());
}

Status InitialState::upload(const std::vector<void *> &memory,
                            Device &device) const {
  const std::vector<StateVariable> &variables = artifact.plan().state;
  assert(memory.size() == variables.size() && "an address per variable");
  for (size_t i = 0; i < variables.size(); ++i)
    if (memory[i])
      if (Status status = upload(variables[i], device, memory[i]); !status.ok())
        return status;
  return Status();
}

} // namespace mpc::runtime
