// SPDX-License-Identifier: Apache-2.0
#include "runtime/InitialState.h"

#include <algorithm>

namespace mpc::runtime {

bool isSeed(const StateVariable &variable) {
  return variable.name == kSeedVariable && variable.type == DType::I64 &&
         numElements(variable.shape) == 1;
}

StatusOr<Tensor> createFilled(const StateVariable &variable) {
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

} // namespace mpc::runtime
