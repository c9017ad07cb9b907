// Computes matrix products in float64.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/MatMulCase.h"

namespace mpc::runtime::test {

DotProduct MatMul::product(int64_t i, int64_t row, int64_t column) const {
  DotProduct dot;
  for (int64_t k = 0; k < c.k; ++k)
    dot.add(c.alpha * atA(i, row, k), atB(i, k, column));
  return dot;
}

std::vector<DotProduct> MatMul::reference() const {
  std::vector<DotProduct> result;
  for (int64_t i = 0; i < c.batch; ++i)
    for (int64_t row = 0; row < c.m; ++row)
      for (int64_t column = 0; column < c.n; ++column)
        result.push_back(product(i, row, column));
  return result;
}

} // namespace mpc::runtime::test
