// Makes random operands.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/cpu/Reference.h"

#include <random>

namespace mpc::runtime::test {

Tensor randomTensor(DType type, const Shape &shape, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Tensor tensor = Tensor::zeros(DType::F32, shape);
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.as<float>()[i] = uniform(random);
  return *convert(tensor, type);
}

} // namespace mpc::runtime::test
