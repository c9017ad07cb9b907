// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/profile/RandomInputs.h"

#include <algorithm>
#include <random>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;

static Tensor drawFloats(const FunctionValue &input, const Buffer &buffer,
                         std::minstd_rand &random) {
  Tensor drawn = Tensor::zeros(DType::F64, buffer.shape);
  if (input.role == Role::Scalar)
    return drawn;
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int64_t i = 0; i < drawn.size(); ++i)
    drawn.as<double>()[i] =
        input.role == Role::Label ? uniform(random) : normal(random);
  return drawn;
}

// Returns integers that are valid in every box of indices that holds the
// element.
static Tensor drawIntegers(const FunctionValue &input, const Buffer &buffer,
                           std::minstd_rand &random) {
  int64_t size = 2;
  if (!input.indices.empty()) {
    size = INT64_MAX;
    for (const IndexBox &box : input.indices)
      size = std::min(size, box.size);
  }
  Tensor drawn = Tensor::zeros(DType::I64, buffer.shape);
  if (input.role == Role::Scalar)
    return drawn;
  std::uniform_int_distribution<int64_t> uniform(
      0, std::max<int64_t>(size - 1, 0));
  for (int64_t i = 0; i < drawn.size(); ++i)
    drawn.as<int64_t>()[i] = uniform(random);
  return drawn;
}

Status mpc::tools::setRandomInputs(Session &session, const Function &function) {
  std::minstd_rand random(1);
  for (const FunctionValue &input : function.inputs) {
    const Buffer &buffer = function.buffers[input.buffer];
    const Tensor drawn = isFloat(buffer.type)
                             ? drawFloats(input, buffer, random)
                             : drawIntegers(input, buffer, random);
    StatusOr<Tensor> value = convert(drawn, buffer.type);
    if (!value.ok())
      return value.status();
    if (Status status = session.setInput(function.name, input.name, *value);
        !status.ok())
      return status;
  }
  return Status();
}
